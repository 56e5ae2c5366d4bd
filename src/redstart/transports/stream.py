"""One HTTP response: plain JSON until something must be said before the result, then server-sent events.

Committing to SSE late matters: 400 and 404 are required statuses, and a quiet call should be plain JSON.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import ClassVar, Final

from redstart.protocol.framing import SSE_COMMENT, sse_event, sse_prime
from redstart.transports.caller import Caller, HeaderList, Send, Write

log = logging.getLogger("redstart")

SSE_HEADERS: Final[HeaderList] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
KEEP_ALIVE: Final = 15.0
SHED: Final = b": closed, because this client does not read\n\n"
MAX_EVENTS: Final = 1024
MAX_BYTES: Final = 1 << 20
"""What may wait for a client that does not read, whichever is reached first, and one event more."""
KEPT: Final = 256
"""Events that a client may have missed."""
RETRY_MS: Final = 1000


class Writer:
    """Sends the events of one SSE response in order, as fast as the client takes them, and no faster."""

    patience: ClassVar[float] = 10.0
    """Seconds that a client has to read why it was shed, before it is hung up on."""
    __slots__ = (
        "_blocked", "_bytes", "_events", "_idle", "_keep_alive", "_last", "_loop", "_parked", "_pump", "_send",
        "_timer", "_write", "closed", "shed",
    )  # fmt: skip

    def __init__(
        self, send: Send, headers: HeaderList, keep_alive: float = KEEP_ALIVE, write: Write | None = None
    ) -> None:
        self._send = send
        self._write = write  # sends at once, where that can be done; else says no
        self._loop = asyncio.get_running_loop()
        self._parked: asyncio.Future[None] | None = None  # what the pump waits for while there is nothing to do
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._events: deque[bytes] = deque()
        self._bytes = 0
        self._idle = asyncio.Event()
        self._keep_alive = keep_alive
        self._blocked = False  # whether the client has yet to take what was sent last
        self.closed = False
        self.shed = False
        self._pump = self._loop.create_task(self._run(headers))

    def push(self, event: bytes) -> None:
        """Queue one event. A client that does not read is shed, so that it cannot hold anybody else up.

        A burst in one turn of the loop is no fault of the client's: only what comes while it is behind counts.
        """
        if self.closed:
            return
        # With thousands of listeners it counts that nobody is woken, and that nothing new is left behind.
        if self._parked is not None and not self._events and self._write is not None and self._write(event):
            self._last = self._loop.time()
            return
        if self._blocked and (len(self._events) >= MAX_EVENTS or self._bytes >= MAX_BYTES):
            self.shed = True
            log.warning(
                "a stream was closed: its client is %d events, %d bytes, behind and does not read",
                len(self._events),
                self._bytes,
            )
            self._events.clear()
            self._events.append(SHED)
            self.close()
            self._loop.call_later(self.patience, self._pump.cancel)
            return
        self._events.append(event)
        self._bytes += len(event)
        self._wake()

    def close(self) -> None:
        """Nothing more is coming; what is queued still goes out."""
        self.closed = True
        self._wake()

    async def finished(self) -> None:
        """Wait until the response is complete, or the client has gone; one that never reads is hung up on."""
        await asyncio.wait((self._pump,))
        if self._pump.cancelled():
            raise ConnectionAbortedError("the client does not read")
        self._pump.result()

    async def drain(self) -> None:
        """Wait until the client has taken what was queued."""
        if self._events and not self._pump.done():
            self._idle.clear()
            await self._idle.wait()

    async def until_gone(self, caller: Caller) -> None:
        """Wait until the stream ends, or its client goes away."""
        caller.watch(self, self._keep_alive)
        try:
            await self.finished()
        finally:
            caller.unwatch()

    def client_gone(self) -> None:
        self.abort()

    def client_waits(self) -> None:
        """It is what a stream is for."""

    def abort(self) -> None:
        """The client has gone."""
        self.closed = True
        self._events.clear()
        self._wake()
        self._idle.set()

    def _wake(self) -> None:
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)

    def _beat(self) -> None:
        """A sign of life where there was none for a while. One timer a stream, not one an event."""
        due = self._last + self._keep_alive - self._loop.time()
        if due <= 0:
            due = self._keep_alive
            if self._parked is not None:
                self.push(SSE_COMMENT)
        self._timer = self._loop.call_later(due, self._beat)

    async def _run(self, headers: HeaderList) -> None:
        send, events = self._send, self._events
        self._timer = self._loop.call_later(self._keep_alive, self._beat)
        try:
            self._blocked = True
            await send({"type": "http.response.start", "status": 200, "headers": SSE_HEADERS + headers})
            self._blocked = False
            while True:
                while events:
                    data = events.popleft() if len(events) == 1 else b"".join(events)
                    events.clear()
                    self._bytes = 0
                    self._blocked = True
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                    self._blocked = False
                self._idle.set()
                if self.closed:
                    break
                self._last = self._loop.time()
                self._parked = self._loop.create_future()
                await self._parked
                self._parked = None
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:  # some servers raise where the client has gone
            self.closed = True
        finally:
            self._parked = None
            self._timer.cancel()
            self._idle.set()


class Stream:
    """The events of one stream of a handshake session: numbered and kept for a client that comes back."""

    __slots__ = ("_kept", "_limit", "ended", "name", "sequence", "writer")

    def __init__(self, name: str, limit: int = KEPT) -> None:
        self.name = name
        self.sequence = 0
        self.ended = False
        self.writer: Writer | None = None
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=limit)
        self._limit = limit

    def prime(self) -> bytes:
        """The first event: something to resume from."""
        return sse_prime(f"{self.name}-{self.sequence}", RETRY_MS)

    def send(self, data: bytes) -> None:
        self.sequence += 1
        event = sse_event(data, f"{self.name}-{self.sequence}")
        self._kept.append((self.sequence, event))
        if self.writer is not None:
            self.writer.push(event)

    async def drain(self) -> None:
        if self.writer is not None:
            await self.writer.drain()

    def end(self) -> None:
        """The last event was sent."""
        self.ended = True
        self.detach()

    def detach(self) -> None:
        """Close the connection, not the stream."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def attach(self, writer: Writer, after: int) -> None:
        """A client came back: replay what it missed, then go on."""
        if self.writer is not None and self.writer is not writer:
            self.writer.close()
        for sequence, event in self._kept:
            if sequence > after:
                writer.push(event)
        if self.ended:
            writer.close()
        else:
            self.writer = writer
