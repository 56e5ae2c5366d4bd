"""The marks that the stand-alone decorators put on a function, and the tools, prompts and resources made from them.

A mark is data: nothing is compiled, and nothing is registered, before a server takes the function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from redstart.features.errors import RegistrationError, place
from redstart.features.rules import check_is_callable
from redstart.features.tools import tool_of

if TYPE_CHECKING:
    from redstart.features.prompts import Prompt
    from redstart.features.registry import Function, Injected
    from redstart.features.resources import Resource
    from redstart.features.tools import Tool

    Component: TypeAlias = Tool | Prompt | Resource

F = TypeVar("F", bound=Callable[..., object])

MARKS: Final = "__redstart_marks__"
PREDICATE: Final = "__redstart_predicate__"
_CLASSES: Final = {"tool": "Tool", "prompt": "Prompt", "resource": "Resource"}


def mark(fn: F, kind: str, options: dict[str, object]) -> F:
    """Mark `fn` as a tool, a prompt or a resource; a function may be several of them."""
    check_is_callable(fn)
    _make(kind, fn, options)  # a wrong option is refused here, where it was written
    try:
        # The decorator that is nearest to the function is applied first. A new list: functools.wraps shares the old.
        setattr(fn, MARKS, [(kind, options), *getattr(fn, MARKS, ())])
    except AttributeError:
        raise RegistrationError(f"{place(fn)}: {fn!r} cannot be marked; put the decorator on its function") from None
    return fn


def is_component(thing: object) -> bool:
    """Whether `thing` is a Tool, a Prompt or a Resource."""
    return getattr(type(thing), "kind", None) in _CLASSES


def is_marked(fn: object) -> bool:
    """Whether a decorator says what `fn` is."""
    return callable(fn) and not isinstance(fn, type) and (hasattr(fn, MARKS) or hasattr(fn, PREDICATE))


def components(fn: Any, injected: Injected) -> list[Component]:
    """What `fn` is to be served as, by its marks; without any it is a tool."""
    made = [_make(kind, fn, options) for kind, options in getattr(fn, MARKS, ())]
    if not made or hasattr(fn, PREDICATE):
        made.append(tool_of(fn, injected))
    return made


def _make(kind: str, fn: Function, options: dict[str, object]) -> Component:
    # The module is loaded when there is something of that kind.
    made: Component = getattr(import_module(f"redstart.features.{kind}s"), _CLASSES[kind])(handler=fn, **options)
    return made
