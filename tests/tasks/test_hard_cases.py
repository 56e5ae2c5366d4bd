"""Tasks where something goes wrong: clients that vanish, stores that fail in the middle, workers that stop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from redstart import Context, Server, SyncContext, TaskLimits
from redstart.store.memory import MemoryStore
from redstart.store.sqlite import SqliteStore
from redstart.store.tasks import OVERDUE, StoredTask
from store.engines import running
from support import ERAS, MODERN, NOVEMBER, Peer, run
from tasks.clients import EXTENSION, TERMINAL, started, until, with_peer
from tasks.shaky import ShakyStore

ADA = {"action": "accept", "content": {"answer": "Ada"}}


@pytest.mark.parametrize("engine", ["sqlite", "redis", "postgresql"])
def test_a_server_that_was_stopped_runs_on_another_loop(engine: str, tmp_path: Path) -> None:
    def twice(url: str) -> None:
        server = Server("twice", store=url)

        @server.tool(task="optional")
        async def double(number: int) -> int:
            return 2 * number

        async def session() -> None:
            peer = await Peer(server, MODERN, capabilities=EXTENSION).open()

            async def one(number: int) -> None:
                task = await until(peer, (await started(peer, "double", number=number))["taskId"])
                assert task["result"]["structuredContent"] == {"result": 2 * number}

            await asyncio.gather(*map(one, range(80)))  # more than there are connections: some have to wait
            await peer.close()

        for _ in range(2):
            run(session(), server)

    if engine == "sqlite":
        twice(f"sqlite:///{tmp_path}/store.db")
        return
    with running(engine) as place:
        twice(place.url)


# ---------------------------------------------------------------- what clients send


def test_a_task_that_is_null_is_not_wanted() -> None:
    async def script(peer: Peer) -> None:
        params: dict[str, Any] = {"name": "double", "arguments": {"number": 2}, "task": None}
        assert (await peer.request("tools/call", params))["result"]["structuredContent"] == {"result": 4}
        assert (await peer.request("tools/call", params | {"name": "must"}))["error"]["code"] == -32601

    with_peer(NOVEMBER, script)


@pytest.mark.parametrize("task", [5, "soon", [], True])
def test_a_task_that_is_not_an_object(task: object) -> None:
    async def script(peer: Peer) -> None:
        params = {"name": "double", "arguments": {"number": 2}, "task": task}
        assert (await peer.request("tools/call", params))["error"]["code"] == -32602

    with_peer(NOVEMBER, script)


async def asked(peer: Peer) -> dict[str, Any]:
    """The next question."""
    while (message := await peer.receive()).get("method") != "elicitation/create":
        pass
    return message


def test_a_question_is_asked_again_when_the_client_comes_back() -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "greets"))["taskId"]
        request, _ = peer._begin("tasks/result", {"taskId": id})
        await asked(peer)
        peer.cancel(request)
        _, waiting = peer._begin("tasks/result", {"taskId": id})
        peer.send({"id": (await asked(peer))["id"], "result": ADA})
        assert (await waiting)["result"]["content"][0]["text"] == "Hello Ada"

    with_peer(NOVEMBER, script)


def test_a_second_stream_asks_when_the_first_has_gone() -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "greets"))["taskId"]
        request, _ = peer._begin("tasks/result", {"taskId": id})
        await asked(peer)
        _, waiting = peer._begin("tasks/result", {"taskId": id})
        await peer.call("ping")
        peer.cancel(request)
        peer.send({"id": (await asked(peer))["id"], "result": ADA})
        assert (await waiting)["result"]["content"][0]["text"] == "Hello Ada"

    with_peer(NOVEMBER, script)


def test_progress_that_cannot_be_sent_fails_in_the_handler() -> None:
    server = Server("half")

    @server.tool(task="optional")
    async def half(ctx: Context) -> str:
        await ctx.progress(1, 2, "\ud800")
        return "never"

    async def script(peer: Peer) -> None:
        task = await until(peer, (await started(peer, "half"))["taskId"])
        assert (task["status"], task["result"]["isError"]) == ("completed", True)

    with_peer(MODERN, script, server=server)


@pytest.mark.parametrize(
    "limits",
    [{"lease": 0}, {"poll": 0}, {"max_run": float("inf")}, {"ttl": float("nan")}, {"per_user": 1.5}, {"total": True}],
)
def test_limits_that_make_no_sense(limits: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="TaskLimits"):
        TaskLimits(**limits)


# ---------------------------------------------------------------- a store that fails in the middle


async def _played(revision: str, fault: str, number: int) -> int:
    """One task with all that a task can do, where one call of the store fails; how many calls there were."""
    calls: Counter[str] = Counter()
    numbers = count()

    def happens(name: str) -> str:
        calls[name] += 1
        # A claim whose answer is lost counts as a worker that is lost: it may have begun.
        return fault if next(numbers) == number and (fault, name) != ("after", "task_claim") else ""

    server = Server("shaky", store=ShakyStore(happens))
    runs: Counter[str] = Counter()

    @server.tool(task="optional")
    async def work(ctx: Context) -> str:
        runs["begun"] += 1
        await ctx.progress(1, 2, "half")
        await ctx.checkpoint({"part": 1})
        await asyncio.sleep(0.06)  # until the leg is watched
        name = await ctx.ask("Your name?", str, "name")
        runs["ended"] += 1
        return name

    peer = await Peer(server, revision, capabilities={"elicitation": {}, **EXTENSION}).open()

    async def surely(method: str, **params: Any) -> dict[str, Any]:
        while "away" in (answer := await peer.call(method, **params)).get("error", {}).get("message", ""):
            await asyncio.sleep(0.02)
        assert "result" in answer, (fault, number, answer)
        result: dict[str, Any] = answer["result"]
        return result

    task = await surely("tools/call", name="work", arguments={}, **({} if peer.modern else {"task": {}}))
    if peer.modern:
        while (state := await surely("tasks/get", taskId=task["taskId"]))["status"] not in TERMINAL:
            answers = dict.fromkeys(state.get("inputRequests", {}), ADA)
            if answers:
                assert set(answers) == {"name"}  # another key would mean that it was asked twice
                await surely("tasks/update", taskId=task["taskId"], inputResponses=answers)
            await asyncio.sleep(0.02)
        result = state["result"]
    else:
        waiting = asyncio.create_task(surely("tasks/result", taskId=task["task"]["taskId"]))
        peer.send({"id": (await asked(peer))["id"], "result": ADA})
        result = await waiting
    assert result["content"][0]["text"] == "Ada"
    orphaned = (fault, calls["task_insert"]) == ("after", 2)  # the client was told that its first task failed
    assert runs["begun"] in ((2, 3) if orphaned else (2,)), (fault, number, runs)  # it begins if it was in the queue
    assert runs["ended"] == 1, (fault, number, runs)
    await peer.close()
    await server.runtime.stop()
    return sum(calls.values())


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("fault", ["before", "after"])
def test_every_call_of_the_store_may_fail_once(revision: str, fault: str) -> None:
    async def main() -> None:
        calls = await _played(revision, fault, -1)
        # The answer to a reservation may be lost too: then it is free again after a while.
        await asyncio.gather(*(_played(revision, fault, number) for number in range(calls)))

    run(main(), seconds=40)


def test_a_question_is_not_asked_twice_when_the_store_could_not_say_that_it_was_kept() -> None:
    writes = count(1)
    server = Server(
        "once", store=ShakyStore(lambda name: "after" if name == "task_write" and next(writes) == 1 else "")
    )

    @server.tool(task="optional")
    async def greets(ctx: Context) -> str:
        return await ctx.ask("Your name?", str, "name")

    async def script(peer: Peer) -> None:
        id = (await started(peer, "greets"))["taskId"]
        await until(peer, id, "input_required")
        await peer.call("tasks/update", taskId=id, inputResponses={"name": ADA})
        task = await until(peer, id, "input_required", *TERMINAL)
        assert task["status"] == "completed"

    with_peer(MODERN, script, server=server)


def test_a_listener_is_told_after_the_store_was_away() -> None:
    away = False
    go = asyncio.Event()
    server = Server("listens", store=ShakyStore(lambda name: "before" if away else ""))

    @server.tool(task="optional")
    async def waits() -> str:
        await go.wait()
        return "done"

    async def script(peer: Peer) -> None:
        nonlocal away
        id = (await started(peer, "waits"))["taskId"]
        peer.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
        while (await peer.receive()).get("params", {}).get("status") != "working":
            pass
        away = True
        await asyncio.sleep(0.3)
        away = False
        go.set()
        while (await peer.receive()).get("params", {}).get("status") != "completed":
            pass

    with_peer(MODERN, script, server=server)


# ---------------------------------------------------------------- workers


def test_a_thread_is_told_that_its_task_takes_too_long() -> None:
    server = Server("late", threads=1, tasks=TaskLimits(max_run=0.2))
    stopped = threading.Event()

    @server.tool(task="optional")
    def looks(ctx: SyncContext) -> str:
        while not ctx.cancelled:
            pass
        stopped.set()
        return "never"

    async def script(peer: Peer) -> None:
        task = await until(peer, (await started(peer, "looks"))["taskId"])
        assert "longer than 0.2 s" in task["error"]["message"]
        assert await asyncio.to_thread(stopped.wait, 20)

    with_peer(MODERN, script, server=server)


def test_a_handler_that_ignores_the_limit_has_failed() -> None:
    server = Server("late", tasks=TaskLimits(max_run=0.1))

    @server.tool(task="optional")
    async def ignores() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
        return "too late"

    async def script(peer: Peer) -> None:
        assert (await until(peer, (await started(peer, "ignores"))["taskId"]))["status"] == "failed"

    with_peer(MODERN, script, server=server)


def test_what_is_claimed_while_the_worker_stops_is_handed_back() -> None:
    claiming, go = asyncio.Event(), asyncio.Event()

    class SlowStore(MemoryStore):
        async def task_claim(self, queues: Any, limit: int, hold: float) -> list[StoredTask]:
            claimed = await super().task_claim(queues, limit, hold)
            if claimed and queues != [OVERDUE]:
                claiming.set()
                await go.wait()
            return claimed

    store = SlowStore()
    maker, server = Server("stops", store=store, tasks=TaskLimits(concurrent=0)), Server("stops", store=store)
    runs = 0

    @maker.tool(task="optional")
    @server.tool(task="optional")
    async def once() -> str:
        nonlocal runs
        runs += 1
        return "done"

    async def main() -> None:
        peer = await Peer(maker, MODERN, capabilities=EXTENSION).open()
        id = (await started(peer, "once"))["taskId"]
        await server.runtime.start()
        await claiming.wait()
        stopping = asyncio.create_task(server.runtime.stop())
        await asyncio.sleep(0)
        go.set()
        await stopping
        assert runs == 0
        await server.runtime.start()
        assert (await until(peer, id))["status"] == "completed"
        await peer.close()
        await maker.runtime.stop()

    run(main(), server)


def test_a_worker_that_cannot_renew_its_leases_in_time_stops_its_work() -> None:
    stuck = asyncio.Event()

    class StuckStore(MemoryStore):
        async def task_hold(self, tasks: Any, hold: float) -> list[str]:
            await stuck.wait()
            return []

    server = Server("stuck", store=StuckStore(), tasks=TaskLimits(lease=1))
    times: list[float] = []

    @server.tool(task="optional")
    async def works() -> str:
        times.append(asyncio.get_running_loop().time())
        try:
            await asyncio.Event().wait()
        finally:
            times.append(asyncio.get_running_loop().time())
        return "never"

    async def script(peer: Peer) -> None:
        id = (await started(peer, "works"))["taskId"]
        assert (await until(peer, id))["error"]["data"] == {"reason": "worker lost"}
        begun, ended = times
        assert ended - begun < 1.5  # the lease, and the pause after a failure

    with_peer(MODERN, script, server=server)


def test_records_that_cannot_be_read_do_not_hold_up_the_others() -> None:
    store = MemoryStore()
    server = Server("newer", store=store, tasks=TaskLimits(ttl=0.1, keep=0.1))

    @server.tool(task="optional")
    async def quick() -> str:
        return "done"

    async def script(peer: Peer) -> None:
        for number in range(30):
            strange = StoredTask(f"strange{number}", "somebody", b'{"of":"another version"}')
            assert await store.task_insert(strange, OVERDUE, 100, 100)
        id = (await started(peer, "quick"))["taskId"]
        while "error" not in await peer.call("tasks/get", taskId=id):  # it is forgotten in time
            await asyncio.sleep(0.05)
        assert len(await store.task_list("somebody", "", 50)) == 30

    with_peer(MODERN, script, server=server)


def test_a_handle_leaves_the_store_of_a_running_server_open(tmp_path: Path) -> None:
    closed = 0

    class CountingStore(SqliteStore):
        async def close(self) -> None:
            nonlocal closed
            closed += 1
            await super().close()

    server = Server("shop", store=f"sqlite:///{tmp_path}/store.db")
    tokens: asyncio.Queue[str] = asyncio.Queue()

    @server.tool(task="optional")
    async def order(ctx: Context) -> str:
        tokens.put_nowait(await ctx.hand_over())
        return ""

    async def script(peer: Peer) -> None:
        server.runtime.store = CountingStore(str(tmp_path / "store.db"))
        id = (await started(peer, "order"))["taskId"]
        async with server.task(await tokens.get()) as handle:
            assert await handle.finish("sent")
        assert (await until(peer, id))["status"] == "completed"
        assert closed == 0

    with_peer(MODERN, script, server=server)
    assert closed == 1


def test_a_task_that_is_cancelled_while_it_is_found_to_be_lost_stays_cancelled() -> None:
    settled = asyncio.Event()
    cancel: Callable[[], Awaitable[Any]] | None = None

    class Racing(MemoryStore):
        async def task_hold(self, tasks: Any, hold: float) -> list[str]:
            return []  # no lease is renewed: every leg is lost

        async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
            nonlocal cancel
            found = await super().task_claim(queues, limit, hold)
            if OVERDUE in queues and cancel is None:
                settled.set()
            elif OVERDUE in queues and found and cancel is not None:
                cancelling, cancel = cancel, None
                await cancelling()
            return found

    server = Server("race", store=Racing(), tasks=TaskLimits(lease=0.2))

    @server.tool(task="optional")
    async def waits() -> str:
        await asyncio.Event().wait()
        return "never"

    async def script(peer: Peer) -> None:
        nonlocal cancel
        id = (await started(peer, "waits"))["taskId"]
        settled.clear()
        cancel = partial(peer.call, "tasks/cancel", taskId=id)
        await settled.wait()  # the look after the one in which it was lost
        assert (await until(peer, id))["status"] == "cancelled"

    with_peer(MODERN, script, server=server)
