"""A redstart server for the client's scenarios: `redstart_server.py stdio` or `redstart_server.py http`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Annotated, Any

from redstart import Complete, Context, Header, Server, ToolError


def build() -> Server:
    """A fresh server; in memory each test has its own."""
    server = Server("scenarios", version="1.2.3", instructions="Be quick.")
    cancelled: dict[str, asyncio.Event] = {}

    @server.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def point(x: int, y: int) -> dict[str, int]:
        """A point."""
        return {"x": x, "y": y}

    @server.tool
    def region(region: Annotated[str, Header("Region")], n: int = 1) -> str:
        """Repeat a region, which is in a header as well."""
        return region * n

    @server.tool
    def fail(text: str) -> str:
        """Fail."""
        raise ToolError(text)

    @server.tool
    async def count(to: int, ctx: Context[Any]) -> int:
        """Count with progress."""
        for i in range(to):
            await ctx.progress(i + 1, total=to, message=f"step {i + 1}")
        return to

    @server.tool
    async def talk(ctx: Context[Any]) -> str:
        """Write to the log."""
        await ctx.info("to the log")
        return "done"

    @server.tool
    async def wait(tag: str, ctx: Context[Any]) -> str:
        """Never end; what ends it is told to whoever calls `was_cancelled`."""
        event = cancelled.setdefault(tag, asyncio.Event())
        await ctx.progress(1)
        try:
            await asyncio.Event().wait()
        finally:
            event.set()
        return "never"

    @server.tool
    async def was_cancelled(tag: str) -> bool:
        """Wait until `wait` has ended."""
        return await cancelled.setdefault(tag, asyncio.Event()).wait()

    @server.tool
    async def greet(ctx: Context[Any]) -> str:
        """Ask for a name."""
        return f"Hello {await ctx.ask('What is your name?', str, key='who')}"

    @server.tool
    async def interview(ctx: Context[Any]) -> str:
        """Ask two things at once."""
        answers = await ctx.ask_all(name=("Your name?", str), age=("Your age?", int))
        return f"{answers['name']} is {answers['age']}"

    @server.tool
    async def think(ctx: Context[Any]) -> str:
        """Ask the client's model."""
        return (await ctx.sample("Say hi", max_tokens=10)).text

    @server.tool
    async def ground(ctx: Context[Any]) -> list[str]:
        """Ask for the roots."""
        return [root.uri for root in await ctx.roots()]

    @server.prompt
    def review(code: str, language: Annotated[str, Complete(["python", "perl", "prolog"])] = "python") -> str:
        """Review code."""
        return f"Review this {language}: {code}"

    @server.resource("notes://a", mime_type="text/plain")
    def note() -> str:
        """The one note."""
        return "a note"

    @server.resource("notes://named/{name}")
    def named_note(name: str) -> bytes:
        """Any note."""
        return name.encode()

    add_grow(server)

    @server.tool
    def die() -> str:
        """End the process."""
        sys.stderr.write("these are my last words\n")
        sys.stderr.flush()
        os._exit(3)

    return server


def add_grow(server: Server) -> None:
    """A tool that adds a tool."""

    @server.tool
    async def grow(name: str) -> str:
        """Register another tool."""

        def added() -> str:
            """A tool that was not there at the start."""
            return name

        added.__name__ = name
        server.register(added)
        return name


def serve_http(app: Any) -> None:
    """Serve on a free port, which is the first line of output. The socket listens before anything else starts."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        build().run()
    else:
        serve_http(build().asgi())
