"""Tasks from the client's side, in both protocols, against our own server and against scripted ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.support import DISCOVERED, Request, http_server
from redstart import Accepted, Context, Server, TaskLimits
from redstart.client import Client, InvalidReply, NotSupported, Progress, RequestError, TaskCancelled
from support import ERAS, JUNE, MODERN, NOVEMBER, LeapingLoop, leap, run

both = pytest.mark.parametrize("era", ERAS)


class Works:
    """A server with tasks, and events by which a test knows where they are."""

    def __init__(self) -> None:
        self.server = server = Server("works", tasks=TaskLimits(poll=0.1), expose_errors=True)
        self.begun, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @server.tool(task="optional")
        async def crunch(n: int, ctx: Context) -> int:
            self.begun.set()
            await ctx.progress(1, total=2)
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return n * 2

        @server.tool(task="required")
        async def must() -> list[int]:
            return [1, 2]

        @server.tool(task="required")
        async def album(ctx: Context) -> str:
            answer = await ctx.elicit("What is the title?", str, key="title")
            return answer.data if isinstance(answer, Accepted) else "Untitled"

        @server.tool(task="optional")
        async def broken() -> str:
            raise ValueError("no paper")

        @server.tool
        async def short() -> int:
            return 7


@both
def test_a_task_is_started_looked_at_and_waited_for(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            task = await c.start_task("crunch", {"n": 21})
            assert (task.status, task.done) == ("working", False)
            await works.begun.wait()
            assert (await task.refresh()).status == "working"
            works.go.set()
            assert (await task).data == 42
            assert (task.status, task.done) == ("completed", True)
            assert (await task.result()).data == 42

    run(main(), works.server)


@both
def test_a_call_waits_for_the_task_that_it_becomes(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            assert (await c.call_tool("must", returns=list[int])).data == [1, 2]
            works.go.set()
            assert (await c.call_tool("crunch", {"n": 1})).data == 2

    run(main(), works.server)


@both
def test_what_a_server_says_of_a_task_is_told(era: str) -> None:
    works, told = Works(), []

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            task = await c.start_task("crunch", {"n": 1})
            works.go.set()
            await task.result(on_change=lambda info: told.append(info.status))
            await task.refresh()

    run(main(), works.server)
    assert told[-1:] == ["completed"]
    assert told.count("completed") == 1


@both
def test_a_tool_that_makes_no_task_ends_at_once(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            if era == NOVEMBER:
                with pytest.raises(RequestError):
                    await c.start_task("short")
            else:
                task = await c.start_task("short")
                assert (task.done, (await task).data) == (True, 7)
                await task.cancel()

    run(main(), works.server)


@both
def test_questions_of_a_task_are_answered_while_it_is_waited_for(era: str) -> None:
    works, asked = Works(), []

    async def answer(request: Any) -> dict[str, str]:
        asked.append(request.message)
        await leap(12 if len(asked) == 1 else 0)  # longer than the timeout, because it does not count
        return dict.fromkeys(request.schema["properties"], "Summer")

    async def main() -> None:
        async with Client(works.server, protocol=era, on_elicit=answer) as c:
            task = await c.start_task("album")
            assert (await task.result(timeout=10)).text == "Summer"
            assert (await c.call_tool("album")).text == "Summer"

    run(main(), works.server, loop=LeapingLoop)
    assert asked == ["What is the title?"] * 2


@both
def test_a_task_is_cancelled(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            task = await c.start_task("crunch", {"n": 1})
            await works.begun.wait()
            waiting = asyncio.create_task(task.result())
            await task.cancel()
            await works.stopped.wait()
            with pytest.raises(TaskCancelled, match="was cancelled"):
                await waiting
            assert task.status == "cancelled"

    run(main(), works.server)


@both
def test_the_end_of_a_block_cancels_what_it_began(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            async with await c.start_task("crunch", {"n": 1}) as task:
                await works.begun.wait()
            await works.stopped.wait()
            assert (await (await c.get_task(task.id)).refresh()).status == "cancelled"

    run(main(), works.server)


@both
def test_a_timeout_ends_the_waiting_and_not_the_task(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            task = await c.start_task("crunch", {"n": 4})
            with pytest.raises(TimeoutError, match=r"has not ended within 0\.05 seconds"):
                await task.result(timeout=0.05)
            works.go.set()
            assert (await task).data == 8

    run(main(), works.server)


@both
def test_a_call_that_is_given_up_cancels_its_task(era: str) -> None:
    works = Works()
    extension: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}

    async def main() -> None:
        async with Client(works.server, protocol=era, capabilities=extension) as c:
            call = asyncio.create_task(c.call_tool("crunch", {"n": 1}))
            await works.begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await works.stopped.wait()

    run(main(), works.server)


@both
def test_a_task_is_found_again_over_another_connection(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as one, Client(works.server, protocol=era) as two:
            id = (await one.start_task("crunch", {"n": 5})).id
            works.go.set()
            assert (await (await two.get_task(id, tool="crunch", returns=int))).data == 10
            with pytest.raises(RequestError):
                await two.get_task("unknown")

    run(main(), works.server)


@both
def test_a_tool_that_fails(era: str) -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=era) as c:
            result = await (await c.start_task("broken"))
            assert result.is_error
            assert "no paper" in result.text

    run(main(), works.server)


def test_progress_of_a_task_is_told_until_its_end() -> None:
    works, seen = Works(), []

    async def main() -> None:
        async with Client(works.server, protocol=NOVEMBER) as c:
            told = asyncio.Event()

            def on_progress(progress: Progress) -> None:
                seen.append((progress.progress, progress.total))
                told.set()

            task = await c.start_task("crunch", {"n": 1}, on_progress=on_progress)
            await told.wait()
            works.go.set()
            await task
            assert [one.task_id for one in await c.list_tasks()] == [task.id]

    run(main(), works.server)
    assert seen[0] == (1, 2)


def test_a_revision_without_tasks() -> None:
    works = Works()

    async def main() -> None:
        async with Client(works.server, protocol=JUNE) as c:
            with pytest.raises(NotSupported, match="no tasks in 2025-06-18; use call_tool"):
                await c.start_task("crunch", {"n": 1})
            assert (await c.call_tool("must")).data == [1, 2]
        async with Client(works.server, protocol=MODERN) as c:
            with pytest.raises(NotSupported, match="tasks/list"):
                await c.list_tasks()

    run(main(), works.server)


# ---------------------------------------------------------------- servers that are not ours

TASK = {"resultType": "task", "taskId": "t", "status": "working", "ttlMs": None, "createdAt": "x", "lastUpdatedAt": "x"}


def polled(*answers: dict[str, Any]) -> Any:
    """What a client makes of a server without subscriptions whose `tasks/get` gives these answers in turn."""
    left = list(answers)

    async def handler(request: Request) -> None:
        method = request.message["method"]
        if method == "server/discover":
            await request.result(DISCOVERED)
        elif method == "tools/call":
            await request.result(TASK)
        elif method == "tasks/get":
            assert request.headers["mcp-name"] == "t"
            extensions = request.message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
            assert "io.modelcontextprotocol/tasks" in extensions
            state = {**TASK, "resultType": "complete", "pollIntervalMs": 1, **left.pop(0)}
            await request.result(state)
        else:
            await request.error(404, -32601, id=request.message["id"])

    async def main() -> Any:
        async with http_server(handler) as url, Client(url) as c:
            return (await c.call_tool("x")).text

    return run(main())


DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}}


def test_a_server_without_subscriptions_is_polled() -> None:
    assert polled({}, {"pollIntervalMs": None}, DONE) == "done"


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ({"status": "failed", "error": {"code": -32000, "message": "on fire"}}, RequestError, "on fire"),
        ({"status": "failed"}, InvalidReply, "the task is failed, and has no result"),
        ({"status": "completed"}, InvalidReply, "the task is completed, and has no result"),
        ({"status": "cancelled", "statusMessage": "no time"}, TaskCancelled, "was cancelled: no time"),
        ({"taskId": "other"}, InvalidReply, "asked for the task t, and the answer is about 'other'"),
        ({"taskId": 7}, InvalidReply, "the result is not valid"),
    ],
)
def test_tasks_that_end_otherwise(answer: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        polled(answer, answer)
