"""A server with what has tripped other libraries: nullable arguments, nested models, bare results, unions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from redstart import Context, Server, ToolError

server = Server("compat", version="1.0.0")


@dataclass
class Address:
    street: str
    zip: str | None = None


@server.tool
def add(a: int, b: Annotated[int | None, "The second number"] = None) -> int:
    """Add two numbers."""
    return a + (b or 0)


@server.tool
def places(address: Address | None = None, tags: list[str] | None = None) -> list[str]:
    """The parts of an address, and the tags."""
    parts = [address.street, address.zip or "no zip"] if address else []
    return [*parts, *(tags or [])]


@server.tool
def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason)


@server.tool(task="optional")
async def greet(ctx: Context) -> str:
    """Greet the user, whose name is asked for."""
    return f"Hello {await ctx.ask('Your name?', str, 'name')}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", port=int(sys.argv[1]))
    else:
        server.run()
