"""A server with one thing of each kind: what the end-to-end tests of the inspector call.

redstart dev inspector/e2e/kitchen.py
"""

from __future__ import annotations

import asyncio
import io
import math
import struct
import wave
import zlib
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from redstart import (
    Accepted,
    Audio,
    Complete,
    Context,
    Icon,
    Image,
    Message,
    ResourceLink,
    Server,
    TaskLimits,
    Text,
    Tool,
    ToolError,
)

LEAF = Icon(
    "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAxNiAxNiI+PHBhdGggZmlsbD0iIzNmODM0ZCIgZD0iTTIgMTRDMiA2IDYgMiAxNCAyYzAgOC00IDEyLTEyIDEyeiIvPjwvc3ZnPg==",
    "image/svg+xml",
    ["any"],
)
server = Server(
    "kitchen",
    version="2.1.0",
    title="Kitchen",
    description="One thing of each kind.",
    instructions="Use **add** for sums. Everything else is for the tests of the inspector.",
    tasks=TaskLimits(poll=0.2),
    page_size=5,
    icons=[LEAF],
)


# ---------------------------------------------------------------- forms


HARMLESS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


@server.tool(title="Add two numbers", annotations=HARMLESS, icons=[LEAF])
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@dataclass
class Address:
    street: str
    city: str = "Bern"
    zip: str | None = None


@dataclass
class Guest:
    name: str
    diet: Literal["everything", "vegetarian", "vegan"] = "everything"
    address: Address | None = None


@dataclass
class Card:
    number: str
    kind: Literal["card"] = "card"


@dataclass
class Cash:
    amount: float
    kind: Literal["cash"] = "cash"


@server.tool(title="Reserve a table", annotations={"destructiveHint": False, "openWorldHint": True})
def reserve(
    day: date,
    guests: list[Guest],
    payment: Card | Cash,
    wishes: list[Literal["window", "terrace", "quiet"]] | None = None,
    notes: dict[str, str] | None = None,
    smoking: bool = False,
) -> dict[str, object]:
    """Reserve a table for some guests.

    Args:
        day: When they come.
        guests: Who comes.
        payment: How they pay.
        wishes: What they would like.
        notes: Anything else, by name.
        smoking: Whether they smoke.
    """
    names = [guest.name for guest in guests]
    return {"day": day.isoformat(), "guests": names, "pays": payment.kind, "notes": notes or {}}


server.register(
    Tool(
        name="search",
        description="Search, with a schema of its own: a reference, a pattern, limits, a tuple.",
        input_schema={
            "type": "object",
            "$defs": {"Level": {"enum": ["low", "high"], "title": "Level"}},
            "properties": {
                "code": {"type": "string", "pattern": "^[A-Z]{3}$", "description": "Three capital letters."},
                "level": {"$ref": "#/$defs/Level"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                "where": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]},
                "mail": {"type": "string", "format": "email"},
            },
            "required": ["code"],
        },
        handler=lambda args: Text(f"{args['code']} {args.get('limit')}"),
    )
)


# ---------------------------------------------------------------- results


def picture() -> bytes:
    """A PNG with a gradient, made by hand."""
    width, height = 160, 90
    rows = b"".join(bytes([0, *(v for x in range(width) for v in (x, 2 * y, 160 - x))]) for y in range(height))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def tone() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(bytes(128 + round(60 * math.sin(n / 4)) for n in range(800)))
    return out.getvalue()


MARKDOWN = """# Menu

Today with **fresh** herbs and `salt`.

| dish | price |
|------|------:|
| soup | 9 |
| tart | 7 |

- one
- two
  1. nested

> Enjoy. <script>alert("no")</script> [bad](javascript:alert(1)) [good](https://example.org)
"""


@server.tool(title="Everything at once", annotations={"readOnlyHint": True})
def everything() -> list[Text | Image | Audio | ResourceLink]:
    """Return text, Markdown, an image, sound and a link."""
    return [
        Text(MARKDOWN),
        Image(picture(), "image/png"),
        Audio(tone(), "audio/wav"),
        ResourceLink(uri="kitchen://menu", name="menu", title="The menu", mime_type="text/markdown", size=120),
    ]


@dataclass
class Row:
    dish: str
    price: float
    vegan: bool


@server.tool(title="Table of dishes")
def table() -> list[Row]:
    """A list of objects, which is a table."""
    return [Row("soup", 9.5, True), Row("tart", 7, False), Row("salad", 6.25, True)]


@server.tool(title="Fails politely", annotations={"destructiveHint": True})
def refuse(why: str = "the oven is cold") -> str:
    """Say that it does not work."""
    raise ToolError(f"It does not work: {why}.")


def divide(by: int) -> float:
    return 1 / by


@server.tool(title="Breaks")
def broken(by: int = 0) -> float:
    """Raise an exception that nobody expected."""
    return divide(by)


@server.tool(title="Hello")
def hello() -> str:
    """Greet. It takes no arguments."""
    return "hello"


# ---------------------------------------------------------------- time


@server.tool(title="Bake slowly")
async def bake(minutes: int, ctx: Context) -> str:
    """Bake, with progress and log lines."""
    await ctx.info("the oven is on")
    for minute in range(1, minutes + 1):
        await ctx.progress(minute, minutes, f"minute {minute} of {minutes}")
        await asyncio.sleep(0.05)
    await ctx.warning("it is done")
    return f"baked for {minutes} minutes"


@server.tool(title="Simmer as a task", task="optional")
async def simmer(minutes: int, ctx: Context) -> str:
    """Simmer, as a task where the client knows tasks."""
    for minute in range(1, minutes + 1):
        await ctx.progress(minute, minutes, f"minute {minute} of {minutes}")
        await asyncio.sleep(0.05)
    return f"simmered for {minutes} minutes"


@server.tool(title="Wait for ever")
async def wait(ctx: Context) -> str:
    """Wait until it is cancelled."""
    await ctx.progress(1, None, "waiting")
    await asyncio.Event().wait()
    return "never"


# ---------------------------------------------------------------- questions


@dataclass
class Trip:
    city: str
    nights: int = 2
    seat: Literal["aisle", "window"] = "aisle"


@server.tool(title="Book a trip")
async def book(ctx: Context) -> str:
    """Ask twice, then book."""
    answer = await ctx.elicit("Where to?", Trip, key="trip")
    if not isinstance(answer, Accepted):
        return f"not booked: {type(answer).__name__.lower()}"
    trip = answer.data
    sure = await ctx.confirm(f"{trip.nights} nights in {trip.city}?", key="sure")
    return f"Booked {trip.city}, {trip.nights} nights, {trip.seat}." if sure else "Not booked."


@server.tool(title="Sign in")
async def sign_in(ctx: Context) -> str:
    """Send the user to a page."""
    answer = await ctx.elicit_url("https://example.org/sign-in?state=1", "Sign in at the shop.")
    return f"signed in: {type(answer).__name__.lower()}"


@server.tool(title="Ask the model")
async def sample(ctx: Context) -> str:
    """Use the client's model."""
    found = await ctx.sample("What is a redstart?", max_tokens=50)
    return f"The model says: {found.text}"


@server.tool(title="Look at the roots")
async def roots(ctx: Context) -> str:
    """Ask for the client's folders."""
    return ", ".join(str(root.uri) for root in await ctx.roots()) or "none"


@server.tool(title="Who can you be")
async def abilities(ctx: Context) -> dict[str, bool]:
    """Say what this client can do."""
    return {"elicit": ctx.can_elicit, "url": ctx.can_elicit_url, "sample": ctx.can_sample}


# ---------------------------------------------------------------- resources

level = 0


@server.resource("kitchen://menu", title="Menu", mime_type="text/markdown", icons=[LEAF])
def menu() -> str:
    """What there is today."""
    return f"# Menu {level}\n\nSoup, tart, salad."


@server.resource("kitchen://prices", title="Prices", mime_type="text/csv")
def prices() -> str:
    """Prices as CSV."""
    return 'dish,price\nsoup,9.5\n"tart, apple",7\n'


@server.resource("kitchen://picture", title="Picture", mime_type="image/png")
def picture_resource() -> bytes:
    """An image."""
    return picture()


DISHES = ["soup", "salad", "sandwich", "tart", "tea"]


@server.resource("kitchen://dish/{name}", title="Dish", mime_type="application/json")
def dish(name: Annotated[str, Complete(DISHES)]) -> dict[str, object]:
    """One dish."""
    return {"name": name, "tags": ["warm", "cheap"], "nested": {"a": [1, 2, {"b": None}]}}


@server.tool(title="Change the menu")
async def change_menu() -> str:
    """Change the menu and tell those who have subscribed."""
    global level
    level += 1
    server.notify("kitchen://menu")
    return f"menu {level}"


# ---------------------------------------------------------------- prompts


@server.prompt(title="Plan a dinner", icons=[LEAF])
def plan(dish: Annotated[str, Complete(DISHES)], guests: str = "4") -> list[Message]:
    """Plan a dinner for some guests.

    Args:
        dish: The main dish.
        guests: How many come.
    """
    return [
        Message("user", f"Plan a dinner with **{dish}** for {guests} guests."),
        Message("assistant", "With pleasure. Do they eat everything?"),
    ]


@server.prompt
def tidy() -> str:
    """A prompt without arguments."""
    return "Tidy the kitchen."


if __name__ == "__main__":
    server.run()
