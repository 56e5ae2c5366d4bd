"""Handshake sessions that several processes serve, without affinity. Loaded only if the processes share a store.

In the store: the state of a session (log level, subscriptions, whether it has ended) and the events of its streams.
Over the topic of the processes: answers and cancellations for calls that run elsewhere, and what belongs to no request,
which goes out where the client has its GET stream open. Spec: see sessions.py.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.features.replica import Replica, Word
from redstart.protocol import headers as h
from redstart.protocol.call import Answer, Call, Cancel, Elsewhere, Event, Refusal
from redstart.protocol.dialect import Session
from redstart.protocol.handshake import DIALECTS
from redstart.protocol.headers import Headers
from redstart.protocol.link import Link
from redstart.protocol.methods import METHODS
from redstart.store.shared import StoreAway
from redstart.transports.request import HttpRequest, Rejection
from redstart.transports.sessions import HttpSession, Sessions, Ticket
from redstart.transports.stream import EVENT_COST, MAX_EVENTS, EventLog, Stream, Writer
from redstart.wire.jsonrpc import INVALID_REQUEST, Envelope, Id, ProtocolError, encode, failure, notification
from redstart.wire.types import CancelledParams, Params

if TYPE_CHECKING:
    from redstart.server.runtime import Runtime

LOCK: Final = 5.0
"""Seconds after which the lock of a process that has gone no longer counts."""
MORE_KEPT: Final = 10
"""The store keeps the state of that many times more sessions than one process."""
EVENTS_TTL: Final = 600.0
"""Seconds for which the last events of a stream are kept."""
LATE: Final = 4.0
"""Seconds for which the events of an earlier stream are awaited: the process that had it may still write some."""
REREAD: Final = 1.0
"""Seconds after which a stream is read again without a message: messages may be lost."""
PATIENCE: Final = 4
"""How often an answer is sent to the process that asked, with REREAD seconds between, until it is taken."""
_QUESTION: Final = re.compile(r"ask-([0-9a-f]{12})-[0-9]{1,11}")
_GONE: Final = ProtocolError(INVALID_REQUEST, "The process that asked this question has gone, and its call with it")
_UNKNOWN: Final = ProtocolError(INVALID_REQUEST, "No question with this id was asked in this session")


class _State(Struct, omit_defaults=True):
    """What the store has of a session, beside what its id says."""

    made: str = ""
    """Another one for each time that the state was made: a store may lose it."""
    touched: float = 0.0
    level: str | UnsetType = UNSET
    uris: list[str] = []
    ended: bool = False


class SharedLink(Link):
    """A session of which other processes serve a part: what is not known here may be known there."""

    def receive_stray(self, envelope: Envelope, headers: Headers | None) -> list[Event]:
        id = envelope.id
        if isinstance(id, str) and _QUESTION.fullmatch(id) and not id.startswith(self.prefix):
            return [Elsewhere(encode(envelope), id)]
        return super().receive_stray(envelope, headers)

    def receive_cancel(self, id: Id, reason: str) -> list[Event]:
        cancelled = notification("notifications/cancelled", CancelledParams(request_id=id))  # the reason may be long
        return super().receive_cancel(id, reason) or [Elsewhere(cancelled)]


class StoreLog(EventLog, kw_only=True):
    """Keeps the events of one session in the store."""

    write: Callable[[Stream, bytes], None]

    def keep(self, stream: Stream, sequence: int, event: bytes) -> None:
        self.write(stream, b"%d %b" % (sequence, event))


class SharedStream(Stream):
    """The stream of one POST: another process can go on with it."""

    def end(self) -> None:
        if not self.ended:
            self._log.keep(self, self.sequence + 1, b"")
        super().end()


class PushStream(Stream, kw_only=True):
    """The stream for what belongs to no request. If the client has it open elsewhere, messages go there."""

    link: Link
    forward: Callable[[Raw], None]

    def send(self, data: bytes, *, last: bool = False) -> None:
        if self.link.hears:
            super().send(data, last=last)
        else:
            self.forward(Raw(data))


class SharedSession(HttpSession):
    """A session that other processes may serve too."""

    short: str = ""
    """Its name in keys and messages."""
    made: str = ""
    """Which state in the store is the one of this session."""
    seen: bytes = b""
    """Its state in the store, as it was last read."""
    touched: float = 0.0
    """When its time in the store began anew."""

    def new_stream(self, name: str) -> Stream:
        stream = SharedStream(name, self.log)
        self.log.keep(stream, 0, b"")  # so that others know the stream
        return stream


SessionHandler: TypeAlias = Callable[[SharedSession, Word], Awaitable[None]]


class SharedSessions(Sessions):
    """The sessions of this process, and what other processes know of them."""

    def __init__(
        self, replica: Replica, runtime: Runtime, keys: Iterable[bytes], *rest: object, **options: object
    ) -> None:
        super().__init__(list(keys), *rest, **options)  # type: ignore[arg-type]
        self._replica = replica
        self._runtime = runtime
        self._store = replica.store
        self._tag = secrets.token_hex(6)
        """Names this endpoint in messages, and in the ids of its questions."""
        self._named: dict[str, SharedSession] = {}
        self._answers: dict[tuple[str, str], asyncio.Future[str]] = {}
        self._readers: dict[str, set[asyncio.Event]] = {}
        """Who reads which log of events."""
        self._logs: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """The logs that this process writes: until when they are kept, and their size. The oldest first."""
        self._log_bytes = 0
        self._touching: asyncio.Task[None] | None = None
        self._shares_keys = False
        handlers = (self._on_state, self._on_ended, self._on_message, self._on_push, self._on_opened, self._on_resumed)
        for handler in handlers:
            replica.on(handler.__name__.removeprefix("_on_"), partial(self._for_session, handler))
        replica.on("answered", self._on_answered)
        replica.on("event", self._on_event)
        replica.on_return.append(self._on_return)

    async def start(self, configured: bool) -> None:
        """Share the keys, unless they are configured, and listen to the other processes."""
        if not configured:
            await self._share_keys()
            self._shares_keys = True
        await self._replica.start()
        if self._touching is None:
            self._touching = asyncio.create_task(self._touch_busy())

    async def _share_keys(self) -> None:
        """Use the key in the store. If the store has lost it, the processes that run give it back."""
        given = self._runtime.given_keys
        own = given[0] if given else None
        key = await self._replica.ring(own if isinstance(own, bytes) else None)
        given[:] = [key]
        self.use_keys([key])

    def close(self) -> None:
        super().close()
        if self._touching is not None:
            self._touching.cancel()
            self._touching = None
        self._replica.stop()

    # ------------------------------------------------------------ the state of a session

    def _key(self, *parts: str) -> str:
        return self._replica.key("session", *parts)

    async def lookup(self, id: str, principal: str, owner: Callable[[], str]) -> SharedSession | None:
        """The session of this id, with what other processes know of it."""
        ticket = self._valid(id, principal)
        if ticket is None:
            return None
        raw = await self._load(id, ticket)
        live = super().find(id, principal, owner) if raw is not None else self._live.get(id)
        if not isinstance(live, SharedSession):
            return None
        if raw is None or not self._apply(live, raw):
            self._remove(live)
            await self._change(id, _end)  # also in processes that do not know what was lost
            return None
        return live

    async def _load(self, id: str, ticket: Ticket) -> bytes | None:
        """The state of a session. One that is used for the first time has none yet, and one that was idle for too long
        has none any more."""
        key, now = self._key(_short(id)), time.time()
        raw = await self._store.kv_get(key)
        if raw is None and now - ticket.opened / 1e9 < self._idle:
            await self._check_cap()
            raw = encode(_State(secrets.token_hex(8), now))
            if not await self._store.kv_set(key, raw, self._idle, nx=True):
                raw = await self._store.kv_get(key)
        return raw

    async def _check_cap(self) -> None:
        """Refuse a new session, if all processes together have opened too many within `session_idle`."""
        most = MORE_KEPT * self._limit
        allowed, wait = await self._store.take(self._replica.key("sessions"), most / self._idle, most)
        if not allowed:
            retry = b"%d" % math.ceil(wait)
            raise Rejection(503, "Too many sessions were opened (max_sessions=); try later", (b"retry-after", retry))

    def _apply(self, live: SharedSession, raw: bytes) -> bool:
        """Use what the store says of a session; False if it has ended."""
        if raw != live.seen:
            state = msgspec.json.decode(raw, type=_State)
            session = live.link.session
            if state.ended or session is None or live.made not in ("", state.made):
                return False
            self._runtime.hub.restore(live.link, state.uris)
            session.log_level = state.level
            live.seen, live.made, live.touched = raw, state.made, state.touched
        if time.time() - live.touched > self._idle / 4:
            self._touch(live)
        return True

    def _touch(self, live: SharedSession) -> None:
        """The session is in use: its state in the store does not expire yet."""
        live.touched = time.time()
        self._replica.later(partial(self._change, live.id, _nothing), live.short)

    async def _keep(self, id: str, call: Call) -> None:
        """A call has changed the state of its session: write the change, before the call is answered."""
        live = self._live.get(id)
        if isinstance(live, SharedSession):
            live.seen = b""  # if this fails, the next request reads what is true
        await self._change(id, partial(_change_of, call))
        await self._replica.publish(Word("state", _short(id)))

    async def _change(self, id: str, edit: Callable[[_State], None]) -> None:
        short = _short(id)
        async with self._locked(short):
            raw = await self._store.kv_get(self._key(short))
            state = _State(ended=True) if raw is None else msgspec.json.decode(raw, type=_State)
            if not state.ended:
                edit(state)
                state.touched = time.time()
                await self._store.kv_set(self._key(short), encode(state), self._idle)

    @asynccontextmanager
    async def _locked(self, short: str) -> AsyncIterator[None]:
        key, began = self._key(short, "lock"), time.monotonic()
        while not await self._store.kv_set(key, b"1", LOCK, nx=True):  # another process changes the state now
            await asyncio.sleep(0.01)
            began = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - began < LOCK:  # else the lock is somebody else's
                with suppress(StoreAway):
                    await self._store.kv_delete(key)

    async def _touch_busy(self) -> None:
        """Keep the state of sessions whose clients are there, though no request comes.

        If no process has done so for the idle time, the client has left its session alone, and its calls end.
        """
        while True:
            await asyncio.sleep(self._idle / 4)
            for live in list(self._named.values()):
                if live.attended:
                    self._touch(live)
                elif live.busy:
                    with suppress(StoreAway):
                        if await self._store.kv_get(self._key(live.short)) is None and live.id in self._live:
                            self._remove(live)

    def _is_left(self, live: HttpSession) -> bool:
        return not live.busy  # its client may be at another process

    async def finish(self, id: str, principal: str) -> bool:
        """The client ended its session, in all processes."""
        ticket = self._valid(id, principal)
        raw = await self._load(id, ticket) if ticket is not None else None
        if raw is None or msgspec.json.decode(raw, type=_State).ended:
            return False
        await self._change(id, _end)
        await self._replica.publish(Word("ended", _short(id)))
        live = self._live.get(id)
        if live is not None:
            self._remove(live)
        return True

    # ------------------------------------------------------------ sessions in this process

    def _valid(self, id: str, principal: str) -> Ticket | None:
        ticket = self._read(id)
        if ticket is None:
            self._warn_of_others(id)
            return None
        return ticket if ticket.principal == principal else None

    def _new(self, id: str, ticket: Ticket, session: Session, owner: str, name: str) -> HttpSession:
        link = self._runtime.tapped(SharedLink(self._runtime.modern, session, reopens=False))
        link.prefix = f"ask-{self._tag}-"
        link.keep = partial(self._keep, id)
        link.hears = False
        short = _short(id)
        events = StoreLog(self._kept, write=partial(self._write_event, short))
        push = PushStream(
            name, events, link=link, forward=lambda data: self._replica.tell(Word("push", short, data=data))
        )
        live = self._named[short] = SharedSession(id, ticket, link, events, owner, push, short=short)
        return live

    def _let_go(self, live: HttpSession) -> None:
        self._remove(live)  # what the session is, is in the store

    def _remove(self, live: HttpSession) -> None:
        self._named.pop(_short(live.id), None)
        super()._remove(live)

    # ------------------------------------------------------------ answers and cancellations

    async def deliver(self, live: HttpSession | None, events: list[Event]) -> list[Event]:
        """Send to other processes what is theirs; the other events, and refusals of what nobody takes."""
        rest: list[Event] = []
        for event in events:
            if not isinstance(event, Elsewhere):
                rest.append(event)
            elif live is not None:
                word = Word("message", _short(live.id), event.question, data=Raw(event.data))
                if not event.question:
                    await self._replica.publish(word)
                    continue
                refusal = await self._answer(word)
                if refusal is not None:
                    rest.append(Refusal(failure(None, refusal), 404))
        return rest

    async def _answer(self, word: Word) -> ProtocolError | None:
        """Send the answer of a client to the process that asked; why that was in vain."""
        name = word.session, word.id
        taken = self._answers[name] = asyncio.get_running_loop().create_future()
        try:
            async with self._replica.sendable(word) as message:
                for _ in range(PATIENCE):
                    await self._replica.publish(message)
                    await asyncio.wait([taken], timeout=REREAD)
                    if taken.done():
                        return _UNKNOWN if taken.result() else None
            return _GONE
        finally:
            self._answers.pop(name, None)

    async def _on_message(self, live: SharedSession, word: Word) -> None:
        """A client has sent to another process what may be for a call of this one."""
        question = _QUESTION.fullmatch(word.id)
        if question is not None and question[1] != self._tag:
            return
        unknown = ""
        for event in live.link.receive(bytes(word.data), {}):
            if isinstance(event, Answer):
                event.pending.resolve(event.outcome)
            elif isinstance(event, Cancel):
                self._runtime.cancel(event.call)
            elif isinstance(event, Refusal):
                unknown = "unknown"
        if question is not None:
            self._replica.tell(Word("answered", word.session, word.id, unknown))

    async def _on_answered(self, word: Word) -> None:
        taken = self._answers.get((word.session, word.id))
        if taken is not None and not taken.done():
            taken.set_result(word.text)

    # ------------------------------------------------------------ what others tell

    async def _for_session(self, handler: SessionHandler, word: Word) -> None:
        """Handle a message about a session, if the session is in use here."""
        live = self._named.get(word.session)
        if live is not None:
            await handler(live, word)

    async def _on_state(self, live: SharedSession, word: Word) -> None:
        raw = await self._store.kv_get(self._key(live.short))
        if raw is not None and self._live.get(live.id) is live and not self._apply(live, raw):
            self._remove(live)

    async def _on_ended(self, live: SharedSession, word: Word) -> None:
        self._remove(live)

    async def _on_push(self, live: SharedSession, word: Word) -> None:
        if live.link.hears:
            live.push.send(bytes(word.data))

    async def _on_opened(self, live: SharedSession, word: Word) -> None:
        """The client has opened its stream for what belongs to no request, in the process that `word` names."""
        if word.id != self._tag:
            live.link.hears = False
            live.push.detach()

    async def _on_resumed(self, live: SharedSession, word: Word) -> None:
        """The client goes on to read a stream elsewhere."""
        if word.id in live.streams:
            live.streams[word.id].detach()

    async def _on_event(self, word: Word) -> None:
        for reader in self._readers.get(word.id, ()):
            reader.set()

    async def _on_return(self) -> None:
        """Messages may have been lost: read again what they would have told."""
        if self._shares_keys:
            await self._share_keys()
        for readers in self._readers.values():
            for reader in readers:
                reader.set()
        for live in [live for live in self._named.values() if live.link.hears]:
            await self._on_state(live, Word("state"))

    # ------------------------------------------------------------ streams

    def _write_event(self, short: str, stream: Stream, entry: bytes) -> None:
        key, size = self._key(short, stream.name), len(entry) + EVENT_COST
        until, before = self._logs.pop(key, (0.0, 0))
        now = time.monotonic()
        if until < now:
            self._log_bytes -= before
            before = 0
        self._logs[key] = now + EVENTS_TTL, before + size
        self._log_bytes += size
        self._drop_logs(now)
        most = max(2, min(MAX_EVENTS, self._kept.share // size))  # the last event, and the end of the stream
        told = stream.writer is None

        async def write() -> None:
            await self._store.log_append(key, entry, most, EVENTS_TTL)
            if told:
                await self._replica.publish(Word("event", id=key))

        self._replica.later(write, key)

    def _drop_logs(self, now: float) -> None:
        """Forget the logs that have expired; if the others are too large, empty the oldest."""
        while self._logs:
            key, (until, size) = next(iter(self._logs.items()))
            if until >= now and (self._log_bytes <= self._kept.limit or len(self._logs) == 1):
                return
            del self._logs[key]
            self._log_bytes -= size
            if until >= now:
                self._replica.later(partial(self._store.log_append, key, b"0 ", 1, 1.0), key)

    async def serve_stream(self, live: HttpSession, request: HttpRequest) -> None:
        """A GET: the stream for what belongs to no request, or a stream that the client has lost."""
        short = _short(live.id)
        last = request.headers.get(h.LAST_EVENT)
        name, after = _event_position(last.decode("latin-1")) if last is not None else ("", 0)
        key = self._key(short, name)
        missed = await self._events_of(key) if name else []
        if last is not None and not missed:
            raise Rejection(404, "Nothing is known of that event any more")
        writer = Writer(request, [])
        position = missed[-1][0] if missed else ""
        for _, entry in missed:
            if _push(writer, entry, after):
                writer.close()
        if "." in name:
            self._replica.tell(Word("resumed", short, name))
            lasting = math.inf
        else:
            self._open_push(live, request, writer)
            lasting = LATE if missed else 0.0
        rest = asyncio.create_task(self._follow(key, position, writer, lasting))
        try:
            await writer.until_gone()
        finally:
            rest.cancel()
            if live.push.writer is writer:
                live.push.writer = None

    async def _events_of(self, key: str) -> list[tuple[str, bytes]]:
        """What is kept of a stream. What another process sends is in the store a moment later."""
        for _ in range(3):
            entries = await self._store.log_read(key)
            if entries:
                break
            await asyncio.sleep(LATE / 20)
        return entries

    def _open_push(self, live: HttpSession, request: HttpRequest, writer: Writer) -> None:
        """From now on this process sends what belongs to no request, as the user of this GET may see it.

        The stream gets another name, so that what was sent before can be read from the store beside it.
        """
        push, link = live.push, live.link
        push.name, push.sequence = secrets.token_hex(6), 0
        push.attach(writer, 0)
        link.hears = True
        link.subscriber = self._viewer(link, request)
        self._replica.tell(Word("opened", _short(live.id), self._tag))

    def _viewer(self, link: Link, request: HttpRequest) -> Call | None:
        """Stands for the calls of other processes that have subscribed: what it may see is told."""
        session = link.session
        if session is None:
            return None
        row, dialect = METHODS["resources/subscribe"], DIALECTS[session.revision]
        peer = session.client_capabilities, session.client_info, session.log_level
        call = Call(link, "", b'""', row, Params(), b"{}", UNSET, dialect, *peer, session, request.headers)
        call.user, call.runner = request.user, self._runtime
        return call

    async def _follow(self, key: str, position: str, writer: Writer, seconds: float) -> None:
        """Send what is added to a stream, by any process, until it ends, or for so long."""
        woken, until = asyncio.Event(), time.monotonic() + seconds
        self._readers.setdefault(key, set()).add(woken)
        try:
            while not writer.closed and time.monotonic() < until:
                woken.clear()
                with suppress(StoreAway):
                    for id, entry in await self._store.log_read(key, position):
                        position = id
                        if _push(writer, entry):
                            writer.close()
                            return
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), REREAD)
        finally:
            self._readers[key].discard(woken)
            if not self._readers[key]:
                del self._readers[key]


def _push(writer: Writer, entry: bytes, after: int = 0) -> bool:
    """Send an event that the client has not seen; True if it is the end of its stream."""
    number, _, event = entry.partition(b" ")
    if event and int(number) > after:
        writer.push(event)
    return not event and number != b"0"


def _event_position(event_id: str) -> tuple[str, int]:
    """The stream and the number of an event; no stream if it is not the id of an event."""
    match = re.fullmatch(r"([0-9a-f]{12}(?:\.[0-9]{1,9})?)-([0-9]{1,12})", event_id)
    return (match[1], int(match[2])) if match is not None else ("", 0)


def _short(id: str) -> str:
    return sha256(id.encode()).hexdigest()[:32]


def _nothing(state: _State) -> None:
    """Only its time changes."""


def _end(state: _State) -> None:
    state.ended = True


def _change_of(call: Call, state: _State) -> None:
    """Change a state as a call has changed its session."""
    if call.method == "logging/setLevel":
        state.level = call.params.level
    elif call.method == "resources/subscribe":
        state.uris = [*dict.fromkeys([*state.uris, call.params.uri])]
    else:
        state.uris = [uri for uri in state.uris if uri != call.params.uri]
