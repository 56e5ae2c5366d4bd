"""pydantic-ai: two runs of one agent on one server; the second run initializes again."""

import asyncio
import json
import sys
from importlib.metadata import version

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

transport, *target = sys.argv[1:]
seen = {}


def model(messages, info):
    """Calls each tool once, then ends with what they returned."""
    seen["tools"] = sorted(tool.name for tool in info.function_tools)
    answers = {part.tool_name: part.content for part in messages[-1].parts if part.part_kind == "tool-return"}
    if answers:
        seen.update(answers)
        return ModelResponse(parts=[TextPart("done")])
    calls = [ToolCallPart("add", {"a": 1, "b": 2})]
    calls.append(ToolCallPart("places", {"address": {"street": "High St"}, "tags": ["x"]}))
    return ModelResponse(parts=calls)


async def main():
    server = MCPToolset(target[0] if transport == "http" else StdioTransport(target[0], target[1:]))
    agent = Agent(FunctionModel(model), toolsets=[server])
    for _ in range(2):
        seen.clear()
        assert (await agent.run("add")).output == "done"
    try:
        async with server:
            await server.direct_call_tool("fail", {"reason": "no milk"})
        failed = False
    except Exception as error:
        failed = "Retry" in type(error).__name__
    result = {"tools": seen["tools"], "sum": seen["add"], "places": seen["places"], "failed": failed}
    print(json.dumps({"version": version("pydantic-ai-slim"), **result}))


asyncio.run(main())
