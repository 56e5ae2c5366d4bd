"""What a retry brings: answers and a state, good and bad."""

from __future__ import annotations

import time
from typing import Any

import pytest

from asking.player import ASK_NAME, KEYS, Player, accept, again, ask_name_by_key, first_round, script, serve, text
from redstart import Context, Server, Tool
from support import JUNE, NOVEMBER, run


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


@pytest.mark.parametrize("malformed", [12345, None, "Ada", [], {"content": {"answer": "Ada"}}, {"action": 7}])
def test_an_answer_that_no_user_can_have_given_is_refused(malformed: Any) -> None:
    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?", key="user_name")
        except Exception:  # a handler that forgives everything does not hide a broken client
            return "somebody"

    server = serve(t)
    error = again(server, first_round(server)["result"], {"user_name": malformed})["error"]
    assert error["code"] == -32602
    assert "inputResponses['user_name']" in error["message"]


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
    assert text(run(play(), server)) == "Ada"


@pytest.mark.requirement("T90")
def test_an_expired_state_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(ASK_NAME, keys=KEYS, ask_timeout=600)
    result = first_round(server)["result"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    error = again(server, result, {"user_name": accept(answer="Ada")})["error"]
    assert error["code"] == -32602
    assert "expired" in error["message"]


def test_the_next_round_is_served_by_another_server_with_the_same_keys() -> None:
    one, two = serve(ASK_NAME, keys=KEYS), serve(ASK_NAME, keys=["a newer key, also long enough", *KEYS])
    result = first_round(one)["result"]
    assert text(again(two, result, {"user_name": accept(answer="Ada")})) == "Hello, Ada!"


@pytest.mark.requirement("T93")
@pytest.mark.parametrize("revision", [JUNE, NOVEMBER])
def test_a_handshake_session_has_no_rounds(revision: str) -> None:
    server = serve(ASK_NAME, keys=KEYS)
    result = first_round(server)["result"]

    async def play() -> Any:
        player = await Player(server, revision, script(accept(answer="Bob"))).open()
        stray = {"requestState": result["requestState"], "inputResponses": {"user_name": accept(answer="Ada")}}
        answer = await player.request("tools/call", {"name": "t", "arguments": {}, **stray})
        return text(answer), answer["result"].get("resultType"), len(player.asked)

    # What another era has sent is not looked at: the user of this session is asked, by a request.
    assert run(play(), server) == ("Hello, Bob!", None, 1)


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
    server = serve(Tool("t", handler=ask_name_by_key, single_use=not whole), **options)
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
    assert "the result of the step 'big' (40002 bytes): keep it elsewhere" in error["message"]


def test_an_answer_that_is_too_large_to_carry_is_named() -> None:
    async def t(ctx: Context) -> str:
        letter = await ctx.ask("Your letter?")
        return f"{len(letter)} for {await ctx.ask('For whom?')}"

    server = serve(t)
    error = again(server, first_round(server)["result"], {"q1": accept(answer="x" * 100_000)})["error"]
    assert "at most 32768 are allowed" in error["message"]
    assert "the answer to 'Your letter?'" in error["message"]
    assert "limit its length, or ask for it last" in error["message"]
    assert "step" not in error["message"]
