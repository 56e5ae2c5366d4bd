"""Steps where things go wrong: runs that end half-way, rounds that come twice, stores that fail."""

from __future__ import annotations

import asyncio
import threading

import pytest

from asking.player import (
    KEYS,
    REVISIONS,
    Effect,
    Player,
    accept,
    again,
    begun,
    every,
    first_round,
    play_tool,
    script,
    serve,
    text,
)
from redstart import Context, SyncContext
from redstart.asking import steps
from redstart.asking.seal import KeyRing
from redstart.store.memory import MemoryStore
from support import MODERN, run

ADA = accept(answer="Ada")


@every
@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
def test_a_step_beside_a_question_is_done_once(revision: str, kind: str) -> None:
    effect = Effect()

    async def t(ctx: Context) -> str:
        name, paid = await asyncio.gather(ctx.ask("Name?"), ctx.step("charge", getattr(effect, kind)))
        return f"{name} paid {paid}"

    async def play() -> str:
        player = await Player(server, revision, script(ADA)).open()
        calling = asyncio.create_task(player.text("t"))
        await begun(effect)
        effect.may_end.set()
        return await calling

    server = serve(t)
    assert run(play(), server) == "Ada paid 2"
    assert effect.log == ["begin", "end"]


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
def test_a_step_goes_on_when_its_call_is_cancelled(kind: str) -> None:
    effect = Effect()

    async def t(ctx: Context) -> str:
        await ctx.ask("Sure?")
        return f"paid {await ctx.step('charge', getattr(effect, kind))}"

    async def play() -> str:
        player = Player(server)
        first = (await player.request("tools/call", {"name": "t", "arguments": {}}))["result"]
        retry = {"name": "t", "arguments": {}, "requestState": first["requestState"], "inputResponses": {"q1": ADA}}
        given_up = player.start("tools/call", retry)
        await begun(effect)
        player.send({"method": "notifications/cancelled", "params": {"requestId": given_up}})
        sent_again = player.start("tools/call", retry)
        effect.may_end.set()
        answer = await player.receive()
        assert answer["id"] == sent_again
        return text(answer)

    server = serve(t)
    assert run(play(), server) == "paid 2"
    assert effect.log == ["begin", "end"]


@every
@pytest.mark.parametrize("blocking", [False, True])
def test_a_step_in_finally_waits_for_the_real_end(revision: str, blocking: bool) -> None:
    log: list[str] = []

    async def t(ctx: Context) -> str:
        await ctx.step("reserve", lambda: log.append("reserve"))
        try:
            log.append(f"use {await ctx.ask('Name?')}")
        finally:
            await ctx.step("release", lambda: log.append("release"))
        return "done"

    def sync(ctx: SyncContext) -> str:
        ctx.step("reserve", lambda: log.append("reserve"))
        try:
            log.append(f"use {ctx.ask('Name?')}")
        finally:
            ctx.step("release", lambda: log.append("release"))
        return "done"

    assert play_tool(serve(t, sync), revision, script(ADA), "sync" if blocking else "t")[0] == "done"
    assert log == ["reserve", "use Ada", "release"]


@pytest.mark.parametrize("encrypt", [True, False])
def test_another_answer_does_not_get_the_result_of_the_first(encrypt: bool) -> None:
    async def t(ctx: Context) -> str:
        number = await ctx.ask("How many?", int)
        try:
            paid = await ctx.step("charge", lambda: number)
        except Exception:  # whatever the handler makes of it
            paid = 0
        return f"shipped {number}, paid {paid}"

    server = serve(t, keys=KEYS, store=MemoryStore())
    server.runtime.keys = KeyRing(KEYS, encrypt=encrypt)
    first = first_round(server)["result"]
    assert text(again(server, first, {"q1": accept(answer=1)})) == "shipped 1, paid 1"
    error = again(server, first, {"q1": accept(answer=1000)})["error"]
    assert error["code"] == -32602
    assert "step 'charge'" in error["message"]
    assert "another answer to 'q1'" in error["message"]
    assert text(again(server, first, {"q1": {"content": {"answer": 1}, "action": "accept"}})) == "shipped 1, paid 1"


def test_a_round_that_comes_twice_stays_one_dialogue() -> None:
    done: list[int] = []

    async def t(ctx: Context) -> str:
        await ctx.ask("First?")
        await ctx.ask("Second?")
        await ctx.step("charge", lambda: done.append(1))
        return "paid"

    server = serve(t, keys=KEYS, store=MemoryStore())
    first = first_round(server)["result"]
    twice = [again(server, first, {"q1": ADA})["result"] for _ in range(2)]
    assert [text(again(server, second, {"q2": ADA})) for second in twice] == ["paid", "paid"]
    assert done == [1]


class Broken(MemoryStore):
    """A store that fails once."""

    fails = True

    async def kv_get(self, key: str) -> bytes | None:
        if self.fails and "4:step/" in key:
            self.fails = False
            raise OSError("the store is away")
        return await super().kv_get(key)


def test_a_store_that_failed_does_not_block_the_step() -> None:
    async def t(ctx: Context) -> str:
        await ctx.ask("Sure?")
        return str(await ctx.step("charge", lambda: 7))

    server = serve(t, keys=KEYS, store=Broken())
    first = first_round(server)["result"]
    assert again(server, first, {"q1": ADA})["result"]["isError"]
    assert text(again(server, first, {"q1": ADA})) == "7"


@every
@pytest.mark.parametrize("blocking", [False, True])
def test_a_step_that_failed_may_be_tried_again(revision: str, blocking: bool) -> None:
    tries: list[int] = []

    def flaky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("busy")
        return len(tries)

    async def t(ctx: Context) -> str:
        try:
            return str(await ctx.step("call", flaky))
        except OSError:
            return str(await ctx.step("call", flaky))

    def sync(ctx: SyncContext) -> str:
        try:
            return str(ctx.step("call", flaky))
        except OSError:
            return str(ctx.step("call", flaky))

    assert play_tool(serve(t, sync), revision, script(), "sync" if blocking else "t")[0] == "2"


@every
@pytest.mark.parametrize("kind", ["async", "thread", "sync"])
def test_a_step_cannot_ask(revision: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        return str(await ctx.step("greet", lambda: ctx.ask("Name?")))

    async def thread(ctx: Context) -> str:
        def greet() -> str:
            return asyncio.run_coroutine_threadsafe(ctx.ask("Name?"), loop).result(10)

        loop = asyncio.get_running_loop()
        return await ctx.step("greet", greet)

    def sync(ctx: SyncContext) -> str:
        return ctx.step("greet", lambda: ctx.ask("Name?"))

    name = {"async": "t"}.get(kind, kind)
    said, player = play_tool(serve(t, thread, sync), revision, script(ADA), name)
    assert "RuntimeError" in said
    assert player.asked == []
    assert "the step 'greet' asks 'Name?'" in caplog.text


@pytest.mark.parametrize("revision", [REVISIONS[0], MODERN])
def test_a_result_that_is_no_json_names_its_step(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        return str(await ctx.step("connect", lambda: threading.Lock()))

    assert "TypeError" in play_tool(serve(t), revision, script())[0]
    assert "the result of the step 'connect' cannot be recorded" in caplog.text


@pytest.mark.parametrize("ends", [True, False])
def test_a_stop_lets_a_step_come_to_its_end(
    ends: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    effect = Effect()
    monkeypatch.setattr(steps, "STEP_GRACE", 10.0 if ends else 0.01)

    async def t(ctx: Context) -> str:
        return str(await ctx.step("charge", effect.awaiting))

    async def play() -> None:
        player = Player(server)
        player.start("tools/call", {"name": "t", "arguments": {}})
        await begun(effect)
        await player.close()
        if ends:
            asyncio.get_running_loop().call_later(0.02, effect.may_end.set)
        await server.runtime.stop()

    server = serve(t)
    run(play(), server)
    assert effect.log == (["begin", "end"] if ends else ["begin"])
    assert ("the step 'charge' is not done" in caplog.text) is not ends
