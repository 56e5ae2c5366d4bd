"""Arithmetic from a stranger's text, without `eval`: only numbers and operators, and only so much of both.

evaluate("2 * (3 + 4) ** 2")    # 98
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

Number = int | float

MAX_LENGTH: Final = 500
MAX_BITS: Final = 4096
"""Integers grow without end in Python; these do not."""

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


class BadExpression(ValueError):
    """What was given is no arithmetic, or too much of it; the text may be shown to anybody."""


def evaluate(expression: str) -> Number:
    """The value of `expression`, or BadExpression."""
    if len(expression) > MAX_LENGTH:
        raise BadExpression(f"The expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _value(tree.body)
    except BadExpression:
        raise
    except ZeroDivisionError:
        raise BadExpression("Division by zero.") from None
    except OverflowError:
        raise BadExpression("The result is too large.") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadExpression(f"Not an arithmetic expression: {expression.strip()[:80]}") from None


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _checked(number)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _checked(_UNARY[type(op)](_value(operand)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = _value(left), _value(right)
            if isinstance(op, ast.Pow):
                _check_power(a, b)
            return _checked(_BINARY[type(op)](a, b))
    raise BadExpression(f"Only numbers, + - * / // % ** and parentheses are allowed, not {ast.unparse(node)[:80]}")


def _check_power(base: Number, exponent: Number) -> None:
    """Refuse before the work is done: 9**9**9 would keep a machine busy for days."""
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > MAX_BITS:
        raise BadExpression("The result is too large.")
    if base < 0 and not float(exponent).is_integer():
        raise BadExpression("A root of a negative number is not a real number.")


def _checked(number: Number) -> Number:
    if isinstance(number, int) and number.bit_length() > MAX_BITS:
        raise BadExpression("The result is too large.")
    if isinstance(number, float) and not math.isfinite(number):
        raise BadExpression("The result is too large.")
    return number
