"""Threads for `def` handlers: a few, lazily started, daemons, so that a stuck one never holds up the exit.

The standard library's executors join their threads at exit and wake the loop once per job; this pool does neither.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

GROW_AFTER: Final = 0.001
"""Seconds that a job may wait before another thread is started: quick jobs then share few threads."""


class Job:
    """One function to run, and the future that its caller awaits."""

    __slots__ = ("context", "error", "fn", "future", "kwargs", "started", "value")

    def __init__(self, fn: Callable[..., Any], kwargs: dict[str, Any], future: asyncio.Future[Any]) -> None:
        self.fn = fn
        self.kwargs = kwargs
        self.future = future
        self.context = contextvars.copy_context()
        self.value: Any = None
        self.error: BaseException | None = None
        self.started = False


class Pool:
    """At most `size` threads of one event loop. Everything but `_work` runs on the loop's thread."""

    def __init__(self, size: int = 40) -> None:
        self.size = size
        self.threads = 0
        self.lost = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._finished: deque[Job] = deque()
        self._growing = False

    def run(self, fn: Callable[..., Any], kwargs: dict[str, Any]) -> asyncio.Future[Any]:
        """Run `fn(**kwargs)` in a thread, in a copy of the caller's context."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.put(Job(fn, kwargs, future))
        if not self._growing:
            self._growing = True
            if self.threads == 0:
                self._start(1)
            loop.call_later(GROW_AFTER, self._grow)
        return future

    def _grow(self) -> None:
        self._growing = False
        waiting = self._queue.qsize()
        if waiting:
            self._start(min(waiting, self.size - self.threads))
            if self.threads < self.size:
                self._growing = True
                self._loop.call_later(GROW_AFTER, self._grow)  # type: ignore[union-attr]

    def _start(self, count: int) -> None:
        for _ in range(count):
            self.threads += 1
            threading.Thread(target=self._work, name=f"redstart-{self.threads}", daemon=True).start()

    def _work(self) -> None:
        queue, finished, loop = self._queue, self._finished, self._loop
        while (job := queue.get()) is not None:
            if job.future.cancelled():
                continue
            job.started = True
            try:
                job.value = job.context.run(job.fn, **job.kwargs)
            except BaseException as error:
                job.error = error
            # One wake-up delivers all jobs that finished since the last one.
            idle = not finished
            finished.append(job)
            del job
            if idle:
                try:
                    loop.call_soon_threadsafe(self._deliver)  # type: ignore[union-attr]
                except RuntimeError:  # the loop is closed: nobody waits any more
                    return

    def _deliver(self) -> None:
        finished = self._finished
        while finished:
            job = finished.popleft()
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.value)
            elif isinstance(job.error, StopIteration):
                job.future.set_exception(RuntimeError("the handler raised StopIteration"))
            else:
                job.future.set_exception(job.error)

    def replace_stuck(self) -> None:
        """A thread that outlived its call no longer counts: another one may take its place."""
        self.lost += 1
        self.size += 1

    def close(self) -> None:
        """Let idle threads go; busy ones are daemons and die with the process."""
        for _ in range(self.threads):
            self._queue.put(None)
