"""The scope of keys: a handler that another handler calls has its own keys for questions and steps.

It is a module of its own because `ctx.call_tool` needs it, and must not load what asks.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

from redstart.protocol.call import Call

_scope: contextvars.ContextVar[str] = contextvars.ContextVar("redstart.scope", default="")


@contextmanager
def inside(call: Call, name: str) -> Iterator[None]:
    """What runs here belongs to the tool, prompt or resource `name`.

    Uses are counted when they begin, in the order of the code: which one asks first may differ from run to run.
    """
    outer = _scope.get()
    path = f"{outer}/{name}" if outer else name
    if call.uses is None:
        call.uses = {}
    number = call.uses[path] = call.uses.get(path, 0) + 1
    token = _scope.set(path if number == 1 else f"{path}#{number}")
    try:
        yield
    finally:
        _scope.reset(token)


def scoped(key: str) -> str:
    """The key as the whole call knows it: `key`, or `book/key`, and in the next use of the same tool `book#2/key`."""
    scope = _scope.get()
    return f"{scope}/{key}" if scope else key
