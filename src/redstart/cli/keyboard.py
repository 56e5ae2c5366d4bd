"""A person at the terminal: lines that are typed, while the event loop goes on.

Without a thread, so that Ctrl-C ends a command that waits for a line. Prompts go to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Final

from redstart.cli.output import is_terminal

MAX_LINE: Final = 1 << 16


class Keyboard:
    """The lines that are typed at stdin, one after the other."""

    def __init__(self) -> None:
        self._typed = b""
        self.lock = asyncio.Lock()
        """Held while a question is asked, because several questions of one round must not mix."""

    @property
    def is_there(self) -> bool:
        """Whether somebody can be asked: they type at stdin, and see what is written to stderr."""
        return is_terminal(sys.stdin) and is_terminal(sys.stderr)

    async def line(self, prompt: str) -> str | None:
        """What is typed after the prompt; None at the end of the input (Ctrl-D)."""
        sys.stderr.write(prompt)
        sys.stderr.flush()
        while b"\n" not in self._typed:
            more = await self._read()
            if not more:
                sys.stderr.write("\n")
                rest, self._typed = self._typed, b""
                return rest.decode("utf-8", "replace") if rest else None
            self._typed += more
        first, _, self._typed = self._typed.partition(b"\n")
        return first.decode("utf-8", "replace").rstrip("\r")

    async def _read(self) -> bytes:
        if sys.platform == "win32":
            return await asyncio.to_thread(os.read, 0, MAX_LINE)
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            with contextlib.suppress(OSError, ValueError):
                loop.remove_reader(descriptor)
        return os.read(descriptor, MAX_LINE)
