"""Threads for `def` handlers: a few, lazily started, daemons, so that a stuck one never holds up the exit.

The standard library's executors join their threads at exit and wake the loop once per job; this pool does neither.
A thread whose caller has given up (cancelled, timed out) and one that waits for somebody else (a human, another
handler, a process) do not count against `size`: others may start in their place, or handlers that call each other would
wait for ever. Surplus threads go home when there is nothing left to do.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from redstart.execution.processes import Children

R = TypeVar("R")
GROW_AFTER: Final = 0.001
"""Seconds that a job may wait before another thread is started: quick jobs then share few threads."""
LOOK_AGAIN: Final = 0.05
"""Seconds until the pool looks again whether it has too few threads, or too many."""


class Job:
    """One function to run, and the future that its caller awaits."""

    __slots__ = ("after", "context", "error", "fn", "future", "kwargs", "thread", "unbroken", "value")

    def __init__(self, fn: Callable[..., Any], kwargs: dict[str, Any], future: asyncio.Future[Any]) -> None:
        self.fn = fn
        self.kwargs = kwargs
        self.future = future
        self.context = contextvars.copy_context()
        self.value: Any = None
        self.error: BaseException | None = None
        self.thread = ""
        self.unbroken = False
        """Whether what its thread waits for goes on to its end, although the caller may give up."""
        self.after: Callable[[], None] | None = None
        """Called on the loop when the thread is through with the job, however late that is."""


class _Wait:
    """A thread that waits for a task of the loop."""

    __slots__ = ("away", "job", "outcome", "task", "unbroken")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.unbroken = job.unbroken
        self.outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.task: asyncio.Task[Any] | None = None
        self.away = False
        """Whether the thread has given its place away."""

    def abandon(self, future: asyncio.Future[Any]) -> None:
        """The job is over: if its caller has given up, so does what it waits for."""
        if future.cancelled() and self.task is not None:
            self.task.cancel()


class _Crew:
    """The threads of one event loop: they outlive neither it nor `Pool.close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.queue: SimpleQueue[Job | None] = SimpleQueue()
        self.finished: deque[Job] = deque()
        self.running: set[Job] = set()
        self.waits: set[_Wait] = set()
        self.leaving: set[Job] = set()
        """The jobs whose wait was ended before it was over: they are on their way out."""
        self.left: asyncio.Future[None] | None = None
        """Set by who waits until the last of them has left."""
        self.closed = False
        self.waking = False

    def work(self, deliver: Callable[[_Crew], None]) -> None:
        """The life of one thread."""
        queue, running, finished = self.queue, self.running, self.finished
        name = threading.current_thread().name
        _mine.crew = self
        while (job := queue.get()) is not None:
            if not job.future.cancelled():
                job.thread = name
                running.add(job)
                _mine.job = job
                try:
                    job.value = job.context.run(job.fn, **job.kwargs)
                except BaseException as error:
                    job.error = error
                _mine.job = None
                running.discard(job)
            finished.append(job)
            del job
            # One wake-up delivers all jobs that finished since the last one. Append first, look at the flag second:
            # `deliver` clears the flag first and reads second, so between them no job is left behind.
            if not self.waking:
                self.waking = True
                try:
                    self.loop.call_soon_threadsafe(deliver, self)
                except RuntimeError:  # the loop is closed: nobody waits any more
                    return

    def close(self) -> None:
        """Nobody waits for this loop any more, also if it is closed and no task of it can come to an end."""
        self.closed = True
        for wait in self.waits.copy():
            wait.outcome.cancel()
            if wait.task is not None and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(wait.task.cancel)

    def abandoned(self) -> list[Job]:
        """The jobs that still run although nobody waits for them."""
        return [job for job in self.running.copy() if job.future.cancelled()]


_mine = threading.local()


class Pool:
    """At most `size` useful threads of one event loop. For its thread, but for `wait`, `unbroken` and `lent`."""

    def __init__(self, size: int = 40) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least one thread, not {size}")
        self.size = size
        self.threads = 0
        """Threads that were started and not sent home."""
        self.away = 0
        """Threads that wait for somebody else, and have given their places away meanwhile."""
        self._crew: _Crew | None = None
        self._growing = False
        self._named = 0
        self.processes: int | None = None
        """How many processes there may be; None: as many as the machine has processors."""
        self._children: Children | None = None

    @property
    def lost(self) -> int:
        """How many threads still work for callers that have given up."""
        return len(self._crew.abandoned()) if self._crew is not None else 0

    @property
    def children(self) -> Children:
        """The processes of `executor="process"` tools, made on first use."""
        self._open(asyncio.get_running_loop())
        if self._children is None:
            from redstart.execution.processes import Children

            self._children = Children(self, self.processes)
        return self._children

    # ------------------------------------------------------------ work

    def run(
        self, fn: Callable[..., Any], kwargs: dict[str, Any], loop: asyncio.AbstractEventLoop | None = None
    ) -> asyncio.Future[Any]:
        """Run `fn(**kwargs)` in a thread, in a copy of the caller's context.

        `loop` is the one that runs, from who knows it: Python 3.11 makes a system call to find it.
        """
        return self.submit(fn, kwargs, loop).future

    def submit(
        self, fn: Callable[..., Any], kwargs: dict[str, Any], loop: asyncio.AbstractEventLoop | None = None
    ) -> Job:
        """As `run`, for callers that need the job itself."""
        crew = self._crew
        if loop is None:
            loop = asyncio.get_running_loop()
        if crew is None or crew.loop is not loop:
            crew = self._open(loop)
        job = Job(fn, kwargs, crew.loop.create_future())
        crew.queue.put(job)
        if not self._growing:
            self._growing = True
            if self.threads == 0:
                self._start(crew, 1)
            crew.loop.call_later(GROW_AFTER, self._grow, crew)
        return job

    def _open(self, loop: asyncio.AbstractEventLoop) -> _Crew:
        """A crew for `loop`; one of another loop, which nobody stopped, is let go."""
        if self._crew is not None and self._crew.loop is not loop:
            self.close()
        if self._crew is None:
            self._crew = _Crew(loop)
        return self._crew

    def _grow(self, crew: _Crew) -> None:
        if crew is not self._crew:
            return
        self._growing = False
        waiting = crew.queue.qsize()
        if waiting:
            self._start(crew, min(waiting, self._allowed(crew) - self.threads))
            # Look again even at the limit: a thread may be lent or given up meanwhile.
            self._growing = True
            crew.loop.call_later(GROW_AFTER if self.threads < self.size else LOOK_AGAIN, self._grow, crew)
        elif self.threads > self.size:
            self._send_home(crew)

    def _allowed(self, crew: _Crew) -> int:
        """`size`, and one for each thread that is of no use now; abandoned ones only up to `size` again."""
        return self.size + self.away + min(len(crew.abandoned()), self.size)

    def _start(self, crew: _Crew, count: int) -> None:
        for _ in range(count):
            self.threads += 1
            self._named += 1
            name = f"redstart-{self._named}"
            threading.Thread(target=crew.work, args=(self._deliver,), name=name, daemon=True).start()

    def _deliver(self, crew: _Crew) -> None:
        crew.waking = False
        finished = crew.finished
        while finished:
            job = finished.popleft()
            if job.after is not None:
                job.after()
            if not job.future.done():
                _settle(job)
            if crew.leaving:
                crew.leaving.discard(job)
                if crew.left is not None and not crew.leaving and not crew.left.done():
                    crew.left.set_result(None)
        if self.threads > self.size and crew is self._crew:
            self._send_home(crew)

    def _send_home(self, crew: _Crew) -> None:
        """Threads beyond what is allowed leave, once nobody waits for one."""
        if not crew.queue.qsize():
            for _ in range(self.threads - self._allowed(crew)):
                self.threads -= 1
                crew.queue.put(None)
        elif not self._growing:  # what waits may be no job but the leave of others, and nobody would look again
            self._growing = True
            crew.loop.call_later(LOOK_AGAIN, self._grow, crew)

    # ------------------------------------------------------------ waiting

    def wait(self, work: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> R:
        """Run `work` on the loop while this thread waits. For any thread but the loop's.

        A thread of this pool gives its place away if that takes longer than one turn of the loop. If its caller
        gives up, or the pool is closed, `work` is cancelled, and this ends with `concurrent.futures.CancelledError`;
        with asyncio's own one if `work` was cancelled by somebody else.
        """
        crew: _Crew | None = getattr(_mine, "crew", None)
        if crew is None or (crew is not self._crew and not crew.closed):  # a thread of somebody else's
            return asyncio.run_coroutine_threadsafe(work, loop).result()
        wait = _Wait(_mine.job)
        crew.waits.add(wait)  # first this, then a look at the flag: `_Crew.close` does it the other way round
        try:
            if crew.closed:
                raise RuntimeError
            crew.loop.call_soon_threadsafe(self._begin, crew, wait, work)
        except RuntimeError:  # there is no loop any more that could do it
            wait.outcome.cancel()
        try:
            return wait.outcome.result()  # type: ignore[no-any-return]
        finally:
            if wait.task is None:  # it never began
                crew.waits.discard(wait)
                work.close()

    def _begin(self, crew: _Crew, wait: _Wait, work: Coroutine[Any, Any, Any]) -> None:
        if crew.closed:
            return
        task = wait.task = crew.loop.create_task(work)
        future = wait.job.future
        if not wait.unbroken and not future.done():  # one that is done has a handler that knows, and cleans up
            future.add_done_callback(wait.abandon)
        task.add_done_callback(partial(self._end, crew, wait))
        crew.loop.call_soon(self._look_back, crew, wait)

    def _look_back(self, crew: _Crew, wait: _Wait) -> None:
        """After one turn of the loop: most of what a thread waits for is done by now."""
        if wait.task is not None and not wait.task.done():
            wait.away = True
            self._lend(crew, 1)

    def _end(self, crew: _Crew, wait: _Wait, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        wait.job.future.remove_done_callback(wait.abandon)
        crew.waits.discard(wait)
        if wait.away:
            self._lend(crew, -1)
        if wait.outcome.cancelled():
            return
        if task.cancelled():
            crew.leaving.add(wait.job)
            if wait.job.future.cancelled() or crew.left is not None:
                wait.outcome.cancel()
            else:
                wait.outcome.set_exception(asyncio.CancelledError())
        elif error is not None:
            wait.outcome.set_exception(error)
        else:
            wait.outcome.set_result(task.result())

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """What this thread waits for inside goes on to its end, although its caller may give up."""
        job: Job | None = getattr(_mine, "job", None)
        if job is None or job.unbroken:
            yield
            return
        job.unbroken = True
        try:
            yield
        finally:
            job.unbroken = False

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While a thread of this pool waits for a process it gives its place away. Elsewhere this does nothing.

        >>> pool = Pool()
        >>> with pool.lent():
        ...     pass  # block on the answer here
        """
        crew: _Crew | None = getattr(_mine, "crew", None)
        if crew is None or crew is not self._crew:
            yield
            return
        crew.loop.call_soon_threadsafe(self._lend, crew, 1)
        try:
            yield
        finally:
            with suppress(RuntimeError):  # the loop is closed
                crew.loop.call_soon_threadsafe(self._lend, crew, -1)

    def _lend(self, crew: _Crew, change: int) -> None:
        if crew is self._crew:
            self.away += change
            if change > 0 and crew.queue.qsize():
                self._start(crew, min(1, self._allowed(crew) - self.threads))
            elif change < 0 and self.threads > self.size:
                self._send_home(crew)

    # ------------------------------------------------------------ the end

    async def settle(self, seconds: float) -> None:
        """End all waits, and give their threads so long at most to leave: a `finally` may have something to do."""
        crew = self._crew
        if crew is None or crew.loop is not asyncio.get_running_loop():
            return
        for wait in crew.waits.copy():
            if wait.task is not None:
                crew.leaving.add(wait.job)
                if not wait.unbroken:
                    wait.task.cancel()
        if crew.leaving:
            crew.left = crew.loop.create_future()
            await asyncio.wait([crew.left], timeout=seconds)

    def close(self) -> None:
        """Let idle threads go and end the processes; busy threads are daemons and die with the process."""
        crew, self._crew = self._crew, None
        children, self._children = self._children, None
        if children is not None:
            children.close()
        if crew is not None:
            crew.close()
            for _ in range(self.threads):
                crew.queue.put(None)
        self.threads = self.away = 0
        self._growing = False


def _settle(job: Job) -> None:
    """Give the outcome to whoever awaits it, in a form that a future and a task can carry."""
    error = job.error
    if error is None:
        job.future.set_result(job.value)
    elif isinstance(error, StopIteration | asyncio.CancelledError | SystemExit | KeyboardInterrupt):
        # A future refuses the first, and the others would end the call or the loop instead of being reported.
        told = RuntimeError(f"the handler raised {type(error).__name__}")
        told.__cause__ = error
        job.future.set_exception(told)
    else:
        job.future.set_exception(error)
