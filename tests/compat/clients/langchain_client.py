"""langchain-mcp-adapters: MCP tools as LangChain tools."""

import asyncio
import json
import sys
from importlib.metadata import version

from langchain_mcp_adapters.client import MultiServerMCPClient

transport, *target = sys.argv[1:]
STDIO = {"transport": "stdio", "command": target[0], "args": target[1:]}
ENTRY = {"transport": "streamable_http", "url": target[0]} if transport == "http" else STDIO


def texts(result):
    return [block["text"] for block in result] if isinstance(result, list) else [result]


async def main():
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"redstart": ENTRY}).get_tools()}
    added = await tools["add"].ainvoke({"a": 1, "b": 2})
    parts = await tools["places"].ainvoke({"address": {"street": "High St"}, "tags": ["x"]})
    call = {"type": "tool_call", "id": "1", "name": "fail", "args": {"reason": "no milk"}}
    failed = (await tools["fail"].ainvoke(call)).status == "error"
    seen = {"tools": sorted(tools), "sum": int(texts(added)[0]), "places": json.loads(texts(parts)[0])}
    print(json.dumps({"version": version("langchain-mcp-adapters"), **seen, "failed": failed}))


asyncio.run(main())
