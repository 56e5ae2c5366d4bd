"""A request leaves nothing for the garbage collector, which would take a tenth of the time."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from redstart import Context, Server
from support import MODERN, initialize, message, modern, run
from transports.support import Http


@pytest.mark.parametrize("rate", [None, "1/day"], ids=["it runs", "it comes too soon"])
@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_a_request_leaves_no_cycle(era: str, rate: str | None) -> None:
    server = Server("tidy")

    @server.tool
    async def add(a: int, b: int, ctx: Context) -> int:
        return a + b

    params = {"name": "add", "arguments": {"a": 1, "b": 2}}

    async def test() -> Counter[str]:
        http = Http(server.asgi(rate_limit=rate))
        if era == "modern":
            headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "add"}
            body = modern(1, "tools/call", params)
        else:
            opened = await http.send(initialize())
            headers = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            body = message(1, "tools/call", params)
        await http.send(body, headers=headers)
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(10):
                assert (await http.send(body, headers=headers)).status == (429 if rate else 200)
            gc.collect()
            return Counter(type(left).__name__ for left in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()

    left = run(test())
    assert (left["Call"], left["Response"]) == (0, 0)
