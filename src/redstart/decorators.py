"""The stand-alone decorators: they mark a function, so that a server that gets it later knows what it is.

For the files of a directory server, for methods, and for code that should not need a Server object to be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack, overload

from redstart.features.errors import RegistrationError
from redstart.features.marks import mark
from redstart.features.options import PromptOptions, ResourceOptions, ToolOptions
from redstart.features.rules import caller, decorating, showing

F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(fn: F, /, name: str = "", **options: Unpack[ToolOptions]) -> F: ...
@overload
def tool(name: str, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
@overload
def tool(*, name: str = "", **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
@showing(ToolOptions)
def tool(fn: Any = None, /, name: str = "", **options: Any) -> Any:
    """Mark a function, or a method, as a tool; it is returned unchanged.

    >>> @tool(title="Add")
    ... def add(a: int, b: int = 2) -> int:
    ...     return a + b
    >>> add(1)
    3
    """
    return decorating(fn, name, lambda fn, name: mark(fn, "tool", {"name": name, **options}))


@overload
def prompt(fn: F, /, name: str = "", **options: Unpack[PromptOptions]) -> F: ...
@overload
def prompt(name: str, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
@overload
def prompt(*, name: str = "", **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
@showing(PromptOptions)
def prompt(fn: Any = None, /, name: str = "", **options: Any) -> Any:
    """Mark a function, or a method, as a prompt; it is returned unchanged.

    >>> @prompt
    ... def review(code: str) -> str:
    ...     return f"Review this code: {code}"
    """
    return decorating(fn, name, lambda fn, name: mark(fn, "prompt", {"name": name, **options}))


@showing(ResourceOptions)
def resource(uri: str, name: str = "", **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Mark a function, or a method, as what is found at `uri`; it is returned unchanged.

    >>> @resource("notes://{name}", mime_type="text/markdown")
    ... def note(name: str) -> str:
    ...     return f"# {name}"
    """
    if not isinstance(uri, str):
        raise RegistrationError(f'{caller()}: write @resource("scheme://…"): a resource has a URI')

    def decorate(fn: F) -> F:
        return mark(fn, "resource", {"uri": uri, "name": name, **options})

    return decorate
