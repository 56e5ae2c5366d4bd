"""Server-sent events: bytes in, events out. No I/O, no JSON.

Lines are split on bytes, so a character cut in two by the network is whole again before anyone decodes it.
Spec: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation.
"""

from __future__ import annotations

import re

from msgspec import Struct

_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerEvent(Struct, frozen=True):
    """One event. An event without data still has an id to remember (the priming event of 2025-11-25)."""

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
        self._held: list[bytes] = []
        self._bom = True
        self._clear()

    def _clear(self) -> None:
        self._data: list[bytes] = []
        self._event = "message"
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that `chunk` completes."""
        events = []
        for line in self._lines(chunk):
            if line:
                self._field(line)
            elif (event := self._take()) is not None:
                events.append(event)
        return events

    def _lines(self, chunk: bytes) -> list[bytes]:
        held = self._held[-1:] == [b"\r"]
        if not held and b"\n" not in chunk and b"\r" not in chunk:
            self._held.append(chunk)  # part of a long line: joined once, when its end comes
            return []
        buffer = b"".join((*self._held, chunk))
        # A carriage return at the very end may be half of a CRLF: keep it until the next byte tells.
        end = len(buffer) - buffer.endswith(b"\r")
        *lines, rest = _LINE_END.split(buffer[:end])
        if self._bom and lines:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            self._bom = False
        self._held = [part for part in (rest, buffer[end:]) if part]
        return lines

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace") or "message"
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self._retry = int(value)

    def _take(self) -> ServerEvent | None:
        event = None
        if self._data or self._id is not None or self._retry is not None:
            event = ServerEvent(b"\n".join(self._data), self._event, self._id, self._retry)
        self._clear()
        return event
