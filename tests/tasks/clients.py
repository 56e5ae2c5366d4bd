"""Clients with tasks for the tests: how a task is begun and awaited, and a server with tools of all kinds."""

from __future__ import annotations

import asyncio
from typing import Any

from redstart import Accepted, Context, ProtocolError, Server, SyncContext, ToolError
from support import MODERN, Peer, run

EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
RELATED = "io.modelcontextprotocol/related-task"
TERMINAL = ("completed", "failed", "cancelled")


def jobs() -> Server:
    server = Server("jobs", threads=4)

    @server.tool(task="optional")
    async def double(number: int) -> int:
        return 2 * number

    @server.tool(task="required")
    async def must(number: int) -> int:
        return number

    @server.tool
    async def plain() -> str:
        return "plain"

    @server.tool(task="optional")
    async def fails() -> str:
        raise ToolError("no such bird")

    @server.tool(task="optional")
    async def breaks() -> str:
        raise ProtocolError(-32050, "broken", {"part": 3})

    @server.tool(task="optional")
    async def sleeps() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool(task="optional")
    def waits(ctx: SyncContext) -> str:
        while not ctx.cancelled:
            ctx.progress(1)
        return "too late"

    @server.tool(task="optional")
    async def greets(ctx: Context) -> str:
        match await ctx.elicit("Your name?", str):
            case Accepted(name):
                return f"Hello {name}"
        return "no name"

    @server.tool(task="optional")
    async def asks_two(ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.ask("First?", str, "a"), ctx.ask("Second?", str, "b"))
        return f"{first} and {second}"

    @server.tool(task="required", detach="manual")
    async def later(ctx: Context) -> str:
        name = await ctx.ask("Your name?", str, "user_name")
        await ctx.detach()
        return f"{name} by {ctx.task_id}"

    @server.tool(task="optional")
    async def tells(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        return "told"

    return server


async def started(peer: Peer, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The task that a call has become."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if not peer.modern:
        params["task"] = {"ttl": 60_000}
    answer = await peer.request("tools/call", params)
    assert "result" in answer, answer
    result: dict[str, Any] = answer["result"]
    return result if peer.modern else result["task"]


async def until(peer: Peer, id: str, *wanted: str) -> dict[str, Any]:
    """The task in one of these states; a client polls."""
    while True:
        task: dict[str, Any] = (await peer.call("tasks/get", taskId=id))["result"]
        if task["status"] in (wanted or TERMINAL):
            return task
        await asyncio.sleep(0.005)


def with_peer(
    revision: str, script: Any, capabilities: dict[str, Any] | None = None, server: Server | None = None
) -> Any:
    server = server or jobs()

    async def main() -> Any:
        given: dict[str, Any] = {"elicitation": {}} | (EXTENSION if revision == MODERN else {})
        peer = await Peer(server, revision, capabilities=given if capabilities is None else capabilities).open()
        try:
            return await script(peer)
        finally:
            await peer.close()

    return run(main(), server, seconds=4)
