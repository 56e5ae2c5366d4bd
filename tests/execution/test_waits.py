"""A thread that waits for the loop: it blocks nobody, its time is counted right, and it is not left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asking.player import Player, accept
from redstart import Ask, Context, Server, SyncContext, current_context
from support import NOVEMBER, LeapingLoop, Peer, leap, play, run, until

SOON = 5.0
"""Seconds within which a test that deadlocks is given up."""


def soon(server: Server, script: Callable[[Peer], Awaitable[Any]]) -> Any:
    async def bounded(peer: Peer) -> Any:
        async with asyncio.timeout(SOON):
            return await script(peer)

    return play(server, bounded)


# ---------------------------------------------------------------- a place in the pool


def nested(**options: Any) -> Server:
    """A server whose `def` handlers use each other."""
    server = Server("nested", **options)

    @server.tool
    def inner() -> str:
        return "inner"

    @server.resource("note://one")
    def note() -> str:
        return "note"

    @server.prompt
    def review() -> str:
        return "review"

    @server.tool
    def tool(ctx: SyncContext) -> Any:
        return ctx.call_tool("inner").content[0]

    @server.tool
    def resource(ctx: SyncContext) -> str:
        return str(ctx.read_resource("note://one")[0].text)

    @server.tool
    def prompt(ctx: SyncContext) -> Any:
        return ctx.get_prompt("review")[0].content

    @server.tool
    def step(ctx: SyncContext) -> Any:
        async def later() -> str:
            return str((await current_context().call_tool("inner")).content[0].text)

        return ctx.step("later", later)

    @server.tool
    def generator(ctx: SyncContext) -> Iterator[Any]:
        yield ctx.call_tool("inner").content[0]

    return server


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("tool", "inner"),
        ("resource", "note"),
        ("prompt", "review"),
        ("step", "inner"),
        ("generator", "inner"),
    ],
)
def test_the_only_thread_lends_its_place_to_what_it_waits_for(tool: str, text: str) -> None:
    assert soon(nested(threads=1), lambda peer: peer.text(tool)) == text


def test_a_pool_full_of_threads_that_wait_for_others() -> None:
    server = nested(threads=4)
    meet = threading.Barrier(4)

    @server.tool
    def outer(ctx: SyncContext) -> Any:
        meet.wait(SOON)
        return ctx.call_tool("inner").content[0]

    async def script(peer: Peer) -> list[str]:
        texts = await asyncio.gather(*(peer.text("outer") for _ in range(4)))
        pool = server.runtime.pool
        await until(lambda: pool.counts.away == 0 and pool.counts.threads <= 4)
        return texts

    assert soon(server, script) == ["inner"] * 4


def test_a_short_wait_starts_no_thread() -> None:
    server = Server("short", threads=1)
    used: set[threading.Thread] = set()

    @server.tool
    def count(ctx: SyncContext) -> int:
        used.add(threading.current_thread())
        for _ in range(20):
            ctx.state.set("seen", ctx.state.get("seen", 0) + 1)
        return int(ctx.state.get("seen"))

    async def script(peer: Peer) -> int:
        await asyncio.gather(*(peer.text("count") for _ in range(3)))
        return server.runtime.pool.counts.threads

    assert soon(server, script) == 1
    assert len(used) == 1


def test_tools_that_call_each_other_for_ever() -> None:
    server = Server("deep", threads=1)

    @server.tool
    def again(ctx: SyncContext) -> Any:
        return ctx.call_tool("again")

    assert "RecursionError" in soon(server, lambda peer: peer.failure("again"))


def test_a_call_that_ends_ends_what_its_thread_waits_for() -> None:
    server = Server("gone", threads=1)
    began = asyncio.Event()
    ended: list[str] = []

    @server.tool
    async def forever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("inner")

    @server.tool
    def outer(ctx: SyncContext) -> None:
        try:
            ctx.call_tool("forever")
        finally:
            ctx.info("a handler may say something while it ends")
            ended.append("outer")

    async def script(peer: Peer) -> None:
        id, _ = peer.begin("outer")
        await began.wait()
        peer.cancel(id)
        await until(lambda: len(ended) == 2)
        pool = server.runtime.pool
        await until(lambda: pool.counts.away == pool.counts.lost == 0)

    soon(server, script)
    assert ended == ["inner", "outer"]


@pytest.mark.parametrize("kind", ["resource", "prompt", "tool", "step"])
def test_a_cancellation_of_its_own_making_is_answered(kind: str) -> None:
    """As for `async def` handlers: nobody has ended this call."""
    server = Server("own")

    async def cancelled() -> str:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task
        return ""

    server.tool(name="inner")(cancelled)
    server.prompt(name="inner")(cancelled)
    server.resource("note://one")(cancelled)

    @server.tool
    def outer(ctx: SyncContext) -> Any:
        if kind == "resource":
            return ctx.read_resource("note://one")
        if kind == "prompt":
            return ctx.get_prompt("inner")
        return ctx.call_tool("inner") if kind == "tool" else ctx.step("inner", cancelled)

    assert "failed with" in soon(server, lambda peer: peer.failure("outer"))


@pytest.mark.parametrize("kind", ["coroutine", "tool"])
def test_a_step_goes_on_to_its_end_although_its_call_has_ended(kind: str) -> None:
    server = Server("steps")
    began, release = asyncio.Event(), asyncio.Event()
    events: list[str] = []

    async def work() -> str:
        began.set()
        await release.wait()
        events.append("work")
        return "done"

    server.tool(work)

    @server.tool
    def outer(ctx: SyncContext) -> None:
        text = ctx.step("work", work if kind == "coroutine" else lambda: ctx.call_tool("work").content[0])
        events.append("step" if text else "nothing")

    async def script(peer: Peer) -> None:
        id, _ = peer.begin("outer")
        await began.wait()
        peer.cancel(id)
        await until(lambda: not server.runtime.unwinding)
        release.set()
        await until(lambda: len(events) == 2)

    soon(server, script)
    assert events == ["work", "step"]


# ---------------------------------------------------------------- time


def asks(**options: Any) -> Server:
    server = Server("asks", **options)

    @server.tool
    async def inner(ctx: Context) -> str:
        return await ctx.ask("Name?")

    @server.tool
    def inner_thread(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    @server.tool
    def inner_generator() -> Iterator[Any]:
        answer: Any = yield Ask("Name?")
        yield answer.data

    @server.tool
    async def outer(ctx: Context, name: str) -> Any:
        return (await ctx.call_tool(name)).content[0]

    @server.tool
    def outer_thread(ctx: SyncContext, name: str) -> Any:
        return ctx.call_tool(name).content[0]

    return server


@pytest.mark.parametrize("outer", ["outer", "outer_thread"])
@pytest.mark.parametrize("inner", ["inner", "inner_thread", "inner_generator"])
def test_no_clock_of_the_chain_counts_the_human(outer: str, inner: str) -> None:
    server = asks(timeout=10)

    async def talk() -> str:
        player = await Player(server, NOVEMBER).open()
        id = player.start("tools/call", {"name": outer, "arguments": {"name": inner}})
        question = await player.receive()
        await leap(12)  # longer than any of the limits
        player.send({"id": question["id"], "result": accept(answer="Ada")})
        answer = await player.receive()
        assert answer["id"] == id, answer
        await player.close()
        await server.runtime.stop()
        return str(answer["result"]["content"][0]["text"])

    assert run(talk(), loop=LeapingLoop) == "Ada"


def test_each_clock_of_the_chain_still_runs() -> None:
    server = Server("slow")

    @server.tool(timeout=60)
    async def inner() -> None:
        await asyncio.Event().wait()

    @server.tool(timeout=0.05)
    async def outer(ctx: Context) -> Any:
        return (await ctx.call_tool("inner")).content[0]

    @server.tool(timeout=0.05)
    async def hasty() -> None:
        await asyncio.Event().wait()

    @server.tool(timeout=60)
    def patient(ctx: SyncContext) -> Any:
        return ctx.call_tool("hasty").content[0]

    async def script(peer: Peer) -> tuple[str, str]:
        return await peer.failure("outer"), await peer.text("patient")

    first, second = soon(server, script)
    assert first.startswith("outer took longer")
    assert second.startswith("hasty took longer")


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("kind", ["question", "tool", "ended"])
def test_a_stop_lets_waiting_threads_clean_up_before_the_lifespan_ends(kind: str) -> None:
    events: list[str] = []
    reached = asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        yield
        events.append("lifespan")

    server = Server("stops", lifespan=lifespan)

    @server.tool
    async def forever() -> None:
        reached.set()
        await asyncio.Event().wait()

    @server.tool
    def work(ctx: SyncContext) -> None:
        try:
            ctx.call_tool("forever") if kind != "question" else ctx.ask("Name?")
        finally:
            ctx.state.set("bye", 1)
            events.append("thread")

    async def talk() -> None:
        player = await Player(server, NOVEMBER).open()
        player.start("tools/call", {"name": "work", "arguments": {}})
        if kind == "question":
            await player.receive()
        else:
            await reached.wait()
        if kind == "ended":
            await player.close()
        await server.runtime.stop()

    asyncio.run(asyncio.wait_for(talk(), SOON))
    assert events == ["thread", "lifespan"]


def test_a_thread_that_is_stuck_does_not_hold_up_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("stuck")
    release = threading.Event()
    reached = threading.Event()

    @server.tool
    def busy() -> None:
        reached.set()
        release.wait(20)

    @server.tool
    def stubborn(ctx: SyncContext) -> None:
        try:
            ctx.ask("Name?")
        finally:
            release.wait(20)

    async def talk(name: str) -> None:
        player = await Player(server, NOVEMBER).open()
        player.start("tools/call", {"name": name, "arguments": {}})
        if name == "stubborn":
            await player.receive()
        else:
            await until(reached.is_set)
        await player.close()
        await server.runtime.stop()

    try:
        with monkeypatch.context() as patched:
            patched.setattr("redstart.server.runtime.GRACE", 20.0)  # only for those that clean up
            asyncio.run(asyncio.wait_for(talk("busy"), SOON))
        asyncio.run(asyncio.wait_for(talk("stubborn"), SOON))
    finally:
        release.set()
