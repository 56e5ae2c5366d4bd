"""A store whose engine is away: every call fails soon and in words, and all goes on when the engine is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from traceback import format_exception

import pytest

from redstart.store.open import Store, open_store
from redstart.store.remote import Connections, split_namespace
from redstart.store.shared import StoreAway
from redstart.store.tasks import StoredTask, topic_of
from store.engines import Engine, running

TRIED = ["postgresql", "redis"]
SOON = 5.0
"""Seconds within which a call fails, and within which all works after the return of the engine."""
SLACK = 2.5
"""More of them on a machine that is busy."""
CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "task_insert": lambda store: store.task_insert(StoredTask("new", "ada", b"{}"), "q", 9, 9),
    "task_read": lambda store: store.task_read("kept", "ada"),
    "task_list": lambda store: store.task_list("ada", "", 9),
    "task_claim": lambda store: store.task_claim(["q"], 1, 1.0),
    "task_write": lambda store: store.task_write(StoredTask("kept", "ada", b"{}", version=1), "q", 0.0),
    "task_hold": lambda store: store.task_hold([StoredTask("kept", "ada", b"{}", version=1)], 1.0),
    "task_delete": lambda store: store.task_delete(StoredTask("kept", "ada", b"{}", version=99)),
    "kv_get": lambda store: store.kv_get("k"),
    "kv_set": lambda store: store.kv_set("k", b"1", durable=True),
    "kv_take": lambda store: store.kv_take("k"),
    "kv_delete": lambda store: store.kv_delete("k"),
    "publish": lambda store: store.publish("t", b"1"),
    "log_append": lambda store: store.log_append("l", b"1"),
    "log_read": lambda store: store.log_read("l"),
    "take": lambda store: store.take("b", 1.0, 1.0),
}


@pytest.fixture(params=TRIED)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with running(request.param) as engine:
        yield engine


def run(work: Coroutine[object, object, None]) -> None:
    asyncio.run(work)


async def failure(call: Awaitable[object]) -> str:
    """The text of the error that a call raises in time."""
    began = time.monotonic()
    with pytest.raises(StoreAway) as raised:
        await call
    assert time.monotonic() - began < SOON + SLACK
    return str(raised.value)


async def recovered(store: Store, id: str) -> None:
    """Wait until the store works again: it must not take long."""
    began = time.monotonic()
    while True:
        try:
            assert await store.task_read(id, "ada") is not None
            break
        except StoreAway:
            assert time.monotonic() - began < SOON + SLACK
            await asyncio.sleep(0.1)


async def woken(subscription: AsyncIterator[tuple[str, bytes]], topic: str, data: bytes) -> None:
    """Read the messages of a subscription until this one comes."""
    async for message in subscription:
        assert message in ((topic, b""), (topic, data))
        if message[1] == data:
            return


async def _next(subscription: AsyncIterator[tuple[str, bytes]]) -> tuple[str, bytes]:
    return await anext(subscription)


async def heard(store: Store, subscription: AsyncIterator[tuple[str, bytes]], topic: str) -> None:
    """A message that is published now reaches a subscription that was there before the engine was away."""
    async with asyncio.timeout(SOON + SLACK):
        reader = asyncio.create_task(woken(subscription, topic, b"now"))
        while not reader.done():
            await store.publish(topic, b"now")
            await asyncio.wait([reader], timeout=0.2)
        await reader


def test_an_engine_that_is_killed_and_started_again(engine: Engine) -> None:
    async def body() -> None:
        store = open_store(engine.url)
        subscription = store.subscribe("t", topic_of("kept"))
        assert await store.task_insert(StoredTask("kept", "ada", b"{}"), "q", 9, 9)
        assert await store.kv_set("durable", b"1", durable=True)
        assert await anext(subscription) == (topic_of("kept"), b"")
        await asyncio.gather(*(store.kv_get("k") for _ in range(20)))  # many connections, all of which will be dead
        engine.kill()
        told = asyncio.create_task(_next(subscription))
        for name, call in CALLS.items():
            assert "is away" in await failure(call(store)), name
        assert not told.done()  # it would read its data again too early
        engine.start()
        await recovered(store, "kept")
        await asyncio.gather(*(store.kv_get("k") for _ in range(20)))
        async with asyncio.timeout(SOON + SLACK):
            assert {await told, await anext(subscription)} == {("t", b""), (topic_of("kept"), b"")}
        await heard(store, subscription, "t")
        assert await store.kv_get("durable") == b"1"
        assert [task.id for task in await store.task_claim(["q"], 9, 1.0)] == ["kept"]
        await store.close()

    run(body())


@pytest.mark.slow("it waits for the time limits of both drivers")
def test_an_engine_that_does_not_answer(engine: Engine) -> None:
    async def body() -> None:
        store = open_store(engine.url)
        subscription = store.subscribe("t")
        assert await store.task_insert(StoredTask("kept", "ada", b"{}"), "q", 9, 9)
        engine.pause()
        texts = await asyncio.gather(
            *(failure(call(store)) for call in CALLS.values()), *(failure(store.kv_get("k")) for _ in range(60))
        )
        assert any("did not answer within 5 s" in text for text in texts)
        assert "did not answer" in await failure(store.kv_get("k"))  # a new connection
        engine.resume()
        await recovered(store, "kept")
        await heard(store, subscription, "t")
        await store.close()

    run(body())


def test_a_caller_that_gives_up_does_not_wait_for_the_engine(engine: Engine) -> None:
    async def body() -> None:
        store = open_store(engine.url)
        assert await store.task_insert(StoredTask("kept", "ada", b"{}"), "q", 9, 9)
        engine.pause()
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.kv_get("k"), 0.2)
        assert time.monotonic() - began < SLACK
        engine.resume()
        await recovered(store, "kept")
        await store.close()

    run(body())


class Lent:
    """Connections that only say what becomes of them."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed: list[int] = []
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.connections = Connections(self._connect, self._is_usable, self._close, 2)

    async def _connect(self) -> int:
        self.opened += 1
        return self.opened

    async def _is_usable(self, connection: int) -> bool:
        self.begun.set()
        await self.go_on.wait()
        return True

    async def _close(self, connection: int) -> None:
        self.closed.append(connection)

    async def use(self) -> None:
        async with self.connections.use(asyncio.get_running_loop().time() + SOON):
            self.begun.set()
            await self.go_on.wait()


def test_an_idle_connection_whose_user_gives_up_while_it_is_looked_at_is_closed() -> None:
    async def body() -> None:
        lent = Lent()
        lent.go_on.set()
        await lent.use()
        lent.begun.clear()
        lent.go_on.clear()
        user = asyncio.create_task(lent.use())
        await lent.begun.wait()
        user.cancel()
        await asyncio.wait([user])
        assert (lent.opened, lent.closed) == (1, [1])

    run(body())


def test_a_connection_that_is_in_use_when_all_are_closed_is_closed_after_its_use() -> None:
    async def body() -> None:
        lent = Lent()
        user = asyncio.create_task(lent.use())
        await lent.begun.wait()
        await lent.connections.close()
        assert lent.closed == []
        lent.go_on.set()
        await user
        assert lent.closed == [1]

    run(body())


def test_an_engine_that_is_not_there_yet(engine: Engine) -> None:
    async def body() -> None:
        engine.kill()
        store = open_store(engine.url)
        subscription = store.subscribe("t")
        assert "is away" in await failure(store.kv_get("k"))
        assert "is away" in await failure(store.task_insert(StoredTask("kept", "ada", b"{}"), "q", 9, 9))
        engine.start()
        began = time.monotonic()
        while True:
            try:
                await store.kv_set("k", b"1")
                break
            except StoreAway:
                assert time.monotonic() - began < SOON + SLACK
                await asyncio.sleep(0.1)
        await heard(store, subscription, "t")
        await store.close()

    run(body())


def test_the_error_names_no_host_and_no_password() -> None:
    async def body() -> None:
        for name in TRIED:
            store = open_store(f"{name}://user:s3cret@127.0.0.1:1/0")
            text = await failure(store.kv_get("k"))
            assert "s3cret" not in text
            assert "127.0.0.1" not in text
            await store.close()

    run(body())


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("namespace", ["", "Birds", "1a", "a;drop", "a" * 41])
def test_a_namespace_is_a_name(name: str, namespace: str) -> None:
    with pytest.raises(ValueError, match="the namespace of a store"):
        open_store(f"{name}://user:s3cret@127.0.0.1/0?namespace={namespace}")


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("password", ["s3cr/et", "s3cr:et/", "s3cr]et[", "s3cr#et"])
def test_a_password_that_is_not_quoted_is_not_shown(name: str, password: str) -> None:
    with pytest.raises(ValueError, match="does not have a valid URL") as raised:
        open_store(f"{name}://user:{password}@host/0")
    assert "s3cr" not in "".join(format_exception(raised.value))


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("redis://h", "redis://h"),
        ("redis://h:1/2?namespace=x", "redis://h:1/2"),
        ("postgresql:///db?host=%2Ftmp&namespace=x&a=b%20c", "postgresql:///db?host=%2Ftmp&a=b%20c"),
        ("postgresql://u@h1:1,h2:2/db?namespace=x", "postgresql://u@h1:1,h2:2/db"),
    ],
)
def test_an_engine_gets_the_url_without_the_namespace(url: str, rest: str) -> None:
    assert split_namespace(url) == (rest, "x" if "namespace" in url else "redstart")
