"""`postgresql://`: tasks and shared state in PostgreSQL 12 or newer.

Every method is one statement of postgresql.sql, so it is atomic, and on disk when it returns unless the engine is told
otherwise (`synchronous_commit`). The namespace of the URL is the name of the schema; it is made and migrated when the
store is first used. NOTIFY wakes subscribers and carries no data that is not in a table. Expired rows are removed by
later writes.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import socket
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Final, TypeAlias, cast

import psycopg
from psycopg import AsyncConnection

from redstart.store.bus import Subscription
from redstart.store.remote import PING, TIMEOUT, Connections, RemoteBus, away, split_namespace
from redstart.store.shared import as_bytes, as_text, check_message, key_bytes, log, log_position
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, is_stamped, topic_of

Value: TypeAlias = "bytes | str | int | float | bool | list[bytes] | list[int] | None"
Row: TypeAlias = "tuple[Value, ...]"
MAX_CONNECTIONS: Final = 8
"""Connections of one process, beside the one that listens: by default the engine allows 100 in all."""

PARTS: Final = re.split(r"^-- (version|query): (\w+)\n", Path(__file__).with_suffix(".sql").read_text(), flags=re.M)
QUERIES: Final = {PARTS[n + 1]: PARTS[n + 2] for n in range(1, len(PARTS), 3) if PARTS[n] == "query"}
VERSIONS: Final = [PARTS[n + 2] for n in range(1, len(PARTS), 3) if PARTS[n] == "version"]


class PostgresStore:
    """TaskStore and SharedState in PostgreSQL. For one event loop; it connects when it is first used."""

    def __init__(self, url: str) -> None:
        self._url, self._schema = split_namespace(url)
        self._queries = {name: self._named(text) for name, text in QUERIES.items()}
        self._connections = Connections(self._connect, _is_usable, AsyncConnection.close, MAX_CONNECTIONS)
        self._bus = RemoteBus("PostgreSQL", self._listen)
        self._migrating = asyncio.Lock()
        self._is_migrated = False
        self._running: set[asyncio.Task[list[Row]]] = set()

    # ------------------------------------------------------------ tasks

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0) -> bool:
        rows = await self._run(
            "task_insert",
            key=key_bytes(task.id),
            id=as_bytes(task.id),
            owner=as_bytes(task.owner),
            owner_key=key_bytes(task.owner),
            body=task.body,
            fence=task.fence,
            max_owned=max_owned,
            max_all=max_all,
            **_placed(task, queue, delay),
        )
        return is_stamped(task, 1, cast("float | None", _first(rows)))

    async def task_read(self, id: str, owner: str) -> StoredTask | None:
        rows = await self._run("task_read", key=key_bytes(id), owner=as_bytes(owner))
        return next(map(_task, rows), None)

    async def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        rows = await self._run("task_list", owner_key=key_bytes(owner), after=key_bytes(after), limit=limit)
        return [_task(row) for row in rows]

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        names = [key_bytes(queue) for queue in dict.fromkeys(queues)]
        return [_task(row) for row in await self._run("task_claim", queues=names, limit=limit, hold=hold)]

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        key, placed = key_bytes(task.id), _placed(task, queue, delay)
        rows = await self._run("task_write", key=key, version=task.version, body=task.body, **placed)
        return is_stamped(task, task.version + 1, cast("float | None", _first(rows)))

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        keys, versions = [key_bytes(task.id) for task in tasks], [task.version for task in tasks]
        held = {id for (id,) in await self._run("task_hold", keys=keys, versions=versions, hold=hold)}
        return [task.id for task in tasks if as_bytes(task.id) not in held]

    async def task_delete(self, task: StoredTask) -> bool:
        return bool(await self._run("task_delete", key=key_bytes(task.id), version=task.version))

    # ------------------------------------------------------------ keys, logs, rates

    async def kv_get(self, key: str) -> bytes | None:
        return cast("bytes | None", _first(await self._run("kv_get", key=key_bytes(key))))

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        return bool(await self._run("kv_set", key=key_bytes(key), value=value, ttl=ttl, nx=nx))

    async def kv_take(self, key: str) -> bytes | None:
        return cast("bytes | None", _first(await self._run("kv_take", key=key_bytes(key))))

    async def kv_delete(self, key: str) -> None:
        await self._run("kv_delete", key=key_bytes(key))

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        rows = await self._run("log_append", stream=key_bytes(stream), data=data, maxlen=maxlen, ttl=ttl)
        return str(rows[0][0])

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        rows = await self._run("log_read", stream=key_bytes(stream), after=log_position(after))
        return [(str(id), cast("bytes", data)) for id, data in rows]

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        [(allowed, wait)] = await self._run("take", key=key_bytes(key), rate=float(rate), burst=float(burst))
        return bool(allowed), cast("float", wait)

    # ------------------------------------------------------------ bus

    async def publish(self, topic: str, data: bytes) -> None:
        check_message(data)
        await self._run("publish", message=_message(topic, data))

    def subscribe(self, *topics: str) -> Subscription:
        return self._bus.subscribe(*topics)

    async def _listen(self) -> None:
        """Receive messages until the connection is lost."""
        connection = await self._connect()
        try:
            await _execute(connection, self._named("LISTEN {schema}"))
            self._bus.opened()
            while True:
                async for notice in connection.notifies(timeout=PING):
                    self._deliver(*map(b64decode, notice.payload.split(" ")))
                await _execute(connection, b"SELECT 1")
        finally:
            await connection.close()

    def _deliver(self, name: bytes, data: bytes) -> None:
        if name[:1] == b"\xff":  # the hash of a long topic
            topics = [topic for topic in self._bus.topics if key_bytes(topic) == name]
        else:
            topics = [as_text(name)]
        for topic in topics:
            self._bus.deliver(topic, data)

    # ------------------------------------------------------------ the engine

    async def _run(self, query: str, **values: Value) -> list[Row]:
        """Execute a statement. A caller that is cancelled does not wait: the statement ends by itself, soon."""
        task = asyncio.create_task(self._answer(self._queries[query], values))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[list[Row]]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else may ask for it

    async def _answer(self, query: bytes, values: dict[str, Value]) -> list[Row]:
        ends = asyncio.get_running_loop().time() + TIMEOUT
        try:
            async with asyncio.timeout_at(ends):
                await self._bus.settled()
            async with self._connections.use(ends) as connection:
                if not self._is_migrated:
                    await self._migrate(connection)
                return await _execute(connection, query, values, ends)
        except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
            raise away("PostgreSQL", error) from None
        except psycopg.Error as error:
            log.error("PostgreSQL refuses a statement: %s", error)
            raise away("PostgreSQL", error) from None

    async def _connect(self) -> AsyncConnection[Row]:
        async with asyncio.timeout(TIMEOUT):
            return await AsyncConnection.connect(
                self._url, autocommit=True, connect_timeout=math.ceil(TIMEOUT), fallback_application_name="redstart"
            )

    def _named(self, text: str) -> bytes:
        return text.replace("{schema}", self._schema).encode()

    async def _migrate(self, connection: AsyncConnection[Row]) -> None:
        """Bring the schema to the newest version. Other processes wait meanwhile."""
        async with self._migrating:
            if await self._version(connection) < len(VERSIONS):
                async with connection.transaction():
                    await _execute(
                        connection, self._named("SELECT pg_advisory_xact_lock(hashtext('redstart {schema}'))")
                    )
                    for text in VERSIONS[await self._version(connection) :]:
                        await _execute(connection, self._named(text))
                    await _execute(connection, self._named(f"UPDATE {{schema}}.version SET number = {len(VERSIONS)}"))
            self._is_migrated = True

    async def _version(self, connection: AsyncConnection[Row]) -> int:
        """The version of the schema, 0 if there is none."""
        tables = "SELECT 1 FROM pg_tables WHERE schemaname = '{schema}' AND tablename = 'version'"
        if not await _execute(connection, self._named(tables)):
            return 0
        rows = await _execute(connection, self._named("SELECT number FROM {schema}.version"))
        version = cast("int", rows[0][0])
        if version > len(VERSIONS):
            known = f"this redstart knows versions up to {len(VERSIONS)}"
            raise RuntimeError(f"the schema {self._schema} of the store has version {version}, {known}: upgrade it")
        return version

    async def close(self) -> None:
        await self._bus.close()
        if self._running:
            await asyncio.wait(self._running, timeout=1)
        await self._connections.close()


async def _execute(
    connection: AsyncConnection[Row], query: bytes, values: dict[str, Value] | None = None, ends: float | None = None
) -> list[Row]:
    """The rows that a statement returns. If the engine does not answer in time, the connection is cut."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + TIMEOUT if ends is None else ends
    timer = loop.call_at(ends, _cut, connection)
    try:
        cursor = connection.cursor(binary=values is not None)
        await cursor.execute(query, values)
        return await cursor.fetchall() if cursor.description else []
    except psycopg.OperationalError:
        if loop.time() < ends:
            raise
        raise TimeoutError from None
    finally:
        timer.cancel()


def _cut(connection: AsyncConnection[Row]) -> None:
    """End what is under way. To cancel it would ask the engine, which does not answer."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as link:
        link.shutdown(socket.SHUT_RDWR)


async def _is_usable(connection: AsyncConnection[Row]) -> bool:
    """The engine says nothing on a connection that is not in use, unless it ends it."""
    with suppress(OSError, psycopg.Error), DefaultSelector() as selector:
        selector.register(connection.fileno(), EVENT_READ)
        return not selector.select(0)
    return False


def _placed(task: StoredTask, queue: str, delay: float) -> dict[str, Value]:
    """Where a task is now, and who is told about it."""
    changed = None if queue == OVERDUE else _message(CHANGED, as_bytes(queue))
    topic = _message(topic_of(task.id), b"")
    return {"queue": key_bytes(queue), "delay": delay, "topic": topic, "changed": changed}


def _message(topic: str, data: bytes) -> str:
    return f"{b64encode(key_bytes(topic)).decode()} {b64encode(data).decode()}"


def _task(row: Row) -> StoredTask:
    id, owner, body, version, fence, created, updated, now = cast(
        "tuple[bytes, bytes, bytes, int, int, float, float, float]", row
    )
    return StoredTask(as_text(id), as_text(owner), body, version, fence, created, updated, now)


def _first(rows: list[Row]) -> Value:
    return rows[0][0] if rows else None
