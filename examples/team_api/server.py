# /// script
# requires-python = ">=3.11"
# dependencies = ["redstart[redis]"]
# ///
"""A small service of a team over HTTP: who calls is known by a token, and may do what its scopes allow.

Each user has tickets of their own, in the store, so that any of several processes can answer.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redstart import Call, Context, Next, Result, Server, ToolError, User
from redstart.auth import BearerTokens

TOKENS = Path(os.environ.get("TEAM_TOKENS", Path(__file__).parent / "tokens.json"))


def users() -> dict[str, User]:
    """The users by their tokens, from a file that is not in the repository of a real team."""
    known = json.loads(TOKENS.read_text())
    return {token: User(entry["name"], scopes=entry["scopes"]) for token, entry in known.items()}


server = Server(
    "team",
    version="1.0.0",
    auth=BearerTokens(users()),
    store=os.environ.get("REDSTART_STORE"),  # redis://… if there are several processes
    stdio_scopes="tickets:read tickets:write",
)


@dataclass
class Ticket:
    number: int
    title: str
    open: bool = True


async def tickets_of(ctx: Context) -> list[Ticket]:
    stored: list[dict[str, Any]] = await ctx.state.get("tickets", [])
    return [Ticket(**entry) for entry in stored]


async def save(ctx: Context, tickets: list[Ticket]) -> None:
    await ctx.state.set("tickets", [vars(ticket) for ticket in tickets])


@server.tool(scopes="tickets:read", annotations={"readOnlyHint": True})
async def tickets(ctx: Context, open_only: bool = True) -> list[Ticket]:
    """Your tickets."""
    return [ticket for ticket in await tickets_of(ctx) if ticket.open or not open_only]


@server.tool(scopes=["tickets:read", "tickets:write"])
async def open_ticket(title: str, ctx: Context) -> Ticket:
    """Open a ticket."""
    known = await tickets_of(ctx)
    ticket = Ticket(len(known) + 1, title)
    await save(ctx, [*known, ticket])
    return ticket


@server.tool(scopes=["tickets:read", "tickets:write"])
async def close_ticket(number: int, ctx: Context) -> Ticket:
    """Close a ticket."""
    known = await tickets_of(ctx)
    for ticket in known:
        if ticket.number == number:
            ticket.open = False
            await save(ctx, known)
            return ticket
    raise ToolError(f"you have no ticket {number}; your tickets: {[ticket.number for ticket in known]}")


@server.tool(scopes="team:admin")
async def whoami(ctx: Context) -> dict[str, Any]:
    """Who you are, for administrators."""
    return {"name": ctx.user.subject, "scopes": sorted(ctx.user.scopes)}


@server.add_middleware
async def refuse_empty_titles(call: Call, next: Next) -> Result:
    """A rule of the house for all tools at once."""
    if call.name == "open_ticket" and not str((call.arguments or {}).get("title", "")).strip():
        raise ToolError("a ticket needs a title")
    return await next(call)


if __name__ == "__main__":
    server.run("http", rate_limit="60/minute", access_log=True)
