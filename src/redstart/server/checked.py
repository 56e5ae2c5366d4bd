"""What a person sets is checked when it is set: a wrong number would show only when it is first used, in a call."""

from __future__ import annotations

import math
from typing import Any, Final

KEY_VARIABLES: Final = ("REDSTART_KEYS", "REDSTART_KEY_FILE")


class SettingsError(ValueError):
    """Something around the code keeps a server from starting; the text says what, and what to do."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}; {advice}")
        self.problem = problem
        self.advice = advice


def check_seconds(
    what: str, value: Any, *, optional: bool = False, endless: bool = False, error: type[Exception] | None = None
) -> None:
    """Refuse what is no time span; `error` is raised instead of a TypeError or ValueError."""
    if value is None and optional:
        return
    text = f"{what} must be a number of seconds above 0{', or None' if optional else ''}, not {value!r:.50}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise (error or TypeError)(text)
    if not value > 0 or (value == math.inf and not endless):
        raise (error or ValueError)(text)


def check_whole(
    what: str, value: Any, least: int = 1, *, optional: bool = False, error: type[Exception] | None = None
) -> None:
    """Refuse what is no whole number of at least `least`."""
    if value is None and optional:
        return
    text = f"{what} must be a whole number of at least {least}{', or None' if optional else ''}, not {value!r:.50}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise (error or TypeError)(text)
    if value < least:
        raise (error or ValueError)(text)


def checked_keys(keys: Any) -> list[str | bytes]:
    """The keys as a list. No text says what a key is."""
    if isinstance(keys, str | bytes) or not hasattr(keys, "__iter__"):
        # Taken as a list, a text would be many keys of one character each.
        raise TypeError(f"keys= is a list of keys, newest first, not one {type(keys).__name__}: write keys=[…]")
    found = list(keys)
    for key in found:
        if not isinstance(key, str | bytes):
            raise TypeError(f"a key of keys= is a str or bytes, not {type(key).__name__}")
        if not key.strip():
            raise ValueError("a key of keys= is empty; make one with: openssl rand -hex 32")
        if isinstance(key, str) and key != key.encode(errors="replace").decode():
            raise ValueError("a key of keys= is no text: it has half a character in it (a lone surrogate)")
    return found
