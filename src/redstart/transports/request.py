"""One HTTP request: what it says, the reply to it, and whether its client is still there.

Two forms: `AsgiRequest` speaks ASGI with whatever serves the application; `connection.Cycle` is the same over our own
connection, where a reply is one write and the connection itself reports that the client has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from msgspec import Struct

from redstart.wire.jsonrpc import INVALID_REQUEST

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]
HeaderMap = dict[bytes, bytes]

MAX_BODY: Final = 4 * 1024 * 1024
KEEP_ALIVE: Final = 15.0
"""Seconds without an event after which a stream gets a comment, so that proxies do not close it."""
WRITE_DEADLINE: Final = 30.0
"""Seconds that a client has to take what was sent to it."""
JSON: Final = (b"content-type", b"application/json")
LATER: Final = (b"retry-after", b"2")
"""For a 503 that passes: the store is away."""
IN_PATHS: Final = "/:@!$&'()*+,;="
"""What stands in the path of a URL as it is, beside letters and digits."""
ALLOW_ORIGIN: Final = b"access-control-allow-origin"


class Gone(Exception):
    """The client went away while it sent its request."""


class Rejection(Exception):
    """A request is not served: the status, a text that says what to do, and the code of the JSON-RPC error."""

    def __init__(self, status: int, text: str, *headers: tuple[bytes, bytes], code: int = INVALID_REQUEST) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text
        self.headers = headers
        self.code = code


class Limits(Struct, frozen=True):
    """What one endpoint allows each request."""

    max_body: int = MAX_BODY
    keep_alive: float = KEEP_ALIVE
    """A quiet stream gets a comment each time that so many seconds have passed."""
    write_deadline: float = WRITE_DEADLINE
    """Seconds that the client has to take what was sent to it."""

    def too_large(self) -> Rejection:
        return Rejection(413, f"The body is larger than {self.max_body} bytes (max_body_bytes=)")


class Watcher(Protocol):
    """Who wants to know that the client has gone, or has waited for long."""

    def client_gone(self) -> None: ...
    def client_waits(self) -> None: ...


class Accepts(Struct, frozen=True):
    """Which kinds of reply a client takes."""

    json: bool
    sse: bool


class Head(Struct, eq=False):
    """The head of a request, read once: the next one on its connection with the very same bytes means the same."""

    scope: Scope
    headers: HeaderMap
    keep_alive: bool
    raw: bytes = b""
    """Its bytes, if it is remembered."""
    size: int = 0
    """The bytes of a request with this head, the body too."""
    plain: Accepts | None = None
    """What the client takes, if this head was checked and only the body decides what its requests mean."""


class HttpRequest(Struct, eq=False):
    """One request and its client. The methods are those of the two forms."""

    own_connection: ClassVar[bool] = False
    """Whether the connection is ours: it has its own write deadline, and `write` and `hold` work."""

    scope: Scope
    headers: HeaderMap
    limits: Limits
    task: asyncio.Task[None] | None = None
    """The task that serves the request."""
    head: Head | None = None
    """Where the connection is ours: what it keeps for the next request with the same head."""
    whole: bytes | None = None
    """The body, once it was read; None again when it was taken."""
    large: int = 0
    """The bytes of a body that counts against what all requests may bring; of a small one 0."""
    watcher: Watcher | None = None
    """Who wants to know that the client has gone: the response, while its calls run."""
    user: object = None
    """What `auth=` returned for its token."""
    status: int = 0
    """The status of the response, once it has begun."""
    reason: str = ""
    """Why the request was refused, if it was."""
    challenge: Callable[[HttpRequest, str, Sequence[str]], tuple[bytes, bytes]] | None = None
    """Makes the header for a token that lacks scopes; None without `auth=`."""
    granted: Sequence[tuple[bytes, bytes]] = ()
    """Headers of every response, errors too, which let a page of an allowed site read it."""

    @property
    def root(self) -> str:
        """The path at which another application has mounted us."""
        root: str = self.scope.get("root_path", "")
        return root.rstrip("/")

    @property
    def path(self) -> str:
        """The path below `root`; most servers give the whole path, some only this part."""
        path: str = self.scope["path"]
        return path[len(self.root) :] if f"{path}/".startswith(f"{self.root}/") else path

    async def body(self) -> bytes:
        """The whole body; for one use, because a request that runs need not keep it."""
        body, self.whole = self.whole or b"", None
        return body

    async def reply(self, status: int, body: bytes, headers: HeaderList) -> None:
        """The whole response."""
        raise NotImplementedError

    def reply_at_once(self, body: bytes) -> bool:
        """The whole response with the status 200 and JSON, in one write. False where it has to wait, or needs more
        headers: then `reply` sends it."""
        return False

    async def begin(self, headers: HeaderList, data: bytes) -> None:
        """The head of a stream, and its first part, which may be empty."""
        raise NotImplementedError

    async def send(self, data: bytes) -> None:
        """A part of a stream; returns when the client has taken what was sent before it."""
        raise NotImplementedError

    async def finish(self, data: bytes) -> None:
        """The last part of a stream, which may be empty, and its end."""
        raise NotImplementedError

    def write(self, data: bytes) -> bool:
        """Send a part of a stream at once; False where that is not possible, or the client is behind."""
        return False

    def hold(self, size: int) -> None:
        """So many bytes more wait until the client has caught up."""

    def watch(self, watcher: Watcher) -> None:
        """From now on tell `watcher` when the client goes away, and once when it has waited `limits.keep_alive`."""
        raise NotImplementedError

    def unwatch(self) -> None:
        """Nobody wants to know any more."""
        self.watcher = None

    def with_granted(self, headers: HeaderList) -> HeaderList:
        """The headers of a response, with those that a page needs. A route may send its own instead."""
        own = any(name == ALLOW_ORIGIN for name, _ in headers)
        return headers if own else [*headers, *self.granted]


class AsgiRequest(HttpRequest, kw_only=True):
    """A request that any ASGI server has read."""

    _receive: Receive
    _send: Send
    _started: list[asyncio.Handle | asyncio.Task[None]] = []
    """What the watch has started and has to cancel."""

    async def body(self) -> bytes:
        limit = self.limits.max_body
        size = self.headers.get(b"content-length", b"0")
        if not size.isdigit() or len(size) > 20 or int(size) > limit:
            raise self.limits.too_large()
        parts, total = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
            total += len(parts[-1])
            if total > limit:  # before the next piece is waited for: it may never come
                raise self.limits.too_large()
            if not message.get("more_body"):
                return b"".join(parts) if len(parts) > 1 else parts[0]

    async def reply(self, status: int, body: bytes, headers: HeaderList) -> None:
        headers = [(b"content-length", b"%d" % len(body)), *headers]
        if self.granted:
            headers = self.with_granted(headers)
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"" if self.scope["method"] == "HEAD" else body})

    async def begin(self, headers: HeaderList, data: bytes) -> None:
        self.status = 200
        await self._send({"type": "http.response.start", "status": 200, "headers": self.with_granted(headers)})
        await self.send(data)

    async def send(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    def watch(self, watcher: Watcher) -> None:
        # The watch begins only if the handler waits for something: a quick call pays neither for a task nor a timer.
        self.watcher = watcher
        loop = asyncio.get_running_loop()
        self._started = [loop.call_soon(self._watch, loop, watcher)]

    def _watch(self, loop: asyncio.AbstractEventLoop, watcher: Watcher) -> None:
        self._started.append(loop.create_task(self._await_disconnect(watcher)))
        self._started.append(loop.call_later(self.limits.keep_alive, watcher.client_waits))

    async def _await_disconnect(self, watcher: Watcher) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        watcher.client_gone()

    def unwatch(self) -> None:
        self.watcher = None
        for started in self._started:
            started.cancel()
