"""openai-agents: its MCP servers, without a model."""

import asyncio
import json
import sys
from importlib.metadata import version

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

transport, *target = sys.argv[1:]


async def main():
    if transport == "http":
        server = MCPServerStreamableHttp(params={"url": target[0]})
    else:
        server = MCPServerStdio(params={"command": target[0], "args": target[1:]})
    async with server:
        tools = sorted(tool.name for tool in await server.list_tools())
        added = await server.call_tool("add", {"a": 1, "b": 2})
        parts = await server.call_tool("places", {"address": {"street": "High St"}, "tags": ["x"]})
        wrong = await server.call_tool("fail", {"reason": "no milk"})
    seen = {"tools": tools, "sum": int(added.content[0].text), "places": parts.structured_content["result"]}
    print(json.dumps({"version": version("openai-agents"), **seen, "failed": wrong.is_error}))


asyncio.run(main())
