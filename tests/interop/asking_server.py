"""A server that asks in every way; `runs` and `steps` tell what happened behind the scenes of a dialogue."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from redstart import Accepted, Ask, Cancelled, Context, Declined, Server, SyncContext

server = Server("asking", version="1.0")
runs: Counter[str] = Counter()
steps: Counter[str] = Counter()


@dataclass
class Person:
    name: str
    age: int
    team: Literal["red", "blue"] = "red"


class Color(Enum):
    RED = "red"
    GREEN = "green"


@server.tool
async def hello(ctx: Context) -> str:
    """Each answer has its own end."""
    match await ctx.elicit("What is your name?", str):
        case Accepted(name):
            return f"Hello, {name}!"
        case Declined():
            return "declined"
        case Cancelled():
            return "cancelled"


@server.tool
async def typed(kind: str, ctx: Context) -> str:
    """Answers of several types."""
    schemas: dict[str, Any] = {"person": Person, "color": Color, "colors": list[Literal["red", "green", "blue"]]}
    return repr(await ctx.ask(f"Which {kind}?", schemas[kind]))


@server.tool
async def words(ctx: Context) -> str:
    """One question after the other."""
    return " ".join([await ctx.ask(f"Word {number}?") for number in range(4)])


@server.tool
async def together(token: str, ctx: Context) -> str:
    """Two questions at once, by name."""
    runs[token] += 1
    answers = await ctx.ask_all(name=("Name?", str), age=("Age?", int))
    return f"{answers} in {runs[token]}"


@server.tool
async def mixed(token: str, ctx: Context) -> str:
    """Three kinds of questions at once."""
    runs[token] += 1
    name, said, roots = await asyncio.gather(ctx.ask("Name?"), ctx.sample("Hi"), ctx.roots())
    return f"{name} {said.text} {roots[0].uri} in {runs[token]}"


@server.tool
async def decide(ctx: Context) -> str:
    """Plain values."""
    sure = await ctx.confirm("Sure?")
    return f"{sure} {await ctx.choose('Which size?', [(10, 'small'), (20, 'large')])!r}"


@server.tool
async def visit(ctx: Context) -> str:
    """A page to open."""
    return type(await ctx.elicit_url("https://example.com/in", "Please sign in")).__name__


@server.tool
async def borrow(ctx: Context) -> str:
    """The client's model and folders."""
    said = await ctx.sample([("user", "Hello")], 50, system="Be brief")
    roots = await ctx.roots()
    return f"{said.text} {said.model} {[root.uri for root in roots]}"


@server.tool
async def order(token: str, ctx: Context) -> str:
    """A side effect between two questions, and one before them."""
    runs[token] += 1
    number = await ctx.step("reserve", lambda: _count(token))
    sure = await ctx.confirm("Sure?")
    paid = await ctx.step("charge", lambda: _count(token))
    return f"{number} {sure} {paid} {await ctx.ask('Name?')} runs {runs[token]} steps {steps[token]}"


@server.tool
def blocking(token: str, ctx: SyncContext) -> str:
    """The same in a thread."""
    runs[token] += 1
    number = ctx.step("reserve", lambda: _count(token))
    sure = ctx.confirm("Sure?")
    paid = ctx.step("charge", lambda: _count(token))
    return f"{number} {sure} {paid} {ctx.ask('Name?')} runs {runs[token]} steps {steps[token]}"


def _count(token: str) -> int:
    steps[token] += 1
    return steps[token]


@server.tool
async def generator() -> AsyncIterator[Any]:
    """Questions by `yield`."""
    answer = yield Ask("Name?", str)
    yield f"Hello, {answer.data}!"


@server.tool
def blocking_generator() -> Any:
    """Questions by `yield`, in a thread."""
    answer = yield Ask("Name?", str)
    yield f"Hello, {answer.data}!"


@server.tool(needs=["elicitation"])
async def needy(token: str, ctx: Context) -> str:
    """Useless without somebody to ask."""
    runs[token] += 1
    return await ctx.ask("Name?")


@server.tool
async def count(token: str) -> str:
    """How often a handler ran."""
    return str(runs[token])


@server.tool
async def secret(tag: int, ctx: Context) -> str:
    """A dialogue of two rounds that must not mix with another."""
    reserved = await ctx.step("reserve", lambda: tag * 3)
    first = await ctx.ask(f"First of {tag}?", int)
    second = await ctx.ask(f"Second of {tag}?", int)
    return f"{tag} {reserved} {first} {second}"


@server.prompt
async def review(ctx: Context) -> str:
    """A prompt that asks."""
    return f"Use {await ctx.ask('Which style?')}"


@server.resource("notes://{name}")
async def note(name: str, ctx: Context) -> str:
    """A resource that asks."""
    return f"{name}: {await ctx.ask('Which part?')}"


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1])) if len(sys.argv) > 1 else server.run()
