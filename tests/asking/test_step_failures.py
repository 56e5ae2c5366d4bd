"""Steps that fail, that never end, and that are given up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from asking.player import KEYS, Effect, Player, accept, again, begun, every, first_round, play_tool, script, serve, text
from redstart import Context, SyncContext, Tool
from redstart.asking import steps
from redstart.store.memory import MemoryStore
from support import MODERN, NOVEMBER, run

ADA = accept(answer="Ada")


@every
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["async", "thread", "sync"])
def test_a_step_that_wants_to_end_the_process_does_not(revision: str, error: type[BaseException], kind: str) -> None:
    async def ends() -> None:
        raise error(3)

    def plain() -> None:
        raise error(3)

    async def t(ctx: Context) -> str:
        return str(await ctx.step("end", ends if kind == "async" else plain))

    def sync(ctx: SyncContext) -> str:
        return str(ctx.step("end", plain))

    assert "failed" in play_tool(serve(t, sync), revision, script(), "sync" if kind == "sync" else "t")[0]


@pytest.mark.parametrize("ends", [True, False])
def test_a_stop_waits_for_the_step_of_a_thread(
    ends: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    effect = Effect()
    monkeypatch.setattr(steps, "STEP_GRACE", 10.0 if ends else 0.01)

    def t(ctx: SyncContext) -> str:
        ctx.ask("Sure?")
        return str(ctx.step("charge", effect.blocking))

    server = serve(t, keys=KEYS, store=MemoryStore())
    first = first_round(server)["result"]
    retry = {"name": "t", "arguments": {}, "requestState": first["requestState"], "inputResponses": {"q1": ADA}}

    async def play() -> None:
        player = Player(server)
        player.start("tools/call", retry)
        await begun(effect)
        await player.close()
        if ends:
            threading.Timer(0.02, effect.may_end.set).start()
        await server.runtime.stop()

    run(play(), server)
    assert ("the step 'charge' is not done" in caplog.text) is not ends
    caplog.clear()
    asyncio.run(server.runtime.stop())
    assert "is not done" not in caplog.text  # the server has forgotten the step
    effect.may_end.set()
    if ends:  # what it has done is remembered for the round that comes again
        assert text(again(server, first, {"q1": ADA})) == "2"
        assert effect.log == ["begin", "end"]


def test_a_rehearsal_does_a_slow_step_once() -> None:
    effect = Effect()

    async def t(ctx: Context) -> str:
        name, paid = await asyncio.gather(ctx.ask("Name?"), ctx.step("charge", effect.awaiting))
        return f"{name} {paid}"

    server = serve(t)
    server.runtime.force_replay = True

    async def play() -> str:
        player = await Player(server, NOVEMBER, script(ADA)).open()
        calling = asyncio.create_task(player.text("t"))
        await begun(effect)
        effect.may_end.set()
        return await calling

    assert run(play(), server) == "Ada 2"
    assert effect.log == ["begin", "end"]


class Flaky(MemoryStore):
    """A store that fails the first time, to read or to write."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    async def kv_get(self, key: str) -> bytes | None:
        self._fail("get", key)
        return await super().kv_get(key)

    async def kv_set(self, key: str, *args: Any, **options: Any) -> bool:
        self._fail("set", key)
        return await super().kv_set(key, *args, **options)

    def _fail(self, what: str, key: str) -> None:
        if self.what == what and "4:step/" in key:
            self.what = ""
            raise OSError("the store is away")


@pytest.mark.parametrize("what", ["get", "set"])
@pytest.mark.parametrize("blocking", [False, True])
def test_a_handler_may_try_again_after_an_error_of_the_store(what: str, blocking: bool) -> None:
    done: list[int] = []

    def charge() -> int:
        done.append(1)
        return len(done)

    async def t(ctx: Context) -> str:
        await ctx.ask("Sure?")
        try:
            return str(await ctx.step("charge", charge))
        except OSError:
            return f"again {await ctx.step('charge', charge)}"

    def sync(ctx: SyncContext) -> str:
        ctx.ask("Sure?")
        try:
            return str(ctx.step("charge", charge))
        except OSError:
            return f"again {ctx.step('charge', charge)}"

    server = serve(Tool("t", handler=sync if blocking else t), keys=KEYS, store=Flaky(what))
    assert text(again(server, first_round(server)["result"], {"q1": ADA})) == "again 1"
    assert done == [1]


@every
def test_a_step_that_was_given_up_can_be_waited_for_again(revision: str) -> None:
    effect = Effect()

    async def t(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.01):
                await ctx.step("charge", effect.awaiting)
        except TimeoutError:
            effect.may_end.set()
        return str(await ctx.step("charge", effect.awaiting))

    assert play_tool(serve(t), revision, script())[0] == "2"
    assert effect.log == ["begin", "end"]


def test_the_limit_of_a_tool_counts_its_steps_also_beside_a_question() -> None:
    effect = Effect()

    async def t(ctx: Context) -> str:
        await asyncio.gather(ctx.ask("Name?"), ctx.step("charge", effect.awaiting))
        return "never"

    server = serve(Tool("t", handler=t, timeout=0.05))

    async def play() -> Any:
        answer = await Player(server, MODERN).request("tools/call", {"name": "t", "arguments": {}})
        effect.may_end.set()
        return answer

    assert "longer than its limit" in text(run(play(), server))


def test_what_a_client_notes_beside_an_answer_is_no_other_answer() -> None:
    async def t(ctx: Context) -> str:
        name = await ctx.ask("Name?")
        return str(await ctx.step("greet", lambda: f"Hello, {name}"))

    server = serve(t, keys=KEYS, store=MemoryStore())
    first = first_round(server)["result"]
    for trace in ("1", "2"):
        answer = {**ADA, "_meta": {"traceparent": trace}}
        assert text(again(server, first, {"q1": answer})) == "Hello, Ada"
