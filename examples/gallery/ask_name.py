"""A provider that asks its user a question in the middle of a call.

redstart run examples/gallery/ask_name.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redstart import Accepted, serve

QUESTION = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class InteractiveTools:
    """Greets people by their names."""

    def capabilities(self) -> list[str]:
        return ["elicitation"]

    def tools(self) -> list[str]:
        return ["ask_name"]

    def ask_name(self) -> str:  # type: ignore[empty-body]
        """Asks the user for their name and greets them."""

    def tool_call(self, name: str, arguments: dict[str, Any], elicit: Callable[..., Any]) -> str:
        match elicit("What is your name?", QUESTION):
            case Accepted({"name": who}):
                return f"Hello, {who}!"
        return "No name provided."


serve("interactive", InteractiveTools())
