"""The kinds of functions that run for a call, and the types of what runs them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from redstart.features.errors import RegistrationError
from redstart.features.rules import caller
from redstart.protocol.call import Call

Function: TypeAlias = Callable[..., Any]
Arguments: TypeAlias = dict[str, Any]
Invoke: TypeAlias = Callable[[Call, Arguments], Awaitable[Any]]
Kind: TypeAlias = Literal["value", "coroutine", "generator", "async generator"]


def kind_of(fn: object) -> Kind:
    """What a call of `fn` gives. A class gives a value, also if its instances can be awaited or iterated."""
    if inspect.isclass(fn) or not callable(fn):
        return "value"
    for code in (inspect.unwrap(fn), inspect.unwrap(getattr(fn, "__call__", fn))):  # noqa: B004 - the method itself
        if inspect.isasyncgenfunction(code):
            return "async generator"
        if inspect.iscoroutinefunction(code):
            return "coroutine"
        if inspect.isgeneratorfunction(code):
            return "generator"
    return "value"


def is_async(fn: object) -> bool:
    """Whether a call of `fn` gives something to await or to iterate asynchronously."""
    return kind_of(fn) in ("coroutine", "async generator")


def is_generator(fn: object) -> bool:
    """Whether a call of `fn` gives something to iterate."""
    return kind_of(fn) in ("generator", "async generator")


def name_of(fn: Function) -> str:
    """The name of a function in messages to people."""
    return getattr(fn, "__name__", repr(fn))


def check_is_callable(fn: object) -> None:
    """Refuse what a decorator was put on if it is not a function."""
    if not callable(fn) or inspect.isclass(fn):
        raise RegistrationError(f"{caller()}: expected a function, got {fn!r:.200}")
