"""Which questions make one round: those of one turn of the loop, unless the handler's own task waits for the first."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from asking.player import Player, accept, script
from redstart import Context, Server
from redstart.asking.dialogue import Dialogue
from redstart.protocol.call import Call
from support import MODERN, run


def by_message(method: str, params: dict[str, Any]) -> Any:
    return accept(answer=params["message"].lower())


async def joined(player: Player) -> tuple[str, list[list[str]]]:
    """The text of the tool, and the messages of each round."""
    text = await player.text("t")
    rounds = [[q["params"]["message"] for q in result["inputRequests"].values()] for result in player.rounds]
    return text, rounds


def play(server: Server) -> tuple[str, list[list[str]]]:
    return run(joined(Player(server, MODERN, by_message)), server)


def test_a_task_that_asked_first_is_joined() -> None:
    server = Server("turns")

    @server.tool
    async def t(ctx: Context) -> str:
        other = asyncio.create_task(ctx.ask("B"))
        await asyncio.sleep(0)  # now it asks
        return await ctx.ask("A") + await other

    assert play(server) == ("ab", [["B", "A"]])


def test_the_handlers_own_question_waits_for_nobody() -> None:
    server = Server("turns")

    @server.tool
    async def t(ctx: Context) -> str:
        other = asyncio.create_task(ctx.ask("B"))  # it does not run before the handler waits
        return await ctx.ask("A") + await other

    assert play(server) == ("ab", [["A"], ["B"]])


def test_branches_keep_their_questions_whatever_the_round() -> None:
    server = Server("turns")

    @server.tool
    async def t(ctx: Context) -> str:
        async def branch(name: str, count: int) -> str:
            return "".join([await ctx.ask(f"{name}{number}") for number in range(count)])

        first = await ctx.ask("START")
        parts = await asyncio.gather(branch("A", 1), branch("B", 3), branch("C", 2))
        return " ".join([first, *parts, await ctx.ask("END")])

    text, rounds = play(server)
    assert text == "start a0 b0b1b2 c0c1 end"
    assert rounds == [["START"], ["A0", "B0", "C0"], ["B1", "C1"], ["B2"], ["END"]]


def test_a_bad_answer_to_a_question_alone_is_asked_again() -> None:
    server = Server("turns")

    @server.tool
    async def t(ctx: Context) -> str:
        return f"{await ctx.ask('A', int)} {await ctx.ask('B', int)}"

    async def talk() -> tuple[str, int]:
        player = Player(server, MODERN, script(accept(answer="x"), accept(answer=1), accept(answer=2)))
        return await player.text("t"), len(player.rounds)

    assert run(talk(), server) == ("1 2", 3)


def test_the_client_cancels_while_a_run_cleans_up() -> None:
    """A question has ended the run, but the handler is not done: now a cancellation is the client's own."""
    tidying, ended = asyncio.Event(), asyncio.Event()

    async def watch(call: Any, follow: Any) -> Any:
        try:
            return await follow(call)
        except asyncio.CancelledError:
            ended.set()
            raise

    server = Server("turns", middleware=[watch])

    @server.tool
    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("A")
        finally:
            tidying.set()
            await asyncio.get_running_loop().create_future()

    @server.tool
    async def fine() -> str:
        return "fine"

    async def talk() -> None:
        player = Player(server, MODERN, script())
        id = player.start("tools/call", {"name": "t", "arguments": {}})
        await tidying.wait()
        player.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        await ended.wait()
        assert await player.text("fine") == "fine"  # `request` fails on any other answer that comes first

    run(talk(), server)


def test_what_a_call_leaves_behind_cannot_ask() -> None:
    server = Server("turns")
    left: list[asyncio.Task[str]] = []
    over = asyncio.Event()

    @server.tool
    async def t(ctx: Context) -> str:
        async def late() -> str:
            await over.wait()
            return await ctx.ask("Too late?")

        left.append(asyncio.create_task(late()))
        return "done"

    async def talk() -> None:
        assert await Player(server, MODERN, script()).text("t") == "done"
        over.set()
        with pytest.raises(asyncio.CancelledError):
            await left[0]

    run(talk(), server)


@pytest.mark.parametrize("asks", [0, 2])
def test_a_call_leaves_nothing_to_the_garbage_collector(asks: int) -> None:
    """A cycle for each call would double what a round costs."""
    server = Server("turns")

    @server.tool
    async def t(ctx: Context) -> str:
        return "".join([await ctx.ask(str(number)) for number in range(asks)])

    def living() -> int:
        return sum(isinstance(thing, Call | Dialogue) for thing in gc.get_objects())

    async def talk() -> int:
        player = Player(server, MODERN, by_message)
        await player.text("t")
        gc.collect()
        gc.disable()
        try:
            before = living()
            for _ in range(5):
                await player.text("t")
            return living() - before
        finally:
            gc.enable()

    assert run(talk(), server) <= 1  # the loop may still hold the last one
