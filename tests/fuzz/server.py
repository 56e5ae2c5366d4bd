"""The server that is fuzzed."""

from __future__ import annotations

import logging
from typing import Any

from redstart import Context, Server


def make_server(**settings: Any) -> Server:
    logging.getLogger("redstart").setLevel(logging.CRITICAL)
    server = Server("fuzz", version="1", **settings)

    @server.tool
    async def echo(text: str = "") -> str:
        return text

    @server.tool
    async def add(a: int, b: int = 2) -> int:
        return a + b

    @server.tool
    async def fail() -> str:
        raise RuntimeError("on purpose")

    @server.tool
    async def tell(ctx: Context, n: int = 1) -> str:
        for step in range(min(n, 3)):
            await ctx.progress(step + 1)
            await ctx.info("step")
        return "told"

    @server.prompt
    async def review(code: str) -> str:
        return code

    @server.resource("notes://one")
    async def one() -> str:
        return "one"

    return server


if __name__ == "__main__":
    make_server().run()
