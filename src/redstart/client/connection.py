"""One connection to one server: open requests, their answers, the server's own questions and notifications.

Knows JSON-RPC and the dialect; must not know what tools are or how bytes travel. Every open request ends in one of four
ways: answered, failed by the transport, timed out, or given up by its caller. The server is told of the last two.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeGuard

import msgspec
from msgspec import UNSET, Raw

from redstart.client.background import BackgroundTasks
from redstart.client.callbacks import CallbackQueue, LogMessage, Notification, OnProgress, ProgressMessage
from redstart.client.dialects import ClientDialect, HandshakeDialect
from redstart.client.errors import ClientError, ConnectionClosed, InvalidReply, RequestError, request_error
from redstart.client.handlers import QuestionHandlers
from redstart.client.options import ClientOptions
from redstart.client.transport import Outgoing, Transport, messages_in, refuse_deep
from redstart.wire import jsonrpc
from redstart.wire.jsonrpc import JsonMapping, JsonObject

log = logging.getLogger("redstart.client")


class OpenRequest:
    """A request that waits for its answer."""

    __slots__ = ("callbacks", "deadline", "future", "id", "method", "on_progress", "seconds")

    def __init__(self, id: int, method: str, seconds: float | None) -> None:
        self.id = id
        self.method = method
        self.seconds = seconds
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self.deadline: asyncio.Timeout | None = None
        self.on_progress: OnProgress | None = None
        self.callbacks: CallbackQueue | None = None

    def run_clock(self, running: bool) -> None:
        """Stop the clock of the timeout, or start it anew."""
        if self.deadline is not None and self.seconds is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + self.seconds if running else None)


class Listener(Protocol):
    """An object that gets every notification."""

    def notified(self, method: str, params: JsonObject) -> None:
        """A notification has come."""

    def end(self, error: BaseException | None) -> None:
        """No more notifications will come."""


class RpcConnection:
    """Sends requests and receives answers. It is the inbox of its transport."""

    def __init__(self, transport: Transport, handlers: QuestionHandlers, options: ClientOptions) -> None:
        self.transport = transport
        self.handlers = handlers
        self.dialect: ClientDialect = HandshakeDialect()
        self.timeout = options["timeout"]
        self.listeners: set[Listener] = set()
        self.gone: ClientError | None = None
        self._on_log = options["on_log"]
        self._on_notification = options["on_notification"]
        self._ids = itertools.count(1)
        self._open: dict[int, OpenRequest] = {}
        self._kept: dict[str, OnProgress] = {}
        self._answering: dict[int | str, asyncio.Future[None]] = {}
        self._tasks = BackgroundTasks()
        self._callbacks = CallbackQueue(self._tasks)
        self._humans = 0  # that are waited for

    # ---------------------------------------------------------------- lifetime

    async def open(self, instead: Transport | None = None) -> None:
        """Start or reach the server. After a failure also once more, or by another transport."""
        if instead is not None:
            await self.transport.close()
            self.transport = instead
        self.gone = None
        await self.transport.open(self)

    async def close(self) -> None:
        """Fail the open requests, close the transport, end the background tasks."""
        self.lost(ConnectionClosed("the client was closed"))
        for task in self._answering.values():
            task.cancel()
        await self.transport.close()
        await self._tasks.cancel()

    # ---------------------------------------------------------------- sending

    async def request(
        self,
        method: str,
        params: JsonMapping | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Raw:
        """Send a request and wait for its result, for `timeout` seconds or as long as the client's own timeout."""
        call = self.start(method, self.timeout if timeout is None else timeout)
        if on_progress is not None:
            call.on_progress, call.callbacks = on_progress, CallbackQueue(self._tasks)
        try:
            async with asyncio.timeout(None if self._humans else call.seconds) as call.deadline:
                await self.send(call, params, headers)
                result = await call.future
        except TimeoutError:
            if not call.future.done() or call.future.cancelled():
                self.abandon(call, f"no answer within {call.seconds:g} s")
                raise TimeoutError(f"{method}: no answer within {call.seconds:g} seconds") from None
            result = call.future.result()  # the answer came at the same moment
        except BaseException:
            self.abandon(call, "the caller gave up")
            raise
        if call.callbacks is not None:
            await call.callbacks.finish()
        return result

    def start(self, method: str, seconds: float | None) -> OpenRequest:
        """A new request that waits for its answer; the caller sends it."""
        if self.gone is not None:
            raise self.gone
        call = OpenRequest(next(self._ids), method, None if seconds is None or math.isinf(seconds) else seconds)
        self._open[call.id] = call
        return call

    async def send(
        self, call: OpenRequest, params: JsonMapping | None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send the request `call`; `headers` are added to those of the dialect."""
        await self.transport.ready()
        own = {} if call.on_progress is None else {"progressToken": call.id}
        message = {"id": call.id, **_message(call.method, self.dialect.params(params, own))}
        self._post(message, call.id, headers)

    async def notify(self, method: str, params: JsonMapping | None = None) -> None:
        """Send a notification and wait until it is accepted."""
        if self.gone is not None:
            raise self.gone
        await self.transport.ready()
        accepted = self._post(_message(method, params))
        if accepted is not None:
            await accepted

    def _post(
        self, message: JsonObject, id: int | None = None, headers: Mapping[str, str] | None = None
    ) -> asyncio.Future[None] | None:
        """Hand a message to the transport. `id` is given for a request only."""
        method = message.get("method", "")
        if self.transport.http:
            headers = {**self.dialect.headers(method, message.get("params") or {}), **(headers or {})}
        data = jsonrpc.encode({"jsonrpc": "2.0", **message})
        return self.transport.send(Outgoing(data, method, id, headers or {}, self.dialect.modern))

    def keep_progress(self, on_progress: OnProgress) -> str:
        """A progress token that outlives its request, as that of a task does."""
        token = f"task-{next(self._ids)}"
        self._kept[token] = on_progress
        return token

    def abandon(self, call: OpenRequest, reason: str) -> None:
        """Stop waiting for `call`, and tell the server in the way of this transport and dialect."""
        if self._open.pop(call.id, None) is None:
            return
        call.future.cancel()
        told = self.transport.cancel(call.id, modern=self.dialect.modern)
        if told or self.gone is not None or call.method == "initialize":
            return
        accepted = self._post(_message("notifications/cancelled", {"requestId": call.id, "reason": reason}))
        if accepted is not None:
            self._tasks.start(_logged(accepted))

    # ---------------------------------------------------------------- receiving (called by the transport)

    def receive(self, data: bytes) -> None:
        """Read one message, or a batch of them, which one handshake revision allows."""
        part: bytes | Raw = data
        try:
            for part in messages_in(data):
                try:
                    self._receive_one(jsonrpc.decode_envelope(part))
                except RecursionError:
                    if not refuse_deep(self, part):
                        log.warning("the server sent a message that is nested too deeply: %r", bytes(part)[:200])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("the server sent something that is not a JSON-RPC message: %r", bytes(part)[:200])
        except InvalidReply as error:
            self.fail_open(error)

    def _receive_one(self, envelope: jsonrpc.Envelope) -> None:
        id = envelope.id
        if envelope.method is not UNSET:
            decoded = None if envelope.params is UNSET else jsonrpc.decode(envelope.params)
            params = decoded if isinstance(decoded, dict) else {}
            if id is UNSET:
                self._notified(envelope.method, params)
            elif isinstance(id, int | str):
                self._asked(id, envelope.method, params)
        elif _is_int(id) and id in self._open:
            if envelope.error is not UNSET:
                self.fail(id, request_error(envelope.error))
            else:
                self._answered(id, Raw(b"{}") if envelope.result is UNSET else envelope.result)
        elif envelope.error is not UNSET:
            log.warning("the server reports an error for no open request: %s", bytes(envelope.error)[:500])

    def _answered(self, id: int, result: Raw) -> None:
        call = self._open.pop(id)
        if not call.future.done():
            call.future.set_result(result)

    def fail(self, id: int, error: Exception) -> None:
        call = self._open.pop(id, None)
        if call is not None and not call.future.done():
            call.future.set_exception(error)

    def fail_open(self, error: ClientError) -> None:
        if not self._open:
            log.warning("%s", error)
        for id in list(self._open):
            self.fail(id, error)

    def lost(self, error: ClientError) -> None:
        if self.gone is None:
            self.gone = error
        for id in list(self._open):
            self.fail(id, self.gone)
        self.notifications_ended(self.gone)

    def notifications_ended(self, error: ClientError) -> None:
        for listener in list(self.listeners):
            listener.end(error)

    def is_open(self, id: int) -> bool:
        return id in self._open

    # ---------------------------------------------------------------- notifications and questions of the server

    def _notified(self, method: str, params: JsonObject) -> None:
        meta = params.get("_meta", {})
        if not isinstance(meta, dict):
            meta = params["_meta"] = {}
        if method == "notifications/progress":
            self._progressed(params.get("progressToken"), params, meta)
        elif method == "notifications/message" and self._on_log is not None:
            message = LogMessage(params.get("level", "info"), params.get("data"), params.get("logger"), meta)
            self._callbacks.deliver(self._on_log, message)
        elif method == "notifications/cancelled":
            self._cancelled(params.get("requestId"))
        for listener in list(self.listeners):
            listener.notified(method, params)
        if self._on_notification is not None:
            self._callbacks.deliver(self._on_notification, Notification(method, params))

    def _progressed(self, token: object, params: JsonObject, meta: JsonObject) -> None:
        callbacks, on_progress = self._callbacks, self._kept.get(token) if isinstance(token, str) else None
        call = self._open.get(token) if _is_int(token) else None
        if call is not None and call.callbacks is not None:
            callbacks, on_progress = call.callbacks, call.on_progress
        if on_progress is not None:
            message = ProgressMessage(params.get("progress", 0), params.get("total"), params.get("message"), meta)
            callbacks.deliver(on_progress, message)

    def _cancelled(self, id: object) -> None:
        """The server withdraws a question, or ends a subscription: the only request of ours that it may end."""
        if isinstance(id, int | str) and id in self._answering:
            self._answering[id].cancel()
        if _is_int(id) and id in self._open and self._open[id].method == "subscriptions/listen":
            self._answered(id, Raw(b"{}"))

    def _asked(self, id: int | str, method: str, params: JsonObject) -> None:
        if self.dialect.modern:
            log.warning("the server sent a request, %s, which %s does not allow", method, self.dialect.version)
            return
        self._answering[id] = task = self._tasks.start(self._reply(id, method, params))
        task.add_done_callback(lambda _: self._answering.pop(id, None))

    async def _reply(self, id: int | str, method: str, params: JsonObject) -> None:
        reply: JsonObject = {"id": id}
        try:
            reply["result"] = {} if method == "ping" else await self._answer(method, params)
        except RequestError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        except Exception as error:
            log.exception("the answer to %s failed", method)
            reply["error"] = {"code": jsonrpc.INTERNAL_ERROR, "message": f"{method}: {type(error).__name__}"}
        finally:
            self._answering.pop(id, None)
        if self.gone is not None:
            return
        await self.transport.ready()
        accepted = self._post(reply)
        if accepted is not None:
            await _logged(accepted)

    async def _answer(self, method: str, params: JsonObject) -> JsonObject:
        with self.waiting():
            return await self.handlers.answer(method, params)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """No clock runs in the block: the time of a human does not count as the server's."""
        self._humans += 1
        try:
            for call in self._open.values():
                call.run_clock(False)
            yield
        finally:
            self._humans -= 1
            for call in self._open.values():
                call.run_clock(self._humans == 0)


def _message(method: str, params: JsonMapping | None) -> JsonObject:
    return {"method": method} if params is None else {"method": method, "params": params}


def _is_int(id: object) -> TypeGuard[int]:
    return isinstance(id, int) and not isinstance(id, bool)


async def _logged(accepted: Awaitable[None]) -> None:
    """Wait until a message is accepted for which no caller waits: a failure is logged."""
    try:
        await accepted
    except ClientError as error:
        log.warning("%s", error)
