"""One connection to one server: open requests, their answers, the server's own questions.

Knows JSON-RPC and the era; must not know what tools are or how bytes travel. Every open request ends in one of four
ways: answered, failed by the transport, timed out, or given up by its caller; the server is told of the last two.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeGuard

import msgspec
from msgspec import UNSET, Raw

from redstart.client.callbacks import (
    CallbackQueue,
    LogMessage,
    Notification,
    OnLog,
    OnNotification,
    OnProgress,
    ProgressMessage,
)
from redstart.client.dialects import ClientDialect, HandshakeDialect
from redstart.client.errors import ClientError, ConnectionClosed, RequestError
from redstart.client.handlers import QuestionHandlers
from redstart.client.transport import Outgoing, Transport
from redstart.wire import jsonrpc

log = logging.getLogger("redstart.client")


class OpenRequest:
    """A request that waits for its answer."""

    __slots__ = ("courier", "deadline", "future", "method", "on_progress", "seconds")

    def __init__(self, method: str, seconds: float | None) -> None:
        self.method = method
        self.seconds = seconds
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self.deadline: asyncio.Timeout | None = None
        self.on_progress: OnProgress | None = None
        self.courier: CallbackQueue | None = None

    def run_clock(self, running: bool) -> None:
        """Stop the clock, or start it afresh."""
        if self.deadline is not None and self.seconds is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + self.seconds if running else None)


class Listener(Protocol):
    """Somebody who wants to hear of changes."""

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """A notification has come."""

    def end(self, error: BaseException | None) -> None:
        """No more will come."""


class RpcConnection:
    """Requests out, answers in. Its background tasks are its own, so it may be closed by any task."""

    def __init__(
        self,
        transport: Transport,
        handlers: QuestionHandlers,
        *,
        timeout: float | None,
        on_log: OnLog | None = None,
        on_notification: OnNotification | None = None,
    ) -> None:
        self.transport = transport
        self.dialect: ClientDialect = HandshakeDialect()
        self.timeout = timeout
        self.listeners: set[Listener] = set()
        self._handlers = handlers
        self._on_log = on_log
        self._on_notification = on_notification
        self._ids = itertools.count(1)
        self._open: dict[int, OpenRequest] = {}
        self._answering: dict[int | str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._courier = CallbackQueue(self.spawn)
        self._thinking = 0
        self.gone: ClientError | None = None

    # ---------------------------------------------------------------- lifetime

    async def open(self, instead: Transport | None = None) -> None:
        """Start or reach the server; also once more, or by another transport, after that has failed."""
        if instead is not None:
            await self.transport.close()
            self.transport = instead
        self.gone = None
        await self.transport.open(self)

    async def close(self) -> None:
        """Fail what waits, let the server go, end the background tasks."""
        self.lost(ConnectionClosed("the client was closed"))
        for task in self._answering.values():
            task.cancel()
        await self.transport.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def spawn(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
        """Run `work` in the background until it is done or the connection closes."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---------------------------------------------------------------- out

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Raw:
        """Send a request and wait for its result, for `seconds` or the client's `timeout`."""
        id, call = self.start(method, self.timeout if seconds is None else seconds)
        own: dict[str, Any] = {}
        if on_progress is not None:
            call.on_progress, call.courier = on_progress, CallbackQueue(self.spawn)
            own["progressToken"] = id
        try:
            async with asyncio.timeout(call.seconds) as call.deadline:
                await self.transport.ready()
                self.send(id, method, params, own, headers)
                result = await call.future
        except TimeoutError:
            if not call.future.done() or call.future.cancelled():
                self.abandon(id, f"no answer within {call.seconds:g} s")
                raise TimeoutError(f"{method}: no answer within {call.seconds:g} seconds") from None
            result = call.future.result()  # it came in the very moment
        except BaseException:
            self.abandon(id, "the caller gave up")
            raise
        if call.courier is not None:
            await call.courier.finish()
        return result

    def start(self, method: str, seconds: float | None) -> tuple[int, OpenRequest]:
        """A new id and the request that waits under it; the caller sends it."""
        if self.gone is not None:
            raise self.gone
        id = next(self._ids)
        seconds = None if seconds is None or math.isinf(seconds) else seconds
        call = self._open[id] = OpenRequest(method, seconds)
        return id, call

    def send(
        self,
        id: int,
        method: str,
        params: Mapping[str, Any] | None,
        own: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send the request that waits under `id`."""
        full = self.dialect.params(params, own)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        if full is not None:
            message["params"] = full
        sent_headers = self.dialect.headers(method, full or {}) if self.transport.http else {}
        if headers:
            sent_headers.update(headers)
        self.transport.send(Outgoing(jsonrpc.encode(message), method, id, sent_headers, self.dialect.modern))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification and wait until it is accepted."""
        if self.gone is not None:
            raise self.gone
        await self.transport.ready()
        accepted = self._post_notification(method, params)
        if accepted is not None:
            await accepted

    def _post_notification(self, method: str, params: Mapping[str, Any] | None) -> asyncio.Future[None] | None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        headers = self.dialect.headers(method, params or {}) if self.transport.http else {}
        return self.transport.send(Outgoing(jsonrpc.encode(message), method, None, headers, self.dialect.modern))

    def abandon(self, id: int, reason: str) -> None:
        """Stop waiting for `id`, and tell the server, by whatever way this transport and era have."""
        call = self._open.pop(id, None)
        if call is None:
            return
        call.future.cancel()
        told = self.transport.cancel(id, modern=self.dialect.modern)
        if told or self.gone is not None or call.method == "initialize":
            return
        accepted = self._post_notification("notifications/cancelled", {"requestId": id, "reason": reason})
        if accepted is not None:
            self.spawn(_quietly(accepted))

    # ---------------------------------------------------------------- in (the transport's inbox)

    def receive(self, data: bytes) -> None:
        """Take one message, or a batch of them, which one handshake revision allows."""
        try:
            if data.lstrip()[:1] == b"[":
                for message in jsonrpc.decode_batch(data):
                    self._take(jsonrpc.decode_envelope(message))
            else:
                self._take(jsonrpc.decode_envelope(data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            log.warning("the server sent something that is no JSON-RPC message: %r", data[:200])

    def _take(self, envelope: jsonrpc.Envelope) -> None:
        id = envelope.id
        if envelope.method is not UNSET:
            params = _params(envelope.params)
            if id is UNSET:
                self._notified(envelope.method, params)
            elif isinstance(id, int | str):
                self._asked(id, envelope.method, params)
        elif _is_int(id) and (call := self._open.pop(id, None)) is not None:
            self._answered(call, envelope)
        elif envelope.error is not UNSET:
            log.warning("the server reports an error for no open request: %s", bytes(envelope.error)[:500])

    def _answered(self, call: OpenRequest, envelope: jsonrpc.Envelope) -> None:
        if call.future.done():
            return
        if envelope.error is not UNSET:
            call.future.set_exception(request_error(envelope.error))
        else:
            call.future.set_result(Raw(b"{}") if envelope.result is UNSET else envelope.result)

    def fail(self, id: int, error: Exception) -> None:
        call = self._open.pop(id, None)
        if call is not None and not call.future.done():
            call.future.set_exception(error)

    def lost(self, error: ClientError) -> None:
        if self.gone is None:
            self.gone = error
        for id in list(self._open):
            self.fail(id, self.gone)
        self.deaf(self.gone)

    def deaf(self, error: ClientError) -> None:
        for listener in list(self.listeners):
            listener.end(error)

    def is_open(self, id: int) -> bool:
        return id in self._open

    # ---------------------------------------------------------------- what the server says unasked

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        meta = params.get("_meta") or {}
        if method == "notifications/progress":
            token = params.get("progressToken")
            call = self._open.get(token) if _is_int(token) else None
            if call is not None and call.courier is not None and call.on_progress is not None:
                progress = ProgressMessage(params.get("progress", 0), params.get("total"), params.get("message"), meta)
                call.courier.deliver(call.on_progress, progress)
        elif method == "notifications/message" and self._on_log is not None:
            message = LogMessage(params.get("level", "info"), params.get("data"), params.get("logger"), meta)
            self._courier.deliver(self._on_log, message)
        elif method == "notifications/cancelled":
            self._cancelled(params.get("requestId"))
        for listener in list(self.listeners):
            listener.hear(method, params)
        if self._on_notification is not None:
            self._courier.deliver(self._on_notification, Notification(method, params))

    def _cancelled(self, id: Any) -> None:
        """The server withdraws a question, or ends a subscription of ours (the only request of ours it may end)."""
        if isinstance(id, int | str) and (task := self._answering.get(id)) is not None:
            task.cancel()
        call = self._open.get(id) if _is_int(id) else None
        if call is not None and call.method == "subscriptions/listen":
            del self._open[id]
            call.future.set_result(Raw(b"{}"))

    def _asked(self, id: int | str, method: str, params: dict[str, Any]) -> None:
        if self.dialect.modern:
            log.warning("the server sent a request, %s, which %s does not allow", method, self.dialect.version)
            return
        task = self.spawn(self._answer(id, method, params))
        self._answering[id] = task
        task.add_done_callback(lambda _: self._answering.pop(id, None))

    async def _answer(self, id: int | str, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        try:
            reply["result"] = {} if method == "ping" else await self._think(method, params)
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
        headers = self.dialect.headers("", {}) if self.transport.http else {}
        accepted = self.transport.send(Outgoing(jsonrpc.encode(reply), headers=headers))
        if accepted is not None:
            await _quietly(accepted)

    async def _think(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a question with the clocks stopped: a human's time is not the server's."""
        self._thinking += 1
        try:
            for call in self._open.values():
                call.run_clock(False)
            return await self._handlers.answer(method, params)
        finally:
            self._thinking -= 1
            for call in self._open.values():
                call.run_clock(self._thinking == 0)


def request_error(raw: Raw | bytes) -> RequestError:
    """The exception for the `error` member of a response."""
    try:
        fault = jsonrpc.decode_fault(raw)
    except msgspec.MsgspecError:
        return RequestError(jsonrpc.INTERNAL_ERROR, f"The server sent a malformed error: {bytes(raw)[:200]!r}")
    return RequestError(fault.code, fault.message, None if fault.data is UNSET else fault.data)


def _is_int(id: object) -> TypeGuard[int]:
    return isinstance(id, int) and not isinstance(id, bool)


def _params(raw: Raw | msgspec.UnsetType) -> dict[str, Any]:
    params = None if raw is UNSET else jsonrpc.decode(raw)
    return params if isinstance(params, dict) else {}


async def _quietly(accepted: Awaitable[None]) -> None:
    """Wait for a message that nobody waits for: its failure is worth a line in the log, no more."""
    try:
        await accepted
    except ClientError as error:
        log.warning("%s", error)
