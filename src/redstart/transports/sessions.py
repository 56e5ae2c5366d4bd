"""Handshake sessions over HTTP. The id is signed and says all that `initialize` settled, so that an abandoned
handshake costs nothing: what is kept here is made when a session is first used, and is bounded.

Spec: /specification/2025-11-25/basic/transports#session-management.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from redstart.features.errors import log
from redstart.protocol.dialect import Session
from redstart.protocol.link import Link
from redstart.transports.http_options import KEPT_BYTES, MAX_SESSIONS, SESSION_IDLE
from redstart.transports.request import Rejection
from redstart.transports.stream import EventLog, KeptEvents, Stream
from redstart.wire.meta import ClientCapabilities, Implementation

SHARE: Final = 10
"""One caller may have this part of the sessions: a user, or an address where nobody is authenticated."""
MAX_STREAMS: Final = 32
MAX_ENDED: Final = 10_000
_SIGNATURE: Final = 16


class Ticket(msgspec.Struct, array_like=True):
    """What a session id carries."""

    revision: str
    capabilities: dict[str, Any]
    client: tuple[str, str]
    principal: str
    opened: int
    nonce: bytes


class HttpSession(msgspec.Struct, eq=False):
    """A session that is in use: its link, its streams, and the channel for what belongs to no request."""

    id: str
    ticket: Ticket
    link: Link
    log: EventLog
    owner: str
    """Whose share of the sessions it is part of."""
    push: Stream
    """The stream for what belongs to no request."""
    used: float = msgspec.field(default_factory=time.monotonic)
    streams: OrderedDict[str, Stream] = msgspec.field(default_factory=OrderedDict)
    waiting: int = 0
    """How many requests have a client that waits: for the answer to a POST, or for events."""
    _opened: int = 0

    @property
    def channel(self) -> Stream:
        return self.push

    @property
    def busy(self) -> bool:
        """Whether somebody waits for it: a call runs, or its stream is open."""
        return bool(self.link.calls) or self.push.writer is not None

    @property
    def attended(self) -> bool:
        """Whether its client is there. A call may run without it, and wait for ever for the answer to a question."""
        return self.waiting > 0

    def leave(self) -> None:
        """A client that waited has its answer, or has gone. From now on it may be away for the idle time."""
        self.waiting -= 1
        self.used = time.monotonic()

    @property
    def has_state(self) -> bool:
        """Whether it has state that is not in its id, so that it cannot be made again from its id."""
        session = self.link.session
        return session is not None and (bool(session.subscriptions) or session.log_level is not UNSET)

    def open_stream(self) -> Stream:
        """A stream for the answer to one POST."""
        self._opened += 1
        name = f"{self.push.name}.{self._opened}"
        stream = self.streams[name] = self.new_stream(name)
        while len(self.streams) > MAX_STREAMS:
            self.streams.popitem(last=False)
        return stream

    def new_stream(self, name: str) -> Stream:
        return Stream(name, self.log)

    def find_stream(self, event_id: str) -> tuple[Stream, int] | None:
        """The stream that `Last-Event-ID` names, and the number of the last event that arrived."""
        name, mark, number = event_id.rpartition("-")
        stream = self.push if name == self.push.name else self.streams.get(name)
        if stream is None or not mark or not number.isdecimal() or len(number) > 12:
            return None
        return (stream, int(number)) if stream.can_resume(int(number)) else None


class Sessions:
    """Mints and reads session ids, and keeps the sessions that are in use.

    A session that is not in use here is made from its id, if it was opened since `_since` and has not ended. What was
    opened before this process, or has ended, may have had subscriptions that nobody knows here: its client is told to
    start anew. `_since` rises where too many sessions have ended for each to be remembered.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        new_link: Callable[[Session], Link],
        on_open: Callable[[HttpSession], None],
        on_end: Callable[[HttpSession], None],
        *,
        limit: int = MAX_SESSIONS,
        idle: float = SESSION_IDLE,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.use_keys(keys or [secrets.token_bytes(32)])
        self._warned = False
        self._new_link = new_link
        self._on_open = on_open
        self._on_end = on_end
        self._limit = limit
        self._share = max(limit // SHARE, 1)
        self._idle = idle
        self._kept = KeptEvents(kept_bytes)
        self._live: OrderedDict[str, HttpSession] = OrderedDict()  # the least recently used first, also of each owner
        self._owned: dict[str, OrderedDict[str, HttpSession]] = {}
        self._ended: OrderedDict[bytes, int] = OrderedDict()  # by nonce, which is shorter than the id
        self._since = time.time_ns()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many are in use."""
        return len(self._live)

    def use_keys(self, keys: Sequence[bytes]) -> None:
        """Sign ids with the first of these keys, and accept those that any of them has signed."""
        self._keys = [hashlib.sha256(b"redstart session id\0" + key).digest() for key in keys]

    def mint(self, session: Session, principal: str) -> str:
        """The id of a session that `initialize` has just opened."""
        info = session.client_info
        client = (info.name[:64], info.version[:32]) if isinstance(info, Implementation) else ("", "")
        capabilities = _known_capabilities(session.client_capabilities)
        opened = max(time.time_ns(), self._since + 1)  # a clock that was set back must not end every new session
        ticket = Ticket(session.revision, capabilities, client, principal, opened, secrets.token_bytes(12))
        body = msgspec.msgpack.encode(ticket)
        return urlsafe_b64encode(self._sign(self._keys[0], body) + body).decode().rstrip("=")

    def find(self, id: str, principal: str, owner: Callable[[], str]) -> HttpSession | None:
        """The session of this id, if it belongs to this principal. `owner` says whose share it is part of."""
        live = self._live.get(id)
        if live is not None:
            if live.ticket.principal != principal:
                return None
            self._live.move_to_end(id)
            self._owned[live.owner].move_to_end(id)
            live.used = time.monotonic()
            return live
        ticket = self._valid(id, principal)
        if ticket is None:
            return None
        session = Session(
            revision=ticket.revision,
            client_capabilities=msgspec.convert(ticket.capabilities, ClientCapabilities),
            client_info=Implementation(*ticket.client),
            initialized=True,
            subscriptions=set(),
            key=id,
        )
        return self._open(id, ticket, session, owner())

    def _valid(self, id: str, principal: str) -> Ticket | None:
        """The ticket of a session that is not in use here, if it may be used."""
        ticket = self._read(id)
        if ticket is None:
            self._warn_of_others(id)
            return None
        if ticket.principal != principal or ticket.opened <= self._since or ticket.nonce in self._ended:
            return None
        return ticket

    def _warn_of_others(self, id: str) -> None:
        """Warn the operator once, if an id of another process comes: only the operator can correct that."""
        if not self._warned and _is_ticket(id):
            self._warned = True
            log.warning(
                "a session id of another process, or from before a restart, is unknown here: if several processes "
                "serve this server, give all of them the same store= and keys="
            )

    def _open(self, id: str, ticket: Ticket, session: Session, owner: str) -> HttpSession:
        owned = self._owned.get(owner)
        if owned is not None and len(owned) >= self._share:
            self._make_room(owned)
        if len(self._live) >= self._limit:
            self._make_room(self._live)
        # The name is random, because an old Last-Event-ID must not name a stream of a later session or process.
        live = self._new(id, ticket, session, owner, secrets.token_hex(6))
        self._live[id] = self._owned.setdefault(owner, OrderedDict())[id] = live
        self._on_open(live)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._sweep)
        return live

    def _new(self, id: str, ticket: Ticket, session: Session, owner: str, name: str) -> HttpSession:
        events = EventLog(self._kept)
        return HttpSession(id, ticket, self._new_link(session), events, owner, Stream(name, events))

    def _make_room(self, sessions: Mapping[str, HttpSession]) -> None:
        """Let go of the session that was idle for longest; never of one whose call runs."""
        for live in sessions.values():
            if not live.busy:
                self._let_go(live)
                return
        raise Rejection(
            503,
            "As many sessions as are kept for one caller, or in all (max_sessions=), are in use; end one, or try later",
            (b"retry-after", b"30"),
        )

    def _sweep(self) -> None:
        """Let go of sessions that nobody has used for long, and of the calls that they left behind."""
        now = time.monotonic()
        for live in list(self._live.values()):
            if now - live.used >= self._idle and self._is_left(live):
                self._let_go(live)
        oldest = next(iter(self._live.values()), None)
        self._timer = None
        if oldest is not None:
            due = max(oldest.used + self._idle - now, self._idle / 10)
            self._timer = asyncio.get_running_loop().call_later(due, self._sweep)

    def _is_left(self, live: HttpSession) -> bool:
        return not live.attended

    def _let_go(self, live: HttpSession) -> None:
        if live.has_state:  # without it the session would go on, but in another way than its client believes
            self._end_for_good(live.ticket)
        self._remove(live)

    def _remove(self, live: HttpSession) -> None:
        del self._live[live.id]
        owned = self._owned[live.owner]
        del owned[live.id]
        if not owned:
            del self._owned[live.owner]
        live.log.clear()
        self._on_end(live)

    def _end_for_good(self, ticket: Ticket) -> None:
        """Never serve this session again."""
        self._ended[ticket.nonce] = ticket.opened
        while len(self._ended) > MAX_ENDED:
            _, oldest = self._ended.popitem(last=False)
            self._since = max(self._since, oldest)

    def end(self, id: str, principal: str) -> bool:
        """The client ended its session; the id is unknown from now on."""
        live = self._live.get(id)
        ticket = live.ticket if live is not None else self._valid(id, principal)
        if ticket is None or ticket.principal != principal:
            return False
        self._end_for_good(ticket)
        if live is not None:
            self._remove(live)
        return True

    def end_streams(self) -> None:
        """End the streams that never end by themselves; calls in flight may still answer."""
        for live in self._live.values():
            live.push.end()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for live in list(self._live.values()):
            self._remove(live)

    def _sign(self, key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, body, "sha256")[:_SIGNATURE]

    def _read(self, id: str) -> Ticket | None:
        try:
            data = urlsafe_b64decode(id + "=" * (-len(id) % 4))
            if urlsafe_b64encode(data).decode().rstrip("=") != id:
                return None  # another spelling of an id would outlive the end of its session
            signature, body = data[:_SIGNATURE], data[_SIGNATURE:]
            if not any(hmac.compare_digest(self._sign(key, body), signature) for key in self._keys):
                return None
            return msgspec.msgpack.decode(body, type=Ticket)
        except (ValueError, msgspec.DecodeError):
            return None


def _is_ticket(id: str) -> bool:
    """Whether an id looks as if a server like this one has made it."""
    try:
        msgspec.msgpack.decode(urlsafe_b64decode(id + "=" * (-len(id) % 4))[_SIGNATURE:], type=Ticket)
    except (ValueError, msgspec.DecodeError):
        return False
    return True


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
