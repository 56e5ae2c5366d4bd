"""What the stand-alone decorators leave on a function, and the tools, prompts and resources that it means.

A mark is data: nothing is compiled, and nothing is registered, before a server takes the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from redstart.features.errors import RegistrationError, place
from redstart.features.explicit import Injected
from redstart.features.prompts import Prompt
from redstart.features.resources import Resource
from redstart.features.tools import Tool, tool_of

F = TypeVar("F", bound=Callable[..., Any])
Component = Tool | Prompt | Resource

MARKS: Final = "__redstart_marks__"
PREDICATE: Final = "__redstart_predicate__"


def mark(fn: F, kind: type[Component], options: dict[str, Any]) -> F:
    """Note on `fn` that it is to be served as a `kind`; a function may be several things."""
    if not callable(fn) or isinstance(fn, type):
        raise RegistrationError(f"expected a function, got {fn!r}")
    try:
        kind(handler=fn, **options)  # a keyword that it does not know fails here, where it was written
    except RegistrationError:
        raise
    except TypeError as error:
        raise RegistrationError(f"{place(fn)}: {error}") from error
    try:
        # The newest first in the source is the last to be applied. A copy, because functools.wraps shares the list.
        setattr(fn, MARKS, [(kind, options), *getattr(fn, MARKS, ())])
    except AttributeError:
        raise RegistrationError(f"{place(fn)}: {fn!r} cannot be marked; put the decorator on its function") from None
    return fn


def is_marked(fn: Any) -> bool:
    """Whether a decorator says what `fn` is."""
    return callable(fn) and not isinstance(fn, type) and (hasattr(fn, MARKS) or hasattr(fn, PREDICATE))


def components(fn: Any, injected: Injected) -> list[Component]:
    """What `fn` is to be served as, by its marks; without any it is a tool."""
    made: list[Component] = [kind(handler=fn, **options) for kind, options in getattr(fn, MARKS, ())]
    if not made or hasattr(fn, PREDICATE):
        made.append(tool_of(fn, injected))
    return made
