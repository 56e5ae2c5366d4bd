"""Side effects that happen once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asking.player import KEYS, REVISIONS, Player, accept, again, first_round, play_tool, script, serve, text
from redstart import Context, Server, SyncContext
from redstart.asking.seal import KeyRing
from support import run


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
    server.runtime.keys = KeyRing(KEYS, encrypt=encrypt)
    reply = script(accept(answer=True), accept(answer="Ada"))
    got, _ = play_tool(server, revision, reply, "sync" if blocking else "t")
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
    server.runtime.keys = KeyRing(KEYS, encrypt=encrypt)
    assert run(play(), server) == ["paid 1"] * 3
    assert done == [1]


def test_a_signed_state_holds_no_step() -> None:
    async def t(ctx: Context) -> str:
        await ctx.step("secret", lambda: "hunter2")
        return await ctx.ask("Name?")

    from base64 import urlsafe_b64decode

    for encrypt in (True, False):
        server = serve(t)
        server.runtime.keys = KeyRing(KEYS, encrypt=encrypt)
        state = first_round(server)["result"]["requestState"]
        raw = urlsafe_b64decode(state + "=" * (-len(state) % 4))
        assert b"hunter2" not in raw
        assert (b"Name?" in raw) is not encrypt


@pytest.mark.parametrize("encrypt", [True, False])
def test_a_process_without_the_record_of_a_done_step_does_not_repeat_it(
    encrypt: bool, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def process(encrypt: bool) -> Server:
        async def t(ctx: Context) -> str:
            await ctx.step("charge", lambda: done.append("charge"))
            name = await ctx.ask("Name?")
            await ctx.ask("Really?")
            await ctx.step("send", lambda: done.append("send"))
            return name

        server = serve(t)
        server.runtime.keys = KeyRing(KEYS, encrypt=encrypt)
        return server

    signing, other = process(encrypt=False), process(encrypt)
    first = first_round(signing)["result"]
    second = again(signing, first, {"q1": accept(answer="Ada")})["result"]
    for state, answers in ((first, {"q1": accept(answer="Ada")}), (second, {"q2": accept(answer="yes")})):
        refused = again(other, state, answers)["error"]
        assert refused["code"] == -32603
        assert refused["message"].startswith("The step 'charge' of this dialogue has been performed, and its result")
    assert 'pip install "redstart[seal]"' in caplog.text
    assert done == ["charge"]
    assert text(again(signing, second, {"q2": accept(answer="yes")})) == "Ada"
    assert done == ["charge", "send"]


def test_a_done_step_that_a_round_did_not_reach_is_still_known() -> None:
    done: list[str] = []

    def process() -> Server:
        async def t(ctx: Context) -> str:
            if not done:
                await ctx.step("charge", lambda: done.append("charge"))
            await ctx.ask("Name?")
            await ctx.ask("Really?")
            await ctx.step("charge", lambda: done.append("again"))
            return "done"

        server = serve(t)
        server.runtime.keys = KeyRing(KEYS, encrypt=False)
        return server

    signing = process()
    second = again(signing, first_round(signing)["result"], {"q1": accept(answer="Ada")})["result"]
    assert "The step 'charge'" in again(process(), second, {"q2": accept(answer="yes")})["error"]["message"]
    assert done == ["charge"]


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
    assert text(again(server, result, good)) == "up"
    assert len(tries) == 2  # the step that is done is not tried again, and nothing waits for it


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_step_key_is_used_once(revision: str) -> None:
    async def t(ctx: Context) -> str:
        await ctx.step("a", lambda: 1)
        await ctx.step("a", lambda: 2)
        return "never"

    assert "'a'" in play_tool(serve(t, expose_errors=True), revision, None)[0]
