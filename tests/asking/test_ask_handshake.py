"""Asking in the handshake era: real requests, late answers, no answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asking.player import Player, accept, ask_name, ask_name_blocking, handshakes, play_tool, script, serve
from redstart import Context, Server, SyncContext, Tool
from redstart.execution.limits import Deadline
from support import run


@handshakes
def test_a_handshake_client_that_never_gets_it_right_is_given_up(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return type(await ctx.elicit("Age?", int)).__name__

    text, player = play_tool(serve(t), revision, script(accept(answer="x"), accept(answer="y")))
    assert (text, len(player.asked)) == ("Cancelled", 2)


@handshakes
@pytest.mark.requirement("67")
def test_an_error_reply_is_no_answer(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return repr(await ctx.elicit("Name?"))

    async def s(ctx: Context) -> str:
        return (await ctx.sample("Hi")).text

    server = serve(t, s)
    assert play_tool(server, revision, script(RuntimeError("no")))[0] == "Cancelled()"
    text, _ = play_tool(server, revision, script(RuntimeError("rejected by the user")), "s")
    assert text == "The client did not answer sampling/createMessage: rejected by the user"


@handshakes
@pytest.mark.parametrize("tool", [ask_name, ask_name_blocking])
def test_a_client_that_never_answers_does_not_hang_the_call(revision: str, tool: Any) -> None:
    server = serve(tool, ask_timeout=0.01)
    text, player = play_tool(server, revision, lambda method, params: None, tool.__name__)
    assert text == "No name provided."
    (note,) = player.notices
    assert note["method"] == "notifications/cancelled"
    assert note["params"]["requestId"] == player.asked[0]["id"]
    assert not player.wire.link.pending


@handshakes
def test_answers_in_any_order(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return repr(await asyncio.gather(*(ctx.ask(f"{n}?", int) for n in range(3))))

    async def play() -> Any:
        player = await Player(server, revision).open()
        player.start("tools/call", {"name": "t", "arguments": {}})
        questions = [await player.receive() for _ in range(3)]
        for question in reversed(questions):
            number = int(question["params"]["message"][0])
            player.send({"id": question["id"], "result": accept(answer=number)})
        return (await player.receive())["result"]["content"][0]["text"]

    server = serve(t)
    assert run(play(), server) == "[0, 1, 2]"


@handshakes
@pytest.mark.parametrize("blocking", [False, True])
def test_a_cancelled_call_ends_its_questions(revision: str, blocking: bool) -> None:
    ended = asyncio.Event()

    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?")
        finally:
            ended.set()

    def sync(ctx: SyncContext) -> str:
        try:
            return ctx.ask("Name?")
        finally:
            server.runtime.loop.call_soon_threadsafe(ended.set)  # type: ignore[union-attr]

    async def play() -> Any:
        player = await Player(server, revision).open()
        id = player.start("tools/call", {"name": "sync" if blocking else "t", "arguments": {}})
        question = await player.receive()
        player.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        await ended.wait()
        withdrawn = await player.receive()
        assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", question["id"])
        player.send({"id": question["id"], "result": accept(answer="late")})
        answer = await player.request("ping", {})
        return answer["result"], dict(player.wire.link.pending), len(player.sent)

    server = serve(t, sync)
    assert run(play(), server) == ({}, {}, 4)


@handshakes
def test_a_waiting_thread_gives_its_place_away(revision: str) -> None:
    def t(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    def quick() -> str:
        return "quick"

    async def play() -> Any:
        player = await Player(server, revision).open()
        player.start("tools/call", {"name": "t", "arguments": {}})
        question = await player.receive()
        text = await player.text("quick")
        player.send({"id": question["id"], "result": accept(answer="Ada")})
        return text, (await player.receive())["result"]["content"][0]["text"]

    server = serve(t, quick, threads=1)
    assert run(play(), server) == ("quick", "Ada")


@handshakes
@pytest.mark.parametrize("blocking", [False, True])
def test_a_time_limit_does_not_count_the_human(revision: str, blocking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[Deadline] = []
    monkeypatch.setattr(Deadline, "pause", lambda deadline: paused.append(deadline))
    monkeypatch.setattr(Deadline, "resume", lambda deadline: paused.remove(deadline))
    waiting = []

    async def t(ctx: Context) -> str:
        return await ctx.ask("Name?")

    def sync(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    def reply(method: str, params: dict[str, Any]) -> Any:
        waiting.append(len(paused))
        return accept(answer="Ada")

    server = Server("asking", tools=[Tool(handler=t, timeout=30), Tool(handler=sync, timeout=30)])
    assert play_tool(server, revision, reply, "sync" if blocking else "t")[0] == "Ada"
    assert (waiting, paused) == ([1], [])
