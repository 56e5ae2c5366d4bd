"""The official Python SDK's MCPServer, tuned: uvloop, httptools, no access log, quiet, JSON replies unless `--sse`."""

import sys

from extra import extra_functions, option, timed_registration
from mcp.server import MCPServer

server = MCPServer("bench", version="1.0.0", log_level="WARNING")
tools = option(sys.argv, "--tools", 3)


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if tools > 1:

    @server.tool()
    def add_sync(a: int, b: int) -> int:
        """Add two numbers in a plain function."""
        return a + b

    @server.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        return text


for function in extra_functions(tools - 3):
    server.add_tool(function)


def run_http(port: int) -> None:
    import uvicorn

    app = server.streamable_http_app(json_response="--sse" not in sys.argv, host="127.0.0.1")
    uvicorn.run(
        app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning"
    )


def run_stdio() -> None:
    import anyio

    anyio.run(server.run_stdio_async, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    if count := option(sys.argv, "--time-registration"):
        timed_registration(server.add_tool, count)
    elif port := option(sys.argv, "--port"):
        run_http(port)
    else:
        run_stdio()
