"""DSPy: MCP tools as DSPy tools, which check arguments against the schema."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version

import dspy
from mcp import ClientSession

transport, *target = sys.argv[1:]


@asynccontextmanager
async def session():
    if transport == "http":
        from mcp.client import streamable_http

        opening = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
        opened = opening(target[0])
    else:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        opened = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with opened as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def main():
    async with session() as s:
        tools = {tool.name: dspy.Tool.from_mcp_tool(s, tool) for tool in (await s.list_tools()).tools}
        added = await tools["add"].acall(a=1, b=2)
        parts = await tools["places"].acall(address={"street": "High St"}, tags=["x"])
        try:
            await tools["fail"].acall(reason="no milk")
            failed = False
        except RuntimeError:
            failed = True
    if isinstance(parts, str):
        parts = json.loads(parts)
    seen = {"tools": sorted(tools), "sum": int(added), "places": parts, "failed": failed}
    print(json.dumps({"version": version("dspy"), **seen}))


asyncio.run(main())
