"""The official `mcp` package before 2.0."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

from mcp import ClientSession

transport, *target = sys.argv[1:]


@asynccontextmanager
async def session():
    if transport == "http":
        from mcp.client.streamable_http import streamablehttp_client

        opened = streamablehttp_client(target[0])
    else:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        opened = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with opened as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def main():
    async with session() as s:
        tools = sorted(tool.name for tool in (await s.list_tools()).tools)
        added = await s.call_tool("add", {"a": 1, "b": 2})
        parts = await s.call_tool("places", {"address": {"street": "High St"}, "tags": ["x"]})
        wrong = await s.call_tool("fail", {"reason": "no milk"})
    seen = {"tools": tools, "sum": added.structuredContent["result"], "places": parts.structuredContent["result"]}
    print(json.dumps({"version": version("mcp"), **seen, "failed": wrong.isError}))


asyncio.run(main())
