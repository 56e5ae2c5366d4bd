"""A server with two thousand tools."""

from __future__ import annotations

from redstart import Server, Text, Tool

server = Server(
    "many",
    tools=[
        Tool(name=f"tool_{number:04}", description=f"Tool number {number}.", handler=lambda args: Text("done"))
        for number in range(2000)
    ],
)
