"""The scope of keys: a handler that another handler calls has its own keys for questions and steps.

It is a module of its own because `ctx.call_tool` needs it without loading the rest of this package.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

from redstart.protocol.call import Call

_scope: contextvars.ContextVar[str] = contextvars.ContextVar("redstart.scope", default="")


@contextmanager
def inside(call: Call, name: str) -> Iterator[None]:
    """Inside of this block keys belong to the tool, prompt or resource `name`.

    Uses are counted when they begin, because that order is the same in each run. The order of questions may differ.
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
    """The key within the whole call: `key`, or `book/key`, and in the next use of the same tool `book#2/key`."""
    scope = _scope.get()
    return f"{scope}/{key}" if scope else key
