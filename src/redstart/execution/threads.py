"""Threads for `def` handlers: a few, started when they are needed. They are daemons, so none delays the exit.

The standard library's executors join their threads at exit and wake the loop once per job; this pool does neither.
Two kinds of threads do not count against the size of the pool, and others may start in their place: a thread whose
caller has given up (cancelled, timed out), and a thread that waits for a human or for another handler.
Without that, handlers that call each other would wait for ever. A thread that is one too many leaves after its job.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from redstart.features.registry import Arguments, Function

R = TypeVar("R")
Work: TypeAlias = Coroutine[Any, Any, R]
Future: TypeAlias = asyncio.Future[Any]
GROW_AFTER: Final = 0.001
"""Seconds that a job may wait before another thread is started: quick jobs then share few threads."""
LOOK_AGAIN: Final = 0.05
"""Seconds until the pool looks again whether a job waits, when no more threads are allowed."""


class Counts(Struct, frozen=True):
    """The threads of a pool."""

    threads: int = 0
    away: int = 0
    """Threads that wait for a human or for another handler, so that others may take their places."""
    lost: int = 0
    """Threads that still work although their callers have given up."""


class Job(Future):
    """The result, still to come, of a function that runs in a thread."""

    value: object = None
    error: BaseException | None = None
    thread = ""
    """The name of its thread, once that has begun."""
    unbroken = False
    """Whether what its thread waits for goes on to its end, although the caller may give up."""
    after: Callable[[], None] | None = None
    """Called on the loop when the thread has ended the job, also if the caller has given up."""

    def __init__(self, crew: Crew) -> None:
        super().__init__(loop=crew.loop)
        self.crew = crew

    def settle(self) -> None:
        """Give the outcome to the caller, in a form that a future and a task can carry."""
        error = self.error
        if error is None:
            self.set_result(self.value)
        elif isinstance(error, StopIteration | asyncio.CancelledError | SystemExit | KeyboardInterrupt):
            # A future refuses the first, and the others would end the call or the loop instead of being reported.
            reported = RuntimeError(f"the handler raised {type(error).__name__}")
            reported.__cause__ = error
            self.set_exception(reported)
        else:
            self.set_exception(error)


class Wait(Generic[R]):
    """A thread that waits for work on the loop. All but `outcome` is for the thread of the loop."""

    __slots__ = ("_away", "_crew", "_work", "job", "outcome", "task", "unbroken")

    def __init__(self, job: Job, work: Work[R]) -> None:
        self.job = job
        self.unbroken = job.unbroken
        self.outcome: concurrent.futures.Future[R] = concurrent.futures.Future()
        self.task: asyncio.Task[R] | None = None
        self._crew = job.crew
        self._work = work
        self._away = False

    def begin(self) -> None:
        crew, job = self._crew, self.job
        if crew.closed:
            return
        self.task = crew.loop.create_task(self._work)
        if not self.unbroken and not job.done():  # after that its handler cleans up, and may wait
            job.add_done_callback(self._give_up)
        self.task.add_done_callback(self._end)
        crew.loop.call_soon(self._look_back)

    def _give_up(self, job: Future) -> None:
        if job.cancelled() and self.task is not None:
            self.task.cancel()

    def _look_back(self) -> None:
        """After one turn of the loop most work is done. If it is not, another thread may take the place."""
        if self.task is not None and not self.task.done():
            self._away = True
            self._crew.away += 1
            if self._crew.queue.qsize():
                self._crew.start(1)

    def _end(self, task: asyncio.Task[R]) -> None:
        crew, job, outcome = self._crew, self.job, self.outcome
        error = None if task.cancelled() else task.exception()
        job.remove_done_callback(self._give_up)
        crew.waits.discard(self)
        crew.away -= self._away
        if outcome.cancelled():
            return
        if task.cancelled():
            crew.leaving.add(job)
            if job.cancelled() or crew.stopping:
                outcome.cancel()
            else:
                outcome.set_exception(asyncio.CancelledError())
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(task.result())


class Crew:
    """The threads of one event loop. They end with the loop, or when the pool is closed."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.queue: SimpleQueue[tuple[Job, contextvars.Context, Function, Arguments] | None] = SimpleQueue()
        self.finished: deque[Job] = deque()
        self.running: set[Job] = set()
        self.waits: set[Wait[Any]] = set()
        self.leaving: set[Job] = set()
        """The jobs whose wait was ended before its time: their handlers clean up."""
        self.none_leaves = asyncio.Event()
        self.threads = 0
        self.away = 0
        self.stopping = False
        self.closed = False
        self.growing = False
        self._size = size
        self._waking = False
        self._numbers = itertools.count(1)
        self._counting = threading.Lock()

    def lost(self) -> int:
        """How many threads still work although their callers have given up."""
        return sum(job.cancelled() for job in self.running.copy())

    def _allowed(self) -> int:
        """The size of the pool, plus the threads that wait, plus the lost threads up to the size once more."""
        return self._size + self.away + min(self.lost(), self._size)

    def start(self, count: int) -> None:
        """Start so many threads, or as many as are allowed. RuntimeError: there is none, and the machine has none."""
        for _ in range(min(count, self._allowed() - self.threads)):
            with self._counting:
                self.threads += 1
            try:
                threading.Thread(target=self._work, name=f"redstart-{next(self._numbers)}", daemon=True).start()
            except RuntimeError:
                with self._counting:
                    self.threads -= 1
                if self.threads == 0:
                    raise
                return

    def grow(self) -> None:
        """Start threads for the jobs that wait. Look again while any waits, because a place may become free."""
        self.growing = not self.closed and self.queue.qsize() > 0
        if self.growing:
            self.start(self.queue.qsize())
            self.loop.call_later(GROW_AFTER if self.threads < self._size else LOOK_AGAIN, self.grow)

    def _work(self) -> None:
        """The life of one thread."""
        queue, running, finished = self.queue, self.running, self.finished
        name = threading.current_thread().name
        # A new thread looks too: what it was started for may be over.
        while self.threads <= self._size or not self._is_one_too_many():
            item = queue.get()
            if item is None:
                return
            job, context, fn, kwargs = item
            if not job.cancelled():
                job.thread = name
                running.add(job)
                _here.job = job
                try:
                    job.value = context.run(fn, **kwargs)
                except BaseException as error:
                    job.error = error
                _here.job = None
                running.discard(job)
            finished.append(job)
            del job, context, fn, kwargs, item
            # One wake-up delivers all jobs that finished since the last one. Append first, look at the flag second:
            # `_deliver` clears the flag first and reads second, so between them no job is left behind.
            if not self._waking:
                self._waking = True
                try:
                    self.loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop is closed, so no caller waits
                    return

    def _is_one_too_many(self) -> bool:
        with self._counting:
            surplus = self.threads > self._allowed()
            self.threads -= surplus
        return surplus

    def _deliver(self) -> None:
        self._waking = False
        while self.finished:
            job = self.finished.popleft()
            if job.after is not None:
                job.after()
            if not job.done():
                job.settle()
            if self.leaving:
                self.leaving.discard(job)
                if not self.leaving:
                    self.none_leaves.set()

    async def settle(self, seconds: float) -> None:
        """End all waits, and give their handlers at most so many seconds to clean up."""
        self.stopping = True
        for wait in self.waits.copy():
            if wait.task is not None:
                self.leaving.add(wait.job)
                if not wait.unbroken:
                    wait.task.cancel()
        if self.leaving:
            self.none_leaves.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.none_leaves.wait(), seconds)

    def close(self) -> None:
        """Let idle threads go and end all waits, also if the loop is closed and can end none of their tasks."""
        self.closed = True
        for wait in self.waits.copy():
            wait.outcome.cancel()
            if wait.task is not None and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(wait.task.cancel)
        for _ in range(self.threads):
            self.queue.put(None)


_here = threading.local()


def on_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Pool:
    """At most `size` useful threads, for one event loop after another.

    For the thread of the loop, but for `wait` and `unbroken`.
    """

    def __init__(self, size: int = 40) -> None:
        if size < 1:
            raise ValueError(f"a pool needs at least one thread, not {size}")
        self.size = size
        self._crew: Crew | None = None

    @property
    def counts(self) -> Counts:
        crew = self._crew
        return Counts() if crew is None else Counts(crew.threads, crew.away, crew.lost())

    def run(self, fn: Function, kwargs: Arguments, loop: asyncio.AbstractEventLoop | None = None) -> Job:
        """Run `fn(**kwargs)` in a thread, in a copy of the caller's context.

        `loop` is the one that runs, if the caller knows it: Python 3.11 makes a system call to find it.
        """
        crew = self._crew
        if loop is None:
            loop = asyncio.get_running_loop()
        if crew is None or crew.loop is not loop:
            self.close()
            crew = self._crew = Crew(self.size, loop)
        if crew.threads == 0:
            crew.start(1)  # before the job is queued: if this fails, the job must not run later
        job = Job(crew)
        crew.queue.put((job, contextvars.copy_context(), fn, kwargs))
        if not crew.growing:
            crew.growing = True
            loop.call_later(GROW_AFTER, crew.grow)
        return job

    def wait(self, work: Work[R], loop: asyncio.AbstractEventLoop) -> R:
        """Run `work` on the loop while this thread waits. For any thread but the loop's.

        A thread of a pool gives its place away if that takes longer than one turn of the loop. If its caller
        gives up, or the pool is closed, `work` is cancelled, and this ends with `concurrent.futures.CancelledError`;
        with `asyncio.CancelledError` if `work` was cancelled for another reason.
        """
        job: Job | None = getattr(_here, "job", None)
        if job is None or (job.crew.loop is not loop and loop.is_running() and not job.crew.closed):
            return asyncio.run_coroutine_threadsafe(work, loop).result()
        crew, wait = job.crew, Wait(job, work)
        crew.waits.add(wait)  # first this, then a look at the flag: `Crew.close` does it the other way round
        try:
            if crew.closed:
                raise RuntimeError
            crew.loop.call_soon_threadsafe(wait.begin)
        except RuntimeError:  # the loop is closed
            wait.outcome.cancel()
        try:
            return wait.outcome.result()
        finally:
            if wait.task is None or crew.loop.is_closed():  # it has never begun, or never ends by itself
                crew.waits.discard(wait)
                work.close()

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """What this thread waits for inside goes on to its end, although its caller may give up."""
        job: Job | None = getattr(_here, "job", None)
        if job is None or job.unbroken:
            yield
            return
        job.unbroken = True
        try:
            yield
        finally:
            job.unbroken = False

    async def settle(self, seconds: float) -> None:
        """End all waits of threads, and give them at most so many seconds to run their `finally` blocks."""
        if self._crew is not None and self._crew.loop is asyncio.get_running_loop():
            await self._crew.settle(seconds)

    def close(self) -> None:
        """Let idle threads go. Busy ones are daemons and end with the process."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()
