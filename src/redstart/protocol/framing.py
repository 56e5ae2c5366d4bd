"""Framing on a byte stream: newline, Content-Length, and the events of SSE.

The first bytes of the peer decide the framing of a pipe: a header line `Content-Length:` or a message.
Spec: /specification/2026-07-28/basic/transports/stdio; the header form is that of older systems (LSP's).
"""

from __future__ import annotations

import re
from typing import Final, Literal

Framing = Literal["auto", "newline", "content-length"]
MAX_MESSAGE: Final = 64 * 1024 * 1024
_HEADER: Final = b"content-length:"
_MAX_HEADER: Final = 1024
_MARKS: Final = (b"\r\n\r\n", b"\n\n")
_BLANK: Final = rb"[\r\n]*"

OVERSIZED: Final = b"<a message over the limit>"
"""Takes the place of a message that was too large. It is not JSON, so it is refused, and the stream goes on."""
UNREADABLE: Final = b"<no Content-Length>"


class Framer:
    """Bytes in, whole messages out; then the same framing for what goes out."""

    __slots__ = ("_limit", "_parts", "_size", "_skip", "_skipping", "_wanted", "framing")

    def __init__(self, framing: Framing = "auto", limit: int = MAX_MESSAGE) -> None:
        self.framing: Framing = framing
        self._limit = limit
        self._parts: list[bytes] = []  # the beginning of a message, joined only when its end is there
        self._size = 0
        self._skipping = False  # until the end of a line that is too large
        self._skip = 0  # bytes of a counted message that is too large
        self._wanted = -1  # the length of the message that a header announced

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that `data` completes."""
        if self.framing == "newline":
            if data[-1:] == b"\n" and len(data) <= self._limit and not self._parts and not self._skipping:
                return list(filter(bytes.strip, data.split(b"\n")))  # whole lines, as nearly always
            return self._feed_lines(data)
        if self.framing == "content-length":
            return self._feed_counted(data)
        data = self._joined(data).lstrip()
        self._detect(data)
        if self.framing != "auto":
            return self.feed(data)
        self._keep(data)
        return []

    def _detect(self, data: bytes) -> None:
        start = data[: len(_HEADER)].lower()
        if len(start) == len(_HEADER) or not _HEADER.startswith(start):
            self.framing = "content-length" if start == _HEADER else "newline"

    def _joined(self, data: bytes) -> bytes:
        if self._parts:
            data = b"".join((*self._parts, data))
            self._parts.clear()
        self._size = 0
        return data

    def _keep(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._size += len(data)

    def _feed_lines(self, data: bytes) -> list[bytes]:
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = self._joined(lines[0])
            if self._skipping:
                self._skipping = False
                del lines[0]
        limit = self._limit
        found = [line if len(line) <= limit else OVERSIZED for line in lines if line and not line.isspace()]
        if not self._skipping:
            self._keep(rest)
            if self._size > limit:
                self._joined(b"")
                self._skipping = True
                found.append(OVERSIZED)
        return found

    def _feed_counted(self, data: bytes) -> list[bytes]:
        self._keep(data)
        if self._size < self._wanted:
            return []
        data, at = self._joined(b""), 0
        messages: list[bytes] = []
        while at < len(data):
            if self._skip:
                skipped = min(self._skip, len(data) - at)
                self._skip -= skipped
                at += skipped
            elif self._wanted < 0:
                at = re.compile(_BLANK).match(data, at).end()  # type: ignore[union-attr]
                end, start = _header_end(data, at)
                if end < 0:
                    break
                at = self._announced(_length(data[at:end]), start, len(data), messages)
            elif len(data) - at < self._wanted:
                break
            else:
                messages.append(data[at : at + self._wanted])
                at += self._wanted
                self._wanted = -1
        self._keep(data[at:])
        return messages

    def _announced(self, length: int, start: int, size: int, messages: list[bytes]) -> int:
        """Where to go on after a header that announced `length`."""
        if length < 0:
            messages.append(UNREADABLE)
            return size  # it is unknown where the next message starts
        if length > self._limit:
            messages.append(OVERSIZED)
            self._skip = length
        else:
            self._wanted = length
        return start

    def pending(self) -> bytes:
        """What is left when the stream ends: a last line without a newline is still a message."""
        rest = self._joined(b"")
        return b"" if rest.isspace() or self.framing == "content-length" else rest

    def frame(self, message: bytes) -> bytes:
        """One message as the peer wants it."""
        if self.framing == "content-length":
            return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
        return message + b"\n"


def _header_end(data: bytes, at: int) -> tuple[int, int]:
    """Where the header block ends, and where the message begins."""
    ends = [(end, end + len(mark)) for mark in _MARKS if (end := data.find(mark, at, at + _MAX_HEADER)) >= 0]
    if ends:
        return min(ends)
    return (at, len(data)) if len(data) - at > _MAX_HEADER else (-1, 0)


def _length(block: bytes) -> int:
    for line in block.splitlines():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value) if value.strip().isdigit() and len(value) < 20 else -1
    return -1


def sse_event(data: bytes, id: str | None = None, retry: int | None = None) -> bytes:
    """One server-sent event. `data` is JSON on one line, so it needs no splitting."""
    head = b"" if id is None else b"id: %b\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    return b"%bevent: message\ndata: %b\n\n" % (head, data)


def sse_prime(id: str, retry: int) -> bytes:
    """The event that only gives a client something to resume from."""
    return b"id: %b\nretry: %d\ndata: \n\n" % (id.encode(), retry)


SSE_COMMENT: Final = b": keep-alive\n\n"
