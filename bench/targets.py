"""The table of what is measured: a name, how it is started, and what is special about it."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import build


def _python(file: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(build.SERVERS / file)]


def _typescript() -> list[str]:
    return [build.node(), str(build.typescript_server())]


@dataclass(frozen=True)
class Target:
    name: str
    note: str
    start: Callable[[], list[str]]
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("redstart")

    def command(self, *, port: int = 0, tools: int = 3) -> list[str]:
        """The command line of a server with `tools` tools, on stdio unless there is a port."""
        options = [*self.arguments, "--tools", str(tools)]
        if port:
            options += ["--port", str(port)]
        return [*self.start(), *options]

    def full_environment(self) -> dict[str, str]:
        return {**os.environ, "NODE_ENV": "production", "PYTHONPATH": str(build.SNAPSHOT), **self.environment}


TARGETS = {
    target.name: target
    for target in (
        Target("redstart", "as installed: uvloop", _python("redstart_server.py")),
        Target(
            "redstart-asyncio",
            "redstart on the plain asyncio loop",
            _python("redstart_server.py"),
            environment={"REDSTART_LOOP": "asyncio"},
        ),
        Target("mcp", "MCPServer; uvloop, httptools, quiet, JSON replies", _python("mcp_server.py")),
        Target("mcp-sse", "the same with its default SSE replies", _python("mcp_server.py"), arguments=("--sse",)),
        Target("fastmcp", "uvloop, httptools, quiet, JSON replies", _python("fastmcp_server.py")),
        Target("typescript", "@modelcontextprotocol/server on Node, JSON replies", _typescript),
    )
}
