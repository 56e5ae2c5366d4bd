"""What every engine does: the sentences of `SharedState` and `TaskStore`, one after the other.

Times are short, and the store is asked until they are over: an engine's clock cannot be set.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import wraps
from typing import ParamSpec, cast

import pytest

from redstart.store.open import Store
from redstart.store.shared import MAX_MESSAGE, StoreAway
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, topic_of
from store.places import NAMES, PATIENCE, Place, eventually

SHARED = pytest.mark.parametrize("place", NAMES[1:], indirect=True)  # memory belongs to one process, and is never away
P = ParamSpec("P")
LONG = 3600.0
SHORT = 1.0
"""Seconds: more than a few durable writes take on a disk that is busy."""
MANY = 1000
TEXTS = ["", "a", "a/b", "a:b", "{a}", "a\0b", "ä€🐦", "\ud800", "%s?$1", "k" * 5000, "k" * 5001, "  ", "A"]


def looped(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run a test in an event loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def several(place: Place, count: int, stack: AsyncExitStack) -> list[Store]:
    return [await stack.enter_async_context(place.connected()) for _ in range(count)]


# ---------------------------------------------------------------- keys


@looped
async def test_a_value_is_kept_replaced_and_forgotten(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        assert await store.kv_get("a") is None
        assert await store.kv_set("a", b"1")
        assert await other.kv_get("a") == b"1"
        assert await other.kv_set("a", b"2", durable=True)
        assert await store.kv_get("a") == b"2"
        await store.kv_delete("a")
        await store.kv_delete("a")
        assert await other.kv_get("a") is None


@looped
async def test_nx_keeps_an_existing_value(place: Place) -> None:
    async with place.connected() as store:
        assert await store.kv_set("a", b"1", nx=True)
        assert not await store.kv_set("a", b"2", nx=True)
        assert await store.kv_get("a") == b"1"


@looped
async def test_a_value_is_taken_once(place: Place) -> None:
    async with place.connected() as store:
        await store.kv_set("a", b"1")
        assert await store.kv_take("a") == b"1"
        assert await store.kv_take("a") is None
        assert await store.kv_get("a") is None


@looped
async def test_a_value_expires(place: Place) -> None:
    async with place.connected() as store:
        began = time.monotonic()
        for key in ("a", "b", "c"):
            await store.kv_set(key, b"old", ttl=SHORT, durable=True)
        await store.kv_set("kept", b"1", ttl=SHORT)
        await store.kv_set("kept", b"2")  # a value that is written again has its own time
        await store.kv_set("long", b"1", ttl=LONG)
        assert await store.kv_get("a") == b"old"

        async def is_gone() -> bool:
            return await store.kv_get("a") is None

        await eventually(is_gone)
        assert time.monotonic() - began > SHORT * 0.9
        await eventually(lambda: store.kv_set("b", b"new", nx=True))
        assert await store.kv_get("b") == b"new"

        async def has_nothing() -> bool:
            return await store.kv_take("c") is None

        await eventually(has_nothing)
        assert [await store.kv_get(key) for key in ("kept", "long")] == [b"2", b"1"]


@looped
async def test_any_text_is_a_key_and_any_bytes_are_a_value(place: Place) -> None:
    async with place.connected() as store:
        values = [b"", b"\0", bytes(range(256)), b"x" * (1 << 20)]
        for n, key in enumerate(TEXTS):
            assert await store.kv_set(key, b"%d" % n + values[n % len(values)])
        for n, key in enumerate(TEXTS):
            assert await store.kv_take(key) == b"%d" % n + values[n % len(values)]


@looped
async def test_one_of_many_sets_and_takes_a_value(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 3, stack)
        for n in range(10):
            made = await asyncio.gather(*(store.kv_set(f"k{n}", b"1", nx=True) for store in stores * 5))
            assert sorted(made) == [False] * 14 + [True]
            taken = await asyncio.gather(*(store.kv_take(f"k{n}") for store in stores * 5))
            assert Counter(taken) == {b"1": 1, None: 14}


# ---------------------------------------------------------------- bus


async def heard(stream: AsyncIterator[tuple[str, bytes]], count: int) -> list[tuple[str, bytes]]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(stream) for _ in range(count)]


@looped
async def test_a_subscriber_hears_its_topics_from_now_on(place: Place) -> None:
    async with place.connected() as store:
        await store.publish("a", b"before")
        stream = store.subscribe("a", "b")
        await store.publish("a", b"1")
        await store.publish("c", b"not asked for")
        await store.publish("b", b"\0\xff")
        await store.publish("a", b"")
        assert await heard(stream, 3) == [("a", b"1"), ("b", b"\0\xff"), ("a", b"")]
        await stream.aclose()
        await store.publish("a", b"after")
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@looped
async def test_a_subscriber_that_waits_is_told_that_it_is_closed(place: Place) -> None:
    async with place.connected() as store:
        stream = store.subscribe("a")
        waiting = asyncio.ensure_future(heard(stream, 1))
        await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await waiting


@looped
async def test_every_subscriber_of_every_process_is_told(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 3, stack)
        streams = [store.subscribe(topic) for store in stores for topic in ("t", "t", *TEXTS)]
        for n, store in enumerate(stores):  # a subscription is complete when its own store has published to it
            await store.publish("t", b"%d" % n)
        for topic in TEXTS:
            await stores[0].publish(topic, b"x" * MAX_MESSAGE)
        for stream in streams:
            async with asyncio.timeout(PATIENCE):
                while (await anext(stream))[1] not in (b"2", b"x" * MAX_MESSAGE):
                    pass


@looped
async def test_a_message_has_a_bound(place: Place) -> None:
    async with place.connected() as store:
        with pytest.raises(ValueError, match=f"at most {MAX_MESSAGE} bytes"):
            await store.publish("a", b"x" * (MAX_MESSAGE + 1))


# ---------------------------------------------------------------- logs


@looped
async def test_a_log_keeps_its_last_entries(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        ids = [await store.log_append("s", b"%d" % n, maxlen=3) for n in range(5)]
        assert len(set(ids)) == 5
        assert await other.log_read("s") == [(ids[n], b"%d" % n) for n in (2, 3, 4)]
        assert await other.log_read("s", ids[3]) == [(ids[4], b"4")]
        assert await other.log_read("s", ids[4]) == []
        assert await other.log_read("s", ids[0]) == await other.log_read("s")  # the id of an entry that is gone
        assert await other.log_read("other") == []
        assert [await store.log_append("s", b"more", maxlen=1)] == [id for id, _ in await other.log_read("s")]


@looped
async def test_the_end_of_a_log_is_counted_from_its_last_entry(place: Place) -> None:
    async with place.connected() as store:
        await store.log_append("kept", b"1", ttl=SHORT)
        await store.log_append("kept", b"2", ttl=LONG)
        old = await store.log_append("s", b"1", ttl=SHORT)

        async def is_gone() -> bool:
            return await store.log_read("s") == []

        await eventually(is_gone)
        assert [data for _, data in await store.log_read("kept")] == [b"1", b"2"]
        new = await store.log_append("s", b"2", ttl=LONG)
        assert await store.log_read("s", old) == [(new, b"2")]


@looped
async def test_many_write_one_log(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 3, stack)
        ids = await asyncio.gather(*(stores[n % 3].log_append("s", b"%d" % n) for n in range(60)))
        entries = await stores[0].log_read("s")
        assert dict(entries) == {id: b"%d" % n for n, id in enumerate(ids)}
        for n in (0, 20, 59):
            assert await stores[1].log_read("s", entries[n][0]) == entries[n + 1 :]


@looped
@pytest.mark.parametrize("id", ["-1", "²", "x", "0", "9" * 30, "1-1-1", "\0", "\ud800"])
async def test_an_id_that_no_log_has_given_is_not_an_error(place: Place, id: str) -> None:
    async with place.connected() as store:
        await store.log_append("s", b"1")
        assert await store.log_read("s", id) in ([], await store.log_read("s"))


# ---------------------------------------------------------------- rates


@looped
async def test_a_bucket_gives_its_tokens_and_fills_again(place: Place) -> None:
    async with place.connected() as store:
        assert [await store.take("a", 0.001, 2) for _ in range(2)] == [(True, 0.0)] * 2
        allowed, wait = await store.take("a", 0.001, 2)
        assert not allowed
        assert 900 < wait <= 1000
        assert (await store.take("other", 0.001, 2))[0]
        assert (await store.take("b", 1 / SHORT, 1))[0]
        refused, wait = await store.take("b", 1 / SHORT, 1)
        assert not refused
        assert 0 < wait <= SHORT
        began = time.monotonic()

        async def has_one() -> bool:
            return (await store.take("b", 1 / SHORT, 1))[0]

        await eventually(has_one)
        assert time.monotonic() - began > wait / 2


@looped
async def test_all_processes_take_from_one_bucket(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 3, stack)
        answers = await asyncio.gather(*(stores[n % 3].take("a", 0.0001, 10) for n in range(30)))
        assert sum(allowed for allowed, _ in answers) == 10


# ---------------------------------------------------------------- tasks


def new(id: str, owner: str = "ada", body: bytes = b"{}") -> StoredTask:
    return StoredTask(id, owner, body)


async def inserted(store: Store, id: str, owner: str = "ada", queue: str = "q") -> StoredTask:
    task = new(id, owner)
    assert await store.task_insert(task, queue, MANY, MANY)
    return task


async def ids_of(tasks: Coroutine[object, object, list[StoredTask]]) -> list[str]:
    return [task.id for task in await tasks]


@looped
async def test_a_task_is_kept_as_it_was_inserted(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        body = b'{"text": "\xc3\xa4\\u0000"}' + b" " * 100_000
        task = StoredTask("a", "ada", body, version=7, fence=7)
        assert await store.task_insert(task, "q", 1, 1)
        assert task.fence == 7
        assert abs(task.created - time.time()) < 60
        assert task.created == task.updated == task.read_at
        read = await other.task_read("a", "ada")
        assert read is not None
        assert read.read_at >= task.read_at
        read.read_at = task.read_at
        assert read == task


@looped
async def test_a_task_of_somebody_else_is_unknown(place: Place) -> None:
    async with place.connected() as store:
        for n, owner in enumerate(text for text in TEXTS if len(text) < 100):
            await inserted(store, f"t{n}", owner)
            assert await store.task_read(f"t{n}", owner + " ") is None
            assert await ids_of(store.task_list(owner, "", 10)) == [f"t{n}"]
            (claimed,) = await store.task_claim(["q"], 2, LONG)
            assert claimed.owner == owner
        for id in TEXTS:
            assert await store.task_read(id, "a") is None
            assert await store.task_list("nobody", id, 10) == []
        assert await store.task_list("a", "t2", 10) == []  # the place of a foreign task is not told either


@looped
async def test_an_id_is_used_once(place: Place) -> None:
    async with place.connected() as store:
        first = await inserted(store, "a", "ada")
        assert not await store.task_insert(new("a", "eve", b"other"), "q", MANY, MANY)
        assert not await store.task_insert(new("a", "ada", b"other"), "q", MANY, MANY)
        read = await store.task_read("a", "ada")
        assert read is not None
        assert (read.body, read.version) == (b"{}", first.version)
        assert await store.task_read("a", "eve") is None


@looped
async def test_a_task_may_be_inserted_as_claimed(place: Place) -> None:
    async with place.connected() as store:
        mine = StoredTask("a", "ada", b"{}", fence=1)
        assert await store.task_insert(mine, OVERDUE, MANY, MANY, LONG)
        assert await store.task_claim(["q", OVERDUE], 9, LONG) == []
        read = await store.task_read("a", "ada")
        assert read is not None
        assert (read.version, read.fence) == (mine.version, 1)
        assert await store.task_hold([mine], 0) == []  # its worker is lost
        (found,) = await store.task_claim([OVERDUE], 9, LONG)
        assert (found.id, found.fence) == ("a", 2)
        assert not await store.task_write(mine, OVERDUE, LONG)


@looped
async def test_tasks_have_limits(place: Place) -> None:
    async with place.connected() as store:
        kept = [await store.task_insert(new(f"a{n}"), "q", 2, 4) for n in range(3)]
        assert kept == [True, True, False]
        assert await store.task_read("a2", "ada") is None
        assert [await store.task_insert(new(f"b{n}", "eve"), "q", 9, 4) for n in range(3)] == [True, True, False]
        assert not await store.task_insert(new("c", "bob"), "q", 9, 4)
        (claimed,) = await store.task_claim(["q"], 1, LONG)
        assert not await store.task_insert(new("c", "bob"), "q", 9, 4)  # one that a worker holds counts as well
        assert await store.task_delete(claimed)
        assert await store.task_insert(new("c", "bob"), "q", 9, 4)


@looped
async def test_limits_hold_for_all_at_once(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 3, stack)
        kept = await asyncio.gather(*(stores[n % 3].task_insert(new(f"a{n}"), "q", 5, MANY) for n in range(30)))
        assert sum(kept) == 5
        kept = await asyncio.gather(*(stores[n % 3].task_insert(new(f"b{n}", f"o{n}"), "q", 5, 9) for n in range(30)))
        assert sum(kept) == 4


@looped
async def test_a_list_has_pages(place: Place) -> None:
    async with place.connected() as store:
        for n in range(7):
            await inserted(store, f"t{9 - n}")
            await inserted(store, f"x{n}", "eve")
        ids = [f"t{9 - n}" for n in range(7)]
        assert await ids_of(store.task_list("ada", "", 100)) == ids
        (claimed,) = await store.task_claim(["q"], 1, LONG)
        assert await store.task_write(claimed, "q", 0)  # the order does not change with the queue
        assert await ids_of(store.task_list("ada", "", 3)) == ids[:3]
        assert await ids_of(store.task_list("ada", ids[2], 3)) == ids[3:6]
        assert await ids_of(store.task_list("ada", ids[5], 3)) == ids[6:]
        assert await store.task_list("ada", ids[6], 3) == []
        gone = await store.task_read(ids[2], "ada")
        assert gone is not None
        assert await store.task_delete(gone)
        assert await ids_of(store.task_list("ada", gone.id, 100)) in ([], ids[3:])
        assert await ids_of(store.task_list("ada", "", 100)) == ids[:2] + ids[3:]


@looped
async def test_a_claim_takes_what_is_longest_due(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        for n in range(6):
            await inserted(store, f"t{n}", queue=f"q{n % 3}")
        assert await store.task_claim([], 9, LONG) == []
        assert await store.task_claim(["none", OVERDUE], 9, LONG) == []
        assert await store.task_claim(["q0"], 0, LONG) == []
        claimed = await other.task_claim(["q2", "q0"], 3, LONG)
        assert [(task.id, task.fence, task.body) for task in claimed] == [(f"t{n}", 1, b"{}") for n in (0, 2, 3)]
        for task in claimed:
            read = await store.task_read(task.id, "ada")
            assert read is not None
            assert (read.version, read.fence, read.updated) == (task.version, 1, task.updated)
            assert task.version > 0
            assert task.updated == task.created <= task.read_at
        assert await ids_of(store.task_claim(["q0", "q1", "q2"], 9, LONG)) == ["t1", "t4", "t5"]
        assert await store.task_claim(["q0", "q1", "q2", OVERDUE], 9, LONG) == []


@looped
async def test_a_task_that_comes_back_is_behind_those_that_wait(place: Place) -> None:
    async with place.connected() as store:
        for n in range(3):
            await inserted(store, f"t{n}")
        for n in (0, 1, 2, 0, 1):
            (task,) = await store.task_claim(["q"], 1, LONG)
            assert task.id == f"t{n}"
            assert await store.task_write(task, "q", 0)


@looped
async def test_a_claim_that_is_not_held_ends(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        await inserted(store, "a")
        await inserted(store, "held")
        first, held = await store.task_claim(["q"], 2, SHORT)
        assert await store.task_hold([held], LONG) == []
        late: list[StoredTask] = []

        async def is_overdue() -> bool:
            late.extend(await other.task_claim([OVERDUE], 9, LONG))
            return bool(late)

        await eventually(is_overdue)
        (second,) = late
        assert (second.id, second.fence) == ("a", 2)
        assert second.version > first.version
        assert SHORT <= second.read_at - first.read_at < PATIENCE
        assert not await store.task_write(first, OVERDUE, LONG)  # the first worker is too late
        assert await store.task_hold([first, held], LONG) == ["a"]
        assert await other.task_write(second, OVERDUE, LONG)


@looped
async def test_a_write_needs_the_version_that_was_read(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        task = await inserted(store, "a")
        stale = await other.task_read("a", "ada")
        assert stale is not None
        old = task.version
        task.body = b'{"n": 1}'
        assert await store.task_write(task, OVERDUE, 0)
        assert task.version > old
        assert task.created <= task.updated == task.read_at
        stale.body = b"late"
        before = stale.version
        assert not await other.task_write(stale, "q", 0)
        assert stale.version == before
        assert not await other.task_delete(stale)
        assert await other.task_hold([stale], LONG) == ["a"]
        read = await other.task_read("a", "ada")
        assert read is not None
        read.read_at = task.read_at
        assert read == task
        assert await other.task_claim(["q"], 9, LONG) == []  # it is in one queue only, the last one
        assert await ids_of(other.task_claim([OVERDUE], 9, LONG)) == ["a"]


@looped
async def test_a_task_becomes_due_after_its_delay(place: Place) -> None:
    async with place.connected() as store:
        task = await inserted(store, "a")
        assert await store.task_write(task, "q", SHORT)
        await inserted(store, "b", queue="q")
        assert await ids_of(store.task_claim(["q"], 9, LONG)) == ["b"]
        due: list[StoredTask] = []

        async def is_due() -> bool:
            due.extend(await store.task_claim(["q"], 9, LONG))
            return bool(due)

        await eventually(is_due)
        assert due[0].id == "a"
        assert due[0].read_at - task.read_at >= SHORT


@looped
async def test_a_deleted_task_is_gone(place: Place) -> None:
    async with place.connected() as store:
        task = await inserted(store, "a")
        assert await store.task_delete(task)
        assert not await store.task_delete(task)
        assert not await store.task_write(task, "q", 0)
        assert await store.task_hold([task], 1) == ["a"]
        assert await store.task_hold([], 1) == []
        assert await store.task_read("a", "ada") is None
        assert await store.task_list("ada", "", 9) == []
        assert await store.task_claim(["q"], 9, LONG) == []
        await inserted(store, "a", "eve")  # the id is free again


@looped
async def test_hold_renews_many_at_once(place: Place) -> None:
    async with place.connected() as store:
        for n in range(20):
            await inserted(store, f"t{n}")
        tasks = await store.task_claim(["q"], 20, LONG)
        assert len(tasks) == 20
        changed = {f"t{n}" for n in range(0, 20, 4)}
        for task in tasks:
            if task.id in changed:
                other = await store.task_read(task.id, "ada")
                assert other is not None
                assert await store.task_write(other, OVERDUE, LONG)
        assert set(await store.task_hold(tasks, 0)) == changed
        assert set(await ids_of(store.task_claim([OVERDUE], 99, LONG))) == {task.id for task in tasks} - changed


@looped
async def test_changes_of_tasks_are_told(place: Place) -> None:
    async with place.connected() as store:
        stream = store.subscribe(topic_of("a"), CHANGED)
        task = await inserted(store, "a", queue="tool")
        first = await heard(stream, 2)
        assert sorted(first) == sorted([(topic_of("a"), b""), (CHANGED, b"tool")])
        (task,) = await store.task_claim(["tool"], 1, LONG)
        assert await store.task_write(task, OVERDUE, LONG)
        assert await heard(stream, 1) == [(topic_of("a"), b"")]
        stale = StoredTask("a", "ada", b"", version=task.version - 1)
        assert not await store.task_write(stale, "tool", 0)
        assert not await store.task_insert(new("b"), "tool", 0, 0)
        assert await store.task_write(task, "tool", LONG)
        assert sorted(await heard(stream, 2)) == sorted(first)
        await inserted(store, "b", queue=OVERDUE)
        await store.publish(CHANGED, b"end")
        assert await heard(stream, 1) == [(CHANGED, b"end")]  # what was refused, or is overdue, has told nothing


@looped
async def test_another_process_is_told_of_a_task(place: Place) -> None:
    async with place.connected() as store, place.connected() as other:
        stream = other.subscribe(CHANGED)
        await other.publish(CHANGED, b"ready")
        assert await heard(stream, 1) == [(CHANGED, b"ready")]
        await inserted(store, "a", queue="tool")
        assert await heard(stream, 1) == [(CHANGED, b"tool")]


# ---------------------------------------------------------------- many at once


@looped
async def test_each_task_goes_to_one_of_many_callers(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 4, stack)
        await asyncio.gather(*(inserted(stores[n % 4], f"t{n}", queue=f"q{n % 3}") for n in range(120)))
        claims = await asyncio.gather(
            *(stores[n % 4].task_claim(["q0", "q1", "q2"], 1 + n % 5, LONG) for n in range(80))
        )
        assert sorted(task.id for tasks in claims for task in tasks) == sorted(f"t{n}" for n in range(120))


@looped
async def test_one_of_many_writers_wins(place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = await several(place, 3, stack)
        await inserted(stores[0], "a")
        for n in range(10):
            copies = [await store.task_read("a", "ada") for store in stores * 4]
            tasks = [task for task in copies if task is not None]
            for number, task in enumerate(tasks):
                task.body = b"%d" % number
            wins = await asyncio.gather(
                *(store.task_write(task, "q", 0) for store, task in zip(stores * 4, tasks, strict=True))
            )
            assert sum(wins) == 1
            read = await stores[n % 3].task_read("a", "ada")
            assert read is not None
            assert read.body == b"%d" % wins.index(True)
            assert read.version == tasks[wins.index(True)].version


CLAIMER = """
import asyncio, sys
from redstart.store.open import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.kv_set("ready/" + sys.argv[2], b"1")
    while await store.kv_get("stop") is None:
        for task in await store.task_claim(["q"], 3, 3600):
            task.body = sys.argv[2].encode()
            assert await store.task_write(task, "", 3600)
            print(task.id, task.fence, flush=True)
    await store.close()

asyncio.run(main())
"""


@SHARED
@looped
async def test_each_task_goes_to_one_of_many_processes(place: Place) -> None:
    async with place.connected() as store:
        workers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", CLAIMER, place.url, str(n), stdout=asyncio.subprocess.PIPE
            )
            for n in range(3)
        ]
        try:
            for n in range(3):
                key = f"ready/{n}"
                await eventually(lambda key=key: store.kv_get(key), 50)  # type: ignore[misc]
            await asyncio.gather(*(inserted(store, f"t{n}") for n in range(150)))

            async def all_done() -> bool:
                return all(task.body != b"{}" for task in await store.task_list("ada", "", MANY))

            await eventually(all_done)
            await store.kv_set("stop", b"1")
            lines = [line for worker in workers for line in (await worker.communicate())[0].split(b"\n") if line]
        finally:
            for worker in workers:
                if worker.returncode is None:
                    worker.kill()
                    await worker.wait()
        assert sorted(lines) == sorted(b"t%d 1" % n for n in range(150))
        assert [worker.returncode for worker in workers] == [0, 0, 0]


# ---------------------------------------------------------------- an engine that is gone


@SHARED
@looped
async def test_a_store_without_its_engine_says_so_and_goes_on_after_it(place: Place) -> None:
    async with place.connected() as store:
        task = await inserted(store, "a")
        await store.kv_set("a", b"1", durable=True)
        stream = store.subscribe("t")
        await store.publish("t", b"1")
        with place.away():
            calls = store.task_insert(new("b"), "q", 9, 9), store.kv_set("b", b"1"), store.task_claim(["q"], 9, LONG)
            for error in await asyncio.gather(*calls, return_exceptions=True):
                with pytest.raises(StoreAway, match=r"The store of this server is away: .*\. Try again"):
                    raise cast(BaseException, error)
        began = time.monotonic()

        async def works() -> bool:
            try:
                return await store.kv_set("c", b"1")
            except StoreAway:
                return False

        await eventually(works, 5)

        async def hears() -> bool:
            await store.publish("t", b"2")
            return (await heard(stream, 1))[0] == ("t", b"2")

        await eventually(hears)
        assert time.monotonic() - began < 5
        assert await store.kv_get("a") == b"1"
        assert await store.task_write(task, OVERDUE, LONG)


@SHARED
@looped
async def test_a_store_that_was_never_there_says_so(place: Place) -> None:
    async with place.connected() as store:
        await store.kv_set("a", b"1")
    with place.away():
        late = place.open()
        with pytest.raises(StoreAway):
            await late.kv_set("a", b"2")
    await eventually(lambda: late.kv_get("a"))
    await late.close()
