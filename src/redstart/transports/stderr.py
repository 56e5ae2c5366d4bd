"""stderr that never waits: a client that does not read it must not stop the server.

`print` leads there too while we serve on stdout. What does not fit into the pipe is kept, up to a limit, and goes out
with the next line that is written; what is beyond the limit is counted, and said. Linux only: elsewhere a pipe cannot
be opened a second time, and to make it non-blocking for all who share it would break them.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

KEPT: Final = 1 << 15


class Stderr:
    """A text file in place of `sys.stderr`. All but writing is left to the file that it stands for."""

    def __init__(self, file: Any, fd: int) -> None:
        self._file = file
        self._fd = fd
        self._lock = threading.Lock()
        self._kept = bytearray()
        self._lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        if self._fd < 0:
            return self._file.write(text)  # type: ignore[no-any-return]
        data = text.encode(self._file.encoding or "utf-8", "backslashreplace")
        with self._lock:
            self._send()
            if len(self._kept) > KEPT:
                self._lost += 1
            else:
                self._kept += data
                self._send()
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._lock:
            self._send()

    def _send(self) -> None:
        try:
            while self._kept or self._lost:
                if not self._kept:
                    self._kept += b"redstart: nobody has read stderr, so %d messages were left out\n" % self._lost
                    self._lost = 0
                del self._kept[: os.write(self._fd, self._kept)]
        except BlockingIOError:
            pass
        except OSError:  # nobody will ever read it
            self._kept.clear()

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
    quick: Any = Stderr(sys.stderr, fd)
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
        quick.end()


def _opened_again() -> int:
    """A descriptor of our own for the pipe at fd 2, so that only we do not wait for it; -1 where there is none."""
    try:
        if sys.stdout is not None and sys.stderr is not None and stat.S_ISFIFO(os.fstat(2).st_mode):
            return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        pass
    return -1
