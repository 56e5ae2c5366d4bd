"""The server that the tests of `run("http")` start. Its options come as JSON."""

import asyncio
import json
import sys
import time

from redstart import Context, Server

server = Server("http-test", version="1")


@server.tool
async def echo(text: str = "") -> str:
    return text


@server.tool
async def nap(seconds: float) -> str:
    sys.stderr.write("napping\n")
    sys.stderr.flush()
    await asyncio.sleep(seconds)
    return "rested"


@server.tool
def stuck(seconds: float) -> str:
    sys.stderr.write("stuck\n")
    sys.stderr.flush()
    time.sleep(seconds)
    return "woke up"


@server.tool(concurrency=1)
async def chatter(ctx: Context, words: int) -> str:
    for word in range(words):
        await ctx.progress(word + 1, message="x" * 50_000)
    return "said"


@server.tool
async def burst(ctx: Context, size: int) -> str:
    for part in range(2):
        await ctx.progress(part + 1, message="x" * (size // 3))
    return "x" * (size // 3)


@server.tool
async def long(size: int) -> str:
    sys.stderr.write("long\n")
    sys.stderr.flush()
    return "x" * size


if __name__ == "__main__":
    server.run("http", **json.loads(sys.argv[1]))
