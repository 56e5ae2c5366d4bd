"""Which kind of function a handler is."""

from __future__ import annotations

import inspect
from typing import Any


def is_async(fn: Any) -> bool:
    """Whether calling `fn` gives something to await or to iterate asynchronously."""
    call = getattr(fn, "__call__", None)  # noqa: B004 — the method itself is wanted
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (inspect.unwrap(fn), call) if f)


def is_generator(fn: Any) -> bool:
    """Whether calling `fn` gives something to iterate."""
    call = getattr(fn, "__call__", None)  # noqa: B004 - the method itself is wanted
    found = [f for f in (inspect.unwrap(fn), call) if f is not None]
    return any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in found)
