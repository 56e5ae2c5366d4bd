"""What is particular to Redis: scripts, keys of one slot, what its configuration says about the disk."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from redstart.store.redis import RedisStore
from redstart.store.shared import StoreAway
from redstart.store.tasks import StoredTask
from store.engines import Redis, running
from store.places import eventually
from support import free_port


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


def test_a_cluster_is_followed_to_the_node_that_has_the_slot() -> None:
    ports = free_port(), free_port()
    nodes = [Redis("always", "--cluster-enabled", "yes", "--cluster-port", str(port)) for port in ports]

    async def body() -> None:
        async def knows() -> bool:
            return "cluster_state:ok" in ask(nodes[1], "CLUSTER INFO")

        await eventually(knows)
        store = RedisStore(nodes[1].url)
        subscription = store.subscribe("t")
        await use_everything(store)
        await store.publish("t", b"1")
        assert await anext(subscription) == ("t", b"1")
        await store.close()

    try:
        for node in nodes:
            node.start()
        assert "OK" in ask(nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383")
        assert "OK" in ask(nodes[1], f"CLUSTER MEET 127.0.0.1 {nodes[0].port} {ports[0]}")
        asyncio.run(body())
        assert ask(nodes[0], "DBSIZE").startswith(":8\r\n")
        assert ask(nodes[1], "DBSIZE").startswith(":0\r\n")
    finally:
        for node in nodes:
            node.close()


def create(engine: Redis) -> None:
    """Insert some tasks."""

    async def body() -> None:
        store = RedisStore(engine.url)
        try:
            for n in range(3):
                assert await store.task_insert(StoredTask(str(n), "ada", b"{}"), "q", 9, 9)
        finally:
            await store.close()

    asyncio.run(body())


@contextmanager
def configured(fsync: str, *options: str) -> Iterator[Redis]:
    engine = Redis(fsync, *options)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


@pytest.mark.parametrize(("fsync", "words"), [("no", "appendfsync no"), ("off", "appendonly off")])
def test_a_warning_says_once_what_a_crash_may_lose(fsync: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    with configured(fsync) as engine:
        create(engine)
    [record] = caplog.records
    assert words in record.getMessage()


def test_no_warning_if_every_write_is_on_disk(engine: Redis, caplog: pytest.LogCaptureFixture) -> None:
    create(engine)
    assert not caplog.records


def test_an_engine_that_hides_its_configuration_is_used_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with configured("always", "--rename-command", "CONFIG", "") as engine:
        create(engine)
    [record] = caplog.records
    assert "does not tell whether it writes to a disk" in record.getMessage()


def test_a_new_task_is_confirmed_after_waitaof(engine: Redis, caplog: pytest.LogCaptureFixture) -> None:
    """Redis before 7.2 has no WAITAOF. Another command that takes and returns the same things has its name here."""
    if "waitaof" in ask(engine, "COMMAND INFO WAITAOF"):
        with configured("everysec") as engine:
            create(engine)
        assert not caplog.records
        return
    with configured("everysec", "--rename-command", "SMISMEMBER", "WAITAOF") as engine:
        assert ":1" in ask(engine, "SADD 1 0")
        create(engine)
        assert ":1" in ask(engine, "SREM 1 0")
        with pytest.raises(StoreAway, match="Redis did not write to its disk in time"):
            create(engine)
    assert not caplog.records
