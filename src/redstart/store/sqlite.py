"""`sqlite:///file.db`: tasks and shared state of all processes of one host, in a file that survives a crash of them.

One thread has the connection, so the event loop never waits for the disk. Calls that wait for the thread together share
a transaction, and with it the time that the disk takes. SQLite has no clock: the time is the host's. Messages of other
processes are noticed by a look at `PRAGMA data_version`, every few milliseconds while somebody is subscribed.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import struct
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from itertools import zip_longest
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, ParamSpec, TypeAlias, TypeVar, cast

from redstart.store.bus import Bus, Subscription
from redstart.store.shared import StoreAway, as_bytes, as_text, check_message, log, log_position, refill
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, is_stamped, topic_of

P = ParamSpec("P")
T = TypeVar("T")
POLL: Final = 0.005
"""Seconds between two looks for messages of other processes."""
BUSY: Final = 5.0
"""Seconds to wait for another process that writes."""
BATCH: Final = 256
"""Calls that share a transaction."""
SWEPT: Final = 4
"""Expired entries that are removed at each write: more than are written, so that their number has a bound."""
MESSAGES: Final = 4096
"""The last messages of the bus, which are kept for other processes to read."""
SCHEMA: Final = [
    step.split("\n\n") for step in Path(__file__).with_suffix(".sql").read_text().split("\n--------\n")[1:]
]
"""The statements that lead from each version of the schema to the next."""
COLUMNS: Final = "id, owner, body, version, fence, created, updated"
READ, WRITE, DURABLE = range(3)
"""What a call needs: only to read, to survive a crash of the process, to survive a loss of power too."""


Job: TypeAlias = "tuple[int, Callable[[], object], asyncio.Future[object]]"
"""What a call needs, what it does, and where its result is put."""


def _in_thread(level: int) -> Callable[[Callable[P, T]], Callable[P, Coroutine[object, object, T]]]:
    """Make a method run in the thread of its store, and return when its transaction has ended."""

    def decorate(method: Callable[P, T]) -> Callable[P, Coroutine[object, object, T]]:
        @wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            store = cast(SqliteStore, args[0])
            return cast(T, await store.submit(level, lambda: method(*args, **kwargs)))

        return call

    return decorate


class SqliteStore:
    """TaskStore and SharedState in a file, which is opened when it is first used."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path = os.path.abspath(path)
        self._clock = clock
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_closing = False
        self._bus = Bus()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the subscribers."""
        # Only the thread uses these:
        self._connection: sqlite3.Connection | None = None
        self._heard: int | None = None
        """The last message that was delivered; None while nobody is subscribed."""
        self._seen = -1
        """The `data_version` of the last look for messages."""

    # ------------------------------------------------------------ keys

    @_in_thread(READ)
    def kv_get(self, key: str) -> bytes | None:
        return self._get(b"k" + as_bytes(key))

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        def work() -> bool:
            name = b"k" + as_bytes(key)
            if nx and self._get(name) is not None:
                return False
            self._put(name, value, ttl)
            return True

        return cast(bool, await self.submit(DURABLE if durable else WRITE, work))

    @_in_thread(WRITE)
    def kv_take(self, key: str) -> bytes | None:
        name = b"k" + as_bytes(key)
        value = self._get(name)
        self._sql("DELETE FROM pairs WHERE key = ?", name)
        return value

    async def kv_delete(self, key: str) -> None:
        await self.kv_take(key)

    def _get(self, name: bytes) -> bytes | None:
        live = "SELECT value FROM pairs WHERE key = ? AND (until IS NULL OR until > ?)"
        row = self._sql(live, name, self._clock()).fetchone()
        return None if row is None else row[0]

    def _put(self, name: bytes, value: bytes, ttl: float | None) -> None:
        now = self._clock()
        expired = "SELECT key FROM pairs WHERE until <= ? ORDER BY until LIMIT ?"
        self._sql(f"DELETE FROM pairs WHERE key IN ({expired}) OR key = ? AND until <= ?", now, SWEPT, name, now)
        self._sql("INSERT OR REPLACE INTO pairs VALUES (?, ?, ?)", name, value, None if ttl is None else now + ttl)

    # ------------------------------------------------------------ logs, rates

    @_in_thread(WRITE)
    def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        name = b"s" + as_bytes(stream)
        self._put(name, b"", ttl)
        id = self._sql("INSERT INTO entries (stream, data) VALUES (?, ?)", name, data).lastrowid
        last = "SELECT id FROM entries WHERE stream = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
        self._sql(f"DELETE FROM entries WHERE stream = ? AND id <= ({last})", name, name, maxlen)
        return str(id)

    @_in_thread(READ)
    def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        name = b"s" + as_bytes(stream)
        if self._get(name) is None:
            return []
        entries = "SELECT id, data FROM entries WHERE stream = ? AND id > ? ORDER BY id"
        return [(str(id), data) for id, data in self._sql(entries, name, log_position(after))]

    @_in_thread(WRITE)
    def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        now, name = self._clock(), b"b" + as_bytes(key)
        tokens, since = struct.unpack("dd", self._get(name) or struct.pack("dd", burst, now))
        allowed, wait, left, full = refill(tokens, since, now, rate, burst)
        self._put(name, struct.pack("dd", left, now), None if full == inf else full - now)
        return allowed, wait

    # ------------------------------------------------------------ tasks

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0) -> bool:
        return is_stamped(task, 1, await self._insert(task, queue, max_owned, max_all, delay))

    @_in_thread(DURABLE)
    def _insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float) -> float | None:
        now, owner = self._clock(), as_bytes(task.owner)
        counts = dict(self._sql("SELECT owner, tasks FROM counts WHERE owner IN (?, 'all')", owner))
        if counts.get(owner, 0) >= max_owned or counts.get("all", 0) >= max_all:
            return None
        insert = f"INSERT OR IGNORE INTO tasks ({COLUMNS}, queue, due) VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?)"
        row = (as_bytes(task.id), owner, task.body, task.fence, now, now, as_bytes(queue), now + delay)
        return self._told(task.id, queue, now, self._sql(insert, *row))

    @_in_thread(READ)
    def task_read(self, id: str, owner: str) -> StoredTask | None:
        read = f"SELECT {COLUMNS} FROM tasks WHERE id = ? AND owner = ?"
        return next(iter(self._tasks(self._sql(read, as_bytes(id), as_bytes(owner)))), None)

    @_in_thread(READ)
    def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        place = "SELECT seq FROM tasks WHERE id = ? AND owner = ?"
        start = self._sql(place, as_bytes(after), as_bytes(owner)).fetchone() if after else (0,)
        if start is None:
            return []
        page = f"SELECT {COLUMNS} FROM tasks WHERE owner = ? AND seq > ? ORDER BY seq LIMIT ?"
        return self._tasks(self._sql(page, as_bytes(owner), *start, limit))

    @_in_thread(DURABLE)
    def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        now = self._clock()
        due = "SELECT due, seq FROM tasks WHERE queue = ? AND due <= ? ORDER BY due, seq LIMIT ?"
        places = sorted({place for queue in queues for place in self._sql(due, as_bytes(queue), now, limit)})
        change = "UPDATE tasks SET version = version + 1, fence = fence + 1, queue = ?, due = ? WHERE seq = ?"
        claimed: list[StoredTask] = []
        for _, seq in places[:limit]:
            self._sql(change, as_bytes(OVERDUE), now + hold, seq)
            claimed += self._tasks(self._sql(f"SELECT {COLUMNS} FROM tasks WHERE seq = ?", seq))
        return claimed

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        return is_stamped(task, task.version + 1, await self._write(task, queue, delay))

    @_in_thread(DURABLE)
    def _write(self, task: StoredTask, queue: str, delay: float) -> float | None:
        now = self._clock()
        change = "UPDATE tasks SET body = ?, version = version + 1, updated = ?, queue = ?, due = ?"
        row = (task.body, now, as_bytes(queue), now + delay, as_bytes(task.id), task.version)
        return self._told(task.id, queue, now, self._sql(f"{change} WHERE id = ? AND version = ?", *row))

    @_in_thread(DURABLE)
    def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        renew = "UPDATE tasks SET queue = ?, due = ? WHERE id = ? AND version = ?"
        place = (as_bytes(OVERDUE), self._clock() + hold)
        return [task.id for task in tasks if not self._sql(renew, *place, as_bytes(task.id), task.version).rowcount]

    @_in_thread(DURABLE)
    def task_delete(self, task: StoredTask) -> bool:
        delete = "DELETE FROM tasks WHERE id = ? AND version = ?"
        return self._sql(delete, as_bytes(task.id), task.version).rowcount == 1

    def _tasks(self, rows: Iterable[tuple[bytes, bytes, bytes, int, int, float, float]]) -> list[StoredTask]:
        now = self._clock()
        return [StoredTask(as_text(row[0]), as_text(row[1]), *row[2:], now) for row in rows]

    def _told(self, id: str, queue: str, now: float, change: sqlite3.Cursor) -> float | None:
        """Tell of a change, and when it was made; None if nothing has changed."""
        if change.rowcount != 1:
            return None
        self._tell(topic_of(id), b"")
        if queue != OVERDUE:
            self._tell(CHANGED, as_bytes(queue))
        return now

    # ------------------------------------------------------------ bus

    async def publish(self, topic: str, data: bytes) -> None:
        check_message(data)
        await self.submit(WRITE, lambda: self._tell(topic, data))

    def subscribe(self, *topics: str) -> Subscription:
        subscription = self._bus.subscribe(*topics)
        self._loop = asyncio.get_running_loop()
        self.submit(READ, self._listen).add_done_callback(asyncio.Future.exception)  # if it fails, others fail too
        return subscription

    def _tell(self, topic: str, data: bytes) -> None:
        """Leave a message for the subscribers of all processes."""
        id = self._sql("INSERT INTO messages (topic, data) VALUES (?, ?)", as_bytes(topic), data).lastrowid
        self._sql("DELETE FROM messages WHERE id <= ?", (id or 0) - MESSAGES)
        self._seen = -1  # data_version counts the changes of others only

    def _listen(self) -> None:
        if self._heard is None:
            (self._heard,) = self._sql("SELECT coalesce(max(id), 0) FROM messages").fetchone()

    def _deliver(self) -> None:
        """Give new messages to the subscribers of this process."""
        if not self._bus.topics or self._loop is None:
            self._heard = None
        elif self._heard is None:
            self._listen()
        elif self._connection is not None:
            (version,) = self._sql("PRAGMA data_version").fetchone()
            if version != self._seen:
                self._seen = version
                for id, topic, data in self._sql("SELECT * FROM messages WHERE id > ? ORDER BY id", self._heard):
                    self._heard = id
                    self._loop.call_soon_threadsafe(self._bus.deliver, as_text(topic), data)

    # ------------------------------------------------------------ the thread

    def submit(self, level: int, work: Callable[[], object]) -> asyncio.Future[object]:
        """The result of a function that runs in the thread, within a transaction if it writes."""
        if self._is_closing:
            raise StoreAway("it is being closed")
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="redstart-sqlite", daemon=True)
            self._thread.start()
        future = asyncio.get_running_loop().create_future()
        self._jobs.put((level, work, future))
        return future

    async def close(self) -> None:
        if self._thread is not None and not self._is_closing:
            self._is_closing = True
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
            self._is_closing = False

    def _serve(self) -> None:
        is_open = True
        while is_open:
            jobs, is_open = self._next_jobs()
            results: list[object] = []
            error = None
            try:
                results = self._transaction(jobs)
            except Exception as failure:
                self._disconnect()
                error = _away(failure)
            with suppress(sqlite3.Error, StoreAway, RuntimeError):  # the loop is closed, or the next look succeeds
                self._deliver()
            for (_, _, future), result in zip_longest(jobs, results):
                with suppress(RuntimeError):  # the loop of the caller is closed
                    future.get_loop().call_soon_threadsafe(_answer, future, result, error)
        self._disconnect()

    def _next_jobs(self) -> tuple[list[Job], bool]:
        """The calls that wait, none if it is time to look for messages; and whether the store stays open."""
        jobs: list[Job] = []
        with suppress(Empty):
            while len(jobs) < BATCH:
                job = self._jobs.get(timeout=0 if jobs else POLL if self._bus.topics else None)
                if job is None:
                    return jobs, False
                jobs.append(job)
        return jobs, True

    def _transaction(self, jobs: list[Job]) -> list[object]:
        """The results of some calls: all of them are kept, or none."""
        level = max((level for level, _, _ in jobs), default=READ)
        if level == READ:
            return [work() for _, work, _ in jobs]
        self._sql(f"PRAGMA synchronous = {'FULL' if level == DURABLE else 'NORMAL'}")
        self._sql("BEGIN IMMEDIATE")
        results = [work() for _, work, _ in jobs]
        self._sql("COMMIT")
        return results

    def _sql(self, statement: str, *values: object) -> sqlite3.Cursor:
        if self._connection is None:
            self._connection = _connected(self._path)
            self._seen = -1
        return self._connection.execute(statement, values)

    def _disconnect(self) -> None:
        """Close the connection; what it has not committed is undone."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connected(path: str) -> sqlite3.Connection:
    """A connection to a file that has the newest schema."""
    with suppress(OSError):  # a new file is for its owner only
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, cached_statements=256)
    try:
        _use_wal(connection)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    ends = time.monotonic() + BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:  # SQLite does not wait for a process that does the same
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                raise
            time.sleep(POLL)
        else:
            return


def _migrate(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone() == (len(SCHEMA),):
        return
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
    if version > len(SCHEMA):
        raise StoreAway(f"its file has the schema {version} of a newer redstart; this one knows {len(SCHEMA)}")
    for step in SCHEMA[version:]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(SCHEMA)}")
    connection.execute("COMMIT")


def _away(error: Exception) -> Exception:
    """The error for callers. SQLite's own text is for users too: it does not name the file."""
    if not isinstance(error, sqlite3.Error):
        return error
    log.warning("the store sqlite:// is away: %s", error)
    return StoreAway(f"SQLite says: {error}")


def _answer(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():  # the caller was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
