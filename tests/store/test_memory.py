"""Shared state in memory."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from redstart import Client, Context, Server
from redstart.client import RequestError
from redstart.store.bus import BACKLOG
from redstart.store.memory import MemoryStore
from redstart.store.shared import StoreFull, scoped
from redstart.store.tasks import OVERDUE, StoredTask


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_keys() -> None:
    async def body() -> None:
        state = MemoryStore()
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
        state = MemoryStore(clock)
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
        state = MemoryStore(clock)
        await state.kv_set("kept", b"1")
        for n in range(10_000):
            clock.now += 1
            await state.kv_set(f"k{n}", b"1", ttl=10)
        assert len(state) < 50
        assert await state.kv_get("kept") == b"1"

    run(body())


def test_the_bus_wakes_those_who_listen_now() -> None:
    async def body() -> None:
        state = MemoryStore()
        await state.publish("a", b"lost")
        stream = state.subscribe("a", "b")
        await state.publish("a", b"1")
        await state.publish("c", b"other")
        await state.publish("b", b"2")
        assert [await anext(stream), await anext(stream)] == [("a", b"1"), ("b", b"2")]
        waiting = asyncio.ensure_future(anext(stream))
        await state.publish("a", b"3")
        assert await waiting == ("a", b"3")
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    run(body())


def test_a_slow_listener_is_bounded() -> None:
    async def body() -> None:
        state = MemoryStore()
        stream = state.subscribe("a")
        for n in range(BACKLOG * 2):
            await state.publish("a", b"%d" % n)
        assert await anext(stream) == ("a", b"%d" % BACKLOG)

    run(body())


def test_logs() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryStore(clock)
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
        state = MemoryStore(clock)
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


# ---------------------------------------------------------------- room


async def filled(put: Callable[[int], Awaitable[Any]], most: int = 1000) -> int:
    """How many times `put` finds room."""
    for n in range(most):
        try:
            await put(n)
        except StoreFull:
            return n
    raise AssertionError("the store has no bound")


def test_a_store_that_is_full_says_so_and_has_room_again() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryStore(clock, max_bytes=100_000)
        count = await filled(lambda n: state.kv_set(scoped("ada", str(n)), b"x" * 1000, ttl=10))
        assert 15 < count == len(state) < 25
        await state.kv_set(scoped("ada", "0"), b"x" * 900, ttl=20)  # what is smaller than before always fits
        with pytest.raises(StoreFull, match=r"memory:// is full.* at most 25000 bytes for one principal"):
            await state.kv_set(scoped("ada", "new"), b"y" * 1000)
        assert await state.kv_get(scoped("ada", "new")) is None
        await state.kv_delete(scoped("ada", "1"))
        assert await state.kv_set(scoped("ada", "new"), b"y" * 1000)
        clock.now += 11
        for n in range(count - 2):
            await state.kv_set(scoped("ada", f"later{n}"), b"x" * 1000)
        assert await state.kv_take(scoped("ada", "new")) == b"y" * 1000

    run(body())


def test_one_principal_leaves_room_for_others() -> None:
    async def body() -> None:
        state = MemoryStore(max_bytes=100_000)

        async def kept_for(user: str) -> int:
            return await filled(lambda n: state.kv_set(scoped(user, str(n)), b"x" * 1000))

        kept = [await kept_for(user) for user in "abcdef"]
        assert kept[0] == kept[1] == kept[2] == kept[3] > 15
        assert kept[4] + kept[5] < 5  # the whole is bounded too

    run(body())


def test_principals_with_a_slash_in_their_names_have_shares_of_their_own() -> None:
    async def body() -> None:
        state = MemoryStore(max_bytes=100_000)
        for user in ("https://id.example/ada", "https://id.example/eve"):
            key = scoped(user, "k")
            assert await filled(lambda n, key=key: state.kv_set(f"{key}{n}", b"x" * 1000)) > 15  # type: ignore[misc]

    run(body())


def test_a_full_store_refuses_without_a_look_at_every_value() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryStore(clock, max_bytes=400 * 60_000)
        await filled(lambda n: state.kv_set(f"a/{n}", b"", ttl=600 + n % 7), 100_000)
        assert len(state) > 20_000
        began = time.thread_time()
        for _ in range(50):
            clock.now += 1.5
            with pytest.raises(StoreFull):
                await state.kv_set("a/new", b"")
        assert time.thread_time() - began < 0.1

    run(body())


def test_values_that_are_written_again_and_again_leave_nothing_behind() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryStore(clock)
        tracemalloc.start()
        try:
            for _ in range(20_000):
                await state.kv_set("a/k", b"x", ttl=600)
            assert tracemalloc.get_traced_memory()[0] < 100_000
        finally:
            tracemalloc.stop()
        clock.now += 599
        assert await state.kv_get("a/k") == b"x"
        clock.now += 1
        await state.kv_set("a/other", b"")
        assert len(state) == 1

    run(body())


def test_many_small_values_are_bounded_too() -> None:
    async def body() -> None:
        state = MemoryStore(max_bytes=100_000)
        assert await filled(lambda n: state.kv_set(f"a/{n}", b"")) == len(state) < 100

    run(body())


def test_logs_and_buckets_are_bounded() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryStore(clock, max_bytes=100_000)
        for _ in range(1000):  # the oldest entries go, and their room with them
            await state.log_append("a", b"x" * 1000, maxlen=5)
        for n in range(1000):  # streams that have ended go too
            clock.now += 1
            await state.log_append(f"s/{n}", b"x" * 1000, ttl=5)
            assert (await state.take(f"user{n}", 1, 2))[0]
        assert await filled(lambda n: state.log_append(f"t/{n}", b"x" * 1000)) < 25

    run(body())


def test_a_principal_whose_room_is_full_has_rates() -> None:
    async def body() -> None:
        state = MemoryStore(max_bytes=100_000)
        await filled(lambda n: state.kv_set(scoped("ada", str(n)), b""))
        assert [(await state.take(scoped("ada", "rate"), 1, 2))[0] for _ in range(3)] == [True, True, False]

    run(body())


def test_a_tool_that_fills_the_store_gets_words() -> None:
    server = Server("s", store=MemoryStore(max_bytes=100_000))

    @server.tool
    async def hoard(ctx: Context) -> str:
        for n in range(1000):
            await ctx.state.set(str(n), "x" * 1000)
        return "kept"

    async def body() -> str:
        async with Client(server) as client:
            with pytest.raises(RequestError) as caught:
                await client.call_tool("hoard")
            return str(caught.value)

    assert "The store memory:// is full" in run(body())


def test_the_dialogues_of_one_user_leave_room_for_those_of_others() -> None:
    server = Server("s", store=MemoryStore(max_bytes=100_000), auth=lambda token: token)

    @server.tool(single_use=True)
    async def pay(ctx: Context) -> str:
        await ctx.confirm("Pay?")
        return await ctx.step("charge", lambda: "paid")

    async def pays(user: str, times: int) -> None:
        async with Client(server, user=user, protocol="2026-07-28", on_elicit=lambda *_: {"confirm": True}) as client:
            for _ in range(times):
                assert (await client.call_tool("pay")).text == "paid"

    async def body() -> None:
        with pytest.raises(RequestError, match="The store memory:// is full"):
            await pays("eve", 1000)
        await pays("ada", 10)

    run(body())


# ---------------------------------------------------------------- tasks


def task(n: int, owner: str = "ada", body: bytes = b"{}") -> StoredTask:
    return StoredTask(f"t{n}", owner, body)


def test_tasks_and_values_have_their_room_together() -> None:
    async def body() -> None:
        state = MemoryStore(max_bytes=100_000)
        big = b"x" * 4000
        count = await filled(lambda n: state.task_insert(task(n, body=big), "q", 1000, 1000))
        assert 3 < count < 8
        assert await filled(lambda n: state.kv_set(scoped("ada", str(n)), b"x" * 4000)) <= 1
        assert await filled(lambda n: state.task_insert(task(100 + n, "eve", big), "q", 1000, 1000)) == count
        held = (await state.task_claim(["q"], 1, 60))[0]
        held.body = big * 10
        with pytest.raises(StoreFull):
            await state.task_write(held, OVERDUE, 60)
        kept = await state.task_read(held.id, "ada")
        assert kept is not None
        assert (kept.body, kept.version) == (big, held.version)
        assert await state.task_delete(kept)
        assert await state.task_insert(task(50, body=big), "q", 1000, 1000)

    run(body())


def test_tasks_that_come_and_go_leave_nothing_behind() -> None:
    async def body() -> None:
        state = MemoryStore()
        await state.task_insert(task(0), "kept", 10, 10)
        held = await state.task_claim(["kept"], 1, 60)
        tracemalloc.start()
        try:
            for n in range(1, 5000):
                await state.task_insert(task(n, f"user{n}"), f"q{n}", 10, 10)
                (mine,) = await state.task_claim([f"q{n}"], 1, 60)
                assert await state.task_hold(held, 60) == []
                assert await state.task_delete(mine)
            assert tracemalloc.get_traced_memory()[0] < 100_000
        finally:
            tracemalloc.stop()

    run(body())


def test_claims_take_no_longer_with_many_tasks() -> None:
    async def spent(count: int) -> float:
        state = MemoryStore(max_bytes=1 << 30)
        for n in range(count):
            await state.task_insert(task(n), "q", count, count)
        began = time.thread_time()
        for _ in range(500):
            (mine,) = await state.task_claim(["q", OVERDUE], 1, 60)
            assert await state.task_write(mine, OVERDUE, 60)
        return time.thread_time() - began

    assert run(spent(30_000)) < 5 * run(spent(1000)) + 0.01


def test_the_times_of_tasks_go_on_with_the_clock() -> None:
    async def body() -> None:
        clock = Clock()
        state = MemoryStore(clock)
        new = task(1)
        await state.task_insert(new, "q", 1, 1)
        assert abs(new.created - time.time()) < 60
        (held,) = await state.task_claim(["q"], 1, 10)
        clock.now += 9
        assert await state.task_claim([OVERDUE], 1, 10) == []
        assert await state.task_hold([held], 10) == []
        clock.now += 9
        assert await state.task_claim([OVERDUE], 1, 10) == []
        clock.now += 1
        (late,) = await state.task_claim([OVERDUE], 1, 10)
        assert (late.fence, late.read_at - late.created) == (2, 19)

    run(body())
