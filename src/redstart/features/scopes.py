"""The names that the text of an annotation may use: those of the functions in which its function was defined.

Under `from __future__ import annotations` a name that occurs only in annotations is not in the closure of its function.
While a function is being registered, the functions around it are usually still running, so their frames have the name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from redstart.schema.callables import SignatureError

R = TypeVar("R")


def local_names(fn: Any) -> dict[str, Any]:
    """The local names of the functions around `fn` that are running now."""
    around = getattr(fn, "__qualname__", "").split(".<locals>.")[:-1]
    outer = {part.rpartition(".")[2] for part in around}
    names: dict[str, Any] = {}
    frame = sys._getframe(1) if outer else None
    while frame is not None:
        if frame.f_code.co_name in outer and frame.f_globals is getattr(fn, "__globals__", None):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def with_local_names(fn: Any, read: Callable[[dict[str, Any] | None], R]) -> R:
    """`read(names)`, with the local names only where it does not work without them."""
    try:
        return read(None)
    except SignatureError:
        names = local_names(fn)
        if not names:
            raise
    return read(names)
