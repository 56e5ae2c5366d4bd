"""The client against fastmcp's server: both eras, over stdio and HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from client.support import peer
from redstart.client import Client, Progress
from support import run


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("protocol", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_fastmcp_server(way: str, protocol: str, start_http: Callable[..., str]) -> None:
    stdio = peer("fastmcp")
    target = stdio if way == "stdio" else start_http(peer="fastmcp")

    async def main() -> None:
        seen: list[Progress] = []
        async with Client(target, protocol=protocol, stderr="capture", on_progress=seen.append) as c:
            assert c.server_info.name == "fast"
            assert [tool.name for tool in await c.list_tools()] == ["add", "point", "count"]
            answers = await asyncio.gather(*(c.call_tool("add", {"a": i}) for i in range(10)))
            assert [answer.data for answer in answers] == [i + 2 for i in range(10)]
            assert (await c.call_tool("point", {"x": 1, "y": 2})).data == {"x": 1, "y": 2}
            assert (await c.call_tool("count", {"to": 2})).data == 2
            assert [p.progress for p in seen] == [1, 2]
            assert (await c.read_resource("notes://a")).contents[0].text == "a note"

    run(main(), seconds=40)
