"""The server that the tests of the command line use: tools, questions, pictures, resources, prompts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from redstart import Accepted, Audio, Context, Image, Server, ToolError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
WAV = b"RIFF\x00\x00\x00\x00WAVE"
server = Server("shop", version="1.2.0", instructions="Ask for hats.")


@dataclass
class Size:
    width: int
    height: float = 1.5


@dataclass
class Order:
    name: Annotated[str, msgspec.Meta(min_length=2, description="Who it is for")]
    hat: Literal["beret", "bowler"]
    count: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    gift: bool = False
    price: float | None = None


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first number.
    """
    return a + b


@server.tool
def echo(value: Any = None, size: Size | None = None, tags: list[str] | None = None, data: bytes = b"") -> Any:
    """Return what came."""
    print("printed by a tool")
    return {"value": value, "width": size and size.width, "tags": tags, "bytes": len(data)}


@server.tool
def fail(text: str) -> str:
    """Fail with a text."""
    raise ToolError(text)


@server.tool
async def slow(n: int, ctx: Context) -> str:
    """Report progress."""
    for i in range(n):
        await ctx.progress(i + 1, total=n, message=f"step {i + 1}")
        await ctx.info(f"log {i + 1}")
    sys.stderr.write("written to stderr\n")
    return "done"


@server.tool
async def order(ctx: Context) -> str:
    """Order a hat."""
    match await ctx.elicit("Which hat?", Order):
        case Accepted(data):
            return f"{data.name}: {data.count} {data.hat} gift={data.gift} price={data.price}"
        case other:
            return type(other).__name__


@server.tool
async def colours(ctx: Context) -> str:
    """Ask for one of several, and for a confirmation."""
    colour = await ctx.elicit("Which colour?", [("r", "Red"), ("g", "Green")])
    sure = await ctx.confirm("Really?")
    return f"{colour} {sure}"


@server.tool
def picture(count: int = 1) -> list[Any]:
    """Pictures and a sound."""
    return ["here", *[Image(PNG)] * count, Audio(WAV)][: 2 if count == 1 else None]


@server.tool
async def sampled(ctx: Context) -> str:
    """Needs a model."""
    return str(await ctx.sample("hi", max_tokens=10))


@server.tool
def escape() -> str:
    """A text that would control a terminal."""
    return "red\x1b[31m\u202e"


@server.tool
async def forever(ctx: Context) -> str:
    """Wait until it is cancelled."""
    import asyncio

    await ctx.progress(1, message="waiting")
    sys.stderr.write("it waits\n")
    await asyncio.sleep(3600)
    return ""


@server.resource("notes://{name}", mime_type="text/markdown")
def note(name: str) -> str:
    """One note."""
    return f"# {name}"


@server.resource("shop://logo", mime_type="image/png")
def logo() -> bytes:
    """The logo."""
    return PNG


@server.resource("shop://hours")
def hours() -> str:
    """When the shop is open."""
    return "9 to 5"


@server.prompt
def review(code: str, language: str = "python") -> list[Any]:
    """Ask for a code review."""
    from redstart import Message, Text

    return [Message("user", Text(f"Review this {language}: {code}")), Message("assistant", Text("I will."))]
