"""Two providers that several tests use."""

from __future__ import annotations

import math
from typing import Any


class Factorial:
    """Sums, and nothing else."""

    def tools(self) -> list[Any]:
        return ["factorial"]

    def factorial(self, n: int) -> int:
        """Computes the factorial of a non-negative integer.

        Args:
            n: The integer.
        """
        return math.factorial(n)


class Custom(Factorial):
    """With a `tool_call` that writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def tools(self) -> list[Any]:
        return ["factorial", "plain", "nothing"]

    def tool_call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((name, arguments))
        if name == "factorial":
            return f"The factorial is: {self.factorial(arguments['n'])}"
        return NotImplemented

    def plain(self, b: int, a: int = 1) -> int:
        self.asked.append("plain itself")
        return 10 * a + b
