"""What a person sets is checked when it is set: a wrong number would show only when it is first used, in a call."""

from __future__ import annotations

import math
import operator
import sys
from contextlib import suppress
from typing import Any, Final

MAX_PORT: Final = 65535
KEY_VARIABLES: Final = ("REDSTART_KEYS", "REDSTART_KEY_FILE")


class SettingsError(ValueError):
    """Something around the code keeps a server from starting; the text says what, and what to do."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}; {advice}")
        self.problem = problem
        self.advice = advice


Failure = type[Exception] | None
"""What is raised in place of a TypeError or ValueError."""


def seconds(what: str, value: Any, *, optional: bool = False, endless: bool = False, error: Failure = None) -> Any:
    """A time span as an int or a float, whichever kind of real number it is given as."""
    if value is None and optional:
        return None
    text = f"{what} must be a number of seconds above 0{', or None' if optional else ''}, not {value!r:.50}"
    try:
        number = _number(value)
    except (ValueError, OverflowError):
        raise (error or ValueError)(text) from None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise (error or TypeError)(text)
    if not number > 0 or (number > sys.float_info.max and not (endless and number == math.inf)):
        raise (error or ValueError)(text)
    return number


def whole(what: str, value: Any, least: int = 1, *, optional: bool = False, error: Failure = None) -> Any:
    """A whole number as an int, also if it is given as one of numpy's."""
    if value is None and optional:
        return None
    text = f"{what} must be a whole number of at least {least}{', or None' if optional else ''}, not {value!r:.50}"
    number = _number(value) if hasattr(type(value), "__index__") else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise (error or TypeError)(text)
    if number < least:
        raise (error or ValueError)(text)
    return number


def _number(value: Any) -> Any:
    """A number of any kind as one that all code can reckon with; anything else as it is."""
    if not isinstance(value, bool):
        with suppress(TypeError):  # an array has both methods, and is no number all the same
            if hasattr(type(value), "__index__"):
                return int(operator.index(value))
            if hasattr(type(value), "__float__"):  # a text has none
                return float(value)
    return value


def check_flag(what: str, value: Any, error: Failure = None) -> None:
    """Refuse what is neither True nor False: a text such as "no" would count as yes."""
    if not isinstance(value, bool):
        raise (error or TypeError)(f"{what} must be True or False, not {value!r:.50}")


def checked_keys(keys: Any) -> list[str | bytes]:
    """The keys as a list. No text says what a key is."""
    if keys is None:
        return []
    if isinstance(keys, str | bytes | bytearray | memoryview) or not hasattr(keys, "__iter__"):
        # Taken as a list, a text would be many keys of one character each.
        raise TypeError(f"keys= is a list of keys, newest first, not one {type(keys).__name__}: write keys=[…]")
    found = [bytes(key) if isinstance(key, bytearray | memoryview) else key for key in keys]
    for key in found:
        if not isinstance(key, str | bytes):
            raise TypeError(f"a key of keys= is a str or bytes, not {type(key).__name__}")
        if not key.strip():
            raise ValueError("a key of keys= is empty; make one with: openssl rand -hex 32")
        if isinstance(key, str) and key != key.encode(errors="replace").decode():
            raise ValueError("a key of keys= is no text: it has half a character in it (a lone surrogate)")
    return found
