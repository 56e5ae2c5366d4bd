"""`memory://`: tasks and shared state of one process, with a bound on what it keeps.

Values, streams and buckets are in one table, in the order of their expiry. What has expired is removed when it is read,
a few entries at every write, and as many as necessary to make room. A task, and a value without an expiry, is never
dropped: a store that is full refuses what is new with an error.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from redstart.store.bus import Bus, Subscription
from redstart.store.shared import StoreFull, check_message, log_position, owner_of, refill
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, is_stamped, topic_of

SWEPT: Final = 4
"""Expired entries that are removed at each write: more than are written, so that their number has a bound."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of all entries and tasks."""
SHARE: Final = 4
"""The part of it that one user may take: a quarter."""
OVERHEAD: Final = 256
"""Bytes that an entry takes beside its key and its value, about; so the number of entries has a bound too."""


class _Kept(NamedTuple):
    """A value, the entries of a stream, or the state of a bucket."""

    content: Any
    size: int
    until: float


class MemoryStore:
    """TaskStore and SharedState in this process's memory. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._epoch = time.time() - clock()
        self._max_bytes = max_bytes
        self._used = 0
        self._shares: Counter[str] = Counter()
        self._kept: dict[str, _Kept] = {}
        """What may expire. The first letter of a name tells its kind, the rest is its key."""
        self._ends: list[tuple[float, str]] = []
        """When each of these expires, in this order."""
        self._bus = Bus()
        self._last = 0
        self._tasks: dict[str, StoredTask] = {}
        self._owned: dict[str, dict[str, StoredTask]] = {}
        """The tasks of each owner, oldest first."""
        self._places: dict[str, tuple[str, float, int, str]] = {}
        """Where each task is: its queue, when it is due there, the number of this entry, its id."""
        self._due: list[tuple[str, float, int, str]] = []
        """All places, in order."""

    def __len__(self) -> int:
        return len(self._kept)

    # ------------------------------------------------------------ keys

    async def kv_get(self, key: str) -> bytes | None:
        kept = self._live(f"k{key}")
        return None if kept is None else kept.content

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        if nx and self._live(f"k{key}") is not None:
            return False
        self._keep(f"k{key}", value, len(key) + len(value) + OVERHEAD, ttl)
        return True

    async def kv_take(self, key: str) -> bytes | None:
        value = await self.kv_get(key)
        self._drop(f"k{key}")
        return value

    async def kv_delete(self, key: str) -> None:
        self._drop(f"k{key}")

    def _live(self, name: str) -> _Kept | None:
        kept = self._kept.get(name)
        if kept is not None and kept.until <= self._clock():
            self._drop(name)
            return None
        return kept

    def _keep(self, name: str, content: object, size: int, ttl: float | None) -> None:
        now = self._clock()
        for _ in range(SWEPT):
            if not self._expire(now):
                break
        old = self._live(name)
        self._account(owner_of(name[1:]), size - (0 if old is None else old.size), now)
        if old is not None:
            self._remove(name, old)
        kept = self._kept[name] = _Kept(content, size, inf if ttl is None else now + ttl)
        insort(self._ends, (kept.until, name))

    def _drop(self, name: str) -> None:
        kept = self._kept.get(name)
        if kept is not None:
            self._remove(name, kept)
            self._account(owner_of(name[1:]), -kept.size)

    def _remove(self, name: str, kept: _Kept) -> None:
        del self._kept[name]
        del self._ends[bisect_left(self._ends, (kept.until, name))]

    def _expire(self, now: float) -> bool:
        """Remove what has expired first; False where nothing has."""
        if not self._ends or self._ends[0][0] > now:
            return False
        self._drop(self._ends[0][1])
        return True

    def _account(self, owner: str, size: int, now: float = 0.0) -> None:
        """Count the bytes of an entry, or those that it frees; refuse it if there is no room."""
        share = self._max_bytes // SHARE
        while size > 0 and (self._used + size > self._max_bytes or self._shares[owner] + size > share):
            if not self._expire(now):
                raise StoreFull(self._max_bytes, share)
        self._used += size
        self._shares[owner] += size
        if not self._shares[owner]:
            del self._shares[owner]

    # ------------------------------------------------------------ bus

    async def publish(self, topic: str, data: bytes) -> None:
        check_message(data)
        self._bus.deliver(topic, data)

    def subscribe(self, *topics: str) -> Subscription:
        return self._bus.subscribe(*topics)

    # ------------------------------------------------------------ logs, rates

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        self._last += 1
        kept = self._live(f"s{stream}") or _Kept([], 0, inf)
        entries = [*kept.content, (self._last, data)]
        gone = entries[: max(0, len(entries) - maxlen)]
        size = kept.size + len(data) + OVERHEAD - sum(len(data) + OVERHEAD for _, data in gone)
        self._keep(f"s{stream}", entries[len(gone) :], size, ttl)
        return str(self._last)

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        kept, start = self._live(f"s{stream}"), log_position(after)
        return [] if kept is None else [(str(id), data) for id, data in kept.content if id > start]

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        now, kept = self._clock(), self._live(f"b{key}")
        tokens, since = (burst, now) if kept is None else kept.content
        allowed, wait, left, full = refill(tokens, since, now, rate, burst)
        self._keep(f"b{key}", (left, now), 0, full - now)  # who has no room left is counted too
        return allowed, wait

    # ------------------------------------------------------------ tasks

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0) -> bool:
        owned = self._owned.get(task.owner, {})
        if len(owned) >= max_owned or len(self._tasks) >= max_all or task.id in self._tasks:
            return False
        self._account(task.owner, _task_size(task), self._clock())
        is_stamped(task, 1, self._now())
        self._tasks[task.id] = self._owned.setdefault(task.owner, owned)[task.id] = replace(task)
        self._place(task.id, queue, delay)
        self._tell(task.id, queue)
        return True

    async def task_read(self, id: str, owner: str) -> StoredTask | None:
        task = self._owned.get(owner, {}).get(id)
        return None if task is None else replace(task, read_at=self._now())

    async def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        ids = iter(self._owned.get(owner, {}))
        if after and after not in ids:  # the test takes ids up to `after`, and all if there is none
            return []
        return [replace(self._tasks[id], read_at=self._now()) for id in islice(ids, limit)]

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        due: list[tuple[str, float, int, str]] = []
        for queue in dict.fromkeys(queues):
            start, end = bisect_left(self._due, (queue,)), bisect_left(self._due, (queue, self._clock(), inf))
            due += self._due[start : min(end, start + limit)]
        claimed: list[StoredTask] = []
        for *_, id in sorted(due, key=itemgetter(1, 2))[:limit]:
            task = self._tasks[id]
            task.version += 1
            task.fence += 1
            self._place(id, OVERDUE, hold)
            claimed.append(replace(task, read_at=self._now()))
        return claimed

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        kept = self._current(task)
        if kept is None:
            return False
        self._account(kept.owner, len(task.body) - len(kept.body), self._clock())
        is_stamped(task, task.version + 1, self._now())
        kept.body, kept.version, kept.updated = task.body, task.version, task.updated
        self._place(task.id, queue, delay)
        self._tell(task.id, queue)
        return True

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        for task in tasks:
            if self._current(task) is not None:
                self._place(task.id, OVERDUE, hold)
        return [task.id for task in tasks if self._current(task) is None]

    async def task_delete(self, task: StoredTask) -> bool:
        kept = self._current(task)
        if kept is None:
            return False
        self._account(kept.owner, -_task_size(kept))
        del self._tasks[kept.id]
        del self._owned[kept.owner][kept.id]
        if not self._owned[kept.owner]:
            del self._owned[kept.owner]
        self._displace(kept.id)
        return True

    def _now(self) -> float:
        """Seconds since 1970 on a clock that is never set back."""
        return self._epoch + self._clock()

    def _current(self, task: StoredTask) -> StoredTask | None:
        """A task as it is kept, unless it has changed since the caller has read it."""
        kept = self._tasks.get(task.id)
        return kept if kept is not None and kept.version == task.version else None

    def _place(self, id: str, queue: str, delay: float) -> None:
        """Put a task into a queue, and take it out of the one that it is in."""
        if id in self._places:
            self._displace(id)
        self._last += 1
        place = self._places[id] = (queue, self._clock() + delay, self._last, id)
        insort(self._due, place)

    def _displace(self, id: str) -> None:
        del self._due[bisect_left(self._due, self._places.pop(id))]

    def _tell(self, id: str, queue: str) -> None:
        self._bus.deliver(topic_of(id), b"")
        if queue != OVERDUE:
            self._bus.deliver(CHANGED, queue.encode())

    async def close(self) -> None:
        """Nothing is open. What is kept stays, as in other engines."""


def _task_size(task: StoredTask) -> int:
    return len(task.id) + len(task.owner) + len(task.body) + 4 * OVERHEAD
