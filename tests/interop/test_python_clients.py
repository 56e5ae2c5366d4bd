"""The clients of the other Python packages, both eras, both transports."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support import ROOT, free_port, serving

SERVER = str(ROOT / "tests" / "interop" / "server.py")
MODES = ["legacy", "2026-07-28", "auto"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with serving([sys.executable, SERVER, str(port)], port) as url:
        yield url


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_mcp_client(mode: str, transport: str, url: str) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def main() -> None:
        target: Any = url
        if transport == "stdio":
            target = stdio_client(StdioServerParameters(command=sys.executable, args=[SERVER]))
        async with Client(target, mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["add"]
            assert tools[0].description == "Add two numbers."
            result = await client.call_tool("add", {"a": 40})
            assert result.content[0].text == "42"
            assert not result.is_error
            assert result.structured_content == {"result": 42}
            assert (client.protocol_version == "2026-07-28") == (mode != "legacy")
            bad = await client.call_tool("add", {"a": "x"})
            assert bad.is_error
            assert bad.content[0].text == 'Argument "a" must be an integer, got the string "x".'

    asyncio.run(main())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_fastmcp_client(transport: str, url: str) -> None:
    from fastmcp import Client
    from fastmcp.client.transports import PythonStdioTransport

    async def main() -> None:
        target: Any = url if transport == "http" else PythonStdioTransport(SERVER, python_cmd=sys.executable)
        async with Client(target) as client:
            assert [tool.name for tool in await client.list_tools()] == ["add"]
            result = await client.call_tool("add", {"a": 40})
            assert result.data == 42

    asyncio.run(main())


def test_fastmcp_client_of_two_servers(url: str) -> None:
    """It speaks through a proxy of its own, which refuses structured content that is not an object."""
    from fastmcp import Client

    async def main() -> None:
        async with Client({"mcpServers": {"one": {"url": url}, "two": {"url": url}}}) as client:
            result = await client.call_tool("one_add", {"a": 40})
            assert result.data == 42

    asyncio.run(main())
