"""Running a script with a client of one era, in this process and within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redstart import Client, Server

ERAS = ("2025-11-25", "2026-07-28")
SECONDS = 30


def use(target: Any, era: str, script: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """What `script` returns; `target` is a server, or anything that can be served."""
    server = target if isinstance(target, Server) else Server.from_object(target)

    async def main() -> Any:
        async with asyncio.timeout(SECONDS), Client(server, protocol=era, **options) as c:
            try:
                return await script(c)
            finally:
                await server.runtime.stop()

    return asyncio.run(main())


def call(target: Any, era: str, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
    """The result of one call of a tool."""
    return use(target, era, lambda c: c.call_tool(name, arguments), **options)
