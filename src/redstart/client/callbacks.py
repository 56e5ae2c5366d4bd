"""The user's callbacks for progress, log and other notifications, and the order they run in."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Struct

log = logging.getLogger("redstart.client")

Spawn: TypeAlias = Callable[[Awaitable[Any]], "asyncio.Future[Any]"]


class ProgressMessage(Struct, frozen=True):
    """How far a call has come.

    >>> ProgressMessage(1, total=3, message="reading").total
    3
    """

    progress: float
    total: float | None = None
    message: str | None = None
    meta: dict[str, Any] = {}


class LogMessage(Struct, frozen=True):
    """A line of the server's log.

    >>> LogMessage("info", "ready").level
    'info'
    """

    level: str
    data: Any = None
    logger: str | None = None
    meta: dict[str, Any] = {}


class Notification(Struct, frozen=True):
    """Any notification, as it came.

    >>> Notification("notifications/tools/list_changed").params
    {}
    """

    method: str
    params: dict[str, Any] = {}


OnProgress: TypeAlias = Callable[[ProgressMessage], Awaitable[object] | object]
OnLog: TypeAlias = Callable[[LogMessage], Awaitable[object] | object]
OnNotification: TypeAlias = Callable[[Notification], Awaitable[object] | object]


class CallbackQueue:
    """Brings messages to callbacks in order: one that is not async runs at once, the next waits for an async one."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._waiting: deque[tuple[Callable[[Any], Any], Any]] = deque()
        self._running: asyncio.Future[Any] | None = None

    def deliver(self, callback: Callable[[Any], Any], argument: Any) -> None:
        """Call `callback` now, or when those before it are done."""
        self._waiting.append((callback, argument))
        if self._running is None:
            self._next()

    def _next(self, done: asyncio.Future[Any] | None = None) -> None:
        self._running = None
        if done is not None:
            if done.cancelled():  # the client is closing
                self._waiting.clear()
            elif (error := done.exception()) is not None:
                log.error("a callback failed", exc_info=error)
        while self._waiting:
            callback, argument = self._waiting.popleft()
            try:
                outcome = callback(argument)
            except Exception:  # the reader of messages must go on
                log.exception("the callback %r failed", callback)
                continue
            if inspect.isawaitable(outcome):
                self._running = self._spawn(outcome)
                self._running.add_done_callback(self._next)
                return

    async def finish(self) -> None:
        """Wait for the callbacks that still run."""
        while self._running is not None:
            await asyncio.wait([self._running])
