"""The stand-alone decorators: they mark a function, and whoever serves it later knows what it is.

For the files of a directory server, for methods, and for code that should not need a Server object to be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from redstart.features.errors import RegistrationError, place
from redstart.features.marks import mark

if TYPE_CHECKING:
    from redstart.features.explicit import Parameter
    from redstart.features.prompts import Argument
    from redstart.features.registry import Cache, Visible
    from redstart.features.solutions import Solutions
    from redstart.features.tools import Task
    from redstart.wire.types import Annotations, Icon

F = TypeVar("F", bound=Callable[..., Any])


class _Options(TypedDict, total=False):
    name: str
    description: str | None
    title: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, Any] | None
    needs: Sequence[str]
    executor: Literal["inline", "thread", "process"] | None
    timeout: float | None
    visible: Visible | None
    tags: Iterable[str]


class ToolOptions(_Options, total=False):
    """What `@tool(...)` takes: the keywords of `Tool`."""

    parameters: Sequence[Parameter] | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    return_type: Any
    annotations: Mapping[str, Any] | None
    task: Task | bool
    concurrency: int | None
    max_result_bytes: int | None
    outputs: Sequence[str] | None
    solutions: Solutions | None
    single_use: bool


class PromptOptions(_Options, total=False):
    """What `@prompt(...)` takes: the keywords of `Prompt`."""

    arguments: Sequence[Argument] | None


class ResourceOptions(_Options, total=False):
    """What `@resource(uri, ...)` takes: the keywords of `Resource`."""

    mime_type: str | None
    size: int | None
    annotations: Annotations | Mapping[str, Any] | None
    cache: Cache | None
    unsafe: Iterable[str]


@overload
def tool(fn: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(fn: Any = None, /, **options: Any) -> Any:
    """Mark a function, or a method, as a tool; it is returned unchanged.

    >>> @tool(title="Add")
    ... def add(a: int, b: int = 2) -> int:
    ...     return a + b
    >>> add(1)
    3
    """

    def decorate(fn: F) -> F:
        return mark(fn, "tool", options)

    return decorate if fn is None else decorate(fn)


@overload
def prompt(fn: F, /) -> F: ...
@overload
def prompt(**options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
def prompt(fn: Any = None, /, **options: Any) -> Any:
    """Mark a function, or a method, as a prompt; it is returned unchanged.

    >>> @prompt
    ... def review(code: str) -> str:
    ...     return f"Review this code: {code}"
    """

    def decorate(fn: F) -> F:
        return mark(fn, "prompt", options)

    return decorate if fn is None else decorate(fn)


def resource(uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Mark a function, or a method, as what is found at `uri`; it is returned unchanged.

    >>> @resource("notes://{name}", mime_type="text/markdown")
    ... def note(name: str) -> str:
    ...     return f"# {name}"
    """
    if not isinstance(uri, str):
        raise RegistrationError(f'{place(uri)}: write @resource("scheme://…"): a resource has a URI')

    def decorate(fn: F) -> F:
        return mark(fn, "resource", {"uri": uri, **options})

    return decorate
