"""One file of a directory server: every marked function and every Tool in it is served."""

from __future__ import annotations

from redstart import Tool, tool


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


half = Tool(
    "half",
    description="Half of a number",
    handler=lambda args: args["n"] / 2,
    input_schema={
        "type": "object",
        "properties": {"n": {"type": "number"}},
        "required": ["n"],
    },
)
