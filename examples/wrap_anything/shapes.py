"""An ordinary module. It knows nothing of MCP."""

from __future__ import annotations

import math


def circle_area(radius: float) -> float:
    """The area of a circle."""
    return math.pi * radius**2


def triangle_area(a: float, b: float, c: float) -> float:
    """The area of a triangle, from the lengths of its sides.

    Args:
        a: One side.
        b: Another one.
        c: The last one.
    """
    if a + b <= c or b + c <= a or a + c <= b:
        raise ValueError("these sides do not make a triangle")
    s = (a + b + c) / 2
    return math.sqrt(s * (s - a) * (s - b) * (s - c))


class Turtle:
    """An ordinary class, whose objects remember where they are."""

    def __init__(self) -> None:
        self._x, self._y, self._angle = 0.0, 0.0, 0.0

    def forward(self, distance: float) -> tuple[float, float]:
        """Walk, and say where it is now."""
        self._x += distance * math.cos(math.radians(self._angle))
        self._y += distance * math.sin(math.radians(self._angle))
        return round(self._x, 6), round(self._y, 6)

    def turn(self, degrees: float) -> float:
        """Turn left, and say in which direction it looks now."""
        self._angle = (self._angle + degrees) % 360
        return self._angle
