"""Server-sent events: bytes in, events out. No I/O, no JSON.

Lines are split as bytes, so a character that the network cut in two is whole again before it is decoded.
Spec: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MS = re.compile(rb"[0-9]{1,9}")


class ServerEvent(Struct, frozen=True):
    """One event. An event without data may have an id, from which the stream can be resumed."""

    data: bytes = b""
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventParser:
    """Turns the chunks of one stream into events.

    >>> EventParser().feed(b"id: 1\\ndata: {}\\n\\n")
    [ServerEvent(data=b'{}', event='message', id='1', retry=None)]
    """

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []  # the parts of a line, joined when its end comes
        self._first = True
        self._data: list[bytes] = []
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes."""
        return [event for line in self._lines(chunk) for event in self._read(line)]

    def _lines(self, chunk: bytes) -> list[bytes]:
        self._unfinished.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and self._unfinished[-2:-1] != [b"\r"]:
            return []
        buffer = b"".join(self._unfinished)
        # A carriage return at the end may be the first half of a CRLF: it stays until the next byte is known.
        end = len(buffer) - buffer.endswith(b"\r")
        *lines, rest = _LINE_END.split(buffer[:end])
        self._unfinished = [part for part in (rest, buffer[end:]) if part]
        if self._first and lines:
            self._first = False
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        return lines

    def _read(self, line: bytes) -> Iterator[ServerEvent]:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event" or (name == b"id" and b"\0" not in value) or (name == b"retry" and _MS.fullmatch(value)):
            self._fields[name.decode()] = value.decode("utf-8", "replace")
        elif not line:
            fields, data = self._fields, b"\n".join(self._data)
            if self._data or "id" in fields or "retry" in fields:
                retry = int(fields["retry"]) if "retry" in fields else None
                yield ServerEvent(data, fields.get("event") or "message", fields.get("id"), retry)
            self._data, self._fields = [], {}
