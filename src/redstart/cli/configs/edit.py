"""What the editors of the three formats share: an edit that can be undone to the byte, and the error that refuses one.

An editor changes text, not data: what it does not write stays as it is, with comments, order, tabs and line ends.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from redstart.cli.output import CommandError
from redstart.wire.jsonrpc import JsonObject

BOM = "\ufeff"
MOST = 64 << 20
"""The largest file, in bytes, that is edited."""
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class EditError(CommandError):
    """A file cannot be edited safely; the text says where and why."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.line = line
        super().__init__(f"line {line}: {reason}" if line else reason)


class Mark(NamedTuple):
    """What an edit has written, so that it can be taken out again."""

    body: str
    """The text that was inserted, or that stands where `replaced` was."""
    comma: bool = False
    """Whether a comma was added behind the entry before it."""
    replaced: str | None = None
    """The text of an entry of the same name that was there before."""


class Edited(NamedTuple):
    """A changed text and what was written into it."""

    text: str
    mark: Mark


def quoted(value: object) -> str:
    """A value as JSON that is valid in TOML and YAML too: they want more characters escaped."""
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def newline_of(text: str) -> str:
    """The line end of a file: that of its first line."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def cut(text: str, start: int, end: int) -> str:
    return text[:start] + text[end:]


def body_around(text: str, body: str, at: int) -> int:
    """Where the text `body` begins that covers the offset `at`; -1 if it has been changed since it was written."""
    start = text.find(body, max(0, at - len(body) + 1), at + len(body)) if body else -1
    return start if -1 < start <= at else -1


def check_change(before: JsonObject, after: JsonObject, path: tuple[str, ...], name: str) -> None:
    """EditError if anything but one entry has changed: a check of what the editors have done."""
    if _without(before, path, name) != _without(after, path, name):
        raise EditError("the edit would change more than the one entry")


def _without(document: object, path: tuple[str, ...], name: str) -> object:
    """A copy without the entry, and without the containers on the way to it if they are empty then."""
    if not isinstance(document, dict):
        return document
    key = path[0] if path else name
    rest = {other: value for other, value in document.items() if other != key}
    if path and key in document:
        inner = _without(document[key], path[1:], name)
        if inner not in ({}, None):
            rest[key] = inner
    return rest
