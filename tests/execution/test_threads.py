"""The thread pool: no lost wake-ups, no lost places, nobody left behind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest

from redstart import Server
from redstart.execution.threads import Job, Pool
from support import Peer, play, until

R = TypeVar("R")


def run(script: Callable[[Pool], Awaitable[R]], size: int = 4) -> R:
    async def alone() -> R:
        pool = Pool(size)
        try:
            async with asyncio.timeout(30):
                return await script(pool)
        finally:
            pool.close()

    return asyncio.run(alone())


def test_many_short_jobs_all_come_back() -> None:
    """Jobs that finish while the loop drains the finished ones must wake it again."""

    async def script(pool: Pool) -> int:
        done = 0
        for _ in range(60):
            done += sum(await asyncio.gather(*(pool.run(int, {}) for _ in range(50)), pool.run(lambda: 1, {})))
        return done

    assert run(script) == 60


def test_a_job_that_finishes_while_others_are_delivered_wakes_the_loop_again() -> None:
    """Else its result would lie there until the next job finishes."""

    async def script(pool: Pool) -> int:
        loop, wake = asyncio.get_running_loop(), asyncio.get_running_loop().call_soon_threadsafe
        woken = threading.Semaphore(0)

        def counted(callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.Handle:
            handle = wake(callback, *args, **options)
            woken.release()
            return handle

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
        first = pool.run(int, {})
        others: list[Job] = []

        def while_delivering() -> None:
            assert woken.acquire(timeout=20)
            others.append(pool.run(lambda: 7, {}))
            assert woken.acquire(timeout=20)

        first.after = while_delivering
        await first
        value: int = await others[0]
        return value

    assert run(script) == 7


def test_the_callers_context_is_copied() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    async def script(pool: Pool) -> tuple[str, str]:
        name.set("caller")
        inner = await pool.run(lambda: (name.get(), name.set("thread"))[0], {})
        return inner, name.get()

    assert run(script) == ("caller", "caller")


@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_exceptions_that_would_end_the_task_or_the_loop_are_reported(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    async def script(pool: Pool) -> None:
        with pytest.raises(RuntimeError, match=error.__name__) as caught:
            await pool.run(fail, {})
        assert isinstance(caught.value.__cause__, error)

    run(script)


def test_a_machine_without_more_threads_works_with_those_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    one_runs, go_on, refused = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        one_runs.set()
        assert go_on.wait(20)

    room, started, start = 0, 0, threading.Thread.start

    def start_if_room(thread: threading.Thread) -> None:
        nonlocal room, started
        if thread.name.startswith("redstart-"):  # the test itself waits in threads of asyncio
            if not room:
                refused.set()
                raise RuntimeError("can't start new thread")
            room, started = room - 1, started + 1
        start(thread)

    async def script(pool: Pool) -> int:
        nonlocal room
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.run(lambda: ran.append("of a caller who was refused"), {})
        room = 1
        first = pool.run(hold, {})
        assert await asyncio.to_thread(one_runs.wait, 20)
        refused.clear()
        second = pool.run(lambda: ran.append("later"), {})
        assert await asyncio.to_thread(refused.wait, 20)
        room = 40
        meet = threading.Barrier(2)
        others = [pool.run(meet.wait, {"timeout": 20}) for _ in range(2)]  # they need two more threads
        await asyncio.gather(second, *others)
        go_on.set()
        await first
        return pool.counts.threads

    monkeypatch.setattr(threading.Thread, "start", start_if_room)
    assert run(script) == started >= 3  # those that did not start are not counted
    assert ran == ["later"]


def test_quick_jobs_share_a_thread_and_slow_ones_do_not_block_each_other() -> None:
    meet = threading.Barrier(4)

    async def script(pool: Pool) -> int:
        await asyncio.gather(*(pool.run(meet.wait, {"timeout": 20}) for _ in range(4)))
        return pool.counts.threads

    assert run(script) == 4


class Stuck:
    """Jobs that do not end before they are told to."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._begun = threading.Semaphore(0)
        self._go = threading.Event()

    async def begin(self) -> Job:
        """A job that runs."""
        job = self._pool.run(self._work, {})
        await until(lambda: self._begun.acquire(blocking=False))
        return job

    def end(self) -> None:
        self._go.set()

    def _work(self) -> None:
        self._begun.release()
        self._go.wait(20)


def test_a_stuck_thread_is_replaced_and_counted_and_surplus_threads_go_home() -> None:
    async def script(pool: Pool) -> None:
        stuck = Stuck(pool)
        for job in [await stuck.begin(), await stuck.begin()]:
            job.cancel()
        assert pool.counts.lost == 2
        assert await pool.run(lambda: "served", {}) == "served"
        assert pool.counts.threads in (3, 4)  # a slow machine starts one before the last one has taken its job
        stuck.end()
        await until(lambda: pool.counts.lost == 0)
        await until(lambda: pool.counts.threads <= 2)

    run(script, size=2)


def test_abandoned_threads_are_replaced_only_up_to_the_size_again() -> None:
    async def script(pool: Pool) -> None:
        stuck = Stuck(pool)
        for _ in range(2):
            (await stuck.begin()).cancel()
        waiting = pool.run(lambda: "late", {})
        await asyncio.sleep(0.1)  # it stays where it is: a third thread would be one too many
        assert not waiting.done()
        assert pool.counts.threads == 2
        stuck.end()
        assert await waiting == "late"

    run(script, size=1)


def test_a_thread_that_waits_for_the_loop_gives_its_place_back() -> None:
    async def script(pool: Pool) -> str:
        loop, answered = asyncio.get_running_loop(), asyncio.Event()

        def ask() -> str:
            pool.wait(answered.wait(), loop)
            return "answered"

        asking = pool.run(ask, {})
        assert await pool.run(lambda: "other", {}) == "other"
        answered.set()
        value: str = await asking
        await until(lambda: (pool.counts.threads, pool.counts.away) == (1, 0))
        return value

    assert run(script, size=1) == "answered"


def test_a_thread_of_somebody_else_has_no_place_to_give_away() -> None:
    async def script(pool: Pool) -> tuple[str, int]:
        loop, lent = asyncio.get_running_loop(), []

        async def work() -> str:
            for _ in range(3):
                await asyncio.sleep(0)
            lent.append(pool.counts.away)
            return "done"

        await pool.run(int, {})
        return await asyncio.to_thread(pool.wait, work(), loop), lent[0]

    assert run(script) == ("done", 0)


def quiet(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """For a loop that is closed before its tasks are done: it would say so in the log of some later test."""


@pytest.mark.parametrize("loop_closed", [False, True])
def test_a_closed_pool_ends_what_its_threads_wait_for(loop_closed: bool) -> None:
    pool, seen = Pool(1), SimpleQueue[type[BaseException]]()

    def wait_twice(loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(2):
            try:
                pool.wait(asyncio.sleep(20), loop)
            except BaseException as error:
                seen.put(type(error))

    async def script() -> None:
        asyncio.get_running_loop().set_exception_handler(quiet)
        pool.run(wait_twice, {"loop": asyncio.get_running_loop()})
        await until(lambda: pool.counts.away == 1)
        if not loop_closed:
            pool.close()

    asyncio.run(script())
    pool.close()
    first = asyncio.CancelledError if loop_closed else concurrent.futures.CancelledError  # `asyncio.run` ends all tasks
    assert [seen.get(timeout=20) for _ in range(2)] == [first, concurrent.futures.CancelledError]


def test_what_a_thread_waits_for_is_closed_with_the_loop_that_did_not_begin_it() -> None:
    pool, loop = Pool(1), asyncio.new_event_loop()
    loop.set_exception_handler(quiet)
    work, ended = asyncio.sleep(20), threading.Event()

    def waits() -> None:
        try:
            pool.wait(work, loop)
        finally:
            ended.set()

    async def script() -> None:
        pool.run(waits, {})

    loop.run_until_complete(script())
    while not asyncio.all_tasks(loop):  # until there is a task, whose first step is for the next turn
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    pool.close()
    assert ended.wait(20)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_what_comes_after_a_job_is_called_even_if_nobody_waits() -> None:
    gate = threading.Event()

    async def script(pool: Pool) -> None:
        after: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        first = pool.run(gate.wait, {"timeout": 20})
        second = pool.run(int, {})  # never started: cancelled in the queue
        second.after = lambda: after.set_result(second.thread)
        second.cancel()
        gate.set()
        await first
        assert await after == ""

    run(script, size=1)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_pool_works_again_on_another_loop(stopped: bool) -> None:
    pool = Pool(2)

    async def once() -> int:
        value: int = await pool.run(lambda: 7, {})
        if stopped:
            pool.close()
        return value

    assert [asyncio.run(once()), asyncio.run(once())] == [7, 7]


def test_the_log_names_the_thread_that_outlived_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()
    server = Server("slow", threads=1)

    @server.tool(timeout=0.5)
    def stuck() -> str:
        gate.wait(20)
        return "late"

    @server.tool
    def quick() -> str:
        return "quick"

    async def script(peer: Peer) -> tuple[str, str]:
        told = await peer.failure("stuck")
        assert server.runtime.pool.counts.lost == 1
        return told, await peer.text("quick")

    with caplog.at_level(logging.WARNING, "redstart"):
        told, quick_text = play(server, script)
    gate.set()
    assert "limit of 0.5 s" in told
    assert quick_text == "quick"
    assert any("redstart-1" in r.getMessage() and "stuck" in r.getMessage() for r in caplog.records)


@pytest.mark.requirement("144")
def test_a_busy_loop_of_pure_python_starves_nobody() -> None:
    """Four threads compute without a pause until other requests, which they must not keep out, tell them to stop."""
    server, stopped, running = Server("busy", threads=4), threading.Event(), threading.Semaphore(0)

    @server.tool
    def compute() -> int:
        running.release()
        steps = 0
        while not stopped.is_set():
            steps += 1
        return steps

    @server.tool
    async def look(number: int) -> int:
        return number

    @server.tool
    async def stop() -> str:
        stopped.set()
        return "stopped"

    async def script(peer: Peer) -> list[str]:
        busy = [peer.begin("compute") for _ in range(4)]
        for _ in busy:
            await until(lambda: running.acquire(blocking=False))
        seen = [await peer.text("look", number=number) for number in range(20)]
        peer.cancel(busy.pop()[0])
        seen.append(await peer.text("look", number=20))
        assert not any(answer.done() for _, answer in busy)
        await peer.tool("stop")
        assert ["result" in await answer for _, answer in busy] == [True] * 3
        return seen

    try:
        assert play(server, script) == [str(number) for number in range(21)]
    finally:
        stopped.set()
