"""The server that the fault injection attacks. Its port comes as an argument."""

from __future__ import annotations

import sys

from redstart import Context, Server

server = Server("faults", version="1")


@server.tool
async def echo(text: str = "") -> str:
    return text


@server.tool
async def talk(ctx: Context, words: int, size: int) -> str:
    for word in range(words):
        await ctx.progress(word + 1, message="x" * size)
    return "said"


@server.tool
async def long(size: int) -> str:
    return "x" * size


@server.resource("notes://{name}")
def note(name: str) -> str:
    return name


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]), write_deadline=2)
