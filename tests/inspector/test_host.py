"""One server after another for the same clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redstart import Context, Server
from redstart.features.errors import SettingsError
from redstart.inspector.host import Host
from redstart.observe.observing import Observer
from redstart.wire.types import ToolResult
from support import ERAS, MODERN, NOVEMBER, Peer, run, until


def made(version: str, **options: Any) -> Server:
    server = Server("shop", version=version, **options)

    @server.tool
    async def greet(ctx: Context[str]) -> str:
        return f"{version}: hello {await ctx.ask('Your name?', str)}"

    @server.tool(name=f"only_{version}")
    def only() -> str:
        return version

    return server


def names(answer: Any) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


@pytest.mark.parametrize("era", ERAS)
def test_a_client_sees_the_new_server_on_its_old_link(era: str) -> None:
    async def main() -> None:
        host = Host(made("one"))
        peer = await Peer(host, era).open()  # type: ignore[arg-type]
        assert names(await peer.request("tools/list", {})) == ["greet", "only_one"]
        diffs = await host.swap(made("two"))
        assert (diffs["tools"].added, diffs["tools"].removed) == (["only_two"], ["only_one"])
        answer = await peer.request("tools/list", {})
        assert names(answer) == ["greet", "only_two"]
        if era == NOVEMBER:
            await until(lambda: bool(peer.notices))
            assert [notice["method"] for notice in peer.notices] == ["notifications/tools/list_changed"]
        else:
            assert answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["version"] == "two"
        await peer.close()
        await host.stop()

    run(main())


def test_a_dialogue_that_began_before_goes_on_after() -> None:
    async def main() -> None:
        host = Host(made("one"))
        peer = await Peer(host, MODERN, capabilities={"elicitation": {}}).open()  # type: ignore[arg-type]
        asked = (await peer.request("tools/call", {"name": "greet", "arguments": {}}))["result"]
        assert asked["resultType"] == "input_required"
        await host.swap(made("two"))
        ((key, question),) = asked["inputRequests"].items()
        (field,) = question["params"]["requestedSchema"]["properties"]
        reply = {key: {"action": "accept", "content": {field: "Ada"}}}
        params = {"name": "greet", "arguments": {}, "inputResponses": reply, "requestState": asked["requestState"]}
        ended = (await peer.request("tools/call", params))["result"]
        assert ended["content"][0]["text"] == "two: hello Ada"
        await peer.close()
        await host.stop()

    run(main())


def test_what_cannot_start_leaves_everything_as_it_was() -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def good(server: Server) -> AsyncIterator[None]:
        yield
        ended.append("good")

    @asynccontextmanager
    async def bad(server: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    async def main() -> None:
        host = Host(made("one", lifespan=good))
        peer = await Peer(host, MODERN).open()  # type: ignore[arg-type]
        await peer.request("tools/list", {})
        with pytest.raises(OSError, match="no database"):
            await host.swap(made("two", lifespan=bad))
        with pytest.raises(SettingsError, match="auth= was added"):
            await host.swap(made("three", auth=lambda token: token))
        assert names(await peer.request("tools/list", {})) == ["greet", "only_one"]
        assert ended == []
        await host.swap(made("four"))
        async with asyncio.timeout(5):
            await until(lambda: ended == ["good"])
        await peer.close()
        await host.stop()

    run(main())


def test_what_a_replaced_server_registers_later_is_told_to_nobody() -> None:
    async def main() -> None:
        first, second = made("one"), made("two")
        host = Host(first)
        peer = await Peer(host, NOVEMBER).open()  # type: ignore[arg-type]
        await host.swap(second)
        await until(lambda: len(peer.notices) == 1)
        await until(lambda: not first.runtime.started)
        first.register(print_nothing)
        second.register(print_nothing)
        await until(lambda: len(peer.notices) == 2)
        assert "print_nothing" in names(await peer.request("tools/list", {}))
        assert len(peer.notices) == 2
        await peer.close()
        await host.stop()

    run(main())


def test_what_observes_a_host_sees_the_calls_of_its_server() -> None:
    """A call is run by its server, with the lifespan of that, also if an admin port counts the calls of the host."""
    ends: list[tuple[str, object]] = []

    @asynccontextmanager
    async def opened(server: Server) -> AsyncIterator[str]:
        yield "the database"

    def observer(name: str) -> Observer:
        return lambda call: lambda outcome: ends.append((name, outcome))

    async def main() -> None:
        server = Server("shop", lifespan=opened)

        @server.tool
        async def used(ctx: Context[str]) -> str:
            return ctx.lifespan

        server.runtime.observe(observer("server"))
        host = Host(server)
        host.observe(observer("host"))
        peer = await Peer(host, MODERN).open()  # type: ignore[arg-type]
        answer = await peer.request("tools/call", {"name": "used", "arguments": {}})
        assert answer["result"]["content"][0]["text"] == "the database"
        assert [(name, type(outcome)) for name, outcome in ends] == [("server", ToolResult), ("host", ToolResult)]
        await peer.close()
        await host.stop()

    run(main())


def print_nothing() -> None:
    """Do nothing."""
