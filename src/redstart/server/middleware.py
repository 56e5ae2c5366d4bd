"""Middleware: `async def layer(call, next)` around every request of every method. Checked when it is added.

A layer gets the `Call` (`method`, `name`, `uri`, `arguments`, `user`) and returns a result object: the one that
`await next(call)` gave, changed or not, or one of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from redstart.features.errors import RegistrationError, ToolError, place
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.types import Result

Handler: TypeAlias = Callable[[Call], Awaitable[Any]]
"""The function that answers a call. Without middleware its result may already be encoded."""


class Next(Protocol):
    """What a layer of middleware awaits: the layers inside of it and the handler."""

    def __call__(self, call: Call, /) -> Awaitable[Result]: ...


Middleware: TypeAlias = Callable[[Call, Next], Awaitable[Result]]


class MiddlewareError(TypeError):
    """A layer of middleware returned something else than a result; the text names the layer and says what to write."""


def checked(layer: object) -> Middleware:
    """`layer`, if it can be called with a call and the next layer; else an error that says how to write one."""
    wanted = "middleware is written `async def layer(call, next)` and returns `await next(call)`"
    if not callable(layer):
        raise RegistrationError(f"{type(layer).__name__} is not a function: {wanted}")
    if inspect.isclass(layer):
        raise RegistrationError(f"{_name(layer)} is a class: give an instance with `__call__`, or a function: {wanted}")
    try:
        inspect.signature(layer).bind(None, None)
    except TypeError:
        raise RegistrationError(f"{_name(layer)} cannot be called with (call, next): {wanted}") from None
    except ValueError:  # a builtin without a signature
        pass
    return layer


def compose(middleware: list[Middleware], handler: Handler) -> Handler:
    """One function out of the middleware, outermost first, and the handler."""
    for layer in reversed(middleware):
        handler = _layered(layer, handler)
    return handler


def _layered(layer: Middleware, inner: Next) -> Next:
    async def run(call: Call) -> Result:
        try:
            work: object = layer(call, inner)
            if not inspect.isawaitable(work):
                raise MiddlewareError(f"it returned {_what(work)}; write `async def`, or return `next(call)`")
            result = await work
            if not isinstance(result, Result):
                raise MiddlewareError(f"it returned {_what(result)}; write `return await next(call)`")
        except (ProtocolError, ToolError):
            raise
        except Exception as error:
            if not hasattr(error, "__notes__"):  # the first layer that it passes is the one that raised it
                error.add_note(f"in the middleware {_name(layer)}")
            raise
        return result

    return run


def _what(result: object) -> str:
    return "None" if result is None else f"a {type(result).__name__}"


def _name(layer: object) -> str:
    name = getattr(layer, "__qualname__", None) or type(layer).__qualname__
    where = place(layer if hasattr(layer, "__qualname__") else type(layer).__call__)
    return f"{name.rpartition('.<locals>.')[2]} ({where})"
