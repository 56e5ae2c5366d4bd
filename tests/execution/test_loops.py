"""Which loop runs: known without asking for it in every call, and right on one loop after another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import redstart
from redstart import Server, SyncContext
from support import Peer, play, run
from transports.support import Http

SRC = str(Path(redstart.__file__).parent)


def counting() -> Server:
    server = Server("loops", timeout=20)

    @server.tool
    def threaded(ctx: SyncContext) -> int:
        ctx.progress(1)
        return 0

    @server.tool
    async def coroutine() -> int:
        return 0

    @server.tool(timeout=float("inf"))
    def unlimited() -> int:
        return 0

    return server


@pytest.mark.parametrize("tool", ["threaded", "coroutine", "unlimited"])
def test_a_warm_call_does_not_ask_for_the_loop(tool: str) -> None:
    """Python 3.11 makes a system call for each such question."""
    asked: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename.startswith(SRC + "/execution/"):
            asked.append(argument.__name__)

    async def script(peer: Peer) -> None:
        await peer.text(tool)
        sys.setprofile(profile)
        try:
            await peer.text(tool)
        finally:
            sys.setprofile(None)

    play(counting(), script)
    assert asked
    assert "get_running_loop" not in asked


def test_one_loop_after_another() -> None:
    server = counting()

    async def script(peer: Peer) -> list[str]:
        return [await peer.text(tool) for tool in ("threaded", "coroutine", "unlimited")]

    assert play(server, script) == play(server, script) == ["0", "0", "0"]


def test_one_loop_after_another_over_asgi_where_nobody_stops_the_server() -> None:
    """As `asyncio.run` around each test does it, without the lifespan."""
    http = Http(counting().asgi())

    async def once() -> list[Any]:
        params = {"name": "threaded", "arguments": {}}
        messages = (await http.modern(1, "tools/call", params, meta={"progressToken": "p"})).messages()
        return [message.get("params", {}).get("progress") for message in messages[:-1]] + [
            block["text"] for block in messages[-1]["result"]["content"]
        ]

    assert run(once()) == run(once()) == [1, "0"]
