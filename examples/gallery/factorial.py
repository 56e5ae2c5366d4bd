"""Two providers in one server: one leaves the calls to its methods, the other formats the answers itself.

redstart run examples/gallery/factorial.py
"""

from __future__ import annotations

import math
from typing import Any

from redstart import Server, ToolError


class Factorials:
    """`tools()` names the methods; their annotations and docstrings say the rest."""

    def tools(self) -> list[str]:
        return ["factorial"]

    def factorial(self, n: int) -> int:
        """Computes the factorial of a non-negative integer.

        Args:
            n: The integer.
        """
        if not 0 <= n <= 1000:
            raise ToolError("n must be between 0 and 1000.")
        return math.factorial(n)


class SpokenFactorials(Factorials):
    """`tool_call` comes first; what it leaves alone (`NotImplemented`) is called as above."""

    def tools(self) -> list[Any]:
        return [("spoken_factorial", "factorial"), "double_factorial"]

    def tool_call(self, name: str, arguments: dict[str, Any]) -> Any:
        if name == "spoken_factorial":
            return f"The factorial is: {self.factorial(arguments['n'])}"
        return NotImplemented

    def double_factorial(self, n: int) -> int:
        """Computes the product of every second integer down from n."""
        return math.prod(range(n, 0, -2))


server = Server.from_object(Factorials(), "factorials", version="2.0.0")
server.register(SpokenFactorials())

if __name__ == "__main__":
    server.run()
