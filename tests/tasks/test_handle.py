"""Tasks whose work another engine does: it finishes them from outside, in this process or in another one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart import Context, Server, TaskLimits, ToolError
from store.engines import running
from support import DEADLINE, ERAS, MODERN, NOVEMBER, Peer, run
from tasks.clients import started, until, with_peer

HERE = Path(__file__).parent


class Shop:
    """A server that leaves its work to somebody else."""

    def __init__(self, **limits: Any) -> None:
        self.server = Server("shop", tasks=TaskLimits(**limits))
        self.tokens: asyncio.Queue[str] = asyncio.Queue()
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()

        @self.server.tool(task="required", on_cancel=self.cancelled.put_nowait)
        async def order(ctx: Context) -> int:
            self.tokens.put_nowait(await ctx.hand_over())
            return 0  # what the tool returns is not the result

        @self.server.tool(task="required", on_cancel=self.cancelled.put)
        async def slow_order(ctx: Context) -> int:
            self.tokens.put_nowait(await ctx.hand_over())
            await asyncio.Event().wait()
            return 0

        @self.server.tool(task="required", on_cancel=self.refuse)
        async def broken_order(ctx: Context) -> int:
            self.tokens.put_nowait(await ctx.hand_over())
            return 0

        @self.server.tool(task="required")
        async def failing_order(ctx: Context) -> int:
            self.tokens.put_nowait(await ctx.hand_over())
            raise ToolError("the engine does not take it")

        @self.server.tool
        async def plain(ctx: Context) -> str:
            return await ctx.hand_over()

    def refuse(self, token: str) -> None:
        self.cancelled.put_nowait(token)
        raise OSError("the engine is away")


def play(revision: str, shop: Shop, script: Any) -> None:
    with_peer(revision, script, server=shop.server)


async def outcome(peer: Peer, id: str) -> dict[str, Any]:
    """The result of a task that has ended, or its error."""
    task = await until(peer, id)
    if peer.modern:
        return task
    answer = await peer.call("tasks/result", taskId=id)
    return {**task, **answer}


@pytest.mark.parametrize("revision", ERAS)
def test_the_engine_finishes_a_task(revision: str) -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "order"))["taskId"]
        handle = shop.server.task(await shop.tokens.get())
        assert (await peer.call("tasks/get", taskId=id))["result"]["status"] == "working"
        assert await handle.finish(7)
        done = await outcome(peer, id)
        assert (done["status"], done["result"]["structuredContent"]) == ("completed", {"result": 7})

    play(revision, shop, script)


@pytest.mark.parametrize("revision", ERAS)
def test_the_engine_fails_a_task(revision: str) -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "order"))["taskId"]
        assert await shop.server.task(await shop.tokens.get()).fail("no paper")
        done = await outcome(peer, id)
        assert (done["status"], done["statusMessage"], done["error"]["message"]) == ("failed", "no paper", "no paper")

    play(revision, shop, script)


def test_a_result_that_does_not_fit_the_tool_leaves_the_task_open() -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "order"))["taskId"]
        handle = shop.server.task(await shop.tokens.get())
        with pytest.raises((ToolError, TypeError, ValueError)):
            await handle.finish("seven")
        assert await handle.finish(7)
        assert (await until(peer, id))["result"]["structuredContent"] == {"result": 7}

    play(MODERN, shop, script)


def test_a_task_ends_once() -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "order"))["taskId"]
        handle = shop.server.task(await shop.tokens.get())
        results = await asyncio.gather(*(handle.finish(number) for number in range(5)))
        assert results.count(True) == 1
        assert not await handle.finish(9)
        assert not await handle.fail("too late")
        assert not await handle.progress(1)
        done = await until(peer, id)
        assert done["result"]["structuredContent"] == {"result": results.index(True)}

    play(MODERN, shop, script)


def test_progress_from_outside() -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "order"))["taskId"]
        handle = shop.server.task(await shop.tokens.get())
        assert await handle.progress(1, 4, "packing")
        while (await peer.call("tasks/get", taskId=id))["result"].get("statusMessage") != "packing":
            await asyncio.sleep(0.005)
        assert await handle.finish(7)

    play(MODERN, shop, script)


def test_progress_from_outside_is_told_to_a_client_that_wants_it() -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        peer.meta = {"progressToken": "p"}
        task = await started(peer, "order")
        handle = shop.server.task(await shop.tokens.get())
        assert await handle.progress(1, 4, "packing")
        while not (told := [note for note in peer.notices if note["method"] == "notifications/progress"]):
            await asyncio.sleep(0.005)
        related = {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}}
        wanted = {"progressToken": "p", "progress": 1, "total": 4, "message": "packing", "_meta": related}
        assert told[0]["params"] == wanted

    play(NOVEMBER, shop, script)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool", ["order", "slow_order", "broken_order"])
def test_the_engine_is_told_of_a_cancellation(revision: str, tool: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also while the tool that has handed the work over still runs, and if the hook fails."""
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, tool))["taskId"]
        token = await shop.tokens.get()
        await peer.call("tasks/cancel", taskId=id)
        assert await shop.cancelled.get() == token
        assert (await until(peer, id))["status"] == "cancelled"
        assert not await shop.server.task(token).finish(7)
        assert shop.cancelled.empty()

    play(revision, shop, script)
    assert ("on_cancel of broken_order failed" in caplog.text) == (tool == "broken_order")


def test_the_engine_may_be_faster_than_the_tool() -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "slow_order"))["taskId"]
        assert await shop.server.task(await shop.tokens.get()).finish(7)
        assert (await until(peer, id))["result"]["structuredContent"] == {"result": 7}

    play(MODERN, shop, script)


@pytest.mark.parametrize("revision", ERAS)
def test_a_tool_that_fails_after_it_has_handed_over(revision: str) -> None:
    shop = Shop()

    async def script(peer: Peer) -> None:
        id = (await started(peer, "failing_order"))["taskId"]
        done = await outcome(peer, id)
        assert done["status"] == ("completed" if peer.modern else "failed")
        assert done["result"]["content"][0]["text"] == "the engine does not take it"
        assert not await shop.server.task(await shop.tokens.get()).finish(7)

    play(revision, shop, script)


def test_an_engine_that_never_comes_back() -> None:
    shop = Shop(max_run=0.3, lease=0.3)

    async def script(peer: Peer) -> None:
        id = (await started(peer, "order"))["taskId"]
        failed = await until(peer, id)
        assert (failed["status"], failed["error"]["message"]) == ("failed", "The work was not finished in time.")

    play(MODERN, shop, script)


@pytest.mark.parametrize("token", ["", "nonsense", "e30=", "WzFd", "é"])
def test_what_is_not_a_token(token: str) -> None:
    with pytest.raises(ValueError, match=r"this is not a token of ctx\.hand_over\(\)"):
        Shop().server.task(token)


def test_only_a_task_can_be_handed_over() -> None:
    async def script(peer: Peer) -> None:
        assert "failed" in await peer.failure("plain")

    play(MODERN, Shop(), script)


# ---------------------------------------------------------------- other processes

APP = """
import asyncio, os, sys
from redstart import Context, Server

server = Server("shop", store=os.environ["STORE"])

@server.tool(task="required")
async def order(ctx: Context) -> str:
    with open(os.environ["TOKENS"], "w") as file:
        file.write(await ctx.hand_over())
    return ""

async def finish(token):
    async with server.task(token) as task:
        print(await task.progress(1, 2, "half"), await task.finish("from outside"), await task.finish("again"))

if __name__ == "__main__":
    asyncio.run(finish(sys.argv[1]))
"""


@pytest.mark.parametrize("scheme", ["sqlite", "redis", "postgresql"])
def test_another_process_finishes_a_task(tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text(APP)

    def finish_elsewhere(url: str) -> None:
        from redstart.cli.target import load

        monkeypatch.setenv("STORE", url)
        monkeypatch.setenv("TOKENS", str(tmp_path / "token"))
        server = load(str(tmp_path / "app.py"))

        async def script(peer: Peer) -> None:
            id = (await started(peer, "order"))["taskId"]
            while not (tmp_path / "token").exists() or not (tmp_path / "token").read_text():
                await asyncio.sleep(0.01)
            command = [sys.executable, str(tmp_path / "app.py"), (tmp_path / "token").read_text()]
            said = await asyncio.to_thread(subprocess.check_output, command, text=True, timeout=DEADLINE)
            assert said == "True True False\n"
            assert (await until(peer, id))["result"]["content"][0]["text"] == "from outside"

        async def main() -> None:
            peer = await Peer(server, capabilities={"extensions": {"io.modelcontextprotocol/tasks": {}}}).open()
            await script(peer)
            await peer.close()

        run(main(), server)

    if scheme == "sqlite":
        finish_elsewhere(f"sqlite:///{tmp_path}/tasks.db")
    else:
        with running(scheme) as engine:
            finish_elsewhere(engine.url)


def test_celery_finishes_a_task(tmp_path: Path) -> None:
    """A real Celery worker, on the Redis in which the tasks are."""
    pytest.importorskip("celery", reason="celery is not installed")
    from tasks.processes import Pipe, ended

    with running("redis") as engine:
        environment = {"STORE": engine.url, "BROKER": engine.at, "REVOKED": str(tmp_path / "revoked")}
        options = ["--pool", "solo", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"]
        command = [sys.executable, "-m", "celery", "-A", "celery_server", "worker", *options]
        worker = subprocess.Popen(command, cwd=HERE, env=os.environ | environment)

        async def use() -> None:
            server = [sys.executable, str(HERE / "celery_server.py")]
            async with asyncio.timeout(40), Pipe(server, environment=environment) as client:
                task = await client.start("count", words="one two three")
                assert value(await ended(client, task)) == 3
                failing = await ended(client, await client.start("count", words=""))
                assert (failing["status"], failing["error"]["message"]) == ("failed", "There are no words.")
                slow = await client.start("count", words="slow")
                await until_told(client, slow, "counting")
                await client.result("tasks/cancel", taskId=slow)
                assert (await client.get(slow))["status"] == "cancelled"
                while not (tmp_path / "revoked").exists():  # written by the hook, in the server
                    await asyncio.sleep(0.01)
                assert value(await ended(client, await client.start("count", words="the worker is free"))) == 4

        def value(task: dict[str, Any]) -> Any:
            assert task["status"] == "completed", task
            return task["result"]["structuredContent"]["result"]

        async def until_told(client: Pipe, task: str, message: str) -> None:
            while (await client.get(task)).get("statusMessage") != message:
                await asyncio.sleep(0.01)

        try:
            asyncio.run(use())
        finally:
            worker.kill()
            worker.wait(DEADLINE)
