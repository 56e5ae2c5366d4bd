"""Who a request belongs to, as a string: sessions, dialogues, tasks and state are kept under it."""

from __future__ import annotations

from typing import Any

_NAMES = ("principal", "subject", "sub", "id", "username", "name")


def principal_key(user: Any) -> str:
    """A stable key of what `auth=` returned; empty where nobody is known.

    >>> principal_key({"sub": "ada"})
    'ada'
    """
    if user is None:
        return ""
    if isinstance(user, str):
        return user
    for name in _NAMES:
        value = user.get(name) if isinstance(user, dict) else getattr(user, name, None)
        if value is not None and not callable(value):
            return str(value)
    raise TypeError(f"auth= returned {type(user).__name__}, which has none of: {', '.join(_NAMES)}")
