"""The user's callbacks for progress, log messages and other notifications, and the order in which they run."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from redstart.client.background import BackgroundTasks
from redstart.wire.jsonrpc import JsonObject

log = logging.getLogger("redstart.client")

T = TypeVar("T")


class ProgressMessage(Struct, frozen=True):
    """How far a call has come.

    >>> ProgressMessage(1, total=3, message="reading").total
    3
    """

    progress: float
    total: float | None = None
    message: str | None = None
    meta: JsonObject = {}


class LogMessage(Struct, frozen=True):
    """A line of the server's log.

    >>> LogMessage("info", "ready").level
    'info'
    """

    level: str
    data: Any = None
    logger: str | None = None
    meta: JsonObject = {}


class Notification(Struct, frozen=True):
    """Any notification, as it came.

    >>> Notification("notifications/tools/list_changed").params
    {}
    """

    method: str
    params: JsonObject = {}


OnProgress: TypeAlias = Callable[[ProgressMessage], Awaitable[object] | object]
OnLog: TypeAlias = Callable[[LogMessage], Awaitable[object] | object]
OnNotification: TypeAlias = Callable[[Notification], Awaitable[object] | object]


class CallbackQueue:
    """Calls callbacks in the order of their messages: a plain function at once, the next after an async one."""

    def __init__(self, tasks: BackgroundTasks) -> None:
        self._tasks = tasks
        self._waiting: deque[Callable[[], object]] = deque()
        self._running: asyncio.Future[object] | None = None

    def deliver(self, callback: Callable[[T], object], message: T) -> None:
        """Call `callback` now, or after those before it."""
        self._waiting.append(partial(callback, message))
        if self._running is None:
            self._run()

    def _run(self) -> None:
        while self._waiting:
            call = self._waiting.popleft()
            try:
                outcome = call()
            except Exception:  # messages must still be read
                log.exception("a callback failed: %r", call)
                continue
            if inspect.isawaitable(outcome):
                self._running = self._tasks.start(outcome)
                self._running.add_done_callback(self._continue)
                return

    def _continue(self, done: asyncio.Future[object]) -> None:
        self._running = None
        if done.cancelled():  # the client is closing
            self._waiting.clear()
        elif (error := done.exception()) is not None:
            log.error("a callback failed", exc_info=error)
        self._run()

    async def finish(self) -> None:
        """Wait until the callbacks that still run are done."""
        while self._running is not None:
            await asyncio.wait([self._running])
