"""Every way of asking, one tool each: what real clients answer over real transports."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from redstart import Accepted, Ask, Cancelled, Context, Declined, Server, SyncContext

server = Server("asking", version="1.0.0")
runs: Counter[str] = Counter()
performed: Counter[str] = Counter()
ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
LIMIT = 1.0


@dataclass
class Trip:
    city: str
    nights: int = 2
    window: bool = False


class Color(Enum):
    RED = "red"
    DEEP_BLUE = "blue"


@dataclass
class Pizza:
    size: Literal["small", "large"]
    toppings: list[Literal["ham", "egg", "leek"]]


# ---------------------------------------------------------------- one question


@server.tool
async def ask_name(ctx: Context) -> str:
    match await ctx.elicit("What is your name?", str):
        case Accepted(name):
            return f"Hello, {name}!"
        case Declined():
            return "No name provided. (declined)"
        case Cancelled():
            return "No name provided. (cancelled)"


@server.tool
async def polite(ctx: Context) -> Any:
    return f"Hello, {await ctx.ask('What is your name?', str)}!"


@server.tool
async def trip(ctx: Context) -> str:
    return repr(await ctx.elicit("Where to?", Trip))


@server.tool
async def color(ctx: Context) -> str:
    return (await ctx.ask("Which colour?", Color)).name


@server.tool
async def pizza(ctx: Context) -> str:
    chosen = await ctx.ask("Which pizza?", Pizza)
    return f"{chosen.size}: {' + '.join(chosen.toppings)}"


@server.tool
async def sure(ctx: Context) -> str:
    return "deleted" if await ctx.confirm("Delete everything?") else "kept"


@server.tool
async def pick(ctx: Context) -> str:
    return repr(await ctx.choose("Which size?", [(1, "Small"), (2, "Large")]))


@server.tool
async def sign_in(ctx: Context) -> str:
    match await ctx.elicit_url("https://example.com/sign-in", "Please sign in"):
        case Accepted():
            return "on the way"
    return "not signed in"


@server.tool
async def haiku(ctx: Context) -> str:
    sampled = await ctx.sample("A haiku, please", max_tokens=50, system="You are a poet.")
    return f"{sampled.model}: {sampled.text}"


@server.tool
async def folders(ctx: Context) -> str:
    return ", ".join(root.uri for root in await ctx.roots())


@server.tool
async def reach(ctx: Context) -> bool:
    return ctx.can_elicit


# ---------------------------------------------------------------- several questions


@server.tool
async def sequence(ctx: Context) -> str:
    said = ""
    for number in range(3):
        said += await ctx.ask(f"Letter {number} after {said!r}?", str)
    return said


@server.tool
async def form_of_two(ctx: Context) -> str:
    answers = await ctx.ask_all(name=("Your name?", str), age=("Your age?", int))
    return f"{answers['name']} is {answers['age']}"


@server.tool
async def gathered(ctx: Context) -> str:
    name, sampled, roots = await asyncio.gather(ctx.ask("Your name?", str), ctx.sample("Greet"), ctx.roots())
    return f"{sampled.text} {name} in {roots[0].uri}"


@server.tool
async def book(tag: str, ctx: Context) -> str:
    """The handler may run several times; the booking is made once."""
    runs[tag] += 1

    def reserve() -> dict[str, int]:
        performed[tag] += 1
        return {"number": 40 + performed[tag]}

    await ctx.ask("For whom?", str)
    ticket = await ctx.step("reserve", reserve)
    again = await ctx.step("note", lambda: len(tag))
    if not await ctx.confirm(f"Keep ticket {ticket['number']}?"):
        return "returned"
    return f"ticket {ticket['number']}, {again}, reserved {performed[tag]} time(s)"


@server.tool
async def times(tag: str) -> int:
    """How often `book` has run for this tag, in this process."""
    return runs[tag]


@server.tool
def plainly(ctx: SyncContext) -> str:
    name = ctx.ask("Your name?", str)
    number = ctx.step("draw", lambda: len(name))
    return f"{name} {number} {ctx.confirm('Really?')}"


@server.tool
def told() -> Iterator[Any]:
    yield "once upon a time"
    name: Any = yield Ask("Who was it?", str)
    yield f"there was {name.data}"


@server.prompt
async def interview(ctx: Context) -> str:
    return f"Interview {await ctx.ask('Whom?', str)}."


@server.resource("asked://who")
async def who(ctx: Context) -> str:
    return f"It was {await ctx.ask('Who was it?', str)}."


# ---------------------------------------------------------------- limits


@server.tool(needs=["elicitation"])
async def needy(tag: str, ctx: Context) -> str:
    runs[tag] += 1
    return await ctx.ask("Your name?", str)


@server.tool(timeout=LIMIT)
async def hasty(tag: str, ctx: Context) -> str:
    asyncio.get_running_loop().call_later(LIMIT * 1.5, ended[tag].set)
    return f"{await ctx.ask('Take your time', str)} was in time"


@server.tool
async def abandoned(tag: str, ctx: Context) -> str:
    try:
        return await ctx.ask("Still there?", str)
    finally:
        ended[tag].set()


@server.tool
async def wait_for_end(tag: str) -> str:
    """Answers when `hasty` has used up more than its time, or `abandoned` has come to its end."""
    async with asyncio.timeout(10):
        await ended[tag].wait()
    return "ended"


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1])) if len(sys.argv) > 1 else server.run()
