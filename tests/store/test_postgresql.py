"""What is particular to PostgreSQL: its schema and the versions of it, rows that are swept, connections that end."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from redstart.store.postgresql import VERSIONS, PostgresStore
from redstart.store.shared import StoreAway
from redstart.store.tasks import CHANGED, StoredTask
from store.engines import Engine
from store.places import eventually


def ask(engine: Engine, statement: str) -> list[tuple[object, ...]]:
    """The rows that the engine returns to somebody else."""
    with psycopg.connect(engine.at, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def schema_of(url: str) -> str:
    return url.partition("namespace=")[2]


def test_many_processes_make_the_schema_at_once(postgresql: Engine) -> None:
    async def body() -> None:
        url = postgresql.url
        stores = [PostgresStore(url) for _ in range(6)]
        assert all(await asyncio.gather(*(store.kv_set(f"k{n}", b"1") for n, store in enumerate(stores))))
        assert await stores[0].kv_get("k5") == b"1"
        assert ask(postgresql, f"SELECT number FROM {schema_of(url)}.version") == [(len(VERSIONS),)]
        for store in stores:
            await store.close()

    asyncio.run(body())


def test_a_schema_that_somebody_else_has_made_is_used(postgresql: Engine) -> None:
    async def body() -> None:
        url = postgresql.url
        ask(postgresql, f"CREATE SCHEMA {schema_of(url)}")
        store = PostgresStore(url)
        assert await store.kv_set("k", b"1")
        await store.close()

    asyncio.run(body())


def test_a_schema_of_a_newer_version_is_refused(postgresql: Engine) -> None:
    async def body() -> None:
        url = postgresql.url
        store = PostgresStore(url)
        await store.kv_set("k", b"1")
        ask(postgresql, f"UPDATE {schema_of(url)}.version SET number = 99")
        old = PostgresStore(url)
        with pytest.raises(RuntimeError, match=r"has version 99, this redstart knows versions up to \d+: upgrade it"):
            await old.kv_get("k")
        await store.close()
        await old.close()

    asyncio.run(body())


def test_a_user_who_may_not_make_a_schema_is_told_by_the_log(
    postgresql: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        ask(postgresql, "CREATE USER guest")
        store = PostgresStore(postgresql.url.replace("redstart@", "guest@"))
        with pytest.raises(StoreAway):
            await store.kv_get("k")
        await store.close()

    asyncio.run(body())
    assert "permission denied for database" in caplog.text


def test_namespaces_do_not_see_each_other(postgresql: Engine) -> None:
    async def body() -> None:
        one, two = PostgresStore(postgresql.url), PostgresStore(postgresql.url)
        subscription = two.subscribe("t", CHANGED)
        assert await one.task_insert(StoredTask("1", "ada", b"{}"), "q", 1, 1)
        await one.publish("t", b"one")
        await two.publish("t", b"two")
        assert await anext(subscription) == ("t", b"two")
        assert await two.task_read("1", "ada") is None
        assert await two.task_insert(StoredTask("1", "ada", b"{}"), "q", 1, 1)
        await one.close()
        await two.close()

    asyncio.run(body())


def test_what_has_expired_is_swept(postgresql: Engine) -> None:
    async def body() -> None:
        url = postgresql.url
        store, schema = PostgresStore(url), schema_of(url)
        for n in range(8):
            await store.kv_set(f"k{n}", b"1", ttl=0.01)
            await store.log_append(f"l{n}", b"1", ttl=0.01)
            await store.take(f"b{n}", 1000.0, 1.0)

        async def is_swept() -> bool:
            await store.kv_set("kept", b"1")
            await store.log_append("kept", b"1", maxlen=1)
            await store.take("kept", 1.0, 1.0)
            names = ("kv", "streams", "entries", "buckets")
            return [ask(postgresql, f"SELECT count(*) FROM {schema}.{name}") for name in names] == [[(1,)]] * 4

        await eventually(is_swept)
        await store.close()

    asyncio.run(body())


def test_connections_that_the_engine_ends_are_replaced(postgresql: Engine) -> None:
    async def body() -> None:
        url = postgresql.url
        store = PostgresStore(url)
        subscription = store.subscribe("t")
        await asyncio.gather(*(store.kv_get("k") for _ in range(20)))
        name = f"%{schema_of(url)}%"
        ours = f"FROM pg_stat_activity WHERE query LIKE '{name}' AND pid <> pg_backend_pid()"
        ended = ask(postgresql, f"SELECT pid, pg_terminate_backend(pid) {ours}")
        assert len(ended) > 2
        pids = ", ".join(str(pid) for pid, _ in ended)

        async def are_gone() -> bool:
            return not ask(postgresql, f"SELECT 1 FROM pg_stat_activity WHERE pid IN ({pids})")

        await eventually(are_gone)
        await asyncio.gather(*(store.kv_get("k") for _ in range(20)))
        async with asyncio.timeout(5):
            assert await anext(subscription) == ("t", b"")
        await store.publish("t", b"1")
        assert await anext(subscription) == ("t", b"1")
        await store.close()

    asyncio.run(body())
