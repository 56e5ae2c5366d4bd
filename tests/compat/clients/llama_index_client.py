"""llama-index: MCP tools as function tools."""

import asyncio
import json
import sys
from importlib.metadata import version

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

transport, *target = sys.argv[1:]


async def main():
    client = BasicMCPClient(target[0], args=target[1:])
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}
    added = await tools["add"].acall(a=1, b=2)
    parts = await tools["places"].acall(address={"street": "High St"}, tags=["x"])
    wrong = await client.call_tool("fail", {"reason": "no milk"})
    seen = {
        "tools": sorted(tools),
        "sum": added.raw_output.structured_content["result"],
        "places": parts.raw_output.structured_content["result"],
    }
    print(json.dumps({"version": version("llama-index-tools-mcp"), **seen, "failed": wrong.is_error}))


asyncio.run(main())
