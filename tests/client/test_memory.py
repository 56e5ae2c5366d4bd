"""A Server in the same process: who starts it, who stops it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client.peers.redstart_server import add_grow
from client.support import run
from redstart import Server
from redstart.client import Client, Event


def server_with_a_life(life: list[str], broken: bool = False) -> Server:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        life.append("up")
        if broken:
            raise RuntimeError("no database")
        yield
        life.append("down")

    server = Server("memory", lifespan=lifespan)

    @server.tool
    def add(a: int, b: int = 2) -> int:
        """Add, in a thread."""
        return a + b

    add_grow(server)

    return server


def test_the_first_client_starts_the_server_and_the_last_one_stops_it() -> None:
    life: list[str] = []
    server = server_with_a_life(life)

    async def main() -> None:
        async with Client(server) as first:
            async with Client(server) as second:
                assert (await second.call_tool("add", {"a": 1})).data == 3
            assert life == ["up"]
            assert (await first.call_tool("add", {"a": 1})).data == 3
        assert life == ["up", "down"]

    run(main())


def test_one_server_in_many_event_loops() -> None:
    life: list[str] = []
    server = server_with_a_life(life)

    async def main(name: str) -> None:
        async with Client(server) as c, c.listen(tools=True) as events:
            assert (await c.call_tool("grow", {"name": name})).text == name
            assert await anext(events) == Event("tools")
            assert (await c.call_tool(name)).text == name

    for name in ("one", "two", "three"):
        run(main(name))
    assert life == ["up", "down"] * 3


def test_a_server_that_others_run_goes_on() -> None:
    life: list[str] = []
    server = server_with_a_life(life)

    async def main() -> None:
        await server.host.start()
        async with Client(server) as c:
            assert (await c.call_tool("add", {"a": 1})).data == 3
        assert life == ["up"]
        await server.host.stop()

    run(main())


def test_a_lifespan_that_fails_is_seen_at_once() -> None:
    async def main() -> None:
        async with Client(server_with_a_life([], broken=True)):
            pass

    with pytest.raises(RuntimeError, match="no database"):
        run(main())
