"""The server that is stopped while it is busy. Its options come as JSON."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redstart import Context, Server, SyncContext


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    yield
    if "slow_end" in sys.argv:
        say("ending")
        await asyncio.sleep(60)


server = Server("stopping", version="1", lifespan=lifespan)


@server.tool(task="optional")
async def asks(ctx: Context) -> str:
    try:
        return await ctx.ask("Your name?", str)
    finally:
        say("cleaned up")


@server.tool
def asks_in_a_thread(ctx: SyncContext) -> str:
    try:
        return ctx.ask("Your name?", str)
    finally:
        say("cleaned up")


@server.tool
async def naps(ctx: Context) -> str:
    await ctx.info("napping")
    await asyncio.sleep(60)
    return "rested"


@server.tool
def naps_in_a_thread(ctx: SyncContext) -> str:
    ctx.info("napping")
    time.sleep(60)
    return "rested"


@server.tool
async def rests(seconds: float) -> str:
    say("resting")
    await asyncio.sleep(seconds)
    return "rested"


@server.route("/slow")
async def slow() -> str:
    say("slow")
    await asyncio.sleep(60)
    return "done"


if __name__ == "__main__":
    server.run("http", **json.loads(sys.argv[1]))
