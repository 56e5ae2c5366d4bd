"""One POST and its answer: JSON if nothing came before the result, else an event stream.

In the modern era a client that goes away cancels its request; in the handshake era it may come back for the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from redstart.features.errors import Unwind
from redstart.protocol.call import Batch, Call
from redstart.protocol.framing import sse_event
from redstart.transports.request import JSON, LATER, Accepts, HeaderList, HttpRequest
from redstart.transports.sessions import HttpSession
from redstart.transports.shares import Seats
from redstart.transports.stream import Stream, Writer
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError, failure

if TYPE_CHECKING:
    from redstart.server.runtime import Runtime

STOPPING: Final = ProtocolError(
    INTERNAL_ERROR, "The server is stopping, and this call is not done. Send it again when the server is back."
)
SESSION_ENDED: Final = ProtocolError(INTERNAL_ERROR, "The session has ended, and this call is not done.")
LEFT_ALONE: Final = ProtocolError(
    INTERNAL_ERROR, "This call is not done: its client has gone, and too many such calls were running."
)
MAX_LEFT: Final = 4096
MAX_LEFT_BYTES: Final = 32 * 1024 * 1024
"""The requests whose clients have gone but may come back for the result, and the bytes of their params."""
CANCELLED: Final = ProtocolError(INVALID_REQUEST, "The client has cancelled this request.")


class _ClosedChannel:
    """The channel of a call that has been answered: it drops every message.

    The task of a request knows its call by its context. If the call still knew the response, and so the task, each
    request would leave a cycle behind, and the garbage collector would take a tenth of the time.
    """

    can_ask = False

    def send(self, data: bytes) -> None:
        """Nothing is sent, because the response is complete."""

    async def ready(self) -> None:
        """There is nothing to wait for."""


CLOSED = _ClosedChannel()


def is_asking(call: Call) -> bool:
    """Whether a call waits for the answer of its client."""
    return call.dialogue is not None and call.dialogue.asking


def give_up(runtime: Runtime, call: Call, why: ProtocolError = STOPPING) -> bytes | None:
    """End the work of a call because the server stops, or its session has ended; the answer that says so."""
    data = call.link.fail(call, why)
    runtime.cancel(call)  # this takes back what was asked, and nothing may come after the answer
    return data


class Response(Struct, eq=False):
    """The channel of the calls of one POST."""

    _runtime: Runtime
    _request: HttpRequest
    _accepts: Accepts
    _calls: list[Call]
    _session: HttpSession | None
    _headers: HeaderList
    _seats: Seats
    _left: dict[Response, int]
    _in_time: Callable[[], Awaitable[bool]] | None = None
    """Whether the calls may run now: where they come too soon, it refuses them itself."""
    _writer: Writer | None = None
    _stream: Stream | None = None
    _last: bytes | None = None
    _batch: Batch | None = None
    gone: bool = False
    _late: bool = False
    """Whether the client has waited for long."""
    _waits: bool = False

    # ------------------------------------------------------------ the calls

    async def run(self) -> None:
        """Answer the calls and complete the response."""
        request, calls = self._request, self._calls
        task, call = request.task, calls[0]
        self._batch = call.batch
        if self._session is not None:
            self._session.waiting += 1
            self._waits = True
        request.watch(self)
        for one in calls:
            one.channel = self
        call.run = task if self._batch is None else None
        data = None
        try:
            try:
                if self._in_time is not None and not await self._may_run(self._in_time):
                    return
                data = await (self._runtime.answer(call) if self._batch is None else self._answer_batch(calls))
            except asyncio.CancelledError:
                if not self._goes_on(task):
                    raise
            except Unwind:
                pass  # the server stops, and a thread was told to leave: there is no answer, but an end
            finally:
                request.unwatch()
                self._left.pop(self, None)
                if self._waits:
                    self._stop_waiting()
                call.channel = CLOSED
                for one in calls if self._batch is not None else ():
                    one.channel = CLOSED
                    one.batch = None  # whoever keeps a call does not keep the answers of the others
            if data is None:
                data = self._last if self._batch is None else self._batch.whole()  # a cancellation completed it
            usual = self._writer is None and self._accepts.json and not self._headers and call.status == 200
            if not (usual and data is not None and request.reply_at_once(data)):
                await self._complete(data, call.status)
        finally:
            self._seats.release(request)

    async def _may_run(self, in_time: Callable[[], Awaitable[bool]]) -> bool:
        """Whether the calls come in time. A stream that would have begun meanwhile begins when that is known."""
        if not await in_time():
            return False
        self._in_time = None
        if self._late:
            self.client_waits()
        return True

    def _goes_on(self, task: asyncio.Task[None] | None) -> bool:
        """Whether the calls were cancelled, and not the task because the server stops."""
        if task is None or any(call.open for call in self._calls):
            for call in self._calls:
                call.link.forget(call)
            if self._writer is not None:
                self._writer.cancel()  # nobody would end it any more
            return False
        task.uncancel()
        return True

    async def _answer_batch(self, calls: list[Call]) -> bytes | None:
        running = []
        for call in calls:
            if call.open:  # not cancelled, and the server does not stop, since the batch was read
                call.run = asyncio.create_task(self._runtime.answer(call))
                running.append(call.run)
            await asyncio.sleep(0)  # one starts in each turn of the loop: other clients have their turns between them
        answers = await asyncio.gather(*running, return_exceptions=True)
        return next((answer for answer in answers if isinstance(answer, bytes)), None)

    # ------------------------------------------------------------ the channel

    def send(self, data: bytes) -> None:
        """A message before the result; dropped where the client takes JSON only."""
        if not self._accepts.sse or (self.gone and self._stream is None):
            return
        if self._writer is None:
            self._commit()
        if self._stream is not None:
            self._stream.send(data)
        elif self._writer is not None:
            self._writer.push(sse_event(data))

    @property
    def can_ask(self) -> bool:
        """Whether a question would reach the client at all."""
        return self._accepts.sse

    async def ready(self) -> None:
        if self._writer is not None and not self.gone:
            await self._writer.ready()

    def close_stream(self) -> bool:
        """End the response before the result: the client comes back for it with `Last-Event-ID`.

        Only where the stream begins with an event that has an id: a client that has seen none cannot come back.
        """
        if not self._accepts.sse or self._session is None or not self._calls[0].dialect.primes:
            return False
        if self._writer is None:
            self._commit()
        if self._stream is not None:
            self._stream.detach()
        self._stop_waiting()
        return True

    def _open_writer(self) -> Writer:
        self._writer = Writer(self._request, self._headers)
        return self._writer

    def _commit(self) -> None:
        writer = self._open_writer()
        if self._session is not None:
            self._stream = self._session.open_stream()
            self._stream.writer = writer
            if self._calls[0].dialect.primes:
                writer.push(self._stream.prime())
        else:
            writer.on_shed = self._leave

    async def _complete(self, data: bytes | None, status: int) -> None:
        if self._writer is None:
            if self.gone:
                return
            if data is None and not self._accepts.sse:
                data = self._cancelled()
            if data is not None and (self._accepts.json or status != 200 or not self._accepts.sse):
                headers = [JSON, *self._headers]
                if status == 503:
                    headers = [*headers, LATER]
                elif status == 403 and self._request.challenge is not None:
                    needed = self._calls[0].needed_scopes
                    headers = [*headers, self._request.challenge(self._request, "insufficient_scope", needed)]
                await self._request.reply(status, data, headers)
                return
        writer = self._writer or self._open_writer()  # a cancelled call ends as a stream without an answer
        if self._stream is not None:
            if data is not None:
                self._stream.send(data, last=True)
            self._stream.end()
        else:
            if data is not None:
                writer.push(sse_event(data), last=True)
            writer.close()
        await writer.finished()

    def _cancelled(self) -> bytes:
        """The answer to calls that their client has cancelled, which takes JSON only: an empty body is not JSON."""
        answers = [failure(call.raw_id, CANCELLED) for call in self._calls]
        return answers[0] if self._batch is None else b"[%b]" % b",".join(answers)

    # ------------------------------------------------------------ the end

    def end_calls(self, which: Callable[[Call], bool]) -> int:
        """End these calls because the server stops; how many there were."""
        ended = [call for call in self._calls if call.open and which(call)]
        for call in ended:
            self.end_call(call, STOPPING)
        return len(ended)

    def end_call(self, call: Call, why: ProtocolError) -> None:
        self._last = give_up(self._runtime, call, why)

    # ------------------------------------------------------------ the client

    def client_waits(self) -> None:
        """Begin the stream, so that it can be kept alive; not before it is known that there is one."""
        self._late = True
        if self._in_time is None and self._accepts.sse and self._writer is None and not self.gone:
            self._commit()

    def client_gone(self) -> None:
        self.gone = True
        self._stop_waiting()
        if self._writer is not None:
            self._writer.abort()
            if self._stream is not None and self._stream.writer is self._writer:
                self._stream.writer = None  # a client that came back meanwhile has another one
        if self._calls[0].dialect.modern:
            self._leave()
        else:
            self._go_on()

    def _stop_waiting(self) -> None:
        if self._waits and self._session is not None:
            self._waits = False
            self._session.leave()

    def _go_on(self) -> None:
        """The client may come back for the result; where too many are awaited, the oldest that nobody reads ends."""
        left = self._left
        left[self] = sum(len(call.raw_params) for call in self._calls)
        size = sum(left.values())
        for oldest in tuple(left) if len(left) > MAX_LEFT or size > MAX_LEFT_BYTES else ():
            if len(left) <= MAX_LEFT and size <= MAX_LEFT_BYTES:
                break
            if oldest._stream is not None and oldest._stream.writer is not None:
                continue  # its client has come back
            size -= left.pop(oldest)
            for call in oldest._calls:
                oldest.end_call(call, LEFT_ALONE)

    def _leave(self) -> None:
        """Nobody waits for the results any more."""
        for call in self._calls:
            call.link.forget(call)
            self._runtime.cancel(call)
