"""The rules of output: data goes to stdout, messages for the person to stderr; exit statuses, colours, tables.

Loads nothing but the standard library, because every command needs it, `redstart --help` too.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TextIO, TypeVar

T = TypeVar("T")

OK: Final = 0
FAILED: Final = 1
"""A tool has failed, or a check has found something."""
USAGE: Final = 2
"""What was typed cannot be done: nothing was begun. By this a supervisor knows a process that could not start."""
CONNECT: Final = 3
"""The server cannot be reached, ended, or did not answer in time."""
PROTOCOL: Final = 4
"""The server answered with an error of the protocol, or with what the protocol does not allow."""
INTERRUPTED: Final = 128 + 2
"""The status of a command that Ctrl-C has ended, as shells count it."""

STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
_CONTROLS.update({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))})  # direction
NARROWEST: Final = 40
WIDEST: Final = 120


class CommandError(Exception):
    """Ends a command: the text is for the person who typed it, the status for the program that called it."""

    def __init__(self, text: str, status: int = USAGE) -> None:
        super().__init__(text)
        self.status = status


def say(text: str = "") -> None:
    """Write a message for the person: a line on stderr."""
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at the stream."""
    return stream is not None and not stream.closed and stream.isatty()


def has_colour(stream: TextIO | None) -> bool:
    """Whether the stream takes colours: a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """The text in a style, where the stream takes colours.

    >>> styled("add", "bold", None)
    'add'
    """
    return f"\033[{STYLES[style]}m{text}\033[0m" if has_colour(stream) else text


def printable(text: str) -> str:
    r"""Text that came from a server, for a terminal. Characters that would control the terminal are shown as codes.

    >>> printable("red\033[31m\n")
    'red\\x1b[31m\n'
    """
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Text that came from a server or a client, in one line."""
    return " ".join(printable(text).split())


def show(text: str) -> None:
    """Write data: a text on stdout. For a terminal it is made harmless, for a program it stays as it came."""
    text = printable(text) if is_terminal(sys.stdout) else text
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    if not text.endswith("\n"):
        sys.stdout.write("\n")


def show_json(value: object) -> None:
    """Write data: one JSON document on stdout."""
    import json

    show(json.dumps(value, indent=2, ensure_ascii=False))


def width(stream: TextIO | None) -> int:
    """How many columns there are: those of the terminal, and WIDEST for a program."""
    if not is_terminal(stream):
        return WIDEST
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def table(rows: Sequence[tuple[str, str]], columns: int, indent: str = "  ") -> Iterable[str]:
    """Two columns, the second one wrapped. A first one that is too long has a line of its own.

    >>> list(table([("add(a, b)", "Add two numbers."), ("now", "")], 40))
    ['  add(a, b)  Add two numbers.', '  now']
    """
    longest = max((len(first) for first, _ in rows if len(first) <= columns // 2 - len(indent)), default=0)
    left = min(longest, columns // 2) + len(indent) + 2
    for first, second in rows:
        lines = textwrap.wrap(" ".join(second.split()), columns - left) or [""]
        head = indent + first
        if len(head) + 2 <= left:
            yield (head.ljust(left) + lines[0]).rstrip()
            lines = lines[1:]
        else:
            yield head
        yield from (" " * left + line for line in lines if line)


def near(name: str, names: Iterable[str], *, most: int = 8) -> str:
    """`; did you mean add?`, or the names that there are, or nothing.

    >>> near("ad", ["add", "divide"]), near("zzz", ["add", "divide"])
    ('; did you mean add?', '; there is: add, divide')
    """
    from redstart.schema.errors import nearest  # loads msgspec, which only errors need

    listed = sorted(names)
    meant = nearest(name, listed)
    if meant:
        return f"; did you mean {printable(meant)}?"
    more = f", and {len(listed) - most} more" if len(listed) > most else ""
    return f"; there is: {printable(', '.join(listed[:most]))}{more}" if listed else ""


def meant(what: str, name: str | None, known: Mapping[str, T]) -> T:
    """The entry of this name; CommandError names those that there are.

    >>> meant("tool", "add", {"add": 1})
    1
    """
    if name is None:
        raise CommandError(f"which {what}? There is: {printable(', '.join(known)) or 'none'}")
    if name not in known:
        raise CommandError(f"there is no {what} {name}{near(name, known)}")
    return known[name]


def counted(count: int, what: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
