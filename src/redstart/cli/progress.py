"""How far a call has come: one line on stderr that is rewritten, if a person looks at it.

What the server writes to stderr meanwhile is written above that line.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TextIO

from redstart.cli.output import is_terminal, one_line, width

if TYPE_CHECKING:
    from redstart.client import Progress

CELLS: Final = 24
ERASE: Final = "\r\033[K"


class ProgressLine:
    """The line. `show` is for `Client(on_progress=…)`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = is_terminal(stream)
        self._text = ""
        self._began = monotonic()

    def show(self, progress: Progress) -> None:
        """Show a message of progress."""
        self._write(bar(progress, monotonic() - self._began, width(self._stream) - 1))

    def state(self, text: str) -> None:
        """Show a text that came from the server."""
        self._write(cut(one_line(text), monotonic() - self._began, width(self._stream) - 1))

    def _write(self, text: str) -> None:
        if self._live:
            self._text = text
            self._stream.write(ERASE + text)
            self._stream.flush()

    def erase(self) -> None:
        """Take the line away, before other text is written."""
        if self._text:
            self._stream.write(ERASE)
            self._stream.flush()
            self._text = ""

    def again(self) -> str:
        """The line as it is, to be written once more."""
        return self._text


def bar(progress: Progress, seconds: float, columns: int) -> str:
    """`████████░░░░  3/12  reading  0:04`, cut to the width of the terminal."""
    done, total = progress.progress, progress.total
    parts = []
    if total is not None and total > 0:
        share = max(0.0, min(1.0, done / total))
        full = round(share * CELLS)
        parts.append("█" * full + "░" * (CELLS - full))
        parts.append(f"{share:4.0%}")
    else:
        parts.append(f"{done:g}")
    if progress.message:
        parts.append(one_line(progress.message))
    return cut("  ".join(parts), seconds, columns)


def cut(text: str, seconds: float, columns: int) -> str:
    """The text and the time, in one line of the terminal."""
    text = f"{text}  {int(seconds) // 60}:{int(seconds) % 60:02}"
    return text if len(text) <= columns else text[: columns - 1] + "…"


class _Above(io.TextIOBase):
    """stderr while there may be a line of progress: other text is written above it."""

    def __init__(self, line: ProgressLine, stream: TextIO) -> None:
        self._line = line
        self._stream = stream

    def write(self, text: str) -> int:
        kept = self._line.again()
        self._line.erase()
        written = self._stream.write(text)
        if kept and text.endswith("\n"):
            self._stream.write(kept)
            self._line._text = kept
        return written

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def progress_line() -> Iterator[ProgressLine]:
    """A line of progress on stderr, which is gone at the end."""
    stream = sys.stderr
    line = ProgressLine(stream)
    if not is_terminal(stream):
        yield line
        return
    sys.stderr = _Above(line, stream)
    try:
        yield line
    finally:
        sys.stderr = stream
        line.erase()
