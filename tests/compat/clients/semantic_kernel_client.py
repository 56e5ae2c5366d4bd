"""Semantic Kernel: MCP tools as kernel functions; one schema that it cannot read makes the whole server unusable."""

import asyncio
import json
import sys
from importlib.metadata import version

from semantic_kernel import Kernel
from semantic_kernel.connectors.mcp import MCPStdioPlugin, MCPStreamableHttpPlugin

transport, *target = sys.argv[1:]


async def main():
    if transport == "http":
        plugin = MCPStreamableHttpPlugin(name="redstart", url=target[0])
    else:
        plugin = MCPStdioPlugin(name="redstart", command=target[0], args=target[1:])
    async with plugin:
        functions = Kernel().add_plugin(plugin).functions
        added = await plugin.call_tool("add", a=1, b=2)
        parts = await plugin.call_tool("places", address={"street": "High St"}, tags=["x"])
        wrong = await plugin.session.call_tool("fail", {"reason": "no milk"})
    seen = {"tools": sorted(functions), "sum": int(added[0].text), "places": json.loads(parts[0].text)}
    print(json.dumps({"version": version("semantic-kernel"), **seen, "failed": wrong.isError}))


asyncio.run(main())
