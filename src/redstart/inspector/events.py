"""The events that the page shows: a ring of the last ones, and the readers that follow it.

For the thread of the loop only. Events are encoded once, when they come; what a reader gets is joined bytes.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from time import perf_counter
from typing import Final

from msgspec import Struct

from redstart.inspector.clients import ClientRecord
from redstart.inspector.differences import Diff
from redstart.inspector.failure import Failure, SourcePlace
from redstart.wire.jsonrpc import Id, encode

MAX_EVENTS: Final = 5000
MAX_BYTES: Final = 8 * 1024 * 1024
"""What the ring holds, whichever is reached first."""
MAX_TEXT: Final = 64 * 1024
"""The characters of one message that are shown."""
MAX_RATE: Final = 500
"""Events in one second above which messages and calls are left out."""
BUSY_RATE: Final = 5000
"""Events in one second above which fewer are shown in the next: a person cannot read so many, and each takes time."""
MAX_BUSY_RATE: Final = 100
PAUSE: Final = 0.05
"""Seconds between two batches."""
MAX_BATCH: Final = 256 * 1024


class InspectorEvent(Struct, rename="camel", tag_field="kind", kw_only=True):
    """What all kinds of events have in common."""

    seq: int = 0
    time: float = 0.0
    worker: int | None = None


class MessageEvent(InspectorEvent, tag="message", kw_only=True):
    """One JSON-RPC message to or from a client."""

    client: str
    direction: str
    era: str | None = None
    revision: str | None = None
    transport: str = "http"
    type: str = "notification"
    id: Id | None = None
    method: str | None = None
    name: str | None = None
    call: str | None = None
    status: int | None = None
    size: int = 0
    text: str = ""
    cut: bool = False
    headers: dict[str, str] | None = None
    is_error: bool = False


class Parts(Struct, rename="camel"):
    """Where the time of a call went, in milliseconds."""

    queue: float
    validate: float
    handler: float
    encode: float


class CallEvent(InspectorEvent, tag="call", kw_only=True):
    """One call, as it is now."""

    call: str
    client: str
    state: str
    method: str
    name: str | None = None
    began: float
    ms: float
    human: float = 0.0
    rounds: int = 1
    ids: Sequence[Id]
    revision: str | None = None
    transport: str = "http"
    progress: dict[str, object] | None = None
    task: str | None = None
    timings: Parts | None = None
    outcome: str | None = None
    code: int | None = None
    error: Failure | None = None
    size: int = 0


class LogEvent(InspectorEvent, tag="log", kw_only=True):
    """A record of Python's logging, a line that a handler sends to its client, or a line of stderr."""

    level: str
    logger: str
    text: str
    source: str
    call: str | None = None
    client: str | None = None
    place: SourcePlace | None = None
    error: Failure | None = None


class ReloadEvent(InspectorEvent, tag="reload", kw_only=True):
    """The target was loaded again, or could not be."""

    ms: float
    files: list[str]
    error: Failure | None = None
    tools: Diff
    prompts: Diff
    resources: Diff
    templates: Diff


class ClientEvent(InspectorEvent, tag="client", kw_only=True):
    """A client has connected, has said more about itself, or has left."""

    change: str
    client: ClientRecord


class TaskEvent(InspectorEvent, tag="task", kw_only=True):
    """A task has another state."""

    task: str
    call: str | None = None
    name: str | None = None
    status: str
    message: str | None = None
    created: float | None = None
    updated: float | None = None
    ttl_ms: int | None = None


class UpstreamEvent(InspectorEvent, tag="upstream", kw_only=True):
    """The server that is inspected now, and where somebody has to sign in to it."""

    name: str
    sign_in: str | None = None


AnyEvent = MessageEvent | CallEvent | LogEvent | ReloadEvent | ClientEvent | TaskEvent | UpstreamEvent
Listener = Callable[[AnyEvent], None]


class Reader:
    """One page that follows the ring. `push` gets the bytes of one batch."""

    def __init__(self, position: int, push: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self.position = position
        self.push = push
        self.close = close
        self.missed = False
        self.left_out: dict[str, int] = {}
        """What had been left out when the last batch was sent."""


class Ring:
    """The last events, and the readers that follow them."""

    def __init__(self) -> None:
        self.epoch = secrets.token_urlsafe(6)
        self.seq = 0
        self.listeners: list[Listener] = []
        """See each event of this process that is not left out."""
        self._kept: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._readers: set[Reader] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.passed = 0
        """The calls that were not shown, nor their requests and responses, since the start."""
        self._left_out = {"message": 0, "call": 0}
        """Other events that were not shown."""
        self.full_until = 0.0
        """Until then no more calls are shown, by the clock of `perf_counter`: too much happens in this second."""
        self._second = 0.0
        self._count = 0
        self._room = MAX_RATE
        """How many events may be shown in this second."""
        self._happened = 0
        """All events until this second, shown or not."""

    # ------------------------------------------------------------ writing

    def has_room(self) -> bool:
        """Whether a call and its messages are to be shown, or too much happens in this second."""
        return perf_counter() >= self.full_until

    def leave_out(self, kind: str) -> None:
        """Count an event that is not shown."""
        self._left_out[kind] += 1

    @property
    def left_out(self) -> dict[str, int]:
        """The events that were not shown, since the start."""
        return {
            "message": self._left_out["message"] + 2 * self.passed,
            "call": self._left_out["call"] + self.passed,
        }

    def add(self, event: AnyEvent) -> None:
        """Keep an event of this process, and show it."""
        now = perf_counter()
        if now - self._second >= 1.0:
            self._begin_second(now)
        self._count += 1
        if self._count >= self._room:
            self.full_until = self._second + 1.0
        event.time = event.time or time.time()
        for listener in self.listeners:
            listener(event)
        self.keep(event)

    def _begin_second(self, now: float) -> None:
        happened = self.seq + sum(self.left_out.values())
        busy = happened - self._happened > BUSY_RATE * (now - self._second)
        self._room = MAX_BUSY_RATE if busy else MAX_RATE
        self._second, self._count, self._happened = now, 0, happened

    def keep(self, event: AnyEvent) -> None:
        """Keep an event of this or another process."""
        self.seq += 1
        event.seq = self.seq
        data = encode(event)
        self._kept.append((self.seq, data))
        self._bytes += len(data)
        while len(self._kept) > MAX_EVENTS or self._bytes > MAX_BYTES:
            self._bytes -= len(self._kept.popleft()[1])
        if self._readers and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE, self._flush)

    def forget(self) -> None:
        """Drop all events."""
        self._kept.clear()
        self._bytes = 0

    # ------------------------------------------------------------ reading

    @property
    def read(self) -> bool:
        """Whether a page follows the events."""
        return bool(self._readers)

    def follow(self, since: int | None, push: Callable[[bytes], None], close: Callable[[], None]) -> Reader:
        """Send batches from now on, and first what came after event number `since`. `close` ends the stream."""
        reader = Reader(self.seq if since is None else max(0, since), push, close)
        reader.left_out = self.left_out
        reader.missed = since is not None and (since > self.seq or since < self._oldest - 1)
        self._readers.add(reader)
        self._send(reader, hello=True)
        return reader

    def leave(self, reader: Reader) -> None:
        self._readers.discard(reader)

    def close(self) -> None:
        """The server stops: end the streams, which would not end by themselves."""
        for reader in tuple(self._readers):
            reader.close()

    @property
    def _oldest(self) -> int:
        return self._kept[0][0] if self._kept else self.seq + 1

    def _flush(self) -> None:
        self._timer = None
        for reader in tuple(self._readers):
            self._send(reader)

    def _send(self, reader: Reader, *, hello: bool = False) -> None:
        new, left_out = self._after(reader.position), self.left_out
        while new or hello or reader.left_out != left_out:
            size, count = 0, 0
            while count < len(new) and (count == 0 or size + len(new[count][1]) <= MAX_BATCH):
                size += len(new[count][1])
                count += 1
            part, new = new[:count], new[count:]
            reader.position = part[-1][0] if part else self.seq
            reader.push(self._batch(reader, [data for _, data in part], left_out))
            reader.missed, reader.left_out, hello = False, left_out, False

    def _after(self, position: int) -> list[tuple[int, bytes]]:
        """What came after an event. Only that is looked at: a reader has seen most of the ring."""
        new = list(takewhile(lambda kept: kept[0] > position, reversed(self._kept)))
        new.reverse()
        return new

    def _batch(self, reader: Reader, events: list[bytes], left_out: dict[str, int]) -> bytes:
        left = {kind: count - reader.left_out[kind] for kind, count in left_out.items()}
        head = {"epoch": self.epoch, "seq": reader.position, "leftOut": left, "missed": reader.missed}
        data = b'%b,"events":[%b]}' % (encode(head)[:-1], b",".join(events))
        return b"id: %d\nevent: batch\ndata: %b\n\n" % (reader.position, data)
