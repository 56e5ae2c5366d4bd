"""`memory://`: shared state of one process. Expired keys go when they are met, and a few on every write."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Final

SWEPT: Final = 4
"""Keys looked at per write: more than are written, so garbage never grows without bound."""
BACKLOG: Final = 1024
"""Messages that a slow subscriber may be behind; older ones are lost, which is allowed of a bus."""


class MemoryState:
    """SharedState in this process's memory. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[bytes, float | None]] = {}
        self._logs: dict[str, tuple[deque[tuple[int, bytes]], float | None]] = {}
        self._buckets: dict[str, tuple[float, float]] = {}
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
        if nx and self._live(key) is not None:
            return False
        self._sweep()
        self._values.pop(key, None)  # so that the order of the dict is the order of writing
        self._values[key] = (value, None if ttl is None else self._clock() + ttl)
        return True

    async def kv_take(self, key: str) -> bytes | None:
        value = self._live(key)
        self._values.pop(key, None)
        return value

    async def kv_delete(self, key: str) -> None:
        self._values.pop(key, None)

    def _live(self, key: str) -> bytes | None:
        found = self._values.get(key)
        if found is None:
            return None
        value, until = found
        if until is not None and until <= self._clock():
            del self._values[key]
            return None
        return value

    def _sweep(self) -> None:
        """Look at the oldest keys; those that live on go to the end of the line."""
        now = self._clock()
        for key in list(islice(self._values, SWEPT)):
            value, until = self._values.pop(key)
            if until is None or until > now:
                self._values[key] = (value, until)

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
        entries.append((self._last, data))
        while len(entries) > maxlen:
            entries.popleft()
        self._logs[stream] = (entries, None if ttl is None else self._clock() + ttl)
        return str(self._last)

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        start = int(after) if after.isdigit() else 0
        return [(str(id), data) for id, data in self._log(stream)[0] if id > start]

    def _log(self, stream: str) -> tuple[deque[tuple[int, bytes]], float | None]:
        entries, until = self._logs.get(stream, (deque(), None))
        if until is not None and until <= self._clock():
            self._logs.pop(stream, None)
            return deque(), None
        return entries, until

    # ------------------------------------------------------------ rates

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        now = self._clock()
        tokens, since = self._buckets.get(key, (burst, now))
        tokens = min(burst, tokens + (now - since) * rate)
        if tokens >= 1:
            self._buckets[key] = (tokens - 1, now)
            return True, 0.0
        self._buckets[key] = (tokens, now)
        return False, (1 - tokens) / rate if rate > 0 else float("inf")

    async def close(self) -> None:
        self._values.clear()
        self._logs.clear()
        self._buckets.clear()


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
