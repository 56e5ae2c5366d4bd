"""The HTTP+SSE pair of endpoints of the first revision, beside the MCP endpoint, for clients that know nothing newer.

`GET /sse` opens the stream and names the path to post to; everything that the server sends goes over that stream.
Spec: /specification/2024-11-05/basic/transports#http-with-sse.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote

from msgspec import Struct

from redstart.features.principal import principal_key
from redstart.protocol.call import Call
from redstart.protocol.framing import sse_event
from redstart.protocol.link import Link
from redstart.transports.address import has_room
from redstart.transports.guard import accepts
from redstart.transports.request import IN_PATHS, HttpRequest, Rejection
from redstart.transports.response import give_up
from redstart.transports.shares import SOON, Rates
from redstart.transports.stream import Writer
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError

if TYPE_CHECKING:
    from redstart.server.runtime import Runtime

STREAM: Final = "/sse"
POST: Final = "/messages"
MAX_PEERS: Final = 1024
MAX_CALLS: Final = 4096
MAX_CALL_BYTES: Final = 32 * 1024 * 1024
"""The calls that run for all streams, and the bytes of their params: a POST is over before its call is answered."""
SHARE: Final = 8
"""One caller may have this part of each: a user, or an address where nobody is authenticated."""
_FIXED: Final = f"and one caller has at most 1/{SHARE} of that (no option changes it)"
_TOO_MANY_STREAMS: Final = f"This endpoint has at most {MAX_PEERS} streams, {_FIXED}; try again later"
_TOO_MANY: Final = f"At most {MAX_CALLS} calls with {MAX_CALL_BYTES} bytes run here, {_FIXED}; wait for answers"


class _Peer(Struct, eq=False):
    """One client: its link, and the stream that is its channel."""

    link: Link
    writer: Writer
    principal: str
    owner: str
    """Whose share of the limits it is part of."""

    @property
    def channel(self) -> _Peer:
        return self

    def send(self, data: bytes) -> None:
        self.writer.push(sse_event(data))

    async def ready(self) -> None:
        await self.writer.ready()


class LegacySse:
    """The two endpoints."""

    paths = frozenset((STREAM, POST))

    def __init__(
        self, runtime: Runtime, max_body: int, rates: Rates | None, owner: Callable[[HttpRequest], str]
    ) -> None:
        self._runtime = runtime
        self._max_body = max_body
        self._rates = rates
        self._owner = owner
        self._peers: dict[str, _Peer] = {}

    def knows(self, request: HttpRequest) -> bool:
        return request.path.rstrip("/") in self.paths

    async def serve(self, request: HttpRequest) -> None:
        stream = request.path.rstrip("/") == STREAM
        wanted = "GET" if stream else "POST"
        if request.scope["method"] != wanted:
            raise Rejection(405, f"Use {wanted} here", (b"allow", wanted.encode()))
        await (self._open(request) if stream else self._receive(request))

    async def _open(self, request: HttpRequest) -> None:
        if not accepts(request.headers).sse:
            raise Rejection(406, "The client must accept text/event-stream")
        owner = self._owner(request)
        streams = [(peer.owner, 1) for peer in self._peers.values()]
        if not has_room([*streams, (owner, 1)], owner, MAX_PEERS, MAX_PEERS // SHARE):
            raise Rejection(503, _TOO_MANY_STREAMS, SOON)
        id = secrets.token_urlsafe(24)
        writer = Writer(request, [])
        where = f"{quote(request.root, IN_PATHS)}{POST}?session_id={id}"
        writer.push(b"event: endpoint\ndata: %b\n\n" % where.encode())
        peer = self._peers[id] = _Peer(self._runtime.link(), writer, principal_key(request.user), owner)
        self._runtime.hub.join(peer)
        try:
            await writer.until_gone()
        finally:
            del self._peers[id]
            self._runtime.hub.leave(peer)
            self._runtime.drop(peer.link)

    async def _receive(self, request: HttpRequest) -> None:
        id = parse_qs(request.scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        peer = self._peers.get(id)
        if peer is None or peer.principal != principal_key(request.user):
            raise Rejection(404, "Unknown session; open the event stream first")
        body = await request.body()
        await request.reply(202, b"", [])
        if self._peers.get(id) is not peer:  # it went meanwhile: nobody would get an answer, or end the call
            return
        events = peer.link.receive(body)
        fits = self._has_room(peer.owner)
        for event in events:
            if isinstance(event, Call):
                event.headers = request.headers
                refusal = _TOO_MANY if not fits else await self._too_soon(peer.owner, event)
                if refusal is not None:
                    data = peer.link.fail(event, ProtocolError(INTERNAL_ERROR, refusal))
                    if data is not None:
                        peer.send(data)
                if not event.open:  # so it was refused; or cancelled, or left by its client, while the store was asked
                    continue
            self._runtime.take(event, peer, request.user)

    async def _too_soon(self, owner: str, call: Call) -> str | None:
        try:
            refusal = None if self._rates is None else await self._rates.refusal(owner, [call])
        except ProtocolError as error:  # the store is away; the POST has had its response
            return error.message
        return None if refusal is None else refusal.text

    def _has_room(self, owner: str) -> bool:
        """Whether the calls that are open now, those just received included, are not too many and not too large."""
        sizes = [
            (peer.owner, len(call.raw_params)) for peer in self._peers.values() for call in peer.link.calls.values()
        ]
        most = max(MAX_CALL_BYTES, self._max_body)
        fits = has_room(sizes, owner, most, max(most // SHARE, self._max_body))  # one large call is always taken
        return fits and has_room(((whose, 1) for whose, _ in sizes), owner, MAX_CALLS, MAX_CALLS // SHARE)

    def end_calls(self, which: Callable[[Call], bool]) -> int:
        """The server stops: end these calls, and the streams of those who have no others; how many calls there were."""
        count = 0
        for peer in tuple(self._peers.values()):
            for call in [call for call in peer.link.calls.values() if which(call)]:
                count += 1
                data = give_up(self._runtime, call)
                if data is not None:
                    peer.send(data)
            if not peer.link.calls:
                peer.writer.close()
        return count
