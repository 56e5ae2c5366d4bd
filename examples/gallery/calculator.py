"""A calculator as an explicit tool, with an evaluator that only knows arithmetic.

redstart run examples/gallery/calculator.py
"""

from __future__ import annotations

from typing import Any

from arithmetic import BadExpression, evaluate

from redstart import Parameter, Server, Tool, ToolError


def calculate(params: dict[str, Any]) -> dict[str, float]:
    try:
        return {"result": evaluate(params["expression"])}
    except BadExpression as error:
        raise ToolError(str(error)) from error


calculator = Tool(
    name="calculate",
    description="Perform basic arithmetic",
    parameters=[
        Parameter(name="expression", type="string", description="Math expression to evaluate", required=True),
    ],
    handler=calculate,
)

server = Server("calculator", tools=calculator)

if __name__ == "__main__":
    server.run()
