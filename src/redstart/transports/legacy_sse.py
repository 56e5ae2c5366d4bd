"""The HTTP+SSE pair of endpoints of the first revision, beside the MCP endpoint, for clients that know nothing newer.

`GET /sse` opens the stream and names the path to post to; everything the server says goes over that stream.
Spec: /specification/2024-11-05/basic/transports#http-with-sse.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from redstart.features.principal import principal_key
from redstart.protocol.call import Call
from redstart.protocol.framing import sse_event
from redstart.transports.guard import Rejection
from redstart.transports.request import HeaderMap, HttpRequest, Scope
from redstart.transports.response import any_call, give_up
from redstart.transports.stream import Writer
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError

if TYPE_CHECKING:
    from redstart.server.runtime import Runtime
    from redstart.transports.http import Endpoint

STREAM: Final = "/sse"
POST: Final = "/messages"
MAX_PEERS: Final = 1024
MAX_CALLS: Final = 4096
MAX_CALL_BYTES: Final = 32 * 1024 * 1024
"""The calls that run for all streams, and the bytes of their params: a POST is over before its call is answered."""
SHARE: Final = 8
"""One caller may have this part of each: a user, or an address where nobody is authenticated."""
_TOO_MANY: Final = "Too many calls that were sent to this endpoint are running; wait for answers"


class _Peer:
    """One client: its link, and the stream that is its channel."""

    remote = True

    def __init__(self, endpoint: Endpoint, writer: Writer, principal: str, owner: str) -> None:
        self.link = endpoint.runtime.link()
        self.principal = principal
        self.owner = owner
        """Whose share of the limits it is part of."""
        self._writer = writer
        self.channel = self

    def send(self, data: bytes) -> None:
        self._writer.push(sse_event(data))

    async def drain(self) -> None:
        await self._writer.drain()

    def end_calls(self, runtime: Runtime, which: Callable[[Call], bool]) -> int:
        ended = [call for call in self.link.calls.values() if which(call)]
        for call in ended:
            if (data := give_up(runtime, call)) is not None:
                self.send(data)
        if not self.link.calls:
            self._writer.close()
        return len(ended)


class LegacySse:
    """The two endpoints."""

    paths = frozenset((STREAM, POST))

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._peers: dict[str, _Peer] = {}

    def knows(self, path: str) -> bool:
        return path.rstrip("/") in self.paths

    async def __call__(self, scope: Scope, headers: HeaderMap, request: HttpRequest, user: Any) -> Rejection | None:
        stream = scope["path"].rstrip("/") == STREAM
        wanted = "GET" if stream else "POST"
        if scope["method"] != wanted:
            return Rejection(405, f"Use {wanted} here", ((b"allow", wanted.encode()),))
        if stream:
            return await self._open(scope, headers, request, user)
        return await self._take(scope, headers, request, user)

    async def _open(self, scope: Scope, headers: HeaderMap, request: HttpRequest, user: Any) -> Rejection | None:
        if not self._endpoint.guard.accepts(headers).sse:
            return Rejection(406, "The client must accept text/event-stream")
        endpoint, principal = self._endpoint, principal_key(user)
        owner = endpoint.owner(scope, headers, principal)
        mine = sum(peer.owner == owner for peer in self._peers.values())
        if len(self._peers) >= MAX_PEERS or mine >= MAX_PEERS // SHARE:
            return Rejection(503, "Too many open streams; try again later")
        id = secrets.token_urlsafe(24)
        writer = Writer(request.send, [], endpoint.keep_alive, request.direct, request.deadline)
        where = f"{scope.get('root_path', '')}{POST}?session_id={id}"
        writer.push(b"event: endpoint\ndata: %b\n\n" % where.encode())
        peer = self._peers[id] = _Peer(endpoint, writer, principal, owner)
        endpoint.runtime.hub.peers.add(peer)
        try:
            await writer.until_gone(request)
        finally:
            del self._peers[id]
            endpoint.runtime.hub.leave(peer)
            endpoint.runtime.drop(peer.link)
        return None

    def end_calls(self, which: Callable[[Call], bool] = any_call) -> int:
        """The server stops: end these calls, and the streams of those who have no others; how many calls there were."""
        return sum(peer.end_calls(self._endpoint.runtime, which) for peer in tuple(self._peers.values()))

    async def _take(self, scope: Scope, headers: HeaderMap, request: HttpRequest, user: Any) -> Rejection | None:
        id = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        peer = self._peers.get(id)
        if peer is None or peer.principal != principal_key(user):
            return Rejection(404, "Unknown session; open the event stream first")
        body = await request.body(headers, self._endpoint.guard.max_body)
        if body is None:
            return Rejection(413, f"The body is larger than {self._endpoint.guard.max_body} bytes")
        await request.reply(202, b"", [])
        for event in peer.link.receive(body):
            if isinstance(event, Call):
                event.headers = headers
                if not self._has_room(peer.owner):
                    data = peer.link.fail(event, ProtocolError(INTERNAL_ERROR, _TOO_MANY))
                    if data is not None:
                        peer.send(data)
                    continue
            self._endpoint.runtime.take(event, peer.channel, user)
        return None

    def _has_room(self, owner: str) -> bool:
        """Whether the calls that are open now, the newest included, are as many and as large as they may be."""
        sizes = [
            (peer.owner == owner, len(call.raw_params))
            for peer in self._peers.values()
            for call in peer.link.calls.values()
        ]
        own = [size for mine, size in sizes if mine]
        most = max(MAX_CALL_BYTES, self._endpoint.guard.max_body)
        fits = len(sizes) <= MAX_CALLS and sum(size for _, size in sizes) <= most
        # One large call is always taken, as it is elsewhere.
        return fits and len(own) <= MAX_CALLS // SHARE and (sum(own) <= most // SHARE or len(own) == 1)
