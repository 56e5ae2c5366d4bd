"""How long a task is kept and may run, how many there may be, and that what comes too late changes nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from redstart import Context, Server, TaskLimits
from support import MODERN, NOVEMBER, Peer, run
from tasks.clients import EXTENSION, TERMINAL, started, until, with_peer

ERAS = [NOVEMBER, MODERN]


def ttl_of(task: dict[str, Any]) -> float:
    """In seconds, in each era's way."""
    return float(task["ttlMs" if "ttlMs" in task else "ttl"]) / 1000


def waiting(**limits: Any) -> tuple[Server, asyncio.Event, asyncio.Event]:
    """A server whose tool waits for the second event, and sets the first when it has begun."""
    server = Server("limits", tasks=TaskLimits(**limits))
    began, go = asyncio.Event(), asyncio.Event()

    @server.tool(task="optional")
    async def work() -> str:
        began.set()
        await go.wait()
        return "done"

    @server.tool(task="optional")
    async def asks(ctx: Context) -> str:
        return await ctx.ask("Your name?", str)

    @server.tool(task="optional")
    async def quick() -> str:
        return "quick"

    return server, began, go


async def gone(peer: Peer, id: str) -> None:
    """Wait until the task is forgotten."""
    while "result" in (answer := await peer.call("tasks/get", taskId=id)):
        await asyncio.sleep(0.01)
    assert answer["error"]["code"] == -32602


# ---------------------------------------------------------------- ttl


@pytest.mark.requirement("140", "T67")
def test_the_ttl_of_a_task() -> None:
    async def asked(peer: Peer, task: dict[str, Any]) -> float:
        params = {"name": "quick", "arguments": {}, "task": task}
        created = (await peer.request("tools/call", params))["result"]["task"]
        assert created["createdAt"].endswith("Z")
        assert created["lastUpdatedAt"].endswith("Z")
        assert created["pollInterval"] == 1000
        return ttl_of(created)

    async def script(peer: Peer) -> None:
        assert await asked(peer, {}) == 300
        assert await asked(peer, {"ttl": None}) == 300
        assert await asked(peer, {"ttl": 1_200_000}) == 1200
        assert await asked(peer, {"ttl": 1200.5 * 1000}) == 1200.5
        assert await asked(peer, {"ttl": 10**12}) == 3600
        assert await asked(peer, {"ttl": 1e300}) == 3600
        assert await asked(peer, {"ttl": 10**400}) == 3600
        assert await asked(peer, {"ttl": 0}) == 300  # a finished task is kept for five minutes at least

    with_peer(NOVEMBER, script, server=waiting()[0])


@pytest.mark.requirement("140", "T72")
@pytest.mark.parametrize("task", [{"ttl": "soon"}, {"ttl": -5}, {"ttl": True}, {"ttl": [1]}, 5, "x", [], True])
def test_what_is_not_a_ttl(task: Any) -> None:
    async def script(peer: Peer) -> None:
        params = {"name": "quick", "arguments": {}, "task": task}
        assert (await peer.request("tools/call", params))["error"]["code"] == -32602

    with_peer(NOVEMBER, script, server=waiting()[0])


@pytest.mark.requirement("124")
def test_null_is_as_good_as_no_task() -> None:
    async def script(peer: Peer) -> None:
        params: dict[str, Any] = {"name": "quick", "arguments": {}, "task": None}
        assert (await peer.request("tools/call", params))["result"]["content"][0]["text"] == "quick"

    with_peer(NOVEMBER, script, server=waiting()[0])


@pytest.mark.requirement("140", "T74")
@pytest.mark.parametrize("era", ERAS)
def test_a_finished_task_is_kept_for_a_while_and_then_forgotten(era: str) -> None:
    async def script(peer: Peer) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        id = (await started(peer, "quick"))["taskId"]
        await until(peer, id)
        await gone(peer, id)
        assert clock() - began >= 0.3

    with_peer(era, script, server=waiting(ttl=0.1, max_ttl=0.1, keep=0.3, lease=0.6)[0])


@pytest.mark.requirement("140", "T74")
@pytest.mark.parametrize("era", ERAS)
def test_a_task_that_runs_is_kept_beyond_its_ttl_which_grows(era: str) -> None:
    server, began, go = waiting(ttl=0.1, max_ttl=0.1, keep=0.3, lease=0.6)

    async def script(peer: Peer) -> None:
        id = (await started(peer, "work"))["taskId"]
        await began.wait()
        while ttl_of(task := (await peer.call("tasks/get", taskId=id))["result"]) < 1.5:
            assert task["status"] == "working"
            await asyncio.sleep(0.05)
        go.set()
        ended = await until(peer, id)
        assert ended["status"] == "completed"
        assert ttl_of(ended) >= 1.5  # it is kept for `keep` after its end
        await gone(peer, id)

    with_peer(era, script, server=server)


@pytest.mark.requirement("140", "T74")
def test_a_task_that_waits_for_a_worker_is_kept_beyond_its_ttl() -> None:
    server, began, go = waiting(ttl=0.1, max_ttl=0.1, keep=0.2, lease=0.6, concurrent=1)

    async def script(peer: Peer) -> None:
        await started(peer, "work")
        await began.wait()
        id = (await started(peer, "quick"))["taskId"]
        while ttl_of(task := (await peer.call("tasks/get", taskId=id))["result"]) < 1.2:
            assert task["status"] == "working"
            await asyncio.sleep(0.05)
        go.set()
        assert (await until(peer, id))["status"] == "completed"

    with_peer(MODERN, script, server=server)


@pytest.mark.requirement("140", "T84")
@pytest.mark.parametrize("era", ERAS)
def test_a_task_that_nobody_answers_fails_at_its_ttl(era: str) -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, "asks"))["taskId"]
        parked = await until(peer, id, "input_required", *TERMINAL)
        assert parked["status"] == "input_required"
        ended = await until(peer, id)
        assert (ended["status"], ended["statusMessage"]) == ("failed", "Nobody answered in time.")
        if peer.modern:
            assert ended["error"]["code"] == -32603
        else:
            assert (await peer.call("tasks/result", taskId=id))["error"]["code"] == -32603
        late = {"q1": {"action": "accept", "content": {"answer": "Ada"}}}
        if peer.modern:
            assert "result" in await peer.call("tasks/update", taskId=id, inputResponses=late)
            assert (await until(peer, id))["status"] == "failed"
        await gone(peer, id)

    with_peer(era, script, server=waiting(ttl=0.4, max_ttl=0.4, keep=0.4, lease=0.6)[0])


# ---------------------------------------------------------------- how many, how long


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("limits", [{"per_user": 2}, {"total": 2}])
def test_too_many_tasks(era: str, limits: dict[str, int]) -> None:
    server, _, go = waiting(**limits)

    async def script(peer: Peer) -> None:
        ids = [(await started(peer, "work"))["taskId"] for _ in range(2)]
        params: dict[str, Any] = {"name": "work", "arguments": {}} | ({} if peer.modern else {"task": {}})
        error = (await peer.request("tools/call", params))["error"]
        assert error["code"] == -32603
        assert "too many tasks" in error["message"]
        assert "2" in error["message"]
        go.set()
        for id in ids:
            assert (await until(peer, id))["status"] == "completed"

    with_peer(era, script, server=server)


def test_the_tasks_of_one_user_leave_room_for_those_of_others() -> None:
    server, _, go = waiting(per_user=1)

    async def main() -> None:
        ada = await Peer(server, MODERN, capabilities=EXTENSION, principal="ada").open()
        bob = await Peer(server, MODERN, capabilities=EXTENSION, principal="bob").open()
        await started(ada, "work")
        assert "error" in await ada.call("tools/call", name="work", arguments={})
        id = (await started(bob, "work"))["taskId"]
        go.set()
        assert (await until(bob, id))["status"] == "completed"
        await ada.close()
        await bob.close()

    run(main(), server)


@pytest.mark.parametrize("era", ERAS)
def test_a_task_that_runs_too_long_fails(era: str) -> None:
    ended: list[str] = []
    server = Server("limits", tasks=TaskLimits(max_run=0.2))

    @server.tool(task="optional")
    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hangs")

    async def script(peer: Peer) -> None:
        id = (await started(peer, "hangs"))["taskId"]
        task = await until(peer, id)
        assert task["status"] == "failed"
        assert "longer than 0.2 s" in task["statusMessage"]
        assert ended == ["hangs"]

    with_peer(era, script, server=server)


def test_a_task_that_waits_for_answers_does_not_run() -> None:
    """The time in which a user thinks is not the time of the work."""

    async def script(peer: Peer) -> None:
        id = (await started(peer, "asks"))["taskId"]
        (key,) = (await until(peer, id, "input_required"))["inputRequests"]
        await asyncio.sleep(1.2)
        answers = {key: {"action": "accept", "content": {"answer": "Ada"}}}
        await peer.call("tasks/update", taskId=id, inputResponses=answers)
        assert (await until(peer, id))["result"]["content"][0]["text"] == "Ada"

    with_peer(MODERN, script, server=waiting(max_run=1)[0])


# ---------------------------------------------------------------- too late


@pytest.mark.requirement("134", "T68")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", ["cancel", "max_run"])
def test_the_late_result_of_a_thread_is_discarded(era: str, how: str) -> None:
    """A function in a thread that does not look at `ctx.cancelled` cannot be stopped: what it returns is not used."""
    began, go, done = threading.Event(), threading.Event(), threading.Event()
    server = Server("limits", threads=2, tasks=TaskLimits(max_run=1 if how == "max_run" else 60))

    @server.tool(task="optional")
    def deaf() -> str:
        began.set()
        go.wait(20)
        done.set()
        return "too late"

    async def script(peer: Peer) -> None:
        id = (await started(peer, "deaf"))["taskId"]
        await asyncio.to_thread(began.wait, 20)
        if how == "cancel":
            assert "result" in await peer.call("tasks/cancel", taskId=id)
        before = await until(peer, id)
        assert before["status"] == ("cancelled" if how == "cancel" else "failed")
        go.set()
        await asyncio.to_thread(done.wait, 20)
        await asyncio.sleep(0.1)  # what would be written is written by then
        after = await until(peer, id)
        assert {**after, "ttl": 0, "ttlMs": 0} == {**before, "ttl": 0, "ttlMs": 0}

    with_peer(era, script, server=server)


@pytest.mark.requirement("135", "T68")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["double", "fails", "breaks"])
def test_a_task_that_has_ended_stays_as_it_is(era: str, tool: str) -> None:
    async def script(peer: Peer) -> None:
        id = (await started(peer, tool, **({"number": 1} if tool == "double" else {})))["taskId"]
        before = await until(peer, id)
        refused = await peer.call("tasks/cancel", taskId=id)
        assert ("result" in refused) if peer.modern else (refused["error"]["code"] == -32602)
        assert await until(peer, id) == before

    with_peer(era, script)
