"""The modern era: a handler runs again for each round, and nobody can tell."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asking.player import (
    ASK_NAME,
    CANCEL,
    DECLINE,
    REVISIONS,
    Player,
    accept,
    again,
    first_round,
    play_tool,
    script,
    serve,
    text,
)
from redstart import Context, ProtocolError, SyncContext
from support import JUNE, MODERN, NOVEMBER, run


def test_a_handler_that_asks_something_else_is_found_out(caplog: pytest.LogCaptureFixture) -> None:
    runs = iter(range(10))

    async def t(ctx: Context) -> str:
        return await ctx.ask(f"Question of run {next(runs)}?")

    server = serve(t)
    error = again(server, first_round(server)["result"], {"q1": accept(answer="x")})["error"]
    assert error["code"] == -32603
    assert "'Question of run 0?'" in error["message"]
    assert "'Question of run 1?'" in error["message"]
    assert "ctx.step" in error["message"]
    assert "test_replay.py" not in error["message"]
    assert re.search(r"test_replay\.py:\d+: t: The handler did not ask", caplog.text)


def test_a_handler_that_no_longer_asks_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    runs = iter(range(10))

    async def t(ctx: Context) -> str:
        return "done" if next(runs) else await ctx.ask("Name?")

    server = serve(t)
    assert text(again(server, first_round(server)["result"], {"q1": accept(answer="x")})) == "done"
    assert re.search(r"test_replay\.py:\d+: t: the handler no longer asked", caplog.text)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_handler_that_swallows_the_end_of_its_run_is_a_bug(blocking: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?")
        except BaseException:
            return "swallowed"

    def sync(ctx: SyncContext) -> str:
        try:
            return ctx.ask("Name?")
        except BaseException:
            return "swallowed"

    error = first_round(serve(t, sync), "sync" if blocking else "t")["error"]
    assert error["code"] == -32603
    assert "BaseException" in error["message"]
    assert "BaseException" in caplog.text


@pytest.mark.parametrize("blocking", [False, True])
def test_a_handler_may_clean_up(blocking: bool) -> None:
    cleaned = []

    async def t(ctx: Context) -> str:
        try:
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                task = group.create_task(ctx.ask("Name?"))
            return task.result()
        finally:
            cleaned.append(1)

    def sync(ctx: SyncContext) -> str:
        try:
            return ctx.ask("Name?")
        finally:
            cleaned.append(1)

    server = serve(t, sync)
    name = "sync" if blocking else "t"
    assert play_tool(server, MODERN, script(accept(answer="Ada")), name)[0] == "Ada"
    assert cleaned == [1, 1]


def test_a_question_in_gather_with_return_exceptions_still_ends_the_run() -> None:
    async def t(ctx: Context) -> str:
        found = await asyncio.gather(ctx.ask("One?"), ctx.ask("Two?"), return_exceptions=True)
        return repr(found)

    assert play_tool(serve(t), MODERN, script(accept(answer="1"), accept(answer="2")))[0] == "['1', '2']"


def test_a_partly_answered_round_asks_only_for_the_rest() -> None:
    async def t(ctx: Context) -> str:
        async def two(n: int) -> str:
            return await ctx.ask(f"First of {n}?") + await ctx.ask(f"Second of {n}?")

        return " ".join(await asyncio.gather(two(1), two(2)))

    seen: Counter[str] = Counter()

    def reply(method: str, params: dict[str, Any]) -> Any:
        message = params["message"]
        seen[message] += 1
        if "of 2" in message and seen[message] == 1:
            return None  # not yet
        return accept(answer=message[0] + message[-2])

    got, player = play_tool(serve(t), MODERN, reply)
    assert got == "F1S1 F2S2"
    assert [sorted(r["inputRequests"]) for r in player.rounds] == [["q1", "q2"], ["q2"], ["q3", "q4"], ["q4"]]


def test_each_round_has_a_new_state() -> None:
    async def t(ctx: Context) -> str:
        return await ctx.ask("One?", key="step1") + await ctx.ask("Two?", key="step2")

    got, player = play_tool(serve(t), MODERN, script(accept(answer="a"), accept(answer="b")))
    assert got == "ab"
    assert [list(r["inputRequests"]) for r in player.rounds] == [["step1"], ["step2"]]
    assert len({r["requestState"] for r in player.rounds}) == 2


def test_progress_and_log_are_said_once() -> None:
    async def t(ctx: Context) -> str:
        for n in range(4):
            await ctx.progress(n, 4)
            await ctx.info(f"before {n}")
            await ctx.ask(f"{n}?")
        await ctx.info("end")
        return "done"

    meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}
    _, player = play_tool(serve(t), MODERN, lambda m, p: accept(answer="x"), meta=meta)
    logs = [n["params"]["data"] for n in player.notices if n["method"] == "notifications/message"]
    steps = [n["params"]["progress"] for n in player.notices if n["method"] == "notifications/progress"]
    assert logs == ["before 0", "before 1", "before 2", "before 3", "end"]
    assert steps == [0, 1, 2, 3]


def test_nothing_follows_the_result_that_asks() -> None:
    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?")
        finally:
            await ctx.info("too late?")

    async def play() -> Any:
        player = Player(server, meta={"io.modelcontextprotocol/logLevel": "debug"})
        player.start("tools/call", {"name": "t", "arguments": {}})
        first = await player.receive()
        if "method" in first:
            first = await player.receive()
        await player.request("server/discover", {})
        return first["result"]["resultType"], [m for m in player.sent if "method" in m and m is not player.sent[0]]

    server = serve(t)
    assert run(play(), server) == ("input_required", [])


def test_middleware_sees_a_result() -> None:
    seen = []

    async def watch(call: Any, next: Any) -> Any:
        result = await next(call)
        seen.append(type(result).__name__)
        return result

    server = serve(ASK_NAME, middleware=[watch])
    assert play_tool(server, MODERN, script(accept(answer="Ada")))[0] == "Hello, Ada!"
    assert seen == ["InputRequired", "ToolResult"]


def test_a_client_that_cancels_while_it_is_asked_gets_nothing() -> None:
    started = asyncio.Event()

    async def t(ctx: Context) -> str:
        started.set()
        await asyncio.Event().wait()
        return await ctx.ask("Name?")

    async def play() -> Any:
        player = Player(server)
        id = player.start("tools/call", {"name": "t", "arguments": {}})
        await started.wait()
        player.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        return (await player.request("server/discover", {}))["id"], len(player.sent)

    server = serve(t)
    assert run(play(), server) == (2, 1)


# ---------------------------------------------------------------- many, and any


def test_a_thousand_dialogues_with_the_same_ids_never_mix() -> None:
    async def t(number: int, ctx: Context) -> str:
        doubled = await ctx.step("double", lambda: number * 2)
        first = await ctx.ask(f"First of {number}?", int)
        second = await ctx.ask(f"Second of {number}?", int)
        return f"{number} {doubled} {first} {second}"

    async def one(number: int) -> str:
        def reply(method: str, params: dict[str, Any]) -> Any:
            assert f"of {number}?" in params["message"]
            return accept(answer=number * 10 + ("Second" in params["message"]))

        revision = REVISIONS[number % 3]
        player = await Player(server, revision, reply, principal=f"user {number}").open()
        return await player.text("t", number=number)

    async def play() -> Any:
        return await asyncio.gather(*map(one, range(1000)))

    server = serve(t)
    assert run(play(), server, seconds=60) == [f"{n} {n * 2} {n * 10} {n * 10 + 1}" for n in range(1000)]


Plan = st.recursive(
    st.sampled_from(["ask", "elicit", "confirm", "step", "keyed"]).map(lambda kind: (kind,)),
    lambda inner: st.tuples(st.sampled_from(["gather", "then"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


async def perform(ctx: Context, plan: Any, path: str, together: bool = False) -> Any:
    # A step takes its time in the first run only, so questions of branches beside it come in another order: they
    # need a key. Without steps the order is that of the loop, and ordinals will do.
    key = path if together else None
    match plan:
        case ("gather", parts):
            keyed = together or "'step'" in repr(plan)
            return await asyncio.gather(*(perform(ctx, part, f"{path}.{n}", keyed) for n, part in enumerate(parts)))
        case ("then", parts):
            return [await perform(ctx, part, f"{path}.{n}", together) for n, part in enumerate(parts)]
        case ("ask",):
            return await ctx.ask(f"{path}?", str, key)
        case ("elicit",):
            return repr(await ctx.elicit(f"{path}?", int, key))
        case ("keyed",):
            return repr(await ctx.elicit(f"{path}?", str, key=path))
        case ("confirm",):
            return await ctx.confirm(f"{path}?", key)
    return await ctx.step(path, lambda: len(path))


def scripted(seed: int) -> Any:
    """Answers that depend on the question only: the same in every era, right, wrong, declined or cancelled."""

    def reply(method: str, params: dict[str, Any]) -> Any:
        message = params["message"]
        first = message.partition("\n")[0]
        turn = sum(first.encode()) + seed
        kind = params["requestedSchema"]["properties"]["answer"]["type"]
        right = {"string": first, "integer": turn, "boolean": turn % 2 == 0}[kind]
        if turn % 7 == 0 and "\n" not in message and kind != "string":
            return accept(answer="neither")
        return [accept(answer=right), accept(answer=right), DECLINE, accept(answer=right), CANCEL][turn % 5]

    return reply


@settings(max_examples=100)
@given(plan=Plan, seed=st.integers(0, 1000))
def test_any_dialogue_ends_alike_in_every_era(plan: Any, seed: int) -> None:
    async def t(ctx: Context) -> str:
        return repr(await perform(ctx, plan, "p"))

    results = {r: play_tool(serve(t), r, scripted(seed))[0] for r in REVISIONS}
    rehearsed = serve(t)
    rehearsed.runtime.force_replay = True
    results["rehearsed"] = play_tool(rehearsed, NOVEMBER, scripted(seed))[0]
    refusals = {text for text in results.values() if text.startswith("The user d")}
    # Of several refusals in one round, which one ends the call is a matter of timing.
    assert len(set(results.values()) - refusals) <= 1
    assert not refusals or refusals == set(results.values())


def test_the_handshake_era_can_rehearse_replay() -> None:
    runs = []

    async def t(ctx: Context) -> str:
        runs.append(1)
        return await ctx.ask("One?") + await ctx.ask("Two?")

    server = serve(t)
    server.runtime.force_replay = True
    for revision in (JUNE, NOVEMBER):
        runs.clear()
        replies = script(accept(answer="a"), accept(answer=7), accept(answer="b"))
        assert play_tool(server, revision, replies)[0] == "ab"
        assert len(runs) == 3


def test_rehearsal_finds_a_handler_that_does_not_repeat_itself() -> None:
    runs = iter(range(10))

    async def t(ctx: Context) -> str:
        return await ctx.ask(f"Run {next(runs)}?")

    async def play() -> Any:
        player = await Player(server, NOVEMBER, script(accept(answer="a"))).open()
        return await player.call("tools/call", name="t", arguments={})

    server = serve(t)
    server.runtime.force_replay = True
    assert "'Run 0?'" in run(play(), server)["error"]["message"]


def test_rehearsal_remembers_that_a_question_was_not_answered() -> None:
    async def t(ctx: Context) -> str:
        try:
            said = (await ctx.sample("Say something")).text
        except ProtocolError as error:
            said = str(error)
        return f"{said}; {await ctx.ask('Name?')}"

    server = serve(t)
    server.runtime.force_replay = True
    text, _ = play_tool(server, NOVEMBER, script(ValueError("no model here"), accept(answer="Ada")))
    assert text == "The client did not answer sampling/createMessage: no model here; Ada"
