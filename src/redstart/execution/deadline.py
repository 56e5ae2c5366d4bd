"""A handler's time. It stands still while a human is asked: `with off_the_clock():`.

A handler may be called by another one, whose time then stands still too.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Deadline:
    """`seconds` from now, minus pauses; then `expire` is called, once. For the loop's thread only."""

    __slots__ = ("_expire", "_handle", "_left", "_loop", "_over", "_parent", "_paused", "_since", "expired")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        expire: Callable[[], object],
        parent: Deadline | None = None,
    ) -> None:
        self.expired = False
        self._parent = parent
        self._over = False
        self._loop = loop
        self._left = seconds
        self._expire = expire
        self._paused = 0
        self._since = loop.time()
        self._handle: asyncio.TimerHandle | None = loop.call_later(seconds, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self.expired = True
        self._expire()

    def pause(self) -> None:
        """Stop the clock, and those of the callers; pauses nest, so that questions asked together count once."""
        if self._parent is not None:
            self._parent.pause()
        self._paused += 1
        if self._paused == 1 and self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._left -= self._loop.time() - self._since

    def resume(self) -> None:
        """Let the clocks run on."""
        if self._parent is not None:
            self._parent.resume()
        self._paused -= 1
        if self._paused == 0 and not self.expired and not self._over:
            self._since = self._loop.time()
            self._handle = self._loop.call_later(max(0.0, self._left), self._fire)

    def stop(self) -> None:
        """The handler has come to its end."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._over = True  # a late resume must not start the clock again


current_deadline: contextvars.ContextVar[Deadline | None] = contextvars.ContextVar("redstart.deadline", default=None)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """The time inside is not the handler's. For the loop's thread.

    >>> with off_the_clock():
    ...     pass  # wait for a human here
    """
    deadline = current_deadline.get()
    if deadline is None:
        yield
        return
    deadline.pause()
    try:
        yield
    finally:
        deadline.resume()
