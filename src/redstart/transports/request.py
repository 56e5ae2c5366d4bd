"""The client at the other end of one HTTP request: its body, the reply to it, and whether it is still there.

Two forms: `AsgiRequest` speaks ASGI with whatever serves the application; `connection.Cycle` is the same over our own
connection, where a reply is one write and a client that goes away says so itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]
HeaderMap = dict[bytes, bytes]

JSON: Final = (b"content-type", b"application/json")
JSON_ONLY: Final[HeaderList] = [JSON]


class Gone(Exception):
    """The client went away while it sent its request."""


class Watcher(Protocol):
    """Who wants to know that the client has gone, or has waited for long."""

    def client_gone(self) -> None: ...
    def client_waits(self) -> None: ...


class Direct(Protocol):
    """A connection of our own."""

    def write(self, body: bytes) -> bool:
        """Send a part of a stream at once; False where the client is behind."""

    def hold(self, size: int) -> None:
        """So many bytes more wait until the client has caught up."""


class HttpRequest(Protocol):
    """One request's client."""

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that serves the request."""

    @property
    def deadline(self) -> float:
        """Seconds that the client has to take what was sent to it."""

    @property
    def direct(self) -> Direct | None:
        """The connection, where it is ours."""

    async def body(self, headers: Mapping[bytes, bytes], limit: int) -> bytes | None:
        """The whole body, or None where it is larger than allowed."""

    async def reply(self, status: int, body: bytes, headers: HeaderList) -> None:
        """The whole response."""

    def send(self, message: MutableMapping[str, Any], /) -> Awaitable[None]:
        """A part of a response, in the words of ASGI."""

    def watch(self, watcher: Watcher, patience: float) -> None:
        """From now on tell `watcher` when the client goes away, and once when it has waited `patience` seconds."""

    def unwatch(self) -> None:
        """Nobody wants to know any more."""


class AsgiRequest:
    """A client behind any ASGI server."""

    __slots__ = ("_begin", "_head_only", "_loop", "_receive", "_timer", "_waiting", "deadline", "send", "task")

    def __init__(self, scope: Scope, receive: Receive, send: Send, deadline: float) -> None:
        self._head_only = scope["method"] == "HEAD"
        self.deadline = deadline
        self._receive = receive
        self.send = send
        self._loop = asyncio.get_running_loop()
        self._begin: asyncio.Handle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self.task = asyncio.current_task(self._loop)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def direct(self) -> Direct | None:
        return None

    async def body(self, headers: Mapping[bytes, bytes], limit: int) -> bytes | None:
        size = headers.get(b"content-length", b"0")
        if not size.isdigit() or len(size) > 20 or int(size) > limit:
            return None
        parts, total = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
            total += len(parts[-1])
            if total > limit:  # before the next piece is waited for: it may never come
                return None
            if not message.get("more_body"):
                return b"".join(parts) if len(parts) > 1 else parts[0]

    async def reply(self, status: int, body: bytes, headers: HeaderList) -> None:
        size = (b"content-length", b"%d" % len(body))
        await self.send({"type": "http.response.start", "status": status, "headers": [size, *headers]})
        await self.send({"type": "http.response.body", "body": b"" if self._head_only else body})

    def watch(self, watcher: Watcher, patience: float) -> None:
        # The watch begins only if the handler waits for something: a quick call pays neither for a task nor a timer.
        self._begin = self._loop.call_soon(self._start, watcher, patience)

    def _start(self, watcher: Watcher, patience: float) -> None:
        self._waiting = self._loop.create_task(self._await_disconnect(watcher))
        self._timer = self._loop.call_later(patience, watcher.client_waits)

    async def _await_disconnect(self, watcher: Watcher) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        watcher.client_gone()

    def unwatch(self) -> None:
        for started in (self._begin, self._waiting, self._timer):
            if started is not None:
                started.cancel()
