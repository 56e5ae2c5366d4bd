"""`redis://`: tasks and shared state in Redis 6.2 or newer, or in Valkey.

Every method is one command, or one method of the script in redis.lua, so it is atomic. All keys have the same hash tag,
so they are in one slot of a cluster; the node that has the slot is followed when it moves.

Keys, after the prefix `{namespace}:`
    task:ID      hash: the task, and the queue that it is in
    queue:NAME   sorted set: ids by the time when they are due
    owner:NAME   sorted set: ids in the order of their insertion
    count, last  the number of tasks, the number of the last insertion
    kv:, log:, bucket:   string with a ttl, stream, hash
    bus          the channel of all messages: the length of the topic, a space, the topic, the data

What survives a crash of the engine depends on its configuration. With `appendonly yes` and `appendfsync always` every
write is on disk when it is confirmed. With `everysec` a new task and a durable value are confirmed after WAITAOF, which
takes up to a second, if the engine has it (Redis 7.2, Valkey); other writes of the last second may be lost when its
host crashes. Otherwise a warning is logged once.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha1
from pathlib import Path
from typing import Final, TypeAlias, cast

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError

from redstart.store.bus import Subscription
from redstart.store.remote import PING, TIMEOUT, Connections, RemoteBus, away, split_namespace
from redstart.store.shared import StoreAway, as_bytes, as_text, check_message, log
from redstart.store.tasks import CHANGED, StoredTask, is_stamped, topic_of

Argument: TypeAlias = bytes | str | int | float
Reply: TypeAlias = "bytes | int | list[Reply] | None"

ENTRY_ID: Final = re.compile(r"\d{1,18}-\d{1,18}", re.ASCII)
SECOND: Final = 1_000_000
MAX_CONNECTIONS: Final = 32
"""Connections of one process, beside the one that listens."""


SCRIPT: Final = Path(__file__).with_suffix(".lua").read_bytes()
SCRIPT_HASH: Final = sha1(SCRIPT, usedforsecurity=False).hexdigest()


class RedisStore:
    """TaskStore and SharedState in Redis. For one event loop; it connects when it is first used."""

    def __init__(self, url: str) -> None:
        url, namespace = split_namespace(url)
        url = re.sub("^valkey", "redis", url)
        self._prefix = f"{{{namespace}}}:".encode()
        self._pool = ConnectionPool.from_url(
            url, protocol=2, socket_timeout=None, socket_connect_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0)
        )
        self._place = {"port": 6379, **self._pool.connection_kwargs}
        self._connections = Connections(self._connect, _is_usable, _close, MAX_CONNECTIONS)
        self._bus = RemoteBus("Redis", self._listen)
        self._waits_for_disk: bool | None = None
        self._asking = asyncio.Lock()

    # ------------------------------------------------------------ tasks

    async def task_insert(self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0) -> bool:
        about = (task.id, task.owner, task.body, task.fence, queue, int(delay * SECOND), topic_of(task.id), CHANGED)
        now = await self._run("insert", *about, max_owned, max_all, durable=True)
        return is_stamped(task, 1, None if now is None else _seconds(now))

    async def task_read(self, id: str, owner: str) -> StoredTask | None:
        return next(iter(_tasks(await self._run("read", id, owner))), None)

    async def task_list(self, owner: str, after: str, limit: int) -> list[StoredTask]:
        return _tasks(await self._run("list", owner, after, limit))

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        return _tasks(await self._run("claim", limit, int(hold * SECOND), *dict.fromkeys(queues)))

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        about = (task.id, task.version, task.body, queue, int(delay * SECOND), topic_of(task.id), CHANGED)
        now = await self._run("write", *about)
        return is_stamped(task, task.version + 1, None if now is None else _seconds(now))

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        versions = [each for task in tasks for each in (task.id, task.version)]
        changed = await self._run("hold", int(hold * SECOND), *versions)
        return [as_text(id) for id in cast("list[bytes]", changed)]

    async def task_delete(self, task: StoredTask) -> bool:
        return await self._run("delete", task.id, task.version) == 1

    # ------------------------------------------------------------ keys, logs, rates

    async def kv_get(self, key: str) -> bytes | None:
        return cast("bytes | None", await self._call("GET", self._key("kv", key)))

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        options: list[Argument] = [] if ttl is None else ["PX", _milliseconds(ttl)]
        if nx:
            options.append("NX")
        return await self._call("SET", self._key("kv", key), value, *options, durable=durable) is not None

    async def kv_take(self, key: str) -> bytes | None:
        return cast("bytes | None", await self._call("GETDEL", self._key("kv", key)))

    async def kv_delete(self, key: str) -> None:
        await self._call("UNLINK", self._key("kv", key))

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        kept = "" if ttl is None else _milliseconds(ttl)
        return cast("bytes", await self._run("append", stream, data, maxlen, kept)).decode()

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        start = f"({after}" if ENTRY_ID.fullmatch(after) else "-"
        entries = await self._call("XRANGE", self._key("log", stream), start, "+")
        return [(id.decode(), data) for id, (_, data) in cast("list[tuple[bytes, list[bytes]]]", entries)]

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        allowed, wait = cast("tuple[int, bytes]", await self._run("take", key, rate, burst))
        return bool(allowed), float(wait)

    # ------------------------------------------------------------ bus

    async def publish(self, topic: str, data: bytes) -> None:
        check_message(data)
        await self._run("publish", topic, data)

    def subscribe(self, *topics: str) -> Subscription:
        return self._bus.subscribe(*topics)

    async def _listen(self) -> None:
        """Receive messages until the connection is lost."""
        connection = await self._connect()
        try:
            await connection.send_command("SUBSCRIBE", self._prefix + b"bus")
            while True:
                message = await connection.read_response(timeout=PING)
                if message is None:
                    await connection.send_command("PING")
                    message = await connection.read_response(timeout=TIMEOUT)
                self._deliver(message)
        finally:
            await _close(connection)

    def _deliver(self, message: list[bytes] | None) -> None:
        if message is None:
            raise TimeoutError("it is silent")
        if message[0] == b"subscribe":
            self._bus.opened()
        elif message[0] == b"message":
            size, _, rest = message[2].partition(b" ")
            self._bus.deliver(as_text(rest[: int(size)]), rest[int(size) :])

    # ------------------------------------------------------------ the engine

    def _key(self, kind: str, name: str) -> bytes:
        return self._prefix + as_bytes(f"{kind}:{name}")

    async def _run(self, method: str, *arguments: Argument, durable: bool = False) -> Reply:
        """Run a method of the script. Its text is sent if the engine does not have it."""
        values = [as_bytes(each) if isinstance(each, str) else each for each in arguments]
        try:
            return await self._call("EVALSHA", SCRIPT_HASH, 1, self._prefix, method, *values, durable=durable)
        except NoScriptError:
            return await self._call("EVAL", SCRIPT, 1, self._prefix, method, *values, durable=durable)

    async def _call(self, *command: Argument, durable: bool = False) -> Reply:
        commands = [command]
        if durable and await self._must_wait():
            commands.append(("WAITAOF", 1, 0, int(TIMEOUT * 800)))
        reply, *synced = await self._replies(commands)
        if isinstance(reply, NoScriptError):
            raise reply
        for each in (reply, *synced):
            if isinstance(each, ResponseError):
                log.error("Redis refuses a command: %s", each)
                await self._connections.close()  # another host may have its address now
                raise away("Redis", each)
        if synced and cast("list[int]", synced[0])[0] < 1:
            raise StoreAway("Redis did not write to its disk in time")
        return cast(Reply, reply)

    async def _replies(self, commands: Sequence[tuple[Argument, ...]]) -> list[Reply | ResponseError]:
        """Send commands at once and read their replies. In a cluster, find the node that has our slot."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._bus.settled()
                replies = await self._exchange(commands)
                if isinstance(replies[0], MovedError):
                    self._pool.connection_kwargs.update(
                        host=replies[0].host or self._place["host"], port=replies[0].port
                    )
                    await self._connections.close()
                    replies = await self._exchange(commands)
                return replies
        except (RedisError, OSError) as error:
            self._pool.connection_kwargs.update(self._place)
            raise away("Redis", error) from None

    async def _exchange(self, commands: Sequence[tuple[Argument, ...]]) -> list[Reply | ResponseError]:
        replies: list[Reply | ResponseError] = []
        ends = asyncio.get_running_loop().time() + TIMEOUT
        async with self._connections.use(ends) as connection:
            packed = [part for command in commands for part in connection.pack_command(*command)]
            await connection.send_packed_command(packed)
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as error:
                    replies.append(error)
        return replies

    async def _connect(self) -> AbstractConnection:
        connection: AbstractConnection = self._pool.connection_class(**self._pool.connection_kwargs)
        async with asyncio.timeout(TIMEOUT):
            await cast("Callable[[], Awaitable[None]]", connection.connect)()
        return connection

    async def _must_wait(self) -> bool:
        """Whether a write is on disk only after WAITAOF has said so."""
        async with self._asking:
            if self._waits_for_disk is None:
                config, known = await self._replies([("CONFIG", "GET", "append*"), ("COMMAND", "INFO", "WAITAOF")])
                pairs = [] if isinstance(config, ResponseError) else cast("list[bytes]", config)
                settings = dict(zip(pairs[::2], pairs[1::2], strict=True))
                self._waits_for_disk = _waits(settings, isinstance(known, list) and known[0] is not None)
        return self._waits_for_disk

    async def close(self) -> None:
        await self._bus.close()
        await self._connections.close()


def _waits(settings: dict[bytes, bytes], has_waitaof: bool) -> bool:
    """Whether WAITAOF is needed, and possible. If tasks may be lost, say so."""
    if not settings:
        log.warning("Redis does not tell whether it writes to a disk: after a crash of it tasks may be lost")
    elif settings[b"appendonly"] != b"yes":
        log.warning("Redis has appendonly off: when it restarts, tasks may be lost. Set appendonly yes")
    elif settings[b"appendfsync"] == b"everysec" and has_waitaof:
        return True
    elif settings[b"appendfsync"] != b"always":
        mode = settings[b"appendfsync"].decode()
        log.warning("Redis has appendfsync %s: a crash of its host may lose new tasks. Set appendfsync always", mode)
    return False


async def _is_usable(connection: AbstractConnection) -> bool:
    try:
        return not await connection.can_read()
    except (RedisError, OSError):
        return False


async def _close(connection: AbstractConnection) -> None:
    await connection.disconnect(nowait=True)


def _tasks(reply: Reply) -> list[StoredTask]:
    now, *rows = cast("list[Reply]", reply)
    return [_task(cast("list[bytes]", row), _seconds(now)) for row in rows]


def _task(row: list[bytes], now: float) -> StoredTask:
    id, owner, body, version, fence, *times = row
    created, updated = map(_seconds, times)
    return StoredTask(as_text(id), as_text(owner), body, int(version), int(fence), created, updated, now)


def _seconds(time: Reply) -> float:
    return int(cast("bytes | int", time)) / SECOND


def _milliseconds(ttl: float) -> int:
    return max(1, math.ceil(ttl * 1000))
