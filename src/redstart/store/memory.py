"""`memory://`: shared state of one process, with a bound on what it keeps.

Expired keys are removed when they are read, a few at every write, and as many as necessary to make room. A value
without an expiry is never dropped: a store that is full refuses further values with an error.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from redstart.store.shared import StoreFull, owner_of

SWEPT: Final = 4
"""Expired keys that are removed at each write: more than are written, so that their number has a bound."""
STALE: Final = 64
BACKLOG: Final = 1024
"""Messages that wait for a slow subscriber. Older ones are lost, which the contract of a bus allows."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of all values and their keys."""
SHARE: Final = 4
"""The part of it that one user may take: a quarter."""
OVERHEAD: Final = 256
"""Bytes that an entry takes beside its key and its value, about; so the number of entries has a bound too."""


class MemoryState:
    """SharedState in this process's memory. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._used = 0
        self._shares: Counter[str] = Counter()
        self._values: dict[str, tuple[bytes, float | None]] = {}
        self._ends: list[tuple[float, str]] = []
        """A heap of the times at which values expire. Entries of values that were replaced or deleted are skipped."""
        self._logs: dict[str, tuple[deque[tuple[int, bytes]], float | None]] = {}
        self._buckets: dict[str, tuple[float, float, float]] = {}
        self._listeners: dict[str, set[_Inbox]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._values)

    # ------------------------------------------------------------ keys

    async def kv_get(self, key: str) -> bytes | None:
        return self._live(key)

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        now = self._clock()
        old = self._live(key)
        if nx and old is not None:
            return False
        for _ in range(SWEPT):
            self._expire_one(now)
        self._account(key, len(value) - len(old) if old is not None else _size(key, value), now)
        until = None if ttl is None else now + ttl
        self._values[key] = value, until
        if until is not None:
            self._note_end(until, key)
        return True

    async def kv_take(self, key: str) -> bytes | None:
        value = self._live(key)
        self._drop(key)
        return value

    async def kv_delete(self, key: str) -> None:
        self._drop(key)

    def _live(self, key: str) -> bytes | None:
        found = self._values.get(key)
        if found is None:
            return None
        value, until = found
        if until is not None and until <= self._clock():
            self._drop(key)
            return None
        return value

    def _drop(self, key: str) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._account(key, -_size(key, found[0]))

    def _note_end(self, until: float, key: str) -> None:
        heappush(self._ends, (until, key))
        if len(self._ends) > 2 * len(self._values) + STALE:  # most entries belong to values that are gone
            self._ends = [(until, key) for key, (_, until) in self._values.items() if until is not None]
            heapify(self._ends)

    def _expire_one(self, now: float) -> bool:
        """Look at the value that expires first; False where none has expired."""
        if not self._ends or self._ends[0][0] > now:
            return False
        until, key = heappop(self._ends)
        if key in self._values and self._values[key][1] == until:
            self._drop(key)
        return True

    # ------------------------------------------------------------ room

    def _account(self, key: str, size: int, now: float = 0.0) -> None:
        """Count the bytes of an entry, or those that it frees; refuse it if there is no room."""
        owner = owner_of(key)
        while size > 0 and not self._has_room(owner, size):
            if not self._expire_one(now):
                raise StoreFull(self._max_bytes, self._max_bytes // SHARE)
        self._used += size
        self._shares[owner] += size
        if not self._shares[owner]:
            del self._shares[owner]

    def _has_room(self, owner: str, size: int) -> bool:
        return self._used + size <= self._max_bytes and self._shares[owner] + size <= self._max_bytes // SHARE

    # ------------------------------------------------------------ bus

    async def publish(self, topic: str, data: bytes) -> None:
        for inbox in self._listeners.get(topic, ()):
            inbox.put(topic, data)

    def subscribe(self, *topics: str) -> AsyncIterator[tuple[str, bytes]]:
        inbox = _Inbox()
        for topic in topics:
            self._listeners.setdefault(topic, set()).add(inbox)
        return self._listen(inbox, topics)

    async def _listen(self, inbox: _Inbox, topics: tuple[str, ...]) -> AsyncIterator[tuple[str, bytes]]:
        try:
            while True:
                yield await inbox.get()
        finally:
            for topic in topics:
                left = self._listeners.get(topic, set())
                left.discard(inbox)
                if not left:
                    self._listeners.pop(topic, None)

    # ------------------------------------------------------------ logs

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        self._last += 1
        entries, _ = self._log(stream)
        self._account(stream, _size("", data), self._clock())
        entries.append((self._last, data))
        while len(entries) > maxlen:
            self._account(stream, -_size("", entries.popleft()[1]))
        self._logs.pop(stream, None)
        self._logs[stream] = (entries, None if ttl is None else self._clock() + ttl)
        for oldest in list(islice(self._logs, SWEPT)):
            self._log(oldest)
        return str(self._last)

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        start = int(after) if after.isdigit() else 0
        return [(str(id), data) for id, data in self._log(stream)[0] if id > start]

    def _log(self, stream: str) -> tuple[deque[tuple[int, bytes]], float | None]:
        entries, until = self._logs.get(stream, (deque(), None))
        if until is not None and until <= self._clock():
            del self._logs[stream]
            self._account(stream, -sum(_size("", data) for _, data in entries))
            return deque(), None
        return entries, until

    # ------------------------------------------------------------ rates

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        now = self._clock()
        for oldest in list(islice(self._buckets, SWEPT)):
            if self._buckets[oldest][2] <= now:  # full again, as one that was never used
                del self._buckets[oldest]
        tokens, since, _ = self._buckets.pop(key, (burst, now, now))
        tokens = min(burst, tokens + (now - since) * rate)
        allowed = tokens >= 1
        tokens -= allowed
        full = now + (burst - tokens) / rate if rate > 0 else float("inf")
        self._buckets[key] = (tokens, now, full)
        if allowed:
            return True, 0.0
        return False, (1 - tokens) / rate if rate > 0 else float("inf")

    async def close(self) -> None:
        self._values.clear()
        self._ends.clear()
        self._logs.clear()
        self._buckets.clear()
        self._shares.clear()
        self._used = 0


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value) + OVERHEAD


class _Inbox:
    """What one subscriber has not read yet."""

    __slots__ = ("_ready", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=BACKLOG)
        self._ready = asyncio.Event()

    def put(self, topic: str, data: bytes) -> None:
        self._waiting.append((topic, data))
        self._ready.set()

    async def get(self) -> tuple[str, bytes]:
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        return self._waiting.popleft()
