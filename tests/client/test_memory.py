"""A Server in the same process: who starts it, who stops it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client.peers.redstart_server import add_grow
from client.support import guarded
from redstart import Server, Text
from redstart.client import Client, Event, RequestError
from support import run


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
        await server.runtime.start()
        async with Client(server) as c:
            assert (await c.call_tool("add", {"a": 1})).data == 3
        assert life == ["up"]
        await server.runtime.stop()

    run(main())


def test_a_lifespan_that_fails_is_seen_at_once() -> None:
    async def main() -> None:
        async with Client(server_with_a_life([], broken=True)):
            pass

    with pytest.raises(RuntimeError, match="no database"):
        run(main())


# ---------------------------------------------------------------- who the client is


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("who", "tools"),
    [
        ({"user": {"sub": "ada", "admin": True}}, ["drop", "note"]),
        ({"token": "t-ada"}, ["drop", "note"]),
        ({"user": {"sub": "bob", "admin": False}}, ["note"]),
        ({"token": "t-bob"}, ["note"]),
    ],
)
def test_a_user_in_memory(who: dict[str, Any], tools: list[str], protocol: str) -> None:
    async def main() -> None:
        async with Client(guarded(), protocol=protocol, **who) as c:
            assert [tool.name for tool in await c.list_tools()] == tools
            if "drop" in tools:
                assert (await c.call_tool("drop")).content == [Text("ada")]

    run(main())


def test_users_in_memory_are_kept_apart() -> None:
    server = guarded()

    async def main() -> None:
        async with Client(server, token="t-ada") as ada, Client(server, user={"sub": "bob", "admin": False}) as bob:
            assert (await ada.call_tool("note", {"text": "mine"})).data is None
            assert (await bob.call_tool("note", {"text": "his"})).data is None
            assert (await ada.call_tool("note", {"text": "again"})).data == "mine"

    run(main())


def test_a_token_that_is_not_valid_does_not_connect() -> None:
    server = guarded()

    async def main() -> None:
        with pytest.raises(RequestError, match="valid bearer token"):
            async with Client(server, token="wrong"):
                pass
        assert not server.runtime.started

    run(main())
