"""What goes out on a pipe: the messages on stdout, batched and bounded, and the lines on stderr.

Neither waits for a client that does not read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO, Final, Protocol, TextIO, cast

HIGH_WATER: Final = 1 << 20
KEPT: Final = 1 << 15
"""The bytes of stderr that are kept for a client that does not read it."""


class PausableReader(Protocol):
    """What is read from the peer."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class PipeWriter:
    """What goes out: one write per batch, at once when nobody else is about to answer, and never without bound.

    A peer that does not read fills the buffer; over HIGH_WATER we stop reading from it until it has caught up.
    """

    def __init__(
        self, sink: int | BinaryIO, loop: asyncio.AbstractEventLoop, frame: Callable[[bytes], bytes], calls: Sized
    ) -> None:
        self._file = None if isinstance(sink, int) else sink
        self._fd = sink if isinstance(sink, int) else -1
        self._write = partial(os.write, sink) if isinstance(sink, int) else sink.write
        self._loop = loop
        self._frame = frame
        self._calls = calls
        self._parts: list[bytes] = []
        self.rest: bytes | memoryview = b""  # the part of a write that the peer has not taken yet
        self._size = 0
        self._scheduled = self._blocked = self.broken = False
        self.held = False  # while more is about to be sent
        self._emptied: asyncio.Event | None = None
        self.reader: PausableReader | None = None
        self._paused: PausableReader | None = None
        mode = os.fstat(self._fd).st_mode if self._file is None else 0
        self._polls = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        if self._polls:
            os.set_blocking(self._fd, False)

    def send(self, data: bytes) -> None:
        data = self._frame(data)
        self._parts.append(data)
        if self._scheduled or self.held or self._blocked:
            if self._blocked:
                self._grow(len(data))
            return
        if self._calls:  # others are about to answer: let them join this write
            self._scheduled = True
            self._loop.call_soon(self._flush)
        else:
            self._flush()

    def release(self) -> None:
        """Nobody adds to this write any more."""
        self.held = False
        if self._parts and not self._scheduled:
            self._flush()

    async def ready(self) -> None:
        if self._blocked:
            if self._emptied is None:
                self._emptied = asyncio.Event()
            await self._emptied.wait()

    def _flush(self) -> None:
        self._scheduled = False
        parts, data = self._parts, self.rest
        try:
            while data or parts:
                if not data:
                    data = b"".join(parts)
                    parts.clear()
                if self.broken:
                    return
                written = self._write(data)
                # A view, because a copy for each 64 KiB that a pipe takes would be quadratic.
                data = memoryview(data)[written:] if written < len(data) else b""
            if self._file is not None:
                self._file.flush()
        except BlockingIOError:
            self.rest = data
            self._wait_writable()
            return
        except OSError:  # the peer closed its end: nothing can be told to anybody any more
            self.broken = True
        if self._blocked:
            self.rest = b""
            self._unblock()

    def _wait_writable(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self._fd, self._flush)
            self._grow(len(self.rest))

    def _grow(self, size: int) -> None:
        """More is waiting for a peer that does not read: beyond HIGH_WATER it is not listened to either."""
        self._size += size
        if self._size > HIGH_WATER and self.reader is not None and self._paused is None:
            self._paused = self.reader
            self.reader.pause_reading()

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._size = 0
            self._loop.remove_writer(self._fd)
        if self._paused is not None:
            with suppress(RuntimeError):
                self._paused.resume_reading()
            self._paused = None
        if self._emptied is not None:
            self._emptied.set()
            self._emptied = None

    def close(self) -> None:
        """Let go of a descriptor that is shared with somebody: it blocks again, as they expect."""
        self._unblock()
        self.broken = True
        if self._polls:
            os.set_blocking(self._fd, True)
        if self._file is None:
            os.close(self._fd)

    async def flushed(self, *, within: float) -> None:
        """Everything is out, or the peer has had its time."""
        if not self._blocked:
            self._flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.ready()


# ---------------------------------------------------------------- stderr

# `print` leads there too while we serve on stdout. What does not fit into the pipe is kept, up to a limit, and goes out
# with the next line that is written; what is beyond the limit is counted, and the count is written. Linux only:
# elsewhere a pipe cannot be opened a second time, and to make it non-blocking for all who share it would break them.


class Stderr:
    """A text file in place of `sys.stderr`. All but writing is left to the file that it stands for."""

    def __init__(self, file: TextIO, fd: int) -> None:
        self._file = file
        self._fd = fd
        self._lock = threading.Lock()
        self._kept = bytearray()
        self._lost = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        if self._fd < 0:
            return self._file.write(text)
        data = text.encode(self._file.encoding, "backslashreplace")
        with self._lock:
            self._send()
            if len(self._kept) > KEPT:
                self._lost += 1
            else:
                self._kept += data
                self._send()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._lock:
            self._send()

    def _send(self) -> None:
        with suppress(OSError):  # nobody reads it now, or nobody ever will
            while self._kept or self._lost:
                if not self._kept:
                    self._kept += b"redstart: nobody has read stderr, so %d messages were left out\n" % self._lost
                    self._lost = 0
                del self._kept[: os.write(self._fd, self._kept)]

    def end(self) -> None:
        """From now on, be the file itself."""
        self.flush()
        with self._lock:
            os.close(self._fd)
            self._fd = -1


@contextmanager
def never_waiting() -> Iterator[None]:
    """Meanwhile `sys.stderr`, `print` and log handlers that write to stderr do not wait for a reader."""
    fd = _opened_again()
    if fd < 0:
        yield
        return
    before = sys.stdout, sys.stderr
    quick = cast(TextIO, Stderr(sys.stderr, fd))
    handlers = [
        handler
        for logger in (logging.getLogger(), logging.getLogger("redstart"))
        for handler in logger.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]
    for handler in handlers:
        handler.setStream(quick)
    sys.stdout = sys.stderr = quick
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for handler in handlers:
            handler.setStream(before[1])
        cast(Stderr, quick).end()


def _opened_again() -> int:
    """A descriptor of our own for the pipe at fd 2, so that only we do not wait for it; -1 where there is none."""
    try:
        if sys.stdout is not None and sys.stderr.fileno() == 2 and stat.S_ISFIFO(os.fstat(2).st_mode):
            return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    except (AttributeError, OSError, ValueError):  # sys.stderr is None, is in memory, or is closed
        pass
    return -1
