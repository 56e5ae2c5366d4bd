"""Handshake sessions over HTTP. The id is signed and says all that `initialize` settled, so that an abandoned
handshake costs nothing: what is kept here is made when a session is first used, and is bounded.

Spec: /specification/2025-11-25/basic/transports#session-management.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from redstart.protocol.call import Session
from redstart.protocol.link import Link
from redstart.transports.stream import Stream
from redstart.wire.meta import ClientCapabilities, Implementation

MAX_SESSIONS: Final = 10_000
MAX_STREAMS: Final = 32
_SIGNATURE: Final = 16


class _Ticket(msgspec.Struct, array_like=True):
    """What a session id carries."""

    revision: str
    capabilities: dict[str, Any]
    client: tuple[str, str]
    principal: str
    nonce: bytes


class HttpSession:
    """A session that is in use: its link, its streams, and the channel for what belongs to no request."""

    def __init__(self, id: str, link: Link) -> None:
        self.id = id
        self.link = link
        self.streams: OrderedDict[str, Stream] = OrderedDict()
        self.push = Stream("g")
        self.channel = self.push
        self._opened = 0

    def open_stream(self) -> Stream:
        """A stream for the answer to one POST."""
        self._opened += 1
        stream = self.streams[f"p{self._opened}"] = Stream(f"p{self._opened}")
        while len(self.streams) > MAX_STREAMS:
            self.streams.popitem(last=False)
        return stream

    def find_stream(self, event_id: str) -> tuple[Stream, int] | None:
        """The stream that `Last-Event-ID` names, and the number of the last event that arrived."""
        name, mark, number = event_id.rpartition("-")
        stream = self.push if name == self.push.name else self.streams.get(name)
        if stream is None or not mark or not number.isdigit() or len(number) > 12:
            return None
        return stream, int(number)


class Sessions:
    """Mints and reads session ids, and keeps the sessions that are in use."""

    def __init__(
        self,
        keys: Sequence[bytes],
        new_link: Callable[[Session], Link],
        on_open: Callable[[HttpSession], None],
        on_end: Callable[[HttpSession], None],
        limit: int = MAX_SESSIONS,
    ) -> None:
        given = keys or [secrets.token_bytes(32)]
        self._keys = [hashlib.sha256(b"redstart session id\0" + key).digest() for key in given]
        self._new_link = new_link
        self._on_open = on_open
        self._on_end = on_end
        self._limit = limit
        self._live: OrderedDict[str, HttpSession] = OrderedDict()
        self._principals: dict[str, str] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def mint(self, session: Session, principal: str) -> str:
        """The id of a session that `initialize` has just opened."""
        info = session.client_info
        client = (info.name[:64], info.version[:32]) if isinstance(info, Implementation) else ("", "")
        capabilities = _known_capabilities(session.capabilities)
        ticket = _Ticket(session.revision, capabilities, client, principal, secrets.token_bytes(12))
        body = msgspec.msgpack.encode(ticket)
        return urlsafe_b64encode(self._sign(self._keys[0], body) + body).decode().rstrip("=")

    def find(self, id: str, principal: str) -> HttpSession | None:
        """The session of this id and principal; anybody else's is as unknown as none."""
        live = self._live.get(id)
        if live is not None:
            if self._principals[id] != principal:
                return None
            self._live.move_to_end(id)
            return live
        ticket = self._read(id)
        if ticket is None or id in self._ended or ticket.principal != principal:
            return None
        session = Session(
            revision=ticket.revision,
            capabilities=msgspec.convert(ticket.capabilities, ClientCapabilities),
            client_info=Implementation(*ticket.client),
            initialized=True,
            subscriptions=set(),
            key=id,
        )
        return self._open(id, session, principal)

    def _open(self, id: str, session: Session, principal: str) -> HttpSession:
        live = self._live[id] = HttpSession(id, self._new_link(session))
        self._principals[id] = principal
        self._on_open(live)
        while len(self._live) > self._limit:
            old, gone = self._live.popitem(last=False)
            del self._principals[old]
            self._on_end(gone)
        return live

    def end(self, id: str, principal: str) -> bool:
        """The client ended its session; the id is unknown from now on."""
        live = self.find(id, principal)
        if live is None:
            return False
        del self._live[id], self._principals[id]
        self._ended[id] = None
        while len(self._ended) > self._limit:
            self._ended.popitem(last=False)
        self._on_end(live)
        return True

    def end_streams(self) -> None:
        """End the streams that never end by themselves; calls in flight may still answer."""
        for live in self._live.values():
            live.push.end()

    def close(self) -> None:
        for live in self._live.values():
            self._on_end(live)
        self._live.clear()
        self._principals.clear()

    def _sign(self, key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, body, "sha256")[:_SIGNATURE]

    def _read(self, id: str) -> _Ticket | None:
        try:
            data = urlsafe_b64decode(id + "=" * (-len(id) % 4))
            if urlsafe_b64encode(data).decode().rstrip("=") != id:
                return None  # another spelling of an id would outlive the end of its session
            signature, body = data[:_SIGNATURE], data[_SIGNATURE:]
            if not any(hmac.compare_digest(self._sign(key, body), signature) for key in self._keys):
                return None
            return msgspec.msgpack.decode(body, type=_Ticket)
        except (ValueError, msgspec.DecodeError):
            return None


def _known_capabilities(capabilities: ClientCapabilities) -> dict[str, Any]:
    """The parts that we ask for: the id of a session must not grow with what a client declares."""
    known: dict[str, Any] = {}
    for name, parts in _ASKED.items():
        value = getattr(capabilities, name)
        if isinstance(value, dict):
            known[name] = {part: {} for part in parts if isinstance(value.get(part), dict)}
    return known


_ASKED: Final = {
    "elicitation": ("form", "url"),
    "sampling": ("tools", "context"),
    "roots": (),
    "tasks": ("list", "cancel", "requests"),
}
