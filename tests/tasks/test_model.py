"""Random lives of tasks against a plain model: two workers on one store, one of which is at times cut off or frozen.

The loop has a clock of its own that jumps to the next timer when there is nothing to do, and the store uses the same
clock: leases run out in no time, and every run of the same rules is the same.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter, defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from redstart import Context, Server, TaskLimits, ToolError
from redstart.store.memory import MemoryStore
from redstart.store.shared import StoreAway
from support import MODERN, Peer
from tasks.clients import EXTENSION, TERMINAL

T = TypeVar("T")
LEASE, KEEP, MAX_RUN, RETRIES = 6.0, 200.0, 80.0, 2
PATIENCE = 2_000.0
"""Seconds of the loop's own clock after which a task that has not ended is lost."""
WHICH = st.integers(0, 5)
"""Which of the tasks or legs, modulo their number. What is drawn does not depend on what has happened."""


class JumpingSelector(selectors.DefaultSelector):
    """Where a loop would sleep, its clock goes on instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing is scheduled: this would wait for ever"
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = JumpingSelector()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


class Wire:
    """The way of one process to the store: it can be cut, and it can stand still until it goes on."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.is_cut = False
        self.moves = asyncio.Event()
        self.moves.set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def pass_on(*arguments: Any, **options: Any) -> Any:
            if self.is_cut:
                raise StoreAway("the store is away")
            await self.moves.wait()
            return await method(*arguments, **options)

        return pass_on


@dataclass
class Life:
    """What the model knows of one task."""

    tool: str
    starts: Counter[int] = field(default_factory=Counter)
    """How often its handler was begun, by the number of rounds that were answered before."""
    rounds: int = 0
    keys: dict[str, int] = field(default_factory=dict)
    """The round in which each key was open."""
    results: set[str] = field(default_factory=set)
    """What its legs have returned."""
    cancelled: bool = False
    seen: float = 0.0
    """When it was last seen before its end."""
    end: dict[str, Any] | None = None
    """How it has ended; empty if it was forgotten by then."""


class TaskMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=JumpingLoop)
        self.lives: dict[str, Life] = {}
        self.legs: dict[tuple[str, int], asyncio.Future[str]] = {}
        """The legs that run now, by their tasks and their numbers."""
        self.numbers: defaultdict[str, int] = defaultdict(int)
        self.disturbed = False
        self.run(self.open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def open(self) -> None:
        store = MemoryStore(asyncio.get_running_loop().time)
        self.wires = [Wire(store), Wire(store)]
        self.servers = [self.server(wire, concurrent) for wire, concurrent in zip(self.wires, (1, 2), strict=True)]
        for server in self.servers:
            await server.runtime.start()
        self.client = await Peer(self.servers[0], MODERN, capabilities={"elicitation": {}, **EXTENSION}).open()

    def server(self, wire: Wire, concurrent: int) -> Server:
        limits = TaskLimits(lease=LEASE, keep=KEEP, ttl=KEEP, max_ttl=KEEP, max_run=MAX_RUN, concurrent=concurrent)
        server = Server("model", store=wire, tasks=limits)

        @server.tool(task="required", retries=RETRIES)
        async def safe(ctx: Context) -> str:
            return await self.leg(ctx)

        @server.tool(task="required")
        async def unsafe(ctx: Context) -> str:
            return await self.leg(ctx)

        @server.tool(task="required")
        async def asks(ctx: Context) -> str:
            self.begun(ctx)
            first, second = await asyncio.gather(ctx.ask("First?", int, "a"), ctx.ask("Second?", int, "b"))
            await ctx.ask("Third?", int, "c")
            return f"{first + second} {await self.leg(ctx, counted=True)}"

        return server

    def begun(self, ctx: Context) -> None:
        assert ctx.task_id is not None
        life = self.lives.get(ctx.task_id) or self.lives.setdefault(ctx.task_id, Life(""))
        life.starts[life.rounds] += 1

    async def leg(self, ctx: Context, counted: bool = False) -> str:
        assert ctx.task_id is not None
        if not counted:
            self.begun(ctx)
        self.numbers[ctx.task_id] += 1
        key = ctx.task_id, self.numbers[ctx.task_id]
        self.legs[key] = asyncio.get_running_loop().create_future()
        try:
            result = await self.legs[key]
            self.lives[ctx.task_id].results.add(result)
            if result == "error":
                raise ToolError(result)
            return result
        finally:
            del self.legs[key]

    # ------------------------------------------------------------ what a client does

    async def get(self, id: str) -> dict[str, Any] | None:
        """The task, which must fit to what is known of it; None if it is forgotten."""
        answer = await self.client.call("tasks/get", taskId=id)
        life = self.lives[id]
        now = asyncio.get_running_loop().time()
        if "error" in answer:
            assert answer["error"]["message"] == f"Unknown task: {id}"
            assert now - life.seen >= KEEP, f"a task is forgotten too early: {life}"
            life.end = life.end or {}
            return None
        task: dict[str, Any] = answer["result"]
        for key in task.get("inputRequests", ()):
            assert life.keys.setdefault(key, life.rounds) == life.rounds, f"the key {key} is used again"
        if life.end is not None:
            assert task == life.end, "a task that has ended has changed"
        elif task["status"] in TERMINAL:
            self.judge(life, task)
            life.end = task
        else:
            life.seen = now
        return task

    def judge(self, life: Life, task: dict[str, Any]) -> None:
        """An end must have a reason."""
        if task["status"] == "cancelled":
            assert life.cancelled
        elif task["status"] == "completed":
            text = task["result"]["content"][0]["text"]
            assert text.split()[-1] in life.results, f"nobody has returned {text}"
        else:
            reason = task["error"]["message"]
            if "worker was lost" in reason:
                assert self.disturbed
                assert life.tool != "safe" or sum(life.starts.values()) == RETRIES + 1
            else:
                assert reason.startswith(("Nobody answered", "The task ran longer")), reason

    @rule(tool=st.sampled_from(["safe", "unsafe", "asks"]))
    def create(self, tool: str) -> None:
        async def work() -> None:
            task = (await self.client.call("tools/call", name=tool, arguments={}))["result"]
            assert (task["resultType"], task["status"]) == ("task", "working")
            life = self.lives.setdefault(task["taskId"], Life(tool))
            life.tool, life.seen = tool, asyncio.get_running_loop().time()

        self.run(work())

    @precondition(lambda self: self.lives)
    @rule(which=WHICH)
    def look(self, which: int) -> None:
        self.run(self.get(self.choose(which)))

    @precondition(lambda self: self.lives)
    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        async def work(id: str) -> None:
            task = await self.get(id)
            if task is not None:
                self.lives[id].cancelled = True
                assert (await self.client.call("tasks/cancel", taskId=id))["result"]["resultType"] == "complete"
                after = await self.get(id)
                assert after is None or after["status"] in TERMINAL

        self.run(work(self.choose(which)))

    @precondition(lambda self: self.lives)
    @rule(which=WHICH, keys=st.sets(st.sampled_from(["a", "b", "c", "a.3", "c.4", "x"])), fits=st.booleans())
    def answer(self, which: int, keys: set[str], fits: bool) -> None:
        self.run(self.update(self.choose(which), keys, fits))

    @precondition(lambda self: self.lives)
    @rule(which=WHICH)
    def answer_all(self, which: int) -> None:
        async def work(id: str) -> None:
            task = await self.get(id)
            if task is not None:
                await self.update(id, set(task.get("inputRequests", ())), True)

        self.run(work(self.choose(which)))

    async def update(self, id: str, keys: set[str], fits: bool) -> None:
        before = await self.get(id)
        if before is None:
            return
        content = {"answer": 1 if fits else "not a number"}
        responses = {key: {"action": "accept", "content": content} for key in keys}
        asked = set(before.get("inputRequests", ()))
        if asked <= keys:  # also where the question is asked just now
            self.lives[id].rounds += 1
        assert (await self.client.call("tasks/update", taskId=id, inputResponses=responses))["result"]
        if asked and not asked <= keys:
            after = await self.get(id)
            assert after is not None
            if after["status"] == "input_required":  # its time may be over just now
                assert set(after["inputRequests"]) == asked - keys

    def choose(self, which: int) -> str:
        return list(self.lives)[which % len(self.lives)]

    # ------------------------------------------------------------ what happens to workers

    @rule(which=WHICH, outcome=st.sampled_from(["result", "result", "error"]))
    def end_leg(self, which: int, outcome: str) -> None:
        async def work() -> None:
            running = [key for key, gate in self.legs.items() if not gate.done()]
            if running:
                key = running[which % len(running)]
                self.legs[key].set_result("error" if outcome == "error" else f"r{key[1]}")
                await asyncio.sleep(0.01)

        self.run(work())

    @rule(seconds=st.sampled_from([0.01, 0.5, LEASE / 2, LEASE * 2, KEEP / 2]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule(seconds=st.sampled_from([1.0, LEASE, LEASE * 3]), how=st.sampled_from(["cut", "frozen"]))
    def disturb(self, seconds: float, how: str) -> None:
        async def work() -> None:
            wire = self.wires[1]
            self.disturbed = True
            wire.is_cut = how == "cut"
            if how == "frozen":
                wire.moves.clear()
            await asyncio.sleep(seconds)
            wire.is_cut = False
            wire.moves.set()

        self.run(work())

    # ------------------------------------------------------------ what holds always

    def teardown(self) -> None:
        try:
            self.run(self.finish())
            for life in self.lives.values():
                if life.tool != "asks":
                    assert sum(life.starts.values()) <= (RETRIES + 1 if life.tool == "safe" else 1), life
                else:
                    assert not life.starts or max(life.starts.values()) == 1, f"a leg ran twice: {life}"
        finally:
            self.run(self.close())
            self.runner.close()

    async def finish(self) -> None:
        """Let everything end: no task is lost."""
        clock = asyncio.get_running_loop().time
        until = clock() + PATIENCE
        for id, life in self.lives.items():
            while life.end is None:
                assert clock() < until, f"a task does not end: {life}"
                for number, gate in list(self.legs.items()):
                    if not gate.done():
                        gate.set_result(f"r{number[1]}")
                task = await self.get(id)
                if task is not None:
                    await self.update(id, set(task.get("inputRequests", ())), True)
                await asyncio.sleep(0.5)

    async def close(self) -> None:
        await self.client.close()
        for server in self.servers:
            await server.runtime.stop()


@pytest.mark.requirement("T68", "T84")
@pytest.mark.timeout(300)
def test_a_task_has_one_end_whatever_happens() -> None:
    run_state_machine_as_test(
        TaskMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
