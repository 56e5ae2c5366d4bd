"""The modern era: a handler runs again for each round, and nobody can tell."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from features.asking import CANCEL, DECLINE, JUNE, MODERN, NOVEMBER, REVISIONS, Player, accept, play_tool, run, script
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart import Accepted, Context, Server, SyncContext, Tool
from redstart.server.seal import KeyRing

KEYS = ["a key that two servers share, long enough"]


def serve(*tools: Any, **options: Any) -> Server:
    return Server("replay", tools=tools, **options)


def first_round(server: Server, name: str = "t", **options: Any) -> dict[str, Any]:
    """The first answer to a tool call."""

    async def play() -> dict[str, Any]:
        return await Player(server, **options).request("tools/call", {"name": name, "arguments": {}})

    return run(server, play)  # type: ignore[no-any-return]


def again(server: Server, result: dict[str, Any], responses: Any, **changes: Any) -> dict[str, Any]:
    """The answer to the retry."""
    params = {"name": "t", "arguments": {}, "requestState": result["requestState"], "inputResponses": responses}
    options = changes.pop("options", {})
    params |= changes

    async def play() -> dict[str, Any]:
        wanted = {key: value for key, value in params.items() if value is not ...}
        return await Player(server, **options).request("tools/call", wanted)

    return run(server, play)  # type: ignore[no-any-return]


async def ask_name(ctx: Context) -> str:
    answer = await ctx.elicit("What is your name?", str, key="user_name")
    return f"Hello, {answer.data}!" if isinstance(answer, Accepted) else "No name provided."


ASK_NAME = Tool("t", handler=ask_name)


def text(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]  # type: ignore[no-any-return]


@pytest.mark.requirement("T88", "T92")
def test_what_asks_carries_requests_and_state_and_no_cache() -> None:
    result = first_round(serve(ASK_NAME))["result"]
    assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}
    assert result["resultType"] == "input_required"
    assert result["inputRequests"].keys() == {"user_name"}
    assert result["inputRequests"]["user_name"].keys() == {"method", "params"}


@pytest.mark.requirement("T89")
@pytest.mark.parametrize(
    "responses",
    [
        {},
        {"wrong_key": accept(answer="Ada")},
        {"user_name": 12345},
        {"user_name": None},
        {"user_name": {"content": {"answer": "Ada"}}},
        {"user_name": accept(answer=7)},
        {"user_name": accept(answer=None)},
        ...,
    ],
)
def test_a_missing_or_bad_answer_asks_again(responses: Any) -> None:
    server = serve(ASK_NAME)
    result = first_round(server)["result"]
    second = again(server, result, responses)["result"]
    assert second["resultType"] == "input_required"
    assert second["inputRequests"].keys() == {"user_name"}
    assert text(again(server, second, {"user_name": accept(answer="Ada")})) == "Hello, Ada!"


def test_extra_answers_are_ignored() -> None:
    server = serve(ASK_NAME)
    responses = {"user_name": accept(answer="Ada"), "extra": accept(answer="x"), "more": 7}
    assert text(again(server, first_round(server)["result"], responses)) == "Hello, Ada!"


@pytest.mark.parametrize("responses", [None, 7, [], "x", True])
def test_malformed_responses_are_refused(responses: Any) -> None:
    server = serve(ASK_NAME)
    assert again(server, first_round(server)["result"], responses)["error"]["code"] == -32602


@pytest.mark.requirement("T90")
@pytest.mark.parametrize("state", [7, [], {}, None, "", "x", "A" * 40000, "AAAA", "ä", True])
def test_a_mistyped_state_is_refused_before_the_handler_runs(state: Any) -> None:
    ran: list[int] = []

    async def t(ctx: Context) -> str:
        ran.append(1)
        return await ctx.ask("Name?")

    server = serve(t)
    answer = again(server, {"requestState": state}, {})
    assert answer["error"]["code"] == -32602
    assert not ran


@pytest.mark.requirement("T90")
def test_a_state_opens_only_for_what_it_was_made_for() -> None:
    ran: list[int] = []

    async def t(ctx: Context, a: int = 0, b: int = 0) -> str:
        ran.append(1)
        return await ctx.ask("Name?")

    async def u(ctx: Context, a: int = 0, b: int = 0) -> str:
        return await t(ctx)

    server = serve(t, u, keys=KEYS)
    result = first_round(server, principal="ada")["result"]
    ran.clear()
    good = {"q1": accept(answer="Ada")}
    state = result["requestState"]
    ada = {"principal": "ada"}
    wrong: list[dict[str, Any]] = [
        {"options": {"principal": "bob"}},
        {"options": {}},
        {"options": ada, "name": "u"},
        {"options": ada, "arguments": {"a": 1}},
        {"options": ada, "requestState": state + "-TAMPERED"},
        {"options": ada, "requestState": state[:-1]},
        {"options": ada, "requestState": state[::-1]},
        {"options": ada, "requestState": ("B" if state[30] == "A" else "A").join((state[:30], state[31:]))},
    ]
    for changes in wrong:
        assert again(server, result, good, **changes)["error"]["code"] == -32602, changes
    other = Server("another", tools=[t, u], keys=KEYS)
    assert again(other, result, good, options=ada)["error"]["code"] == -32602
    stranger = serve(t, u, keys=["another key, as long as the first one"])
    assert again(stranger, result, good, options=ada)["error"]["code"] == -32602
    assert not ran
    assert text(again(server, result, good, options=ada)) == "Ada"


def test_the_order_of_parameters_does_not_matter() -> None:
    async def t(a: int, b: int, ctx: Context) -> str:
        return await ctx.ask("Name?")

    async def play() -> Any:
        player = Player(server)
        first = await player.request("tools/call", {"name": "t", "arguments": {"a": 1, "b": 2}})
        more = {
            "requestState": first["result"]["requestState"],
            "inputResponses": {"q1": accept(answer="Ada")},
            "arguments": {"b": 2, "a": 1},
            "name": "t",
        }
        return await player.request("tools/call", more)

    server = serve(t)
    assert text(run(server, play)) == "Ada"


@pytest.mark.requirement("T90")
def test_an_expired_state_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from redstart.server import request_state

    server = serve(ASK_NAME, keys=KEYS, ask_timeout=600)
    result = first_round(server)["result"]
    real = request_state.time.time()
    monkeypatch.setattr(request_state.time, "time", lambda: real + 601)
    error = again(server, result, {"user_name": accept(answer="Ada")})["error"]
    assert error["code"] == -32602
    assert "expired" in error["message"]


def test_the_next_round_is_served_by_another_server_with_the_same_keys() -> None:
    one, two = serve(ASK_NAME, keys=KEYS), serve(ASK_NAME, keys=["a newer key, also long enough", *KEYS])
    result = first_round(one)["result"]
    assert text(again(two, result, {"user_name": accept(answer="Ada")})) == "Hello, Ada!"


def test_answers_without_a_state_count_for_questions_with_a_key() -> None:
    async def t(ctx: Context) -> str:
        return await ctx.ask("Name?")

    keyed, unkeyed = serve(ASK_NAME), serve(t)
    result = {"requestState": ...}
    assert text(again(keyed, result, {"user_name": accept(answer="Ada")})) == "Hello, Ada!"
    assert again(unkeyed, result, {"q1": accept(answer="Ada")})["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("whole", [False, True])
def test_a_state_for_one_use(whole: bool) -> None:
    options = {"single_use": True} if whole else {}
    server = serve(Tool("t", handler=ask_name, single_use=not whole), **options)
    result = first_round(server)["result"]
    responses = {"user_name": accept(answer="Ada")}
    assert text(again(server, result, responses)) == "Hello, Ada!"
    assert "used before" in again(server, result, responses)["error"]["message"]
    without = again(server, {"requestState": ...}, responses)
    assert without["result"]["resultType"] == "input_required"


def test_the_state_has_a_cap() -> None:
    async def t(ctx: Context) -> str:
        await ctx.step("big", lambda: "x" * 40_000)
        return await ctx.ask("Name?")

    error = first_round(serve(t))["error"]
    assert "at most 32768" in error["message"]


# ---------------------------------------------------------------- repeating oneself


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


def test_a_handler_that_no_longer_asks_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    runs = iter(range(10))

    async def t(ctx: Context) -> str:
        return "done" if next(runs) else await ctx.ask("Name?")

    server = serve(t)
    assert text(again(server, first_round(server)["result"], {"q1": accept(answer="x")})) == "done"
    assert "no longer asked" in caplog.text


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
    logs = [n["params"]["data"] for n in player.notes if n["method"] == "notifications/message"]
    steps = [n["params"]["progress"] for n in player.notes if n["method"] == "notifications/progress"]
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
    assert run(server, play) == ("input_required", [])


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
    assert run(server, play) == (2, 1)


# ---------------------------------------------------------------- steps


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("encrypt", [True, False])
@pytest.mark.parametrize("blocking", [False, True])
def test_a_step_happens_once(revision: str, encrypt: bool, blocking: bool) -> None:
    done = []

    def reserve() -> tuple[int, str]:
        done.append("reserve")
        return 42, "é"

    async def charge() -> dict[str, int]:
        done.append("charge")
        return {"paid": 7}

    async def t(ctx: Context) -> str:
        number = await ctx.step("reserve", reserve)
        sure = await ctx.confirm("Sure?")
        paid = await ctx.step("charge", charge)
        name = await ctx.ask("Name?")
        return f"{number} {sure} {paid} {name}"

    def sync(ctx: SyncContext) -> str:
        number = ctx.step("reserve", reserve)
        sure = ctx.confirm("Sure?")
        paid = ctx.step("charge", lambda: charge())
        return f"{number} {sure} {paid} {ctx.ask('Name?')}"

    server = serve(t, sync)
    server.host.keys = KeyRing(KEYS, encrypt=encrypt)
    reply = script(accept(answer=True), accept(answer="Ada"))
    got, player = play_tool(server, revision, reply, "sync" if blocking else "t")
    assert got == "[42, 'é'] True {'paid': 7} Ada"
    assert done == ["reserve", "charge"]


@pytest.mark.parametrize("encrypt", [True, False])
def test_a_round_that_is_sent_twice_does_not_repeat_its_steps(encrypt: bool) -> None:
    done: list[int] = []

    async def charge() -> int:
        await asyncio.sleep(0)
        done.append(1)
        return len(done)

    async def t(ctx: Context) -> str:
        await ctx.ask("Sure?")
        return f"paid {await ctx.step('charge', charge)}"

    async def play() -> Any:
        player = Player(server)
        first = await player.request("tools/call", {"name": "t", "arguments": {}})
        state = first["result"]["requestState"]
        more = {"requestState": state, "inputResponses": {"q1": accept(answer="yes")}, "name": "t", "arguments": {}}
        ids = {player.start("tools/call", more) for _ in range(3)}
        answers = [await player.receive() for _ in range(3)]
        assert {answer["id"] for answer in answers} == ids
        return [text(answer) for answer in answers]

    server = serve(t)
    server.host.keys = KeyRing(KEYS, encrypt=encrypt)
    assert run(server, play) == ["paid 1"] * 3
    assert done == [1]


def test_a_signed_state_holds_no_step() -> None:
    async def t(ctx: Context) -> str:
        await ctx.step("secret", lambda: "hunter2")
        return await ctx.ask("Name?")

    from base64 import urlsafe_b64decode

    for encrypt in (True, False):
        server = serve(t)
        server.host.keys = KeyRing(KEYS, encrypt=encrypt)
        state = first_round(server)["result"]["requestState"]
        raw = urlsafe_b64decode(state + "=" * (-len(state) % 4))
        assert b"hunter2" not in raw
        assert (b"Name?" in raw) is not encrypt


def test_a_step_that_fails_may_be_tried_again() -> None:
    tries = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("down")
        return "up"

    async def t(ctx: Context) -> str:
        await ctx.ask("Go?")
        return str(await ctx.step("flaky", flaky))

    server = serve(t)
    result = first_round(server)["result"]
    good = {"q1": accept(answer="x")}
    assert again(server, result, good)["result"]["isError"]
    assert text(again(server, result, good)) == "up"
    assert not server.host.steps


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_step_key_is_used_once(revision: str) -> None:
    async def t(ctx: Context) -> str:
        await ctx.step("a", lambda: 1)
        await ctx.step("a", lambda: 2)
        return "never"

    assert "'a'" in play_tool(serve(t, expose_errors=True), revision, None)[0]


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
    assert run(server, play, 60) == [f"{n} {n * 2} {n * 10} {n * 10 + 1}" for n in range(1000)]


Plan = st.recursive(
    st.sampled_from(["ask", "elicit", "confirm", "step", "keyed"]).map(lambda kind: (kind,)),
    lambda inner: st.tuples(st.sampled_from(["gather", "then"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


async def perform(ctx: Context, plan: Any, path: str) -> Any:
    match plan:
        case ("gather", parts):
            return await asyncio.gather(*(perform(ctx, part, f"{path}.{n}") for n, part in enumerate(parts)))
        case ("then", parts):
            return [await perform(ctx, part, f"{path}.{n}") for n, part in enumerate(parts)]
        case ("ask",):
            return await ctx.ask(f"{path}?")
        case ("elicit",):
            return repr(await ctx.elicit(f"{path}?", int))
        case ("keyed",):
            return repr(await ctx.elicit(f"{path}?", str, key=path))
        case ("confirm",):
            return await ctx.confirm(f"{path}?")
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


@settings(max_examples=60, deadline=None)
@given(plan=Plan, seed=st.integers(0, 1000))
def test_any_dialogue_ends_alike_in_every_era(plan: Any, seed: int) -> None:
    async def t(ctx: Context) -> str:
        return repr(await perform(ctx, plan, "p"))

    results = {r: play_tool(serve(t), r, scripted(seed))[0] for r in REVISIONS}
    rehearsed = serve(t)
    rehearsed.host.force_replay = True
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
    server.host.force_replay = True
    for revision in (JUNE, NOVEMBER):
        runs.clear()
        replies = script(accept(answer="a"), accept(answer=7), accept(answer="b"))
        assert play_tool(server, revision, replies)[0] == "ab"
        assert len(runs) == 4


def test_rehearsal_finds_a_handler_that_does_not_repeat_itself() -> None:
    runs = iter(range(10))

    async def t(ctx: Context) -> str:
        return await ctx.ask(f"Run {next(runs)}?")

    async def play() -> Any:
        player = await Player(server, NOVEMBER, script(accept(answer="a"))).open()
        return await player.call("tools/call", name="t", arguments={})

    server = serve(t)
    server.host.force_replay = True
    assert "'Run 0?'" in run(server, play)["error"]["message"]
