"""A server whose tools are tasks, for the tests of the command line."""

from __future__ import annotations

import asyncio

from redstart import Accepted, Context, Server

server = Server("workshop")


@server.tool(task="required")
async def hat(ribbons: int, ctx: Context) -> str:
    """Make a hat, and ask for whom it is."""
    for number in range(ribbons):
        await ctx.progress(number + 1, ribbons, f"ribbon {number + 1}")
    answer = await ctx.elicit("For whom?", str, key="name")
    return f"a hat for {answer.data if isinstance(answer, Accepted) else 'nobody'}"


@server.tool(task="optional")
async def forever(ctx: Context) -> str:
    """Wait until it is cancelled."""
    await ctx.progress(1, 2, "half")
    await asyncio.sleep(3600)
    return ""


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
