"""What type checkers know of the public API. Each line is checked by mypy and by pyright."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import assert_type

from redstart import (
    Accepted,
    Call,
    Cancelled,
    Choice,
    Client,
    Context,
    Declined,
    Next,
    Result,
    Server,
    SyncContext,
    ToolResult,
)

server = Server("typed", version="1")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


PAIRS: list[tuple[int, str]] = [(1, "one"), (2, "two")]


@dataclass
class Confirm:
    really: bool


@dataclass
class App:
    users: dict[str, int]


@server.tool
def add(a: int, b: int = 2) -> int:
    return a + b


@server.tool(title="Add more", annotations={"readOnlyHint": True}, timeout=5)
def add_more(a: int) -> int:
    return a + 1


@server.prompt
def review(code: str) -> str:
    return code


@server.resource("notes://{name}", mime_type="text/plain")
def note(name: str) -> str:
    return name


assert_type(add(1, 2), int)
assert_type(add_more(1), int)
assert_type(review("x"), str)
assert_type(note("x"), str)


async def ask(ctx: Context[App], numbers: list[int]) -> None:
    assert_type(await ctx.elicit("Sure?", Confirm), Accepted[Confirm] | Declined | Cancelled)
    assert_type(await ctx.ask("Name?"), str)
    assert_type(await ctx.ask("Age?", int), int)
    assert_type(await ctx.confirm("Sure?"), bool)
    assert_type(await ctx.choose("Which?", Colour), Colour)
    assert_type(await ctx.choose("Which?", ["a", "b"]), str)
    assert_type(await ctx.choose("Which?", numbers), int)
    assert_type(await ctx.choose("Which?", PAIRS), int)
    assert_type(await ctx.choose("Which?", [Choice(1, "one"), Choice(2, "two")]), int)
    assert_type(await ctx.state.get("seen", 0), int)
    assert_type(await ctx.step("charge", lambda: 42), int)
    assert_type(ctx.lifespan.users, dict[str, int])
    assert_type(await ctx.call_tool("add", {"a": 1}), ToolResult)


def ask_in_a_thread(ctx: SyncContext[App]) -> None:
    assert_type(ctx.elicit("Sure?", Confirm), Accepted[Confirm] | Declined | Cancelled)
    assert_type(ctx.ask("Age?", int), int)
    assert_type(ctx.confirm("Sure?"), bool)
    assert_type(ctx.choose("Which?", Colour), Colour)
    assert_type(ctx.choose("Which?", PAIRS), int)
    assert_type(ctx.state.get("seen", 0), int)
    assert_type(ctx.lifespan.users, dict[str, int])


@server.add_middleware
async def timed(call: Call, next: Next) -> Result:
    assert_type(call.name, str | None)
    assert_type(call.uri, str | None)
    result = await next(call)
    assert_type(result, Result)
    return result


async def use() -> None:
    async with Client(server) as client:
        result = await client.call_tool("add", {"a": 1})
        assert_type(result.is_error, bool)
        assert_type(result.text, str)
        typed = await client.call_tool("add", {"a": 1}, returns=int)
        assert_type(typed.data, int)
