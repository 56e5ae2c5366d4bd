"""One Tool, Prompt or Resource in two servers: each runs it with its own lifespan, limits and threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from redstart import Client, Context, Prompt, Resource, Server, Tool


def life(name: str) -> Callable[[Server], AbstractAsyncContextManager[str]]:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        yield name

    return lifespan


async def where(ctx: Context) -> str:
    return f"in {ctx.lifespan}"


def two(*things: Any, **options: Any) -> list[Server]:
    servers = [Server(name, lifespan=life(name), **options) for name in ("one", "other")]
    for thing in things:
        for server in servers:
            server.register(thing)
    return servers


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_each_server_runs_it_itself(kind: str) -> None:
    things = [Tool("where", handler=where), Prompt("where", handler=where), Resource("app://where", handler=where)]

    async def said(client: Client) -> str:
        if kind == "tool":
            return (await client.call_tool("where")).text
        if kind == "prompt":
            return str((await client.get_prompt("where")).messages[0].content.text)
        return str((await client.read_resource("app://where")).contents[0].text)

    async def test() -> None:
        for server in two(*things):
            async with Client(server) as client:
                assert await said(client) == f"in {server.name}"

    asyncio.run(test())


def test_the_limits_of_one_server_are_not_those_of_the_other() -> None:
    tool = Tool("long", handler=lambda args: "x" * 100, parameters=[])
    narrow, wide = Server("narrow", max_result_bytes=10, tools=[tool]), Server("wide", tools=[tool])

    async def test() -> list[bool]:
        results = []
        for server in (narrow, wide):
            async with Client(server) as client:
                results.append((await client.call_tool("long")).is_error)
        return results

    assert asyncio.run(test()) == [True, False]


def test_it_is_removed_from_the_server_that_is_meant() -> None:
    tool = Tool("where", handler=where)
    one, other = two(tool)
    other.remove(tool)
    assert ("where" in one.tools.items, "where" in other.tools.items) == (True, False)
    one.remove(tool)
    assert "where" not in one.tools.items


def test_it_may_come_back_to_a_server() -> None:
    tool = Tool("where", handler=where)
    [one, _] = two(tool)
    one.remove(tool)
    one.register(tool)
    assert one.tools["where"] is tool
