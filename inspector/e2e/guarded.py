"""A server that wants a token."""

from __future__ import annotations

from redstart import Context, Server

server = Server("guarded", auth=lambda token: {"sub": "ada"} if token == "s3cret-token" else None)


@server.tool
async def whoami(ctx: Context) -> str:
    """Say who calls."""
    return str(ctx.user["sub"])


@server.tool
async def team(ctx: Context) -> str:
    """Say what the header X-Team says."""
    return ctx.headers.get("x-team", "none")
