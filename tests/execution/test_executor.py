"""How handlers are run: limits, gates, cancellation; and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import redstart
from redstart import Context, Progress, RegistrationError, Server, SyncContext
from redstart.execution.limits import Deadline, off_the_clock
from support import Peer, play, until


def test_def_runs_in_a_thread_async_def_and_inline_on_the_loop() -> None:
    server = Server("where")

    @server.tool
    def threaded() -> bool:
        return threading.current_thread() is threading.main_thread()

    @server.tool
    async def on_loop() -> bool:
        return threading.current_thread() is threading.main_thread()

    @server.tool(executor="inline")
    def inline() -> bool:
        return threading.current_thread() is threading.main_thread()

    async def script(peer: Peer) -> list[str]:
        return [await peer.text(name) for name in ("threaded", "on_loop", "inline")]

    assert play(server, script) == ["false", "true", "true"]


@pytest.mark.parametrize(
    ("options", "is_async", "words"),
    [
        ({"executor": "fibre"}, False, "one of inline, thread, process"),
        ({"executor": "thread"}, True, "async def"),
        ({"timeout": 0}, False, "above 0"),
        ({"timeout": 1, "executor": "inline"}, False, "nothing can stop it"),
        ({"concurrency": 0}, False, "at least 1"),
    ],
)
def test_options_that_make_no_sense_fail_at_registration(options: dict[str, Any], is_async: bool, words: str) -> None:
    server = Server("wrong")

    def plain() -> None: ...
    async def coroutine() -> None: ...

    with pytest.raises((RegistrationError, ValueError), match=words):
        server.tool(**options)(coroutine if is_async else plain)
    assert not list(server.tools)


# ---------------------------------------------------------------- time


def test_an_async_tool_is_cancelled_at_its_limit_and_the_text_says_what_to_do() -> None:
    server = Server("slow")
    ended = []

    @server.tool(timeout=0.02)
    async def forever() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return ""

    text = play(server, lambda peer: peer.failure("forever"))
    assert ended
    assert "forever took longer than its limit of 0.02 s" in text
    assert "Ask for less" in text


def test_a_handler_that_swallows_its_cancellation_is_still_too_late() -> None:
    server = Server("slow", timeout=0.02)

    @server.tool
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return ""

    async def script(peer: Peer) -> tuple[str, str]:
        return await peer.failure("stubborn"), await peer.failure("stubborn")

    assert all("limit of 0.02 s" in text for text in play(server, script))


def test_the_servers_limit_is_the_default_and_a_tool_may_lift_it() -> None:
    server = Server("slow", timeout=0.02)
    release = asyncio.Event()

    @server.tool(timeout=float("inf"))
    async def patient() -> str:
        await release.wait()
        return "done"

    @server.tool
    async def hasty() -> str:
        await asyncio.Event().wait()
        return ""

    async def script(peer: Peer) -> str:
        _, answer = peer.begin("patient")
        await peer.failure("hasty")
        release.set()
        text: str = (await answer)["result"]["content"][0]["text"]
        return text

    assert play(server, script) == "done"


def test_a_tool_without_a_limit_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("fast")

    @server.tool
    async def quick() -> int:
        return 1

    @server.tool(timeout=20)
    async def limited() -> int:
        return 1

    async def script(peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        await peer.tool("quick")
        timers = mock.Mock(wraps=loop.call_at)
        monkeypatch.setattr(loop, "call_at", timers)
        await peer.tool("quick")
        assert not timers.called
        await peer.tool("limited")
        assert timers.called

    play(server, script)


def test_a_deadline_stands_still_while_a_human_is_asked() -> None:
    server = Server("asks")
    answered = asyncio.Event()

    @server.tool(timeout=0.05)
    async def ask() -> str:
        with off_the_clock(), off_the_clock():  # questions asked together
            await answered.wait()
        return "answered"

    async def script(peer: Peer) -> str:
        loop = asyncio.get_running_loop()
        _, answer = peer.begin("ask")
        loop.call_later(0.2, answered.set)  # four times the limit
        text: str = (await answer)["result"]["content"][0]["text"]
        return text

    assert play(server, script) == "answered"


def test_a_deadline_goes_on_with_what_was_left_and_never_after_its_end() -> None:
    fired = []

    async def script() -> None:
        loop = asyncio.get_running_loop()
        deadline = Deadline(loop, 0.02, lambda: fired.append("first"))
        deadline.pause()
        await asyncio.sleep(0.05)
        assert not fired
        deadline.resume()
        await until(lambda: deadline.expired)
        other = Deadline(loop, 0.01, lambda: fired.append("second"))
        other.pause()
        other.stop()
        other.resume()
        await asyncio.sleep(0.03)

    asyncio.run(script())
    assert fired == ["first"]


# ---------------------------------------------------------------- room


def test_concurrency_is_bounded_per_tool_and_the_rest_waits_in_order() -> None:
    server = Server("narrow")
    running: list[int] = []
    order: list[int] = []
    release = asyncio.Event()

    @server.tool(concurrency=2)
    async def work(n: int) -> int:
        running.append(n)
        order.append(n)
        assert len(running) <= 2
        await release.wait()
        running.remove(n)
        return n

    async def script(peer: Peer) -> None:
        answers = [peer.begin("work", n=n)[1] for n in range(6)]
        await until(lambda: len(running) == 2)
        release.set()
        await asyncio.gather(*answers)

    play(server, script)
    assert order == list(range(6))


def test_a_full_server_says_busy_and_serves_again_afterwards() -> None:
    server = Server("full", max_concurrency=1, max_queue=1)
    release = asyncio.Event()

    @server.tool
    async def work() -> str:
        await release.wait()
        return "done"

    async def script(peer: Peer) -> tuple[str, str]:
        first, second = peer.begin("work")[1], peer.begin("work")[1]
        room = server.runtime.gate
        assert room is not None
        await until(lambda: room.waiting == 1)
        busy = await peer.failure("work")
        release.set()
        await asyncio.gather(first, second)
        assert (room.active, room.waiting) == (0, 0)
        return busy, await peer.text("work")

    busy, after = play(server, script)
    assert "busy" in busy
    assert "Try again" in busy
    assert after == "done"


def test_who_is_cancelled_while_waiting_leaves_the_queue() -> None:
    server = Server("narrow", max_queue=1)
    release = asyncio.Event()
    ran: list[int] = []

    @server.tool(concurrency=1)
    async def work(n: int) -> int:
        ran.append(n)
        await release.wait()
        return n

    async def script(peer: Peer) -> None:
        _, first = peer.begin("work", n=1)
        second, _ = peer.begin("work", n=2)
        await until(lambda: ran == [1])
        peer.cancel(second)
        await until(lambda: not server.runtime.unwinding)
        _, third = peer.begin("work", n=3)  # has the only place in the queue
        assert await asyncio.wait([third], timeout=0.05) == (set(), {third})
        release.set()
        await asyncio.gather(first, third)

    play(server, script)
    assert ran == [1, 3]


# ---------------------------------------------------------------- cancellation


def test_a_cancelled_async_tool_unwinds_and_a_thread_tool_sees_the_flag() -> None:
    server = Server("cancel")
    seen: list[str] = []
    started = threading.Event()
    looked = threading.Event()

    @server.tool
    async def coroutine() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("unwound")

    @server.tool
    def thread(ctx: SyncContext) -> str:
        started.set()
        looked.wait(20)
        seen.append(f"cancelled {ctx.cancelled}")
        return "late"

    async def script(peer: Peer) -> None:
        one, _ = peer.begin("coroutine")
        two, _ = peer.begin("thread")
        await until(started.is_set)
        peer.cancel(one)
        peer.cancel(two)
        looked.set()
        await until(lambda: len(seen) == 2)
        assert not peer.notices

    play(server, script)
    assert sorted(seen) == ["cancelled True", "unwound"]


def test_a_disconnect_cancels_what_is_open() -> None:
    server = Server("gone")
    begun, ended = [], []

    @server.tool
    async def work() -> None:
        begun.append(True)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def script(peer: Peer) -> None:
        peer.begin("work")
        await until(lambda: bool(begun))
        await peer.close()
        await until(lambda: bool(ended))

    play(server, script)


def test_a_cancellation_of_the_handlers_own_making_is_answered() -> None:
    server = Server("own")

    @server.tool
    async def awaits_a_cancelled_task() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    @server.tool
    async def leaves() -> None:
        sys.exit(3)

    async def script(peer: Peer) -> list[str]:
        return [await peer.failure("awaits_a_cancelled_task"), await peer.failure("leaves")]

    first, second = play(server, script)
    assert "CancelledError" in first
    assert "SystemExit" in second


@pytest.mark.parametrize("kind", ["coroutine", "thread", "generator"])
def test_two_thousand_cancelled_calls_leave_nothing_behind(kind: str) -> None:
    server = Server("many", threads=4)
    gate = threading.Event()

    @server.tool
    async def coroutine() -> None:
        await asyncio.Event().wait()

    @server.tool
    def thread() -> None:
        gate.wait(20)

    @server.tool
    async def generator() -> AsyncIterator[str]:
        yield "one"
        await asyncio.Event().wait()

    @server.tool
    async def ping() -> str:
        return "pong"

    @server.tool
    def last() -> str:
        return "last"

    def count() -> tuple[int, int]:
        gc.collect()
        return len(asyncio.all_tasks()), len(os.listdir("/dev/fd"))

    async def round_of_calls(peer: Peer) -> None:
        ids = [peer.begin(kind)[0] for _ in range(2000)]
        await asyncio.sleep(0)
        for id in ids:
            peer.cancel(id)
        assert await peer.text("ping") == "pong"
        gate.set()
        assert await peer.text("last") == "last"  # the threads have looked at all that was cancelled before
        await until(lambda: not server.runtime.unwinding)

    async def script(peer: Peer) -> None:
        await peer.tool("ping")
        before, threads = count(), threading.active_count()
        await round_of_calls(peer)
        await until(lambda: threading.active_count() <= threads + server.runtime.pool.size)
        await until(lambda: count() == before)
        objects = len(gc.get_objects())
        gate.clear()
        await round_of_calls(peer)
        await until(lambda: count() == before)
        # A second round of 2,000 must not keep even one object a call.
        assert len(gc.get_objects()) - objects < 1500
        assert not peer.wire.link.calls

    play(server, script)


# ---------------------------------------------------------------- generators


def test_yields_are_content_in_order_progress_is_sent_and_the_return_value_comes_last() -> None:
    server = Server("stream")

    @server.tool
    def sync(n: int) -> Iterator[Any]:
        for i in range(n):
            yield Progress(i + 1, n, f"step {i}")
            yield f"part {i}"
        return "the end"  # type: ignore[return-value]

    @server.tool
    async def asynchronous(n: int) -> AsyncIterator[Any]:
        for i in range(n):
            yield Progress(i + 1, n, f"step {i}")
            yield f"part {i}"

    @server.tool(executor="inline")
    def inline(n: int) -> Iterator[Any]:
        yield Progress(1, n)
        yield {"n": n}

    async def script(peer: Peer) -> list[str]:
        return [await peer.text(name, n=2) for name in ("sync", "asynchronous", "inline")]

    async def with_notices(peer: Peer) -> tuple[list[str], list[Any]]:
        return await script(peer), [notice["params"] for notice in peer.notices]

    texts, params = play(server, with_notices, token="t")
    assert texts == ["part 0\npart 1\nthe end", "part 0\npart 1", '{"n":2}']
    expected = [{"progressToken": "t", "progress": i, "total": 2, "message": f"step {i - 1}"} for i in (1, 2)]
    assert params == [*expected, *expected, {"progressToken": "t", "progress": 1, "total": 2}]


@pytest.mark.parametrize("how", ["cancel", "deadline"])
@pytest.mark.parametrize("kind", ["sync", "asynchronous"])
def test_generators_are_closed_on_cancel_and_at_the_deadline(kind: str, how: str) -> None:
    server = Server("stream")
    closed = threading.Event()
    started = threading.Event()
    go_on = threading.Event()
    reached: list[str] = []

    @server.tool(timeout=0.5 if how == "deadline" else None)
    def sync() -> Iterator[str]:
        try:
            started.set()
            yield "one"
            go_on.wait(20)
            yield "two"
            reached.append("what nobody wants any more")
        finally:
            closed.set()

    @server.tool(timeout=0.5 if how == "deadline" else None)
    async def asynchronous() -> AsyncIterator[str]:
        try:
            started.set()
            yield "one"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def script(peer: Peer) -> None:
        if how == "cancel":
            id, _ = peer.begin(kind)
            await until(started.is_set)
            peer.cancel(id)
        else:
            assert "limit of 0.5 s" in await peer.failure(kind)
        go_on.set()
        await until(closed.is_set)

    play(server, script)
    assert not reached


def test_an_error_in_a_generator_is_the_tools_error() -> None:
    server = Server("stream")

    @server.tool
    def breaks() -> Iterator[str]:
        yield "one"
        raise ValueError("secret")

    text = play(server, lambda peer: peer.failure("breaks"))
    assert "ValueError" in text
    assert "secret" not in text


# ---------------------------------------------------------------- the hot path


def test_a_warm_call_stays_within_its_budget_of_function_calls() -> None:
    server = Server("hot")
    root = str(Path(redstart.__file__).parent)
    frames: list[str] = []

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            frames.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    async def script(peer: Peer) -> None:
        for _ in range(3):
            await peer.tool("add", a=1, b=2)
        _, answer = peer.begin("add", a=1, b=2)
        await answer
        sys.setprofile(watch)
        try:
            _, answer = peer.begin("add", a=1, b=2)
            await answer
        finally:
            sys.setprofile(None)

    play(server, script)
    assert len(frames) <= 25, frames


def test_the_wrong_context_is_told_what_to_write() -> None:
    server = Server("contexts")

    def blocking(ctx: Context) -> None: ...

    async def waiting(ctx: SyncContext) -> None: ...

    with pytest.raises(RegistrationError, match="write `ctx: SyncContext`"):
        server.tool(blocking)
    with pytest.raises(RegistrationError, match="write `ctx: Context`"):
        server.tool(waiting)


def test_a_lazy_result_is_read_in_the_thread_of_its_handler(tmp_path: Path) -> None:
    """Django refuses to read a queryset on the thread of a loop."""
    pytest.importorskip("django")
    names = ["plain", "promised", "inside", "depends", "yields", "solves"]
    command = [sys.executable, str(Path(__file__).with_name("lazy_server.py")), str(tmp_path / "cities.db"), *names]
    done = subprocess.run(command, capture_output=True, timeout=50, check=False, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("inside") == '{"cities":[{"name":"Bern"},{"name":"Oslo"}]}'
    assert found.pop("completion") == "Bern"
    assert found == dict.fromkeys(
        ["resource", "prompt", *(name for name in names if name != "inside")], '[{"name":"Bern"},{"name":"Oslo"}]'
    )


def test_what_an_exception_says_can_neither_steer_a_terminal_nor_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("hostile")

    @server.tool
    def fails() -> None:
        raise ValueError("first\nERROR forged\x1b[2J\x9b\r\x00")

    with caplog.at_level(logging.ERROR, "redstart"):
        play(server, lambda peer: peer.failure("fails"))
        logging.getLogger("redstart").error("said: %s", ValueError("one\ntwo\x1b"))
    assert "ValueError: first\n    ERROR forged\\x1b[2J\\x9b\\x0d\\x00" in caplog.text
    assert 'raise ValueError("first' in caplog.text  # the traceback is whole
    assert "said: one\\ntwo\\x1b" in caplog.text
    assert not [char for char in caplog.text if not char.isprintable() and char != "\n"]
