"""The server of test_waits_stdio.py: `def` handlers that wait, and say when they end."""

import asyncio
import sys
import threading

from redstart import Context, Server, SyncContext

server = Server("waiting")


@server.tool
def question(ctx: SyncContext) -> str:
    try:
        return ctx.ask("Name?")
    finally:
        sys.stderr.write("the end of question\n")


@server.tool
async def forever(ctx: Context) -> None:
    await ctx.info("begun")
    await asyncio.Event().wait()


@server.tool
def tool(ctx: SyncContext) -> None:
    try:
        ctx.call_tool("forever")
    finally:
        sys.stderr.write("the end of tool\n")


@server.tool
def stuck(ctx: SyncContext) -> None:
    try:
        ctx.ask("Name?")
    finally:
        sys.stderr.write("the end of stuck\n")
        threading.Event().wait()


if __name__ == "__main__":
    server.run()
