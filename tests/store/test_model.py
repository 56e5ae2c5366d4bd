"""Every engine against a plain model of both contracts: random calls from two connections, one after the other.

Times are "at once" or "in an hour", so that a test does not depend on the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from redstart.store.open import Store
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask, topic_of
from store.engines import Engine
from store.places import NAMES, PATIENCE, MemoryPlace, Place, ServerPlace, SqlitePlace

T = TypeVar("T")
EXAMPLES = {"memory": 60, "sqlite": 30, "redis": 15, "postgresql": 12}
HOUR = 3600.0
IDS = st.sampled_from(["t0", "t1", "t2", "t3", "t4"])
OWNERS = st.sampled_from(["ada", "eve", ""])
QUEUES = st.sampled_from(["q", "r", OVERDUE])
KEYS = st.sampled_from(["a", "b", "a/b"])
TIMES = st.sampled_from([0.0, HOUR])
LIMITS = st.sampled_from([0, 1, 2, 3, 9])
BODIES = st.binary(max_size=20)
FEW = st.integers(1, 3)


@dataclass
class Modelled:
    """A task as it should be."""

    task: StoredTask
    queue: str
    due: int | None
    """Its place in the order of what is due now; None if it is due in an hour."""


@dataclass
class Model:
    tasks: dict[str, Modelled] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)
    logs: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    messages: list[tuple[str, bytes]] = field(default_factory=list)
    turns: count[int] = field(default_factory=count)

    def place(self, kept: Modelled, queue: str, delay: float) -> None:
        kept.queue = queue
        kept.due = next(self.turns) if delay == 0 else None

    def tell(self, id: str, queue: str) -> None:
        self.messages.append((topic_of(id), b""))
        if queue != OVERDUE:
            self.messages.append((CHANGED, queue.encode()))

    def current(self, task: StoredTask) -> Modelled | None:
        kept = self.tasks.get(task.id)
        return kept if kept is not None and kept.task.version == task.version else None


def same(real: StoredTask, expected: StoredTask) -> None:
    """The engine's task is the model's, whose times it then is the witness of."""
    assert (real.id, real.owner, real.body) == (expected.id, expected.owner, expected.body)
    assert (real.version, real.fence) == (expected.version, expected.fence)
    assert (real.created, real.updated) == (expected.created, expected.updated)
    assert real.read_at >= expected.updated >= expected.created


class StoreMachine(RuleBasedStateMachine):
    """Two connections to a store, one of which listens."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.stores = [place.open(), place.open()]
        self.model = Model()
        self.read: list[StoredTask] = []
        self.stream = self.run(self.subscribed())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    async def subscribed(self) -> Any:
        stream = self.stores[0].subscribe(CHANGED, "topic", *(topic_of(f"t{n}") for n in range(5)))
        await self.stores[0].kv_get("a")  # what a store is asked after it has subscribed misses no message
        return stream

    def teardown(self) -> None:
        async def finish() -> None:
            await self.heard()
            for store in self.stores:
                await store.close()

        with self.loop:  # is closed, also if what is told is wrong
            self.run(finish())

    async def heard(self) -> None:
        """All that should be told is told, in its order, and nothing else."""
        await self.stores[1].publish("topic", b"last")
        self.model.messages.append(("topic", b"last"))
        async with asyncio.timeout(PATIENCE):
            real = [await anext(self.stream) for _ in self.model.messages]
        assert real == self.model.messages
        self.model.messages.clear()

    def store(self, data: st.DataObject) -> Store:
        return self.stores[data.draw(st.integers(0, 1), "connection")]


class TaskMachine(StoreMachine):
    """Calls of a TaskStore. Callers keep the tasks that they have read, also when others have changed them since."""

    @rule(
        data=st.data(),
        id=IDS,
        owner=OWNERS,
        body=BODIES,
        queue=QUEUES,
        max_owned=LIMITS | st.just(9),
        max_all=LIMITS | st.just(9),
    )
    def insert(
        self, data: st.DataObject, id: str, owner: str, body: bytes, queue: str, max_owned: int, max_all: int
    ) -> None:
        task = StoredTask(id, owner, body)
        tasks = self.model.tasks
        owned = sum(kept.task.owner == owner for kept in tasks.values())
        expected = owned < max_owned and len(tasks) < max_all and id not in tasks
        assert self.run(self.store(data).task_insert(task, queue, max_owned, max_all)) is expected
        if expected:
            assert task.fence == 0
            assert task.created == task.updated == task.read_at
            tasks[id] = kept = Modelled(copy(task), queue, None)
            self.model.place(kept, queue, 0.0)
            self.model.tell(id, queue)
            self.read.append(task)

    @rule(data=st.data())
    def claim_one(self, data: st.DataObject) -> None:
        self.claim(data, ["q", "r"], 1, HOUR)

    @rule(data=st.data(), id=IDS, owner=OWNERS)
    def look(self, data: st.DataObject, id: str, owner: str) -> None:
        real = self.run(self.store(data).task_read(id, owner))
        kept = self.model.tasks.get(id)
        if kept is None or kept.task.owner != owner:
            assert real is None
            return
        assert real is not None
        same(real, kept.task)
        self.read.append(real)

    @rule(data=st.data(), owner=OWNERS, after=st.just("") | IDS, limit=LIMITS)
    def page(self, data: st.DataObject, owner: str, after: str, limit: int) -> None:
        owned = [kept.task for kept in self.model.tasks.values() if kept.task.owner == owner]
        ids = [task.id for task in owned]
        real = self.run(self.store(data).task_list(owner, after, limit))
        if after and after not in ids:
            assert {task.id for task in real} <= set(ids)
            return
        start = ids.index(after) + 1 if after else 0
        assert len(real) == len(owned[start : start + limit])
        for one, expected in zip(real, owned[start:], strict=False):
            same(one, expected)
        self.read += real

    @rule(data=st.data(), queues=st.lists(QUEUES, max_size=3), limit=LIMITS, hold=TIMES)
    def claim_some(self, data: st.DataObject, queues: list[str], limit: int, hold: float) -> None:
        self.claim(data, queues, limit, hold)

    def claim(self, data: st.DataObject, queues: list[str], limit: int, hold: float) -> None:
        due = [kept for kept in self.model.tasks.values() if kept.queue in queues and kept.due is not None]
        due.sort(key=lambda kept: kept.due or 0)
        real = self.run(self.store(data).task_claim(queues, limit, hold))
        assert [task.id for task in real] == [kept.task.id for kept in due[:limit]]
        for task, kept in zip(real, due, strict=False):
            kept.task.fence += 1
            assert task.version > kept.task.version
            kept.task.version = task.version
            same(task, kept.task)
            self.model.place(kept, OVERDUE, hold)
        if hold == 0:  # tasks of one claim are due at the same time: the engine may order them
            self.run(self.settle([task.id for task in real]))
        self.read += real

    async def settle(self, ids: list[str]) -> None:
        for id in ids:
            kept = self.model.tasks[id]
            task = await self.stores[0].task_read(id, kept.task.owner)
            assert task is not None
            assert await self.stores[0].task_hold([task], 0.0) == []
            self.model.place(kept, OVERDUE, 0.0)

    @precondition(lambda self: self.read)
    @rule(data=st.data(), body=BODIES, queue=QUEUES, delay=TIMES)
    def write(self, data: st.DataObject, body: bytes, queue: str, delay: float) -> None:
        task = copy(data.draw(st.sampled_from(self.read), "task"))
        kept = self.model.current(task)
        task.body = body
        before = copy(task)
        assert self.run(self.store(data).task_write(task, queue, delay)) is (kept is not None)
        if kept is None:
            assert task == before
            return
        assert task.version > before.version
        assert (task.fence, task.created) == (before.fence, before.created)
        assert task.updated == task.read_at >= before.updated
        kept.task = copy(task)
        self.model.place(kept, queue, delay)
        self.model.tell(task.id, queue)
        self.read.append(task)

    @precondition(lambda self: self.read)
    @rule(data=st.data(), hold=TIMES)
    def hold(self, data: st.DataObject, hold: float) -> None:
        drawn = data.draw(st.lists(st.sampled_from(self.read), max_size=3, unique_by=lambda task: task.id), "tasks")
        tasks = [task for task in drawn if self.is_claimed(task)]
        expected = [task.id for task in tasks if self.model.current(task) is None]
        assert sorted(self.run(self.store(data).task_hold(tasks, hold))) == sorted(expected)
        for task in tasks:
            kept = self.model.current(task)
            if kept is not None:
                self.model.place(kept, OVERDUE, hold)
        if hold == 0:
            self.run(self.settle([task.id for task in tasks if self.model.current(task)]))

    def is_claimed(self, task: StoredTask) -> bool:
        kept = self.model.current(task)
        return kept is None or kept.queue == OVERDUE

    @precondition(lambda self: self.read)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.read), "task")
        kept = self.model.current(task)
        assert self.run(self.store(data).task_delete(task)) is (kept is not None)
        if kept is not None:
            del self.model.tasks[task.id]
            self.read = [other for other in self.read if other.id != task.id]  # its versions begin again


class StateMachine(StoreMachine):
    """Calls of a SharedState."""

    @rule(data=st.data(), key=KEYS, value=BODIES, ttl=st.sampled_from([None, HOUR]), nx=st.booleans())
    def put(self, data: st.DataObject, key: str, value: bytes, ttl: float | None, nx: bool) -> None:
        expected = not (nx and key in self.model.values)
        assert self.run(self.store(data).kv_set(key, value, ttl, nx, data.draw(st.booleans(), "durable"))) is expected
        if expected:
            self.model.values[key] = value

    @rule(data=st.data(), key=KEYS)
    def get(self, data: st.DataObject, key: str) -> None:
        assert self.run(self.store(data).kv_get(key)) == self.model.values.get(key)

    @rule(data=st.data(), key=KEYS, is_wanted=st.booleans())
    def remove(self, data: st.DataObject, key: str, is_wanted: bool) -> None:
        value = self.model.values.pop(key, None)
        if is_wanted:
            assert self.run(self.store(data).kv_take(key)) == value
        else:
            self.run(self.store(data).kv_delete(key))

    @rule(data=st.data(), stream=KEYS, entry=BODIES, maxlen=FEW, ttl=st.sampled_from([None, HOUR]))
    def append(self, data: st.DataObject, stream: str, entry: bytes, maxlen: int, ttl: float | None) -> None:
        id = self.run(self.store(data).log_append(stream, entry, maxlen, ttl))
        entries = self.model.logs.setdefault(stream, [])
        assert id
        assert id not in dict(entries)
        entries.append((id, entry))
        del entries[:-maxlen]

    @rule(data=st.data(), stream=KEYS)
    def replay(self, data: st.DataObject, stream: str) -> None:
        entries = self.model.logs.get(stream, [])
        start = data.draw(st.integers(0, len(entries)), "after")
        after = entries[start - 1][0] if start else ""
        assert self.run(self.store(data).log_read(stream, after)) == entries[start:]

    @rule(data=st.data(), key=KEYS)
    def take_token(self, data: st.DataObject, key: str) -> None:
        allowed, wait = self.run(self.store(data).take(key, 1e-6, 3))
        taken = self.model.taken.get(key, 0)
        assert allowed is (taken < 3)
        assert (wait == 0) is allowed
        self.model.taken[key] = taken + allowed

    @rule(data=st.data(), message=BODIES)
    def publish(self, data: st.DataObject, message: bytes) -> None:
        self.run(self.store(data).publish("topic", message))
        self.run(self.store(data).publish("another topic", message))
        self.model.messages.append(("topic", message))

    @rule()
    def hear(self) -> None:
        self.run(self.heard())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", [TaskMachine, StateMachine])
def test_an_engine_does_what_the_model_does(
    machine: type[StoreMachine], name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    numbers = count()
    new_place: Callable[[], Place]
    if name == "memory":
        new_place = MemoryPlace
    elif name == "sqlite":
        new_place = lambda: SqlitePlace(tmp_path / f"{next(numbers)}.db")  # noqa: E731
    else:
        engine: Engine = request.getfixturevalue(name)
        new_place = lambda: ServerPlace(name, engine)  # noqa: E731
    run_state_machine_as_test(
        lambda: machine(new_place()),  # type: ignore[arg-type]
        settings=settings(
            max_examples=EXAMPLES[name],
            stateful_step_count=30,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
