"""One tool that adds, and one that asks the user for the second number: their difference is what a question costs."""

import sys

from redstart import Context, Server

server = Server("asking", version="1.0.0")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def ask(a: int, b: int, ctx: Context) -> int:
    """Add a number and what the user says."""
    return a + await ctx.ask("Which number?", int)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
