"""The user of a request as a string: the key under which sessions, dialogues, tasks and state are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

_NAMES: Final = ("principal", "subject", "sub", "id", "username", "name")
EXPECTED: Final = (
    f"a non-empty str, or a dict or object with one of: {', '.join(_NAMES)} (a non-empty str, int or UUID)"
)


def principal_key(user: object) -> str:
    """A stable key of what `auth=` returned; empty where nobody is known. TypeError: this is not a principal.

    >>> principal_key({"sub": "ada"})
    'ada'
    """
    if user is None:
        return ""
    key = _key(user if isinstance(user, str) else _named(user))
    if not key:
        raise TypeError(f"{_shown(user)} is not a user: expected {EXPECTED}")
    return key


def _named(user: object) -> object:
    """The first of the names that has a value. A later name may be less precise, and two users may share its value."""
    if isinstance(user, type) or getattr(user, "is_authenticated", True) is False:
        return None
    for name in _NAMES:
        value = user.get(name) if isinstance(user, Mapping) else getattr(user, name, None)
        if value is not None and not callable(value):
            return value
    return None


def _key(value: object) -> str:
    good = isinstance(value, str | int | UUID) and not isinstance(value, bool)
    return str(value) if good and str(value).strip() else ""


def _shown(user: object) -> str:
    """The kind of a value, and the value itself only where that cannot be a secret."""
    kind = type(user).__name__
    harmless = isinstance(user, bool) or (isinstance(user, str | dict | list | tuple) and not user)
    return f"{kind} {user!r}" if harmless else f"This {kind}"
