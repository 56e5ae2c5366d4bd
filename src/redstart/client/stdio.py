"""A server as a subprocess: one message a line on its stdin and stdout, its stderr passed on and remembered.

Built on `SubprocessProtocol`, not on streams: no line limit, and its transport can be closed without private names.
Spec: /specification/2026-07-28/basic/transports/stdio (shutdown: close stdin, wait, SIGTERM, SIGKILL).
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, cast

from redstart.client.errors import ClientError, ConnectionClosed
from redstart.client.transport import Inbox, Outgoing

log = logging.getLogger("redstart.client")

GRACE = 3.0
"""Seconds that a server gets to end by itself, and again after SIGTERM."""

LAST_LINES = 20
"""How much of the server's stderr an error repeats."""

_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_SETTLE = 0.5
"""Seconds that a grandchild may hold a pipe of a process that has ended."""


async def _within(seconds: float, event: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


class StdioTransport(asyncio.SubprocessProtocol):
    """One subprocess. `stderr` is `"inherit"` (passed on to ours) or `"capture"` (only remembered)."""

    http = False
    restartable = True

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: str = "inherit",
    ) -> None:
        self._command = [os.fspath(part) for part in command]
        self._env = None if env is None else {**os.environ, **env}
        self._cwd = cwd
        self._echo = stderr == "inherit"

    async def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._held: list[bytes] = []
        self._error_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._error_rest = ""
        self._error_text = codecs.getincrementaldecoder("utf-8")("replace")
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._pipe_ends = {1: asyncio.Event(), 2: asyncio.Event()}
        self._ending: asyncio.Task[None] | None = None
        self._closing = False
        try:
            self._process, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *self._command, env=self._env, cwd=self._cwd, start_new_session=os.name == "posix"
            )
        except (OSError, ValueError) as error:
            raise ClientError(f"cannot start {' '.join(self._command)!r}: {error}") from error
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    async def ready(self) -> None:
        await self._writable.wait()

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        if self._ending is None and not self._stdin.is_closing():
            self._stdin.write(message.data + b"\n")
        return None

    def cancel(self, id: int, *, modern: bool) -> bool:
        return False

    def listen(self, headers: Mapping[str, str]) -> None:
        return

    async def listening(self) -> None:
        return

    def older(self) -> None:
        return None

    async def close(self) -> None:
        if getattr(self, "_process", None) is None:
            return
        self._closing = True
        self._writable.set()
        self._stdin.close()
        try:
            for end in (None, signal.SIGTERM, _KILL):
                if end is not None:
                    self._signal(end)
                if await _within(GRACE, self._exited):
                    break
            await _within(_SETTLE, self._pipe_ends[2])
        finally:  # also where this task was cancelled: no server outlives its client
            if not self._exited.is_set():
                self._signal(_KILL)
            if self._ending is not None:
                self._ending.cancel()
            self._process.close()
        await _within(_SETTLE, self._closed)

    def _signal(self, number: int) -> None:
        """Send to the process group, since `uv run …` and its like have the server as a child."""
        with contextlib.suppress(ProcessLookupError):
            if os.name == "posix":
                os.killpg(self._process.get_pid(), number)
            else:
                self._process.send_signal(number)

    # ---------------------------------------------------------------- what asyncio tells us

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._keep_errors(self._error_text.decode(data))
            return
        if b"\n" not in data:
            self._held.append(data)
            return
        *lines, rest = b"".join((*self._held, data)).split(b"\n")
        self._held = [rest] if rest else []
        for line in lines:
            if not line.isspace() and line:
                self._inbox.receive(line)

    def _keep_errors(self, text: str) -> None:
        if self._echo:
            with contextlib.suppress(ValueError, OSError):  # a closed stderr is no reason to fail
                sys.stderr.write(text)
                sys.stderr.flush()
        *lines, self._error_rest = (self._error_rest + text).split("\n")
        self._error_lines.extend(line.rstrip("\r") for line in lines)
        self._error_rest = self._error_rest[-10_000:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._pipe_ends:
            self._pipe_ends[fd].set()
        if fd != 2:
            self._end()

    def process_exited(self) -> None:
        self._exited.set()
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self) -> None:
        if self._ending is None and not self._closing:
            self._writable.set()
            self._ending = asyncio.get_running_loop().create_task(self._report_end())

    async def _report_end(self) -> None:
        """Wait for the rest of the output and the exit status, each for a bounded time, and tell the inbox."""
        waits = ((self._pipe_ends[1], _SETTLE), (self._exited, GRACE), (self._pipe_ends[2], _SETTLE))
        for event, seconds in waits:
            await _within(seconds, event)
        status = self._process.get_returncode()
        name = " ".join(self._command)
        what = f"the server {name!r} " + ("ended" if status is not None else "closed its pipes")
        lines = [*self._error_lines, *([self._error_rest] if self._error_rest else [])]
        self._inbox.lost(ConnectionClosed(what, exit_status=status, stderr=lines[-LAST_LINES:]))
