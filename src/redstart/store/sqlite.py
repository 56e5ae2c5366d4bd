"""`sqlite:///file.db`: tasks and shared state of all processes of one host, in a file that survives a crash of them.

One thread for each store has the connection, so the event loop never waits for the disk. Calls that wait for the thread
together share a transaction, and with it the time that the disk takes. SQLite has no clock: the time is the host's.
Other processes are noticed by a look at `PRAGMA data_version`, every few milliseconds while somebody is subscribed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import zip_longest
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, NamedTuple, TypeVar, cast

from redstart.store.bus import Bus
from redstart.store.shared import StoreAway, check_message, log_position, refill
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, topic_of

log = logging.getLogger("redstart")
T = TypeVar("T")
POLL: Final = 0.01
"""Seconds between two looks for messages of other processes."""
BUSY: Final = 5.0
"""Seconds to wait for another process that writes."""
BATCH: Final = 256
"""Calls that share a transaction."""
SWEPT: Final = 4
"""Expired entries that are removed at each write: more than are written, so that their number has a bound."""
MESSAGES: Final = 4096
"""The last messages of the bus, which are kept for other processes to read."""
READ, WRITE, DURABLE = range(3)
"""What a call needs: nothing of the disk, to survive a crash of the process, or to survive a loss of power too."""

SCHEMA: Final = (
    (
        """CREATE TABLE tasks (seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, owner BLOB NOT NULL,
        body BLOB NOT NULL, version INTEGER NOT NULL, fence INTEGER NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, queue BLOB NOT NULL, due REAL NOT NULL)""",
        "CREATE INDEX tasks_due ON tasks (queue, due)",
        "CREATE INDEX tasks_owner ON tasks (owner)",
        "CREATE TABLE counts (owner BLOB PRIMARY KEY, tasks INTEGER NOT NULL)",  # the text 'all': of all owners
        """CREATE TRIGGER task_added AFTER INSERT ON tasks BEGIN
        INSERT OR IGNORE INTO counts VALUES (new.owner, 0), ('all', 0);
        UPDATE counts SET tasks = tasks + 1 WHERE owner IN (new.owner, 'all'); END""",
        """CREATE TRIGGER task_removed AFTER DELETE ON tasks BEGIN
        UPDATE counts SET tasks = tasks - 1 WHERE owner IN (old.owner, 'all');
        DELETE FROM counts WHERE owner = old.owner AND tasks = 0; END""",
        "CREATE TABLE pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL, until REAL)",
        "CREATE INDEX pairs_until ON pairs (until)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, topic BLOB NOT NULL, data BLOB NOT NULL)",
        "CREATE TABLE streams (stream BLOB PRIMARY KEY, until REAL)",
        "CREATE INDEX streams_until ON streams (until)",
        """CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, stream BLOB NOT NULL, data BLOB NOT NULL)""",
        "CREATE INDEX entries_stream ON entries (stream, id)",
        "CREATE TABLE buckets (key BLOB PRIMARY KEY, tokens REAL NOT NULL, since REAL NOT NULL, full REAL NOT NULL)",
        "CREATE INDEX buckets_full ON buckets (full)",
    ),
)
"""The statements that lead from each version of the schema to the next."""
REASONS: Final = {
    sqlite3.SQLITE_BUSY: f"another process has been writing to its file for {BUSY:.0f} s",
    sqlite3.SQLITE_FULL: "its disk is full",
    sqlite3.SQLITE_READONLY: "its file is read-only",
    sqlite3.SQLITE_NOTADB: "its file is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "its file is damaged",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_IOERR: "its file cannot be read or written",
}
Row = tuple[bytes, bytes, bytes, int, int, float, float]
COLUMNS: Final = "id, owner, body, version, fence, created, updated"


class SqliteStore:
    """TaskStore and SharedState in a file. It is opened when it is first used."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path = os.path.abspath(path)
        self._clock = clock
        self._bus = Bus()
        self._worker: _Worker | None = None

    async def _run(self, level: int, work: Callable[[_Worker], T]) -> T:
        """The result of a call in the thread, after the transaction has ended."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        self._submit(_Job(level, work, future, loop))
        return cast(T, await future)

    def _submit(self, job: _Job) -> None:
        if self._worker is None:
            self._worker = _Worker(self._path, self._bus)
            self._worker.start()
        self._worker.jobs.put(job)

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.jobs.put(None)
            await asyncio.to_thread(worker.join)

    # ------------------------------------------------------------ keys

    async def kv_get(self, key: str) -> bytes | None:
        return await self._run(READ, lambda db: self._live(db, key))

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        def work(db: _Worker) -> bool:
            now = self._clock()
            expired = "SELECT key FROM pairs WHERE until <= ? ORDER BY until LIMIT ?"
            db.execute(f"DELETE FROM pairs WHERE key IN ({expired})", now, SWEPT)
            if nx and self._live(db, key) is not None:
                return False
            until = None if ttl is None else now + ttl
            db.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?, ?)", _blob(key), value, until)
            return True

        return await self._run(DURABLE if durable else WRITE, work)

    async def kv_take(self, key: str) -> bytes | None:
        def work(db: _Worker) -> bytes | None:
            value = self._live(db, key)
            db.execute("DELETE FROM pairs WHERE key = ?", _blob(key))
            return value

        return await self._run(WRITE, work)

    async def kv_delete(self, key: str) -> None:
        await self.kv_take(key)

    def _live(self, db: _Worker, key: str) -> bytes | None:
        live = "SELECT value FROM pairs WHERE key = ? AND (until IS NULL OR until > ?)"
        row = db.execute(live, _blob(key), self._clock()).fetchone()
        return None if row is None else row[0]

    # ------------------------------------------------------------ bus

    async def publish(self, topic: str, data: bytes) -> None:
        check_message(data)
        await self._run(WRITE, lambda db: db.tell(topic, data))

    def subscribe(self, *topics: str) -> AsyncIterator[tuple[str, bytes]]:
        is_first = not self._bus.topics
        subscription = self._bus.subscribe(*topics)
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        done.add_done_callback(asyncio.Future.exception)  # if the store is away now, the next look for messages begins
        self._submit(_Job(READ, lambda db: db.listen(loop, is_first), done, loop))
        return subscription

    # ------------------------------------------------------------ logs

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        def work(db: _Worker) -> str:
            now, name = self._clock(), _blob(stream)
            expired = "SELECT stream FROM streams WHERE until <= ?1 AND (stream = ?2 OR ?2 IS NULL) LIMIT ?3"
            for (old,) in [*db.execute(expired, now, name, 1), *db.execute(expired, now, None, SWEPT)]:
                db.execute("DELETE FROM entries WHERE stream = ?", old)
                db.execute("DELETE FROM streams WHERE stream = ?", old)
            id = db.execute("INSERT INTO entries (stream, data) VALUES (?, ?)", name, data).lastrowid
            last = "SELECT id FROM entries WHERE stream = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
            db.execute(f"DELETE FROM entries WHERE stream = ? AND id <= ({last})", name, name, maxlen)
            db.execute("INSERT OR REPLACE INTO streams VALUES (?, ?)", name, None if ttl is None else now + ttl)
            return str(id)

        return await self._run(WRITE, work)

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        def work(db: _Worker) -> list[tuple[str, bytes]]:
            live = "SELECT stream FROM streams WHERE stream = ? AND (until IS NULL OR until > ?)"
            entries = f"SELECT id, data FROM entries WHERE stream IN ({live}) AND id > ? ORDER BY id"
            rows = db.execute(entries, _blob(stream), self._clock(), log_position(after))
            return [(str(id), data) for id, data in rows]

        return await self._run(READ, work)

    # ------------------------------------------------------------ rates

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        def work(db: _Worker) -> tuple[bool, float]:
            now, name = self._clock(), _blob(key)
            idle = "SELECT key FROM buckets WHERE full <= ? ORDER BY full LIMIT ?"
            db.execute(f"DELETE FROM buckets WHERE key IN ({idle})", now, SWEPT)
            row = db.execute("SELECT tokens, since FROM buckets WHERE key = ?", name).fetchone()
            tokens, since = (burst, now) if row is None else row
            allowed, wait, tokens, full = refill(tokens, since, now, rate, burst)
            db.execute("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?, ?)", name, tokens, now, full)
            return allowed, wait

        return await self._run(WRITE, work)

    # ------------------------------------------------------------ tasks

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int) -> bool:
        def work(db: _Worker) -> float | None:
            now, owner = self._clock(), _blob(task.owner)
            counts = dict(db.execute("SELECT owner, tasks FROM counts WHERE owner IN (?, 'all')", owner))
            if counts.get(owner, 0) >= max_owned or counts.get("all", 0) >= max_all:
                return None
            row = (_blob(task.id), owner, task.body, 1, 0, now, now, _blob(queue), now)
            insert = f"INSERT OR IGNORE INTO tasks ({COLUMNS}, queue, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            if db.execute(insert, *row).rowcount != 1:
                return None
            db.tell_task(task.id, queue)
            return now

        now = await self._run(DURABLE, work)
        if now is None:
            return False
        task.version, task.fence = 1, 0
        task.created = task.updated = task.read_at = now
        return True

    async def task_read(self, id: str, owner: str) -> StoredTask | None:
        read = f"SELECT {COLUMNS} FROM tasks WHERE id = ? AND owner = ?"
        tasks = await self._run(READ, lambda db: self._tasks(db.execute(read, _blob(id), _blob(owner))))
        return tasks[0] if tasks else None

    async def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        place = "SELECT seq FROM tasks WHERE id = ? AND owner = ?"
        page = f"SELECT {COLUMNS} FROM tasks WHERE owner = ? AND seq > ? ORDER BY seq LIMIT ?"

        def work(db: _Worker) -> list[StoredTask]:
            start = db.execute(place, _blob(after), _blob(owner)).fetchone() if after else (0,)
            return [] if start is None else self._tasks(db.execute(page, _blob(owner), *start, limit))

        return await self._run(READ, work)

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        due = "SELECT due, seq FROM tasks WHERE queue = ? AND due <= ? ORDER BY due, seq LIMIT ?"
        change = "UPDATE tasks SET version = version + 1, fence = fence + 1, queue = ?, due = ? WHERE seq = ?"

        def work(db: _Worker) -> list[StoredTask]:
            now = self._clock()
            places = sorted({place for queue in queues for place in db.execute(due, _blob(queue), now, limit)})
            claimed: list[StoredTask] = []
            for _, seq in places[:limit]:
                db.execute(change, _blob(OVERDUE), now + hold, seq)
                claimed += self._tasks(db.execute(f"SELECT {COLUMNS} FROM tasks WHERE seq = ?", seq))
            return claimed

        return await self._run(DURABLE, work)

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        def work(db: _Worker) -> float | None:
            now = self._clock()
            change = "body = ?, version = version + 1, updated = ?, queue = ?, due = ?"
            row = (task.body, now, _blob(queue), now + delay, _blob(task.id), task.version)
            if db.execute(f"UPDATE tasks SET {change} WHERE id = ? AND version = ?", *row).rowcount != 1:
                return None
            db.tell_task(task.id, queue)
            return now

        now = await self._run(DURABLE, work)
        if now is None:
            return False
        task.version += 1
        task.updated = task.read_at = now
        return True

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        def work(db: _Worker) -> list[str]:
            until = self._clock() + hold
            renew = "UPDATE tasks SET queue = ?, due = ? WHERE id = ? AND version = ?"
            rows = {task.id: (_blob(OVERDUE), until, _blob(task.id), task.version) for task in tasks}
            return [id for id, row in rows.items() if db.execute(renew, *row).rowcount != 1]

        return await self._run(DURABLE, work)

    async def task_delete(self, task: StoredTask) -> bool:
        delete = "DELETE FROM tasks WHERE id = ? AND version = ?"
        return await self._run(DURABLE, lambda db: db.execute(delete, _blob(task.id), task.version).rowcount == 1)

    def _tasks(self, rows: Iterable[Row]) -> list[StoredTask]:
        now = self._clock()
        return [
            StoredTask(_text(id), _text(owner), body, version, fence, created, updated, now)
            for id, owner, body, version, fence, created, updated in rows
        ]


class _Job(NamedTuple):
    level: int
    work: Callable[[_Worker], object]
    future: asyncio.Future[object]
    loop: asyncio.AbstractEventLoop


def _answer(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():  # the caller has been cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Worker(Thread):
    """The thread that has the connection."""

    def __init__(self, path: str, bus: Bus) -> None:
        super().__init__(name="redstart-sqlite", daemon=True)
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._path = path
        self._bus = bus
        self._connection: sqlite3.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard: int | None = None
        """The last message that was delivered; None before the first look."""
        self._seen = -1
        """The `data_version` of the last look for messages."""
        self._is_closing = False

    def run(self) -> None:
        while not self._is_closing:
            jobs = self._next_jobs()
            error = None
            results: list[object] = []
            try:
                results = self._transaction(jobs)
            except Exception as failure:
                self._disconnect()
                error = _away(failure)
            with suppress(sqlite3.Error):  # the next look may succeed
                self._deliver()
            for job, result in zip_longest(jobs, results):
                with suppress(RuntimeError):  # the loop of the caller is closed
                    job.loop.call_soon_threadsafe(_answer, job.future, result, error)
        self._disconnect()

    def _next_jobs(self) -> list[_Job]:
        """The calls that wait; none if it is time to look for messages."""
        jobs: list[_Job] = []
        with suppress(Empty):
            while len(jobs) < BATCH:
                timeout = 0 if jobs else POLL if self._bus.topics else None
                job = self.jobs.get(timeout=timeout)
                if job is None:
                    self._is_closing = True
                    break
                jobs.append(job)
        return jobs

    def _transaction(self, jobs: list[_Job]) -> list[object]:
        """The results of some calls: all of them are kept, or none."""
        level = max((job.level for job in jobs), default=READ)
        if level == READ:
            return [job.work(self) for job in jobs]
        self.execute(f"PRAGMA synchronous = {'FULL' if level == DURABLE else 'NORMAL'}")
        self.execute("BEGIN IMMEDIATE")
        try:
            results = [job.work(self) for job in jobs]
            self.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have already ended the transaction
                self.execute("ROLLBACK")
            raise
        return results

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        if self._connection is None:
            self._connection = _connected(self._path)
            self._seen = -1
        return self._connection.execute(statement, values)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ------------------------------------------------------------ messages

    def tell(self, topic: str, data: bytes) -> None:
        """Leave a message for the subscribers of all processes."""
        id = self.execute("INSERT INTO messages (topic, data) VALUES (?, ?)", _blob(topic), data).lastrowid
        self.execute("DELETE FROM messages WHERE id <= ?", (id or 0) - MESSAGES)
        self._seen = -1  # data_version tells of other connections only

    def tell_task(self, id: str, queue: str) -> None:
        self.tell(topic_of(id), b"")
        if queue != OVERDUE:
            self.tell(CHANGED, _blob(queue))

    def listen(self, loop: asyncio.AbstractEventLoop, is_first: bool) -> None:
        """Deliver messages from now on."""
        self._loop = loop
        if is_first:
            self._heard = None
        if self._heard is None:
            self._new_messages()

    def _deliver(self) -> None:
        """Give new messages to the subscribers of this process."""
        if self._loop is None or self._connection is None or not self._bus.topics:
            return
        (version,) = self.execute("PRAGMA data_version").fetchone()
        if version == self._seen:
            return
        self._seen = version
        for topic, data in self._new_messages():
            with suppress(RuntimeError):  # the loop of the subscribers is closed
                self._loop.call_soon_threadsafe(self._bus.deliver, _text(topic), data)

    def _new_messages(self) -> list[tuple[bytes, bytes]]:
        if self._heard is None:
            (self._heard,) = self.execute("SELECT coalesce(max(id), 0) FROM messages").fetchone()
            return []
        rows = self.execute("SELECT id, topic, data FROM messages WHERE id > ? ORDER BY id", self._heard).fetchall()
        if rows:
            self._heard = rows[-1][0]
        return [(topic, data) for _, topic, data in rows]


def _connected(path: str) -> sqlite3.Connection:
    """A connection to a file that has the newest schema."""
    with suppress(FileExistsError):  # a new file is for its owner only
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
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:  # the first two processes of a new file do not wait for each other
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                raise
            time.sleep(POLL)
        else:
            break
    if mode != "wal":
        raise StoreAway(f"its file cannot have a write-ahead log; the journal mode stays {mode}")


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(SCHEMA):
        return
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
    if version > len(SCHEMA):
        raise StoreAway(f"its file has the schema {version} of a newer redstart; this one knows {len(SCHEMA)}")
    for statements in SCHEMA[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(SCHEMA)}")
    connection.execute("COMMIT")


def _away(error: Exception) -> Exception:
    """The error for callers. Its text is for users, so it does not name the file; the log does."""
    if isinstance(error, sqlite3.Error):
        log.warning("sqlite store: %s", error)
        return StoreAway(REASONS.get(_code(error), f"SQLite reports: {error}"))
    if isinstance(error, OSError):
        log.warning("sqlite store: %s", error)
        return StoreAway(f"its file cannot be opened: {error.strerror}")
    return error


def _code(error: sqlite3.Error) -> int:
    """The kind of an error, without its details."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _blob(text: str) -> bytes:
    """A text as the file has it: also with characters that are not valid Unicode."""
    return text.encode("utf-8", "surrogatepass")


def _text(blob: bytes) -> str:
    return blob.decode("utf-8", "surrogatepass")
