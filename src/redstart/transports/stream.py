"""Event streams: what sends the events of one response, and what keeps them for a client that comes back.

A response becomes a stream as late as possible, because a stream always has the status 200.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, Final

from msgspec import UNSET, Struct, field

from redstart.protocol.framing import SSE_COMMENT, sse_event, sse_prime
from redstart.transports.http_options import KEPT_BYTES
from redstart.transports.request import HeaderList, HttpRequest

log = logging.getLogger("redstart")

SSE_HEADERS: Final[HeaderList] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
SHED: Final = b": closed, because this client does not read\n\n"
MAX_EVENTS: Final = 1024
MAX_BYTES: Final = 1 << 20
"""What may wait for a client that does not read, whichever is reached first, and one event more."""
KEPT_SHARE: Final = 64
"""One session may keep this part of the events that are kept for all."""
EVENT_COST: Final = 200
"""What an event takes in memory beside its bytes."""
RETRY_MS: Final = 1000


class Writer(Struct, eq=False):
    """Sends the events of one SSE response in order, as fast as the client takes them, and no faster."""

    patience: ClassVar[float] = 10.0
    """Seconds that a client has to read why its stream was closed, before the server hangs up."""

    _request: HttpRequest
    _headers: HeaderList
    closed: bool = False
    on_shed: Callable[[], None] | None = None
    """Called when the stream is closed because its client does not read."""
    _events: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0
    _blocked: float = 0.0
    """Since when the client has yet to take what was sent last."""
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _parked: asyncio.Future[None] | None = None
    """What the pump waits for while there is nothing to send."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _timer: asyncio.TimerHandle | None = None
    _pump: asyncio.Task[None] = UNSET  # type: ignore[assignment]  # until the next line

    def __post_init__(self) -> None:
        self._pump = self._loop.create_task(self._run())

    def push(self, event: bytes, *, last: bool = False) -> None:
        """Queue one event. The stream of a client that does not read is closed, so that it cannot hold up anybody else.

        Only what comes while the client is behind counts: in one turn of the loop it cannot read anything.
        """
        if self.closed:
            return
        # Written at once: with thousands of listeners it would cost time to wake the pump of each of them.
        # The last one goes out together with the end of the response.
        if not last and self._parked is not None and not self._events and self._request.write(event):
            return
        if self._blocked and (len(self._events) >= MAX_EVENTS or self._bytes >= MAX_BYTES):
            log.warning(
                "a stream was closed: its client is %d events, %d bytes, behind and does not read",
                len(self._events),
                self._bytes,
            )
            self._shed(self.patience)
            return
        self._events.append(event)
        self._bytes += len(event)
        if self._blocked:
            self._request.hold(len(event))
        self.closed = last
        self._wake()

    def close(self) -> None:
        """Nothing more is coming; what is queued still goes out."""
        self.closed = True
        self._wake()

    async def finished(self) -> None:
        """Wait until the response is complete, or the client has gone; one that never reads is hung up on."""
        try:
            await asyncio.wait((self._pump,))
        finally:
            self.cancel()
        if self._pump.cancelled():
            raise ConnectionAbortedError("the client does not read")
        self._pump.result()

    def cancel(self) -> None:
        """Send nothing more: the request has ended, or its host has cancelled it."""
        self._pump.cancel()

    async def ready(self) -> None:
        """Wait until the client has taken what was queued."""
        if self._events:
            self._idle.clear()
            await self._idle.wait()

    async def until_gone(self) -> None:
        """Wait until the stream ends, or its client goes away."""
        self._request.watch(self)
        try:
            await self.finished()
        finally:
            self._request.unwatch()

    def client_gone(self) -> None:
        self.abort()

    def client_waits(self) -> None:
        """Nothing to do: a client of a stream is meant to wait."""

    def abort(self) -> None:
        """The client has gone."""
        self.closed = True
        self._events.clear()
        self._wake()
        self._idle.set()

    def _shed(self, patience: float) -> None:
        """Close the stream of a client that does not read; the client is told why, if it reads on in time."""
        self._events.clear()
        self._events.append(SHED)
        self.close()
        self._loop.call_later(patience, self._pump.cancel)
        if self.on_shed is not None:
            self.on_shed()

    def _wake(self) -> None:
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)

    def _beat(self) -> None:
        """Send a comment, so that nobody takes a quiet stream for a dead one."""
        blocked, limits = self._blocked, self._request.limits
        # Where the connection is ours it has its own deadline, and knows how much the client has taken.
        if not self._request.own_connection and blocked and self._loop.time() - blocked > limits.write_deadline:
            log.warning("a stream was closed: its client has not read for %g s", limits.write_deadline)
            self._shed(0)
            return
        if self._parked is not None:
            self.push(SSE_COMMENT)
        self._timer = self._loop.call_later(limits.keep_alive, self._beat)

    async def _run(self) -> None:
        request = self._request
        self._timer = self._loop.call_later(request.limits.keep_alive, self._beat)
        try:
            await self._send_queued(partial(request.begin, SSE_HEADERS + self._headers))
            while not self.closed:
                if self._events:
                    await self._send_queued(request.send)
                    continue
                self._idle.set()
                self._parked = self._loop.create_future()
                await self._parked
                self._parked = None
            await self._send_queued(request.finish)
        except OSError:
            pass  # some servers raise it where the client has gone
        finally:
            self._timer.cancel()
            self.on_shed = None
            self.abort()

    async def _send_queued(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send all events that are queued, as one part."""
        data = self._events.popleft() if len(self._events) == 1 else b"".join(self._events)
        self._events.clear()
        self._bytes = 0
        self._blocked = self._loop.time()
        await send(data)
        self._blocked = 0.0


class KeptEvents:
    """The events of all sessions that a client may have missed. Where they are too large, the session whose last event
    is the oldest loses its events."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.limit = limit
        self.share = max(limit // KEPT_SHARE, 1)
        self._logs: OrderedDict[EventLog, None] = OrderedDict()
        self.size = 0

    def grow(self, log: EventLog, size: int) -> None:
        self.size += size
        self._logs[log] = None
        self._logs.move_to_end(log)
        while self.size > self.limit:
            next(iter(self._logs)).clear()

    def shrink(self, log: EventLog, size: int) -> None:
        self.size -= size
        if not log.size:
            self._logs.pop(log, None)


class EventLog(Struct, eq=False):
    """The events of one session that its client may have missed, oldest first."""

    _kept: KeptEvents
    _events: deque[tuple[Stream, int, bytes]] = field(default_factory=deque)
    size: int = 0

    def keep(self, stream: Stream, sequence: int, event: bytes) -> None:
        """Keep one event more, at the cost of the oldest ones; the newest is kept whatever its size."""
        self._events.append((stream, sequence, event))
        size = len(event) + EVENT_COST
        self.size += size
        while self.size > self._kept.share and len(self._events) > 1:
            self._drop()
        self._kept.grow(self, size)

    def after(self, stream: Stream, sequence: int) -> list[bytes]:
        return [event for of, number, event in self._events if of is stream and number > sequence]

    def clear(self) -> None:
        while self._events:
            self._drop()

    def _drop(self) -> None:
        size = len(self._events.popleft()[2]) + EVENT_COST
        self.size -= size
        self._kept.shrink(self, size)


class Stream(Struct, eq=False):
    """The events of one stream of a handshake session: numbered and kept for a client that comes back."""

    name: str
    _log: EventLog
    sequence: int = 0
    ended: bool = False
    writer: Writer | None = None

    def prime(self) -> bytes:
        """The first event: something to resume from."""
        return sse_prime(f"{self.name}-{self.sequence}", RETRY_MS)

    def send(self, data: bytes, *, last: bool = False) -> None:
        self.sequence += 1
        event = sse_event(data, f"{self.name}-{self.sequence}")
        self._log.keep(self, self.sequence, event)
        if self.writer is not None:
            self.writer.push(event, last=last)

    async def ready(self) -> None:
        if self.writer is not None:
            await self.writer.ready()

    def end(self) -> None:
        """The last event was sent."""
        self.ended = True
        self.detach()

    def detach(self) -> None:
        """Close the connection, not the stream."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def can_resume(self, after: int) -> bool:
        """Whether a client that comes back gets what it waits for: of a stream that has ended, its last event."""
        return not self.ended or after >= self.sequence or bool(self._log.after(self, after))

    def attach(self, writer: Writer, after: int) -> None:
        """A client came back: replay what it missed, then go on."""
        self.detach()
        for event in self._log.after(self, after):
            writer.push(event)
        if self.ended:
            writer.close()
        else:
            self.writer = writer
