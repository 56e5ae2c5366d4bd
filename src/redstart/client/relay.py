"""Requests of others, sent to a server as they are: the message relay of `redstart inspect`.

A Relay is one connection to one server, over any transport of the client. It gives requests ids of its own, and brings
answers, notifications and questions back to who has sent the request. It does not know what the messages ask, and does
not know who sends them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from redstart.client.background import BackgroundTasks
from redstart.client.errors import ClientError, ConnectionClosed, HttpError, InvalidReply, RequestError
from redstart.client.transport import Outgoing, Transport, messages_in, refuse_deep
from redstart.wire import jsonrpc
from redstart.wire.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Id, ProtocolError, decode, encode, failure
from redstart.wire.meta import SUBSCRIPTION_ID

MAX_OPEN: Final = 10_000
"""Requests that wait for an answer at once."""
MAX_QUESTIONS: Final = 100
"""Questions of the server that wait for one."""


class Requester(Protocol):
    """The sender of a request: gets the messages that come before its answer."""

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """A notification about the request."""

    async def ask(self, method: str, params: Raw) -> Raw:
        """A question of the server; ProtocolError if it is not answered."""


class Relayed:
    """A request that waits for its answer."""

    __slots__ = ("future", "id", "modern", "requester", "token")

    def __init__(self, id: Id, token: Id | None, requester: Requester, modern: bool) -> None:
        self.id = id
        self.token = token
        """The progress token that the requester has chosen."""
        self.requester = requester
        self.modern = modern
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()


class Relay:
    """One connection to a server. `unasked` gets the notifications that belong to no request."""

    def __init__(self, transport: Transport, unasked: Callable[[str, dict[str, Any]], None]) -> None:
        self._transport = transport
        self._unasked = unasked
        self._ids = itertools.count(1)
        self._open: dict[int, Relayed] = {}
        self._tasks = BackgroundTasks()
        self._questions = 0
        self.gone: ClientError | None = None
        """Why the server cannot be reached any more."""

    async def open(self) -> None:
        await self._transport.open(self)

    async def close(self) -> None:
        self.lost(ClientError("the relay was closed"))
        await self._transport.close()
        await self._tasks.cancel()

    # ---------------------------------------------------------------- to the server

    async def request(
        self, id: Id, method: str, params: bytes, headers: Mapping[str, str], requester: Requester, *, modern: bool
    ) -> Raw:
        """The result of a request; ProtocolError if the server refuses it or cannot be reached."""
        if self.gone is not None:
            raise _unreachable(self.gone)
        if len(self._open) >= MAX_OPEN:
            raise ProtocolError(INTERNAL_ERROR, "Too many requests wait for this server; try again later")
        number = next(self._ids)
        given, token = _with_token(params, number)
        relayed = self._open[number] = Relayed(id, token, requester, modern)
        data = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, encode(method), given)
        try:
            await self._transport.ready()
            self._watch(self._transport.send(Outgoing(data, method, number, headers, modern)))
            if method == "initialize":
                result = await relayed.future
                self._listen(headers, result)
                return result
            return await relayed.future
        except asyncio.CancelledError:
            self._cancel(number, relayed, headers)
            raise
        finally:
            self._open.pop(number, None)

    def _listen(self, headers: Mapping[str, str], result: Raw) -> None:
        """Begin the stream of notifications, where that is a stream of its own."""
        answer = _read(result)
        version = answer.get("protocolVersion") if isinstance(answer, dict) else None
        self._transport.listen({**headers, **({"MCP-Protocol-Version": version} if isinstance(version, str) else {})})

    def _cancel(self, number: int, relayed: Relayed, headers: Mapping[str, str]) -> None:
        if not self._transport.cancel(number, modern=relayed.modern):
            params = {"requestId": number, "reason": "cancelled by the client"}
            self.notify("notifications/cancelled", encode(params), headers)

    def notify(self, method: str, params: bytes, headers: Mapping[str, str]) -> None:
        """Send a notification."""
        if self.gone is None:
            data = b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), params)
            self._watch(self._transport.send(Outgoing(data, method, None, headers)))

    def _watch(self, sending: asyncio.Future[None] | None) -> None:
        """Send a notification. A failure is not reported, because a notification has no answer."""
        if sending is not None:
            sending.add_done_callback(lambda done: done.cancelled() or done.exception())

    # ---------------------------------------------------------------- from the server (`Inbox`)

    def receive(self, data: bytes) -> None:
        try:
            for message in messages_in(data):
                self._receive_one(message)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return  # a line of a server that writes other things to its stdout, too
        except InvalidReply as error:
            self.fail_open(error)

    def _receive_one(self, message: bytes | Raw) -> None:
        try:
            envelope = jsonrpc.decode_envelope(message)
        except RecursionError:
            refuse_deep(self, message)
            return
        if envelope.method is UNSET:
            self._answered(envelope)
        elif envelope.id is UNSET:
            self._notified(envelope)
        else:
            self._tasks.start(self._asked(envelope))

    def _named(self, id: object) -> Relayed | None:
        """The request that a server means by `id`, which may be anything."""
        return self._open.get(id) if type(id) is int else None  # True is not 1

    def _answered(self, envelope: jsonrpc.Envelope) -> None:
        relayed = self._named(envelope.id)
        if relayed is None or relayed.future.done():
            return
        if envelope.error is UNSET:
            relayed.future.set_result(envelope.result if envelope.result is not UNSET else Raw(b"{}"))
            return
        try:
            fault = jsonrpc.decode_fault(envelope.error)
            error = ProtocolError(fault.code, fault.message, fault.data)
        except msgspec.MsgspecError:
            error = ProtocolError(INTERNAL_ERROR, "The server answered with an error that cannot be read")
        relayed.future.set_exception(error)

    def _notified(self, envelope: jsonrpc.Envelope) -> None:
        method, given = str(envelope.method), _read(envelope.params) if envelope.params is not UNSET else {}
        params = given if isinstance(given, dict) else {}
        relayed = self._named(params.get("progressToken")) if method == "notifications/progress" else None
        if relayed is not None and relayed.token is not None:
            params["progressToken"] = relayed.token
        meta = params.get("_meta")
        if isinstance(meta, dict) and (listening := self._named(meta.get(SUBSCRIPTION_ID))) is not None:
            relayed, meta[SUBSCRIPTION_ID] = listening, listening.id
        if relayed is None and method == "notifications/message":
            relayed = self._last()
        if relayed is not None:
            relayed.requester.tell(method, params)
        else:
            self._unasked(method, params)

    def _last(self) -> Relayed | None:
        return next(reversed(self._open.values()), None)

    async def _asked(self, envelope: jsonrpc.Envelope) -> None:
        """Pass a question on to the sender of the last request: the server does not say which request it is for."""
        raw_id, last = encode(envelope.id), self._last()
        try:
            if last is None:
                raise ProtocolError(METHOD_NOT_FOUND, "No request is open that this question could belong to")
            if self._questions >= MAX_QUESTIONS:
                raise ProtocolError(INTERNAL_ERROR, "Too many questions wait for an answer; ask again later")
            params = envelope.params if envelope.params is not UNSET else Raw(b"{}")
            data = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
                raw_id,
                await self._answer(last, envelope.method, params),
            )
        except ProtocolError as error:
            data = failure(raw_id, error)
        self._watch(self._transport.send(Outgoing(data)))

    async def _answer(self, relayed: Relayed, method: object, params: Raw) -> bytes:
        """What the requester answers, as long as its own request is open: after that nobody is there who could."""
        asking = self._tasks.start(relayed.requester.ask(str(method), params))
        self._questions += 1
        try:
            await asyncio.wait((asking, relayed.future), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ProtocolError(INTERNAL_ERROR, "The request that this question belongs to has been answered")
            return bytes(asking.result())
        finally:
            self._questions -= 1
            asking.cancel()

    def fail(self, id: int, error: Exception) -> None:
        relayed = self._open.get(id)
        if relayed is not None and not relayed.future.done():
            relayed.future.set_exception(_unreachable(error))

    def fail_open(self, error: ClientError) -> None:
        for id in list(self._open):
            self.fail(id, error)

    def lost(self, error: ClientError) -> None:
        self.gone = self.gone or error
        self.fail_open(error)

    def notifications_ended(self, error: ClientError) -> None:
        """Requests may still be answered."""

    def waiting(self) -> AbstractContextManager[None]:
        """A relay has no time limits: its clients have theirs."""
        return nullcontext()

    def is_open(self, id: int) -> bool:
        return id in self._open and not self._open[id].future.done()


def _read(data: Raw) -> object:
    """What a server has written; nothing if it is not valid JSON inside."""
    try:
        return decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _with_token(params: bytes, number: int) -> tuple[bytes, Id | None]:
    """Params whose progress token is the number of the request, so that no two requests have the same; the old one."""
    if b'"progressToken"' not in params:
        return params, None
    given = decode(params)
    meta = given.get("_meta") if isinstance(given, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("progressToken"), int | str):
        return params, None
    token: Id = meta["progressToken"]
    meta["progressToken"] = number
    return encode(given), token


def _unreachable(error: Exception) -> ProtocolError:
    """Why there is no answer, for the client. An error of JSON-RPC in the body of a refusal is passed on."""
    if isinstance(error, RequestError):
        refused = error.__cause__
        status = {"status": refused.status} if isinstance(refused, HttpError) and error.data is None else error.data
        return ProtocolError(error.code, error.message, status)
    if isinstance(error, HttpError):
        return ProtocolError(INTERNAL_ERROR, str(error), {"status": error.status})
    ended = isinstance(error, ConnectionClosed) and error.exit_status is not None
    reason = "ended" if ended else "unreadable" if isinstance(error, InvalidReply) else "unreachable"
    return ProtocolError(INTERNAL_ERROR, str(error) or type(error).__name__, {"reason": reason})
