"""What a handler gets besides its arguments, decided once, at registration, by the annotations.

`Context` for `async def`, `SyncContext` for `def`; the wrong one is an error that says what to write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from redstart.features.errors import RegistrationError, place
from redstart.protocol.call import Call
from redstart.server.context import Context, SyncContext, is_async

if TYPE_CHECKING:
    from redstart.server.host import Host

Provider = Callable[[Call], Any]


def injected(annotation: Any, default: Any) -> bool:
    """Whether a parameter is for the server to fill."""
    return _context_class(annotation) is not None


def _context_class(annotation: Any) -> type | None:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, Context | SyncContext):
        return kind
    options = get_args(annotation)
    for option in options if len(options) == 2 and type(None) in options else ():
        if option is not type(None):
            return _context_class(option)
    return None


def providers(fn: Callable[..., Any], wanted: dict[str, Any], host: Host) -> list[tuple[str, Provider]]:
    """For each injected parameter of `fn`, what makes its value for one call."""
    return [(name, _provider(fn, name, annotation, host)) for name, annotation in wanted.items()]


def _provider(fn: Callable[..., Any], name: str, annotation: Any, host: Host) -> Provider:
    kind = _context_class(annotation)
    right = Context if is_async(fn) else SyncContext
    if kind is None or not issubclass(kind, right):
        form = "async def" if right is Context else "def"
        raise RegistrationError(
            f"{place(fn)}: {getattr(fn, '__name__', fn)} is a `{form}`, so write `{name}: {right.__name__}`"
        )
    return lambda call: kind(call, host)


def check_is_callable(fn: Any) -> None:
    """A decorator that was given something else than a function says so."""
    if not callable(fn) or inspect.isclass(fn):
        raise RegistrationError(f"expected a function, got {fn!r}")
