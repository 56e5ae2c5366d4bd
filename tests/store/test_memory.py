"""Shared state in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from redstart.store.memory import BACKLOG, MemoryState
from redstart.store.open import open_state
from redstart.store.shared import scoped


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_keys() -> None:
    async def body() -> None:
        state = MemoryState()
        assert await state.kv_get("a") is None
        assert await state.kv_set("a", b"1")
        assert not await state.kv_set("a", b"2", nx=True)
        assert await state.kv_get("a") == b"1"
        assert await state.kv_set("a", b"3")
        assert await state.kv_take("a") == b"3"
        assert await state.kv_take("a") is None
        await state.kv_set("b", b"1")
        await state.kv_delete("b")
        assert await state.kv_get("b") is None

    run(body())


def test_keys_expire() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryState(clock)
        await state.kv_set("a", b"1", ttl=10)
        clock.now += 9.9
        assert await state.kv_get("a") == b"1"
        assert not await state.kv_set("a", b"2", nx=True)
        clock.now += 0.1
        assert await state.kv_get("a") is None
        assert await state.kv_set("a", b"2", ttl=10, nx=True)
        clock.now += 11
        assert await state.kv_take("a") is None

    run(body())


def test_garbage_does_not_grow() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryState(clock)
        await state.kv_set("kept", b"1")
        for n in range(10_000):
            clock.now += 1
            await state.kv_set(f"k{n}", b"1", ttl=10)
        assert len(state) < 50
        assert await state.kv_get("kept") == b"1"

    run(body())


def test_the_bus_wakes_those_who_listen_now() -> None:
    async def body() -> None:
        state = MemoryState()
        await state.publish("a", b"lost")
        stream = state.subscribe("a", "b")
        await state.publish("a", b"1")
        await state.publish("c", b"other")
        await state.publish("b", b"2")
        assert [await anext(stream), await anext(stream)] == [("a", b"1"), ("b", b"2")]
        waiting = asyncio.ensure_future(anext(stream))
        await state.publish("a", b"3")
        assert await waiting == ("a", b"3")
        await stream.aclose()  # type: ignore[attr-defined]
        assert not state._listeners

    run(body())


def test_a_slow_listener_is_bounded() -> None:
    async def body() -> None:
        state = MemoryState()
        stream = state.subscribe("a")
        for n in range(BACKLOG * 2):
            await state.publish("a", b"%d" % n)
        assert await anext(stream) == ("a", b"%d" % BACKLOG)

    run(body())


def test_logs() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryState(clock)
        ids = [await state.log_append("s", b"%d" % n, maxlen=3, ttl=10) for n in range(5)]
        assert [data for _, data in await state.log_read("s")] == [b"2", b"3", b"4"]
        assert await state.log_read("s", ids[3]) == [(ids[4], b"4")]
        assert await state.log_read("other") == []
        clock.now += 10
        assert await state.log_read("s") == []

    run(body())


def test_rates() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryState(clock)
        assert [(await state.take("a", 1, 2))[0] for _ in range(3)] == [True, True, False]
        allowed, wait = await state.take("a", 2, 2)
        assert (allowed, wait) == (False, 0.5)
        clock.now += 0.5
        assert (await state.take("a", 2, 2))[0]
        assert (await state.take("b", 1, 2))[0]

    run(body())


def test_a_key_of_one_principal_is_never_another_ones() -> None:
    names = ["a", "a/1:b", "", "1:a", "a/", "/"]
    keys = {scoped(principal, part) for principal in names for part in names}
    assert len(keys) == len(names) ** 2


def test_urls() -> None:
    assert isinstance(open_state(None), MemoryState)
    own = MemoryState()
    assert open_state(own) is own
    with pytest.raises(ValueError, match=r"memory://"):
        open_state("nosuch://")
