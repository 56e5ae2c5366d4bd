"""crewai-tools: MCP tools as CrewAI tools, which send null for every field that is not set."""

import json
import sys
from importlib.metadata import version

from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

transport, *target = sys.argv[1:]
http = {"url": target[0], "transport": "streamable-http"}
where = http if transport == "http" else StdioServerParameters(command=target[0], args=target[1:])

with MCPServerAdapter(where) as tools:
    known = {tool.name: tool for tool in tools}
    added = known["add"].run(a=1, b=2)
    parts = known["places"].run(address={"street": "High St"}, tags=["x"])
    wrong = known["fail"].run(reason="no milk")
seen = {"tools": sorted(known), "sum": int(added), "places": json.loads(parts), "failed": "no milk" in wrong}
print(json.dumps({"version": version("crewai-tools"), **seen}))
