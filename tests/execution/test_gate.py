"""The room of a limited tool while its user is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asking.player import Player, accept, handshakes, serve
from redstart import Context, Server, SyncContext, Tool
from support import run


class Stage:
    """A server with one tool that asks and room for one call of it at a time."""

    def __init__(self, *, blocking: bool = False, whole: bool = False, queue: int = 10) -> None:
        self.busy = 0
        self.most = 0

        async def asks(ctx: Context, quick: bool = False) -> str:
            self._come()
            try:
                return "quick" if quick else await ctx.ask("Name?")
            finally:
                self.busy -= 1

        def blocks(ctx: SyncContext, quick: bool = False) -> str:
            return "quick" if quick else ctx.ask("Name?")

        limits: dict[str, Any] = {"max_concurrency": 1} if whole else {}
        tool = Tool("t", handler=blocks if blocking else asks, concurrency=None if whole else 1)
        self.server: Server = serve(tool, max_queue=queue, **limits)

    def _come(self) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)


def call(player: Player, *, quick: bool = False) -> int:
    return player.start("tools/call", {"name": "t", "arguments": {"quick": quick}})


def said(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["id"], answer["result"]["content"][0]["text"]


@handshakes
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_user_who_thinks_does_not_hold_up_the_others(revision: str, blocking: bool, whole: bool) -> None:
    stage = Stage(blocking=blocking, whole=whole)

    async def play() -> None:
        player = await Player(stage.server, revision).open()
        asking = call(player)
        question = await player.receive()
        quick = call(player, quick=True)
        assert said(await player.receive()) == (quick, "quick")
        player.send({"id": question["id"], "result": accept(answer="Ada")})
        assert said(await player.receive()) == (asking, "Ada")

    run(play(), stage.server)


@handshakes
def test_an_answered_call_waits_for_room_and_is_the_next(revision: str) -> None:
    order: list[str] = []
    go = asyncio.Event()

    async def t(ctx: Context, name: str = "") -> str:
        if name:
            order.append(name)
            await go.wait()
        else:
            await ctx.ask("Name?")
            order.append("answered")
        return name

    server = serve(Tool("t", handler=t, concurrency=1), max_queue=1)

    async def play() -> None:
        player = await Player(server, revision).open()
        player.start("tools/call", {"name": "t", "arguments": {}})
        question = await player.receive()
        for name in ("first", "second"):  # one runs, one waits: the queue is full
            player.start("tools/call", {"name": "t", "arguments": {"name": name}})
        while not order:
            await asyncio.sleep(0)
        player.send({"id": question["id"], "result": accept(answer="Ada")})
        await player.request("ping", {})
        assert order == ["first"]
        go.set()
        for _ in range(3):
            assert "isError" not in (await player.receive())["result"]

    run(play(), server)
    assert order == ["first", "answered", "second"]


@handshakes
@pytest.mark.parametrize("how", ["cancelled", "answered together"])
def test_no_room_is_lost_and_none_is_won(revision: str, how: str) -> None:
    async def t(ctx: Context) -> str:
        await asyncio.gather(ctx.ask("One?"), ctx.ask("Two?"))
        return "both"

    server = serve(Tool("t", handler=t), max_concurrency=1)

    async def play() -> None:
        player = await Player(server, revision).open()
        id = player.start("tools/call", {"name": "t", "arguments": {}})
        questions = [await player.receive(), await player.receive()]
        if how == "cancelled":
            player.send({"method": "notifications/cancelled", "params": {"requestId": id}})
            assert {(await player.receive())["method"] for _ in questions} == {"notifications/cancelled"}
        else:
            for question in questions:
                player.send({"id": question["id"], "result": accept(answer="x")})
            assert said(await player.receive()) == (id, "both")
        gate = server.runtime.gate
        assert gate is not None
        while gate.active:  # the cancelled handler is on its way out
            await asyncio.sleep(0)
        assert (gate.active, gate.waiting) == (0, 0)

    run(play(), server)


def test_nobody_is_inside_while_the_user_thinks() -> None:
    stage = Stage()

    async def play() -> None:
        player = await Player(stage.server, "2025-11-25").open()
        asking = [call(player) for _ in range(3)]
        questions = [await player.receive() for _ in asking]
        for question in questions:
            player.send({"id": question["id"], "result": accept(answer="x")})
        assert {said(await player.receive())[0] for _ in asking} == set(asking)

    run(play(), stage.server)
    assert stage.most == 3  # three forms were open at once, though one call may run at a time
