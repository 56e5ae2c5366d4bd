"""An exception as the page shows it: its type, its text, and the lines of the user's own code."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from redstart.features.errors import text_of
from redstart.features.startup_errors import is_own

MAX_FRAMES: Final = 60
MAX_TEXT: Final = 16 * 1024


class SourcePlace(Struct, frozen=True):
    """A line of a file."""

    file: str
    line: int
    shown: str


class Frame(Struct, frozen=True):
    """One entry of a traceback."""

    file: str
    line: int
    function: str
    source: str
    own: bool
    """Whether the file belongs to the project, and not to Python, to a library or to us."""


class Failure(Struct, frozen=True):
    """Why something did not work."""

    type: str
    text: str
    id: str | None = None
    place: SourcePlace | None = None
    frames: Sequence[Frame] = ()
    traceback: str = ""


def place_of(file: str, line: int) -> SourcePlace:
    """A place, with its path as short as it can be shown from here."""
    try:
        short = os.path.relpath(file)
    except ValueError:  # another drive
        short = file
    return SourcePlace(file, line, f"{short if not short.startswith('..') else file}:{line}")


def failure_of(error: BaseException, id: str | None = None, *, strict: bool = False) -> Failure:
    """What is shown of an exception; if `strict`, without texts and lines of code."""
    entries = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    frames = [
        Frame(entry.filename, entry.lineno or 0, entry.name, "" if strict else entry.line or "", is_own(entry.filename))
        for entry in entries
    ]
    if isinstance(error, SyntaxError) and error.filename:
        source = "" if strict else (error.text or "").rstrip("\n")
        frames.append(Frame(error.filename, error.lineno or 0, "<module>", source, is_own(error.filename)))
    own = [frame for frame in frames if frame.own]
    place = place_of(own[-1].file, own[-1].line) if own else None
    kind = type(error).__qualname__
    if strict:
        return Failure(kind, "", id, place, frames)
    text = "".join(traceback.format_exception(error))
    return Failure(kind, text_of(error)[:MAX_TEXT], id, place, frames, text[-MAX_TEXT:])
