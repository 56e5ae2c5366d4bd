"""What the configurations of this folder serve: a tool that answers at once, and one that reports while it works."""

from __future__ import annotations

import asyncio

from redstart import Context, Server

server = Server("weather", version="1.0.0")
measured = asyncio.Event()


@server.tool
def forecast(city: str) -> str:
    """Say what the weather will be."""
    return f"{city}: sunny"


@server.tool
async def survey(ctx: Context) -> str:
    """Wait for a measurement, and report that it has begun."""
    await ctx.progress(1, 2, "waiting for a measurement")
    await measured.wait()
    return "all stations have reported"


@server.tool
async def measure() -> str:
    """A measurement has come in."""
    measured.set()
    return "thank you"


if __name__ == "__main__":
    server.run()
