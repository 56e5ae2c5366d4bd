"""`memory://`: tasks and shared state of one process, with a bound on what it keeps.

Expired keys are removed when they are read, a few at every write, and as many as necessary to make room. A task, and a
value without an expiry, is never dropped: a store that is full refuses what is new with an error.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from redstart.store.bus import Bus
from redstart.store.shared import StoreFull, check_message, log_position, owner_of, refill
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, is_inserted, is_written, topic_of

SWEPT: Final = 4
"""Expired keys that are removed at each write: more than are written, so that their number has a bound."""
STALE: Final = 64
MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of all values and their keys."""
SHARE: Final = 4
"""The part of it that one user may take: a quarter."""
OVERHEAD: Final = 256
"""Bytes that an entry takes beside its key and its value, about; so the number of entries has a bound too."""


class MemoryStore:
    """TaskStore and SharedState in this process's memory. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._epoch = time.time() - clock()
        self._max_bytes = max_bytes
        self._used = 0
        self._shares: Counter[str] = Counter()
        self._values: dict[str, tuple[bytes, float | None]] = {}
        self._ends: list[tuple[float, str]] = []
        """A heap of the times at which values expire. Entries of values that were replaced or deleted are skipped."""
        self._logs: dict[str, tuple[deque[tuple[int, bytes]], float | None]] = {}
        self._buckets: dict[str, tuple[float, float, float]] = {}
        self._bus = Bus()
        self._last = 0
        self._tasks: dict[str, _Entry] = {}
        self._owned: dict[str, dict[str, _Entry]] = {}
        """The tasks of each owner, oldest first."""
        self._queues: dict[str, list[tuple[float, int, str]]] = {}
        """A heap for each queue: when a task is due, the number of its entry, its id. Old entries are skipped."""

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
        added = len(value) - len(old) if old is not None else _size(key, value)
        self._account(owner_of(key), added, now)
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
        kept = self._values.get(key)
        if kept is None:
            return None
        value, until = kept
        if until is not None and until <= self._clock():
            self._drop(key)
            return None
        return value

    def _drop(self, key: str) -> None:
        kept = self._values.pop(key, None)
        if kept is not None:
            self._account(owner_of(key), -_size(key, kept[0]))

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

    def _account(self, owner: str, size: int, now: float = 0.0) -> None:
        """Count the bytes of an entry, or those that it frees; refuse it if there is no room."""
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
        check_message(data)
        self._bus.deliver(topic, data)

    def subscribe(self, *topics: str) -> AsyncIterator[tuple[str, bytes]]:
        return self._bus.subscribe(*topics)

    # ------------------------------------------------------------ logs

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        self._last += 1
        entries, _ = self._log(stream)
        self._account(owner_of(stream), _size("", data), self._clock())
        entries.append((self._last, data))
        while len(entries) > maxlen:
            self._account(owner_of(stream), -_size("", entries.popleft()[1]))
        self._logs.pop(stream, None)
        self._logs[stream] = (entries, None if ttl is None else self._clock() + ttl)
        for oldest in list(islice(self._logs, SWEPT)):
            self._log(oldest)
        return str(self._last)

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        start = log_position(after)
        return [(str(id), data) for id, data in self._log(stream)[0] if id > start]

    def _log(self, stream: str) -> tuple[deque[tuple[int, bytes]], float | None]:
        entries, until = self._logs.get(stream, (deque(), None))
        if until is not None and until <= self._clock():
            del self._logs[stream]
            self._account(owner_of(stream), -sum(_size("", data) for _, data in entries))
            return deque(), None
        return entries, until

    # ------------------------------------------------------------ rates

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        now = self._clock()
        for oldest in list(islice(self._buckets, SWEPT)):
            if self._buckets[oldest][2] <= now:  # full again, as one that was never used
                del self._buckets[oldest]
        tokens, since, _ = self._buckets.pop(key, (burst, now, now))
        allowed, wait, left, full = refill(tokens, since, now, rate, burst)
        self._buckets[key] = (left, now, full)
        return allowed, wait

    # ------------------------------------------------------------ tasks

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0) -> bool:
        owned = self._owned.get(task.owner, {})
        if len(owned) >= max_owned or len(self._tasks) >= max_all or task.id in self._tasks:
            return False
        self._account(task.owner, _task_size(task), self._clock())
        is_inserted(task, self._now())
        entry = _Entry(copy(task))
        self._tasks[task.id] = self._owned.setdefault(task.owner, owned)[task.id] = entry
        self._place(entry, queue, delay)
        self._tell(task.id, queue)
        return True

    async def task_read(self, id: str, owner: str) -> StoredTask | None:
        entry = self._owned.get(owner, {}).get(id)
        return None if entry is None else self._copied(entry)

    async def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        ids = iter(self._owned.get(owner, {}))
        if after and after not in ids:  # the test takes ids up to `after`, and all if there is none
            return []
        return [self._copied(self._tasks[id]) for id in islice(ids, limit)]

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        claimed: list[StoredTask] = []
        now = self._clock()
        while len(claimed) < limit:
            first = min(filter(None, map(self._first, queues)), default=None)
            if first is None or first[0] > now:
                break
            entry = self._tasks[first[2]]
            entry.task.version += 1
            entry.task.fence += 1
            self._place(entry, OVERDUE, hold)
            claimed.append(self._copied(entry))
        return claimed

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        entry = self._current(task)
        if entry is None:
            return False
        kept = entry.task
        self._account(kept.owner, len(task.body) - len(kept.body), self._clock())
        is_written(task, self._now())
        kept.body = task.body
        kept.version = task.version
        kept.updated = task.updated
        self._place(entry, queue, delay)
        self._tell(task.id, queue)
        return True

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        changed: list[str] = []
        for task in tasks:
            entry = self._current(task)
            if entry is None:
                changed.append(task.id)
            else:
                self._place(entry, OVERDUE, hold)
        return changed

    async def task_delete(self, task: StoredTask) -> bool:
        entry = self._current(task)
        if entry is None:
            return False
        kept = entry.task
        self._account(kept.owner, -_task_size(kept))
        del self._tasks[kept.id]
        del self._owned[kept.owner][kept.id]
        if not self._owned[kept.owner]:
            del self._owned[kept.owner]
        self._first(entry.queue)
        return True

    def _now(self) -> float:
        """Seconds since 1970 on a clock that is never set back."""
        return self._epoch + self._clock()

    def _copied(self, entry: _Entry) -> StoredTask:
        task = copy(entry.task)
        task.read_at = self._now()
        return task

    def _current(self, task: StoredTask) -> _Entry | None:
        """The entry of a task, unless it has changed since the caller has read it."""
        entry = self._tasks.get(task.id)
        return entry if entry is not None and entry.task.version == task.version else None

    def _place(self, entry: _Entry, queue: str, delay: float) -> None:
        """Put a task into a queue; its entry in another queue is then an old one."""
        left = entry.queue
        self._last += 1
        entry.place = self._last
        entry.queue = queue
        heap = self._queues.setdefault(queue, [])
        heappush(heap, (self._clock() + delay, self._last, entry.task.id))
        if len(heap) > 2 * len(self._tasks) + STALE:
            heap[:] = filter(self._holds, heap)
            heapify(heap)
        self._first(left)

    def _holds(self, place: tuple[float, int, str]) -> bool:
        entry = self._tasks.get(place[2])
        return entry is not None and entry.place == place[1]

    def _first(self, queue: str) -> tuple[float, int, str] | None:
        """What is due first in a queue. Old entries before it are removed."""
        heap = self._queues.get(queue, [])
        while heap and not self._holds(heap[0]):
            heappop(heap)
        if heap:
            return heap[0]
        self._queues.pop(queue, None)
        return None

    def _tell(self, id: str, queue: str) -> None:
        self._bus.deliver(topic_of(id), b"")
        if queue != OVERDUE:
            self._bus.deliver(CHANGED, queue.encode())

    async def close(self) -> None:
        """Nothing is open. What is kept stays, as in other engines."""


class _Entry:
    """A task, its queue, and the number of its place there."""

    __slots__ = ("place", "queue", "task")

    def __init__(self, task: StoredTask) -> None:
        self.task = task
        self.queue = OVERDUE
        self.place = 0


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value) + OVERHEAD


def _task_size(task: StoredTask) -> int:
    return len(task.id) + len(task.owner) + len(task.body) + 4 * OVERHEAD
