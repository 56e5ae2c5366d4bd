"""What is particular to Redis: scripts, keys of one slot, what its configuration says about the disk."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator

import pytest

from redstart.store.redis import RedisStore
from redstart.store.tasks import StoredTask
from store.engines import Redis, running


@pytest.fixture(scope="module")
def engine() -> Iterator[Redis]:
    with running("redis") as engine:
        assert isinstance(engine, Redis)
        yield engine


def ask(engine: Redis, *commands: str) -> str:
    """The answer of the engine to some commands in its text form."""
    with socket.create_connection(("127.0.0.1", engine.port), timeout=5) as link:
        link.sendall("\r\n".join([*commands, "QUIT", ""]).encode())
        return b"".join(iter(lambda: link.recv(65536), b"")).decode()


async def use_everything(store: RedisStore) -> None:
    task = StoredTask("1", "ada", b"{}")
    assert await store.task_insert(task, "q", 1, 1)
    assert [each.id for each in await store.task_claim(["q"], 1, 1.0)] == ["1"]
    assert await store.kv_set("k", b"1", ttl=60.0, durable=True)
    await store.log_append("l", b"1")
    await store.take("b", 1.0, 1.0)


def test_scripts_that_the_engine_has_forgotten_are_sent_again(engine: Redis) -> None:
    async def body() -> None:
        store = RedisStore(engine.url)
        await use_everything(store)
        assert "OK" in ask(engine, "SCRIPT FLUSH")
        assert await store.task_read("1", "ada") is not None
        await store.close()

    asyncio.run(body())


def test_all_keys_are_in_one_slot(engine: Redis) -> None:
    async def body() -> None:
        assert "OK" in ask(engine, "FLUSHALL")
        store = RedisStore(f"{engine.at}?namespace=birds")
        await use_everything(store)
        keys = [line for line in ask(engine, "KEYS *").splitlines() if line[:1] not in ("*", "$", "+")]
        assert len(keys) == 8
        assert all(key.startswith("{birds}:") for key in keys)
        await store.close()

    asyncio.run(body())


def test_namespaces_do_not_see_each_other(engine: Redis) -> None:
    async def body() -> None:
        one, two = RedisStore(engine.url), RedisStore(engine.url)
        subscription = two.subscribe("t")
        await use_everything(one)
        await one.publish("t", b"one")
        await two.publish("t", b"two")
        assert await anext(subscription) == ("t", b"two")
        assert await two.task_read("1", "ada") is None
        assert await two.kv_get("k") is None
        await one.close()
        await two.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("fsync", "warning"),
    [("always", None), ("no", "appendfsync no"), ("off", "appendonly off")],
)
def test_a_warning_says_what_a_crash_may_lose(
    fsync: str, warning: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Redis(fsync)
    engine.start()

    async def body() -> None:
        store = RedisStore(engine.url)
        for n in range(3):
            assert await store.task_insert(StoredTask(str(n), "ada", b"{}"), "q", 9, 9)
        await store.close()

    try:
        with caplog.at_level(logging.WARNING, "redstart"):
            asyncio.run(body())
    finally:
        engine.close()
    assert [warning in record.getMessage() for record in caplog.records if warning] == [True] * (warning is not None)
    assert warning is not None or not caplog.records
