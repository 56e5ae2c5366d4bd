# /// script
# requires-python = ">=3.11"
# dependencies = ["redstart", "typer>=0.12"]
# ///
"""One server for code that knows nothing of MCP: a module, an object, the standard library, a command line."""

from __future__ import annotations

import statistics
from pathlib import Path

import shapes
import todo
from typer_tools import tools_of

from redstart import Server

server = Server.from_object(shapes, "wrap-anything", include=["*_area"], expose_errors=[ValueError])  # a module
turtle = shapes.Turtle()
for method in (turtle.forward, turtle.turn):  # an object: its methods share what it remembers
    server.register(method)
server.tool(statistics.median, name="median", description="The middle of some numbers.")  # a function of a library
for tool in tools_of(todo.app, Path(todo.__file__)):  # a command line
    server.register(tool)

if __name__ == "__main__":
    server.run()
