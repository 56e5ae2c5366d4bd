"""One peer: bytes in, events out; results in, bytes out. The only place where a request id is opened or closed.

Rule 1: a call is open from `receive` until `reply`, `fail` or its cancellation; every outbound verb takes the
Call and refuses one that is no longer open. Rule 2: no clock, no socket, no await in this file.
A Link lives as long as its peer's state: one POST (modern HTTP), one session (handshake HTTP), one pipe (stdio).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from redstart.protocol import handshake, modern
from redstart.protocol.call import (
    Answer,
    Batch,
    Call,
    Cancel,
    Event,
    Pending,
    Refusal,
)
from redstart.protocol.dialect import Dialect, Session
from redstart.protocol.headers import VERSION, Headers
from redstart.protocol.methods import ALIASES, HANDSHAKE, METHODS, Method
from redstart.protocol.modern import Modern
from redstart.protocol.strict import Meta, bad_id, id_bytes, open_batch, open_envelope, read_params
from redstart.wire.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESPONSE,
    Envelope,
    Fault,
    Id,
    ProtocolError,
    decode_fault,
    failure,
    notification,
    request,
)
from redstart.wire.meta import PROTOCOL_VERSION
from redstart.wire.types import CancelledParams, Result

_EMPTY = b"{}"
_ORDINARY = frozenset(row for row in METHODS.values() if row.eras & HANDSHAKE and row.name != "initialize")


class LinkTap(Protocol):
    """Sees what goes through a link, and does not keep it: that would be a cycle for each request.

    The inspector has one; without it each verb of a link has one `if` more.
    """

    def received(self, link: Link, data: bytes, headers: Headers | None, events: list[Event]) -> None:
        """A message has come, and means these events."""

    def ended(self, call: Call, outcome: Result | Raw | ProtocolError | None, data: bytes | None) -> None:
        """A call was answered with these bytes, or it was forgotten: then there is no outcome."""

    def told(self, call: Call, method: str, params: object, data: bytes) -> None:
        """A notification about a call."""

    def asked(self, pending: Pending, method: str, data: bytes) -> None:
        """A question to the peer."""

    def withdrew(self, pending: Pending, data: bytes) -> None:
        """A question is not asked any more."""


class Link(Struct, eq=False):
    """What one peer has open: its calls, our questions to it, and (handshake era) its session.

    Over HTTP each modern request has one. It is a Struct, because making one runs no Python code.
    """

    modern: Modern
    session: Session | None = None
    reopens: bool = True
    """Whether another `initialize` begins another session: on a pipe, but not in a session that HTTP names."""
    subscriber: Call | None = None
    """The last call that subscribed to something: for whom updates are sent."""
    calls: dict[Id, Call] = {}
    pending: dict[str, Pending] = {}
    _asked: int = 0
    prefix: str = "ask-"
    """What the ids of our questions begin with."""
    hears: bool = True
    """Whether changes are told here: not if the client has its event stream open in another process."""
    keep: Callable[[Call], Awaitable[None]] | None = None
    """Tells other processes that a call has changed the session, if they share it."""
    on_initialized: list[Callable[[], None]] = []
    """Called when the client says that it is initialized: before that it is not asked anything."""
    tap: LinkTap | None = None

    # ------------------------------------------------------------ inbound

    def receive(self, data: bytes, headers: Headers | None = None) -> list[Event]:
        """The events of one message. It never raises: an invalid message is an event too."""
        if data[:1] != b"{" and data.lstrip()[:1] == b"[":
            events = self._receive_batch(data, headers)
        else:
            events = self._receive_one(data, headers, None)
        if self.tap is not None:
            self.tap.received(self, data, headers, events)
        return events

    def _receive_one(self, data: bytes, headers: Headers | None, batch: Batch | None) -> list[Event]:
        try:
            envelope, raw_id = open_envelope(data, self.modern.max_depth)
        except ProtocolError as error:
            return [self._refusal(_salvaged_id(data, error), error)]
        if envelope.method is UNSET:
            return self._receive_answer(envelope, raw_id, headers)
        if envelope.id is UNSET:
            return self._receive_notification(envelope)
        try:
            return self._receive_request(envelope, raw_id, headers, batch)
        except ProtocolError as error:
            return [self._refusal(raw_id, error, _status(error))]

    def _receive_request(
        self, envelope: Envelope, raw_id: bytes | None, headers: Headers | None, batch: Batch | None
    ) -> list[Event]:
        if raw_id is None:
            raise bad_id()
        if envelope.jsonrpc != "2.0" or envelope.result is not UNSET or envelope.error is not UNSET:
            raise ProtocolError(INVALID_REQUEST, 'A request has "jsonrpc": "2.0", an id, a method and params')
        id: Id = envelope.id  # type: ignore[assignment]  # what has the bytes of an id is one
        name: str = envelope.method  # type: ignore[assignment]
        if id in self.calls and not (name == "initialize" and self.session and self.calls[id].session is self.session):
            raise ProtocolError(INVALID_REQUEST, f"The request id {id!r} is already in flight")
        raw = bytes(envelope.params) if envelope.params is not UNSET else _EMPTY
        if raw == b"null":
            raw = _EMPTY
        row = METHODS.get(name)
        try:
            params, meta = read_params(raw, row)
        except msgspec.DecodeError as error:
            self._refuse_params(row, name, raw, headers, str(error))
        last, session = self.session, None
        dialect: Dialect = self.modern
        claim: Any = meta
        if meta is not UNSET and meta.protocol_version is not UNSET:
            modern.check(row, name, params, meta, headers)
        else:
            usual = headers is None and meta is UNSET and row in _ORDINARY  # on a pipe: there is nothing to refuse
            claim = session = (last if usual else None) or self._admitted(row, name, params, meta, headers)
            dialect = handshake.DIALECTS[session.revision]
        call = Call(
            self, id, raw_id, row, params, raw, meta, dialect,  # type: ignore[arg-type]  # `check` has refused the rest
            claim.client_capabilities, claim.client_info, claim.log_level, session, headers, batch,
        )  # fmt: skip
        ended = self._end_calls(last, id) if last is not self.session and last is not None else None
        self.calls[id] = call
        return [*ended, call] if ended else [call]

    def _admitted(self, row: Method | None, name: str, params: Any, meta: Meta, headers: Headers | None) -> Session:
        """The session of a handshake request; `initialize` opens it."""
        if _is_half_modern(row, meta, headers):
            raise modern.missing(PROTOCOL_VERSION)
        if name == "initialize":
            if self.session is not None and not self.reopens:
                raise ProtocolError(INVALID_REQUEST, "The handshake has already been made")
            self.session = handshake.negotiate(params)
        handshake.check(row, name, self.session)
        return self.session or handshake.ANONYMOUS

    def _end_calls(self, session: Session, id: Id) -> list[Event]:
        """Forget the calls of the last session: the client has started again, and may use the same ids."""
        ended = [call for call in self.calls.values() if call.session is session]
        return [Cancel(call, "the client has begun another session", self._last_word(call, id)) for call in ended]

    def _last_word(self, call: Call, id: Id) -> bytes | None:
        """The answer to a call of the last session that came together with the next `initialize`: only a ping or a
        handshake with another id is answered."""
        if call.id != id and call.method.name == "ping":
            return self.reply(call, Result())
        if call.id != id and call.method.name == "initialize":
            return self.fail(call, ProtocolError(INVALID_REQUEST, "Another initialize came before this was answered"))
        self.forget(call)
        return None

    def _refuse_params(self, row: Method | None, name: str, raw: bytes, headers: Headers | None, reason: str) -> None:
        """The refusal of malformed params, after the checks that the era makes first."""
        text = f"Malformed params of {name}: {reason.replace('`', '')}"
        try:
            meta = read_params(raw, None)[1]
        except msgspec.DecodeError:
            meta = UNSET
        if meta is not UNSET and meta.protocol_version is not UNSET:
            modern.check(row, name, None, meta, headers)
        elif _is_half_modern(row, meta, headers):
            raise modern.Refused(INVALID_PARAMS, text)
        elif row is None:
            handshake.check(row, name, self.session)
        raise ProtocolError(INVALID_PARAMS, text)

    def _receive_notification(self, envelope: Envelope) -> list[Event]:
        row = METHODS.get(envelope.method) or ALIASES.get(envelope.method)  # type: ignore[arg-type]
        if row == "notifications/cancelled":
            try:
                params = row.decode(envelope.params if envelope.params is not UNSET else _EMPTY)
            except msgspec.DecodeError:
                return []  # the spec: malformed cancellations are ignored
            reason = params.reason if params.reason is not UNSET else "cancelled by the client"
            return self.receive_cancel(params.request_id, reason)
        if row == "notifications/initialized" and self.session is not None:
            self.session.initialized = True
            for tell in self.on_initialized:
                tell()
        return []

    def receive_cancel(self, id: Id, reason: str) -> list[Event]:
        """The cancellation of a call."""
        call = self.calls.get(id)
        if call is None or call.method.name == "initialize":
            return []
        return [Cancel(call, reason, self.forget(call))]

    def _receive_answer(self, envelope: Envelope, raw_id: bytes | None, headers: Headers | None) -> list[Event]:
        if envelope.result is UNSET and envelope.error is UNSET:
            error = ProtocolError(INVALID_REQUEST, "Neither a request, a notification nor a response")
            return [self._refusal(raw_id, error)]
        if _names_modern(headers):
            error = ProtocolError(INVALID_REQUEST, "In this protocol version a client sends no responses")
            return [self._refusal(raw_id, error)]
        pending = self.pending.pop(envelope.id, None) if isinstance(envelope.id, str) else None
        if pending is None:
            return self.receive_stray(envelope, headers)
        return [Answer(pending, _outcome(envelope))]

    def receive_stray(self, envelope: Envelope, headers: Headers | None) -> list[Event]:
        """An answer without an open question. One that comes too late is ignored. An answer to a question that was
        never asked is refused, but only over HTTP: on a pipe a response cannot be answered."""
        id = envelope.id
        number = id.removeprefix(self.prefix) if isinstance(id, str) else ""
        late = number.isdecimal() and len(number) < 12 and 0 < int(number) <= self._asked
        if late or headers is None:
            return []
        error = ProtocolError(INVALID_REQUEST, "No question with this id was asked here")
        return [self._refusal(None, error)]

    def _receive_batch(self, data: bytes, headers: Headers | None) -> list[Event]:
        try:
            if self.session is None or not handshake.DIALECTS[self.session.revision].batches:
                raise ProtocolError(INVALID_REQUEST, "This protocol revision has no JSON-RPC batches")
            parts = open_batch(data, self.modern.max_depth)
        except ProtocolError as error:
            return [self._refusal(None, error)]
        batch = Batch()
        batch.open = 1  # until all of it is read: a call that is cancelled in the same batch must not complete it
        events: list[Event] = []
        for part in parts:
            for event in self._receive_one(part, headers, batch):
                if isinstance(event, Call):
                    batch.open += 1
                    events.append(event)
                elif isinstance(event, Refusal):
                    batch.parts.append(event.data)
                else:
                    events.append(event)
        data_now = batch.close_one(None)
        if data_now is not None:
            events.append(Refusal(data_now, 200))
        return events

    def _refusal(self, raw_id: bytes | None, error: ProtocolError, status: int = 400) -> Refusal:
        """A refused message. In some revisions an id that could not be read is null, in others it is left out."""
        if raw_id is None and self.session is not None and handshake.DIALECTS[self.session.revision].null_ids:
            raw_id = b"null"
        return Refusal(failure(raw_id, error), status)

    # ------------------------------------------------------------ outbound

    def reply(self, call: Call, result: Result | Raw) -> bytes | None:
        """The bytes that answer `call`, or None where nothing may be sent (yet)."""
        calls = self.calls
        if calls.get(call.id) is not call:
            return None
        data = RESPONSE % (call.raw_id, call.dialect.dress(result))
        del calls[call.id]
        if self.pending:
            self._drop_questions(call)
        if self.tap is not None:
            self.tap.ended(call, result, data)
        return data if call.batch is None else call.batch.answer(call.raw_id, data)

    def fail(self, call: Call, error: ProtocolError) -> bytes | None:
        """The bytes that refuse `call`, or None where nothing may be sent (yet)."""
        if self.calls.get(call.id) is not call:
            return None
        data = failure(call.raw_id, call.dialect.fault(error))
        del self.calls[call.id]
        self._drop_questions(call)
        if self.tap is not None:
            self.tap.ended(call, error, data)
        return data if call.batch is None else call.batch.answer(call.raw_id, data)

    def notify(self, call: Call, method: str, params: Any) -> bytes | None:
        """The bytes of a notification about `call`, while it is open."""
        if self.calls.get(call.id) is not call:
            return None
        data = notification(method, params)
        if self.tap is not None:
            self.tap.told(call, method, params, data)
        return data

    def ask(self, call: Call, method: str, params: Any) -> tuple[Pending, bytes] | None:
        """A question to the peer on behalf of `call`, while it is open."""
        if self.calls.get(call.id) is not call:
            return None
        self._asked += 1
        pending = Pending(f"{self.prefix}{self._asked}", call)
        self.pending[pending.id] = pending
        data = request(b'"%b"' % pending.id.encode(), method, params)
        if self.tap is not None:
            self.tap.asked(pending, method, data)
        return pending, data

    def withdraw(self, pending: Pending) -> bytes:
        """The bytes that withdraw a question. It may be sent after the call that asked it has ended."""
        self.pending.pop(pending.id, None)
        params = CancelledParams(request_id=pending.id, reason="the answer is no longer awaited")
        data = notification("notifications/cancelled", params)
        if self.tap is not None:
            self.tap.withdrew(pending, data)
        return data

    def forget(self, call: Call) -> bytes | None:
        """Close `call` without an answer; the bytes are a batch that this completes."""
        if self.calls.get(call.id) is not call:
            return None
        del self.calls[call.id]
        self._drop_questions(call)
        if self.tap is not None:
            self.tap.ended(call, None, None)
        return None if call.batch is None else call.batch.close_one(None)

    def _drop_questions(self, call: Call) -> None:
        """Drop the open questions of a call, because their answers are no longer awaited."""
        for id in [id for id, pending in self.pending.items() if pending.call is call]:
            del self.pending[id]


# ---------------------------------------------------------------- reading closely


def _is_half_modern(row: Method | None, meta: Meta, headers: Headers | None) -> bool:
    """Whether a request is modern but does not name its version; it must not be served as a handshake request."""
    claims = meta is not UNSET and meta.client_capabilities is not UNSET
    return claims or (row is not None and not row.eras & HANDSHAKE) or _names_modern(headers)


def _names_modern(headers: Headers | None) -> bool:
    """Whether the version header names a version that is not a handshake revision."""
    named = headers.get(VERSION) if headers is not None else None
    return bool(named) and named.strip() not in handshake.HEADER_VALUES  # type: ignore[union-attr]


def _status(error: ProtocolError) -> int:
    """The HTTP status of a request that was refused; in the handshake era an error has the status 200."""
    if isinstance(error, modern.Refused):
        return modern.REFUSED_STATUS.get(error.code, 400)
    return 200 if error.code in (METHOD_NOT_FOUND, INVALID_PARAMS) else 400


def _salvaged_id(data: bytes, error: ProtocolError) -> bytes | None:
    """The id of a message that is JSON but not a request, so that its sender need not wait."""
    if error.code == PARSE_ERROR:
        return None
    try:
        return id_bytes(msgspec.json.decode(data, type=dict[str, Any]).get("id"))
    except msgspec.DecodeError:
        return None


def _outcome(envelope: Envelope) -> Raw | ProtocolError:
    if envelope.error is UNSET:
        return envelope.result  # type: ignore[return-value]
    try:
        fault: Fault = decode_fault(envelope.error)
    except msgspec.DecodeError:
        return ProtocolError(INVALID_REQUEST, "The client answered with a malformed error")
    return ProtocolError(fault.code, fault.message, fault.data)
