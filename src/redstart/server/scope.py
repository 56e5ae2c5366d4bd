"""Whose key is it: a handler that another one calls keeps the keys of its questions and steps to itself."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager


class Scope:
    """One use of a tool, prompt or resource by another handler."""

    __slots__ = ("name", "outer")

    def __init__(self, name: str, outer: Scope | None) -> None:
        self.name = name
        self.outer = outer


current_scope: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("redstart.scope", default=None)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """What runs here belongs to the tool, prompt or resource `name`."""
    token = current_scope.set(Scope(name, current_scope.get()))
    try:
        yield
    finally:
        current_scope.reset(token)


def scoped(key: str, scope: Scope | None, names: dict[Scope, str]) -> str:
    """The key as one call knows it: `key`, `book.key`, for the next call of the same tool `book-2.key`.

    >>> names = {}
    >>> [scoped("name", Scope("book", None), names) for _ in range(2)]
    ['book.name', 'book-2.name']
    """
    if scope is None:
        return key
    name = names.get(scope)
    if name is None:
        base = scoped(scope.name, scope.outer, names)
        taken = set(names.values())
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}-{number}"
        names[scope] = name
    return f"{name}.{key}"
