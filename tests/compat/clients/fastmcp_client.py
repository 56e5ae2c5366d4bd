"""FastMCP's client, 2 to 4: a kept process opened twice, a proxy, and two servers in one configuration."""

import asyncio
import json
import sys

import fastmcp
from fastmcp import Client, FastMCP

transport, *target = sys.argv[1:]
ENTRY = {"url": target[0]} if transport == "http" else {"command": target[0], "args": target[1:]}


def one():
    """The transport of one server; on stdio the process outlives the client that opened it."""
    if transport == "http":
        from fastmcp.client.transports import StreamableHttpTransport

        return StreamableHttpTransport(target[0])
    from fastmcp.client.transports import StdioTransport

    return StdioTransport(target[0], target[1:], keep_alive=True)


def proxy_of(thing):
    try:
        from fastmcp.server import create_proxy
    except ImportError:
        return FastMCP.as_proxy(thing)
    return create_proxy(thing)


async def use(client, prefix=""):
    async with client:
        tools = sorted(tool.name for tool in await client.list_tools())
        added = await client.call_tool(f"{prefix}add", {"a": 1, "b": 2})
        parts = await client.call_tool(f"{prefix}places", {"address": {"street": "High St"}, "tags": ["x"]})
        wrong = await client.call_tool(f"{prefix}fail", {"reason": "no milk"}, raise_on_error=False)
        return {"tools": tools, "sum": added.data, "places": parts.data, "failed": wrong.is_error}


async def main():
    kept = one()
    first = await use(Client(kept))
    assert await use(Client(kept)) == first, "opened again"
    assert await use(Client(proxy_of({"mcpServers": {"only": ENTRY}}))) == first, "through a proxy"
    two = await use(Client({"mcpServers": {"one": ENTRY, "two": ENTRY}}), "one_")
    assert two["sum"] == 3, two
    assert two["places"] == first["places"], two
    assert len(two["tools"]) == 6, two
    print(json.dumps({"version": fastmcp.__version__, **first}))
    if transport == "stdio":
        await kept.close()


asyncio.run(main())
