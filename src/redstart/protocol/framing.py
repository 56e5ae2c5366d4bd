"""Framing on a byte stream: newline, Content-Length, and the events of SSE.

A pipe's framing is found out by what the peer sends first: a header line `Content-Length:` or a message.
Spec: /specification/2026-07-28/basic/transports/stdio; the header form is that of older systems (LSP's).
"""

from __future__ import annotations

from typing import Final, Literal

Framing = Literal["auto", "newline", "content-length"]
MAX_MESSAGE: Final = 64 * 1024 * 1024
_HEADER: Final = b"content-length:"
_MAX_HEADER: Final = 1024


class TooLarge(Exception):
    """A message over the limit: the stream goes on after it."""


class Framer:
    """Bytes in, whole messages out; then the same framing for what goes out."""

    __slots__ = ("_buffer", "_limit", "_skipping", "_wanted", "framing")

    def __init__(self, framing: Framing = "auto", limit: int = MAX_MESSAGE) -> None:
        self.framing: Framing = framing
        self._buffer = b""
        self._limit = limit
        self._wanted = -1  # the length of the message that a header announced
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that `data` completes. One that is too large is given as its first bytes."""
        if self._buffer:
            data = self._buffer + data
        if self.framing == "auto":
            self._detect(data)
        if self.framing == "content-length":
            return self._feed_counted(data)
        return self._feed_lines(data)

    def _detect(self, data: bytes) -> None:
        start = data.lstrip()[: len(_HEADER)].lower()
        if start and not (len(start) < len(_HEADER) and _HEADER.startswith(start)):
            self.framing = "content-length" if start == _HEADER else "newline"

    def _feed_lines(self, data: bytes) -> list[bytes]:
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._skipping and lines:
            self._skipping = False
            del lines[0]
        if len(rest) > self._limit and not self._skipping:
            self._skipping = True
            lines.append(rest[: self._limit + 1])
            rest = b""
        self._buffer = b"" if self._skipping else rest
        return [line for line in lines if line and not line.isspace()]

    def _feed_counted(self, data: bytes) -> list[bytes]:
        messages = []
        while True:
            if self._wanted < 0:
                end, size = _header_end(data)
                if end < 0:
                    break
                self._wanted = _length(data[:end])
                data = data[size:]
                if self._wanted < 0 or self._wanted > self._limit:
                    # There is no telling where the next message starts: hand out what is there as one bad message.
                    self._wanted = -1
                    messages.append(data[:256] or b"?")
                    data = b""
                    break
            if len(data) < self._wanted:
                break
            messages.append(data[: self._wanted])
            data = data[self._wanted :]
            self._wanted = -1
        self._buffer = data
        return messages

    def pending(self) -> bytes:
        """What is left when the stream ends: a last line without a newline is still a message."""
        rest, self._buffer = self._buffer, b""
        return b"" if rest.isspace() or self.framing == "content-length" or self._skipping else rest

    def frame(self, message: bytes) -> bytes:
        """One message as the peer wants it."""
        if self.framing == "content-length":
            return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
        return message + b"\n"


def _header_end(data: bytes) -> tuple[int, int]:
    """Where the header block ends, and where the message begins."""
    for mark in (b"\r\n\r\n", b"\n\n"):
        end = data.find(mark, 0, _MAX_HEADER)
        if end >= 0:
            return end, end + len(mark)
    return (0, len(data)) if len(data) > _MAX_HEADER else (-1, 0)


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
