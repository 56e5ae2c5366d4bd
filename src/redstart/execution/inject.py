"""What a handler gets besides its arguments, decided once, at registration, by the annotations.

`Context` for `async def`, `SyncContext` for `def`; the wrong one is an error that says what to write.
`Annotated[DB, Depends(get_db)]` becomes a step of a Plan: what to make, in which order, and what to clean up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Struct

from redstart.execution.kinds import is_async
from redstart.features.errors import RegistrationError, place
from redstart.features.options import HANDLER, caller
from redstart.features.scopes import local_names
from redstart.schema.callables import Target, find_target
from redstart.server.context import Context
from redstart.server.sync_context import SyncContext

Made = dict[Callable[..., Any], Any]
Form = Literal["value", "coroutine", "generator", "async generator"]


class Depends(Struct, frozen=True):
    """A parameter that the server fills with what `provide` returns, or yields and cleans up after the call.

    >>> from typing import Annotated
    >>> def settings() -> dict[str, str]:
    ...     return {"unit": "C"}
    >>> def forecast(city: str, options: Annotated[dict[str, str], Depends(settings)]) -> str:
    ...     return f"{city}: 7 °{options['unit']}"
    """

    provide: Callable[..., Any]

    def __post_init__(self) -> None:
        HANDLER.check("provide of Depends", self.provide)


class Step(Struct, frozen=True):
    """One thing to make for a call: once, however many ask for it."""

    provide: Callable[..., Any]
    form: Form
    wants: tuple[tuple[str, Any], ...]

    @property
    def on_loop(self) -> bool:
        return self.form in ("coroutine", "async generator")


class Plan(Struct):
    """Everything that a handler is given, in the order in which it is made."""

    early: list[Step]
    """Made on the loop before the handler starts: what is async, and what that needs."""
    late: list[Step]
    """Made in the handler's own thread, because a connection may belong to its thread."""
    wants: tuple[tuple[str, Any], ...]


def injected(annotation: Any, default: Any) -> bool:
    """Whether a parameter is for the server to fill."""
    return _context_class(annotation) is not None or _depends(annotation, default) is not None


def _context_class(annotation: Any) -> type | None:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and (issubclass(kind, Context | SyncContext) or _is_foreign(kind)):
        return kind
    options = get_args(annotation)
    for option in options if len(options) == 2 and type(None) in options else ():
        if option is not type(None):
            return _context_class(option)
    return None


def _is_foreign(kind: type) -> bool:
    """Whether a class is the context of another framework: no client can send one, so it is meant for the server."""
    return kind.__name__ == "Context" and kind.__module__.partition(".")[0] in ("fastmcp", "mcp")


def _depends(annotation: Any, default: Any) -> Depends | None:
    for mark in (default, *getattr(annotation, "__metadata__", ())):
        if isinstance(mark, Depends):
            return mark
        if mark is Depends:
            raise RegistrationError(f"{caller()}: write Depends(function), not Depends alone")
    return None


# ---------------------------------------------------------------- planning


def plan(fn: Callable[..., Any], wanted: dict[str, Any], *, in_thread: bool) -> Plan:
    """What to make for the injected parameters `wanted` of `fn`."""
    steps: dict[Callable[..., Any], Step] = {}
    wants = tuple((name, _source(fn, name, annotation, steps, [])) for name, annotation in wanted.items())
    order = list(steps.values())
    needed: set[Any] = set()
    for step in reversed(order):
        if not in_thread or step.on_loop or step.provide in needed:
            needed |= {step.provide, *(source for _, source in step.wants)}
    return Plan([s for s in order if s.provide in needed], [s for s in order if s.provide not in needed], wants)


def _source(fn: Any, name: str, annotation: Any, steps: dict[Any, Step], path: Sequence[Any]) -> Any:
    """A context class, or the function of the step that makes the value."""
    default = inspect.signature(fn).parameters[name].default
    depends = _depends(annotation, default)
    if depends is None:
        return _checked_context(fn, name, annotation)
    provide = depends.provide
    if provide in path:
        circle = " → ".join(_name(f) for f in [*path[path.index(provide) :], provide])
        raise RegistrationError(f"{place(provide)}: these dependencies need each other: {circle}")
    if provide not in steps:
        wants = tuple(_wants(provide, steps, [*path, provide]))
        steps[provide] = Step(provide, _form(provide), wants)
    return provide


def _wants(provide: Any, steps: dict[Any, Step], path: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    target: Target = find_target(provide, None, local_names(provide))
    for parameter in target.parameters:
        annotation = parameter.annotation
        if annotation is not parameter.empty:
            annotation = target.resolve(annotation, parameter.name)
        if injected(annotation, parameter.default):
            yield parameter.name, _source(provide, parameter.name, annotation, steps, path)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise target.fail(
                "nobody provides it. Annotate it with Depends(...) or a context, or give it a default.", parameter.name
            )


def _form(provide: Any) -> Form:
    call = provide if inspect.isroutine(provide) or inspect.isclass(provide) else type(provide).__call__
    target = inspect.unwrap(call)
    if inspect.isasyncgenfunction(target):
        return "async generator"
    if inspect.isgeneratorfunction(target):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(target) else "value"


def _checked_context(fn: Callable[..., Any], name: str, annotation: Any) -> type:
    kind = _context_class(annotation)
    right = Context if is_async(fn) else SyncContext
    if annotation is inspect.Parameter.empty:
        return right
    if kind is None or not issubclass(kind, right):
        form = "an `async def`" if right is Context else "a `def`"
        words = f"{place(fn)}: {_name(fn)} is {form}, so write `{name}: {right.__name__}`"
        if kind is not None and _is_foreign(kind):
            words += f", from `from redstart import {right.__name__}`; this one is {kind.__module__}.{kind.__name__}"
        raise RegistrationError(words)
    return kind


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", repr(fn))


def contexts(fn: Callable[..., Any], wanted: dict[str, Any]) -> list[tuple[str, type]]:
    """For each injected parameter of a handler without dependencies, the class of its context."""
    return [(name, _checked_context(fn, name, annotation)) for name, annotation in wanted.items()]


def has_dependencies(fn: Callable[..., Any], wanted: dict[str, Any]) -> bool:
    """Whether any injected parameter is more than a context."""
    parameters = inspect.signature(fn).parameters if wanted else {}
    return any(_depends(kind, parameters[name].default) is not None for name, kind in wanted.items())


def values(wants: tuple[tuple[str, Any], ...], made: Made, call: Any, host: Any) -> dict[str, Any]:
    """The keyword arguments that `wants` names: made things, and contexts."""
    return {name: made[source] if source in made else source(call, host) for name, source in wants}


def check_is_callable(fn: Any) -> None:
    """A decorator that was given something else than a function says so."""
    if not callable(fn) or inspect.isclass(fn):
        raise RegistrationError(f"{caller()}: expected a function, got {fn!r:.200}")
