"""The server of test_transports.py: `python -m tasks.jobs_server stdio`, or a port and whether users are known."""

from __future__ import annotations

import asyncio
import sys

from redstart import Context, Server, SyncContext

TOKENS = {"a": {"sub": "ada"}, "b": {"sub": "bob"}}


def make_server(known: bool = False) -> Server:
    server = Server("jobs", auth=TOKENS.get if known else None, threads=8)
    gates: dict[str, asyncio.Event] = {}

    @server.tool(task="optional")
    async def waits(gate: str, ctx: Context) -> str:
        """Wait until somebody opens the gate."""
        await ctx.progress(1, 2, "waiting")
        await gates.setdefault(gate, asyncio.Event()).wait()
        await ctx.progress(2, 2, "open")
        return f"{gate} is open"

    @server.tool
    async def opens(gate: str) -> str:
        gates.setdefault(gate, asyncio.Event()).set()
        return "opened"

    @server.tool(task="optional")
    def spins(ctx: SyncContext) -> str:
        """Use a processor until the task is cancelled."""
        while not ctx.cancelled:
            pass
        return "too late"

    @server.tool(task="required")
    async def asks(ctx: Context) -> str:
        return f"Hello {await ctx.ask('Your name?', str, 'name')}"

    return server


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        make_server().run()
    else:
        make_server(known=sys.argv[2] == "known").run("http", port=int(sys.argv[1]))
