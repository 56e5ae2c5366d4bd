"""A fastmcp server for the client's tests: `fastmcp_server.py stdio` or `fastmcp_server.py http`."""

from __future__ import annotations

import socket
import sys

import uvicorn
from fastmcp import Context, FastMCP

server = FastMCP("fast", version="4", instructions="Be fast.")


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def point(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


async def count(to: int, ctx: Context) -> int:
    for i in range(to):
        await ctx.report_progress(i + 1, to)
    return to


for tool in (add, point, count):
    server.tool(tool)
server.resource("notes://a")(lambda: "a note")

if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run(show_banner=False)
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.http_app(), log_level="critical", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])
