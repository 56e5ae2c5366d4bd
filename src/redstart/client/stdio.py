"""A server as a subprocess: one message per line on its stdin and stdout, its stderr passed on and remembered.

Built on `SubprocessProtocol` and not on streams: a line may be as long as a message, and its transport can be closed.
Spec: /specification/2026-07-28/basic/transports/stdio (shutdown: close stdin, wait, SIGTERM, SIGKILL).
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final, cast

from redstart.client.errors import ClientError, ConnectionClosed, InvalidReply
from redstart.client.options import ClientOptions
from redstart.client.transport import Inbox, Outgoing, Transport
from redstart.protocol.framing import MAX_MESSAGE, OVERSIZED, Framer

GRACE = 3.0
"""Seconds in which a server may end by itself, and again after SIGTERM."""

LAST_LINES: Final = 20
"""How many lines of the server's stderr an error repeats."""

LAST_CHARACTERS: Final = 20_000
"""How much of the server's stderr is remembered."""

_PIPE: Final = 1 << 16
"""Bytes that a pipe holds."""

_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_SETTLE = 0.5
"""Seconds in which the pipes of a process that has ended must close. A child of it may hold them open."""

_KILLED: Final = 5.0
"""Seconds in which a process that was killed must have ended: more than it takes, also on a busy machine."""


async def _within(seconds: float, event: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


class StdioTransport(Transport, asyncio.SubprocessProtocol):
    """One subprocess. With stderr="inherit" its stderr is also passed on to ours."""

    restartable = True

    def __init__(self, command: Sequence[str], options: ClientOptions) -> None:
        self._command = [os.fspath(part) for part in command]
        self._name = f"the server {' '.join(self._command)!r}"
        self.identity = "\0".join(self._command)
        self._env = None if options["env"] is None else {**os.environ, **options["env"]}
        self._cwd = options["cwd"]
        self._echo = options["stderr"] == "inherit"
        self._process: asyncio.SubprocessTransport | None = None

    async def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._lines = Framer("newline", MAX_MESSAGE)
        self._stderr = ""
        self._decode_stderr = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._reporting: asyncio.Task[None] | None = None
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

    def send(self, message: Outgoing) -> None:
        if self._reporting is None and not self._stdin.is_closing():
            self._stdin.write(message.data + b"\n")

    async def close(self) -> None:
        process = self._process
        if process is None:
            return
        self._closing = True
        self._writable.set()
        self._stdin.close()
        try:
            if not await _within(GRACE, self._exited):
                _signal(process, signal.SIGTERM)
            if await _within(GRACE, self._exited):
                await _within(_SETTLE, self._closed)
        finally:  # also if this task is cancelled: a server must not outlive its client
            if not self._exited.is_set():
                _signal(process, _KILL)
            if self._reporting is not None:
                self._reporting.cancel()
            process.close()
            await _within(_KILLED, self._closed)

    # ---------------------------------------------------------------- called by asyncio

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._remember_stderr(self._decode_stderr(data))
            return
        self._take_stderr()
        for line in self._lines.feed(data):
            if line is OVERSIZED:
                self._inbox.fail_open(InvalidReply(f"{self._name} sent a message of more than {MAX_MESSAGE} bytes"))
            else:
                self._inbox.receive(line)

    def _take_stderr(self) -> None:
        """Take what the server wrote to stderr before the message that has come: it is in the pipe already."""
        pipe = self._process and self._process.get_pipe_transport(2)
        file = pipe and not pipe.is_closing() and pipe.get_extra_info("pipe")
        if file and os.name == "posix":  # uvloop does not tell the file, and on Windows a read may wait
            with contextlib.suppress(OSError):  # mostly there is nothing
                if data := os.read(file.fileno(), _PIPE):
                    self._remember_stderr(self._decode_stderr(data))

    def _remember_stderr(self, text: str) -> None:
        self._stderr = (self._stderr + text)[-LAST_CHARACTERS:]
        if self._echo:
            with contextlib.suppress(ValueError, OSError):  # our own stderr may be closed
                sys.stderr.write(text)
                sys.stderr.flush()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
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
        if self._reporting is None and not self._closing:
            self._writable.set()
            self._reporting = asyncio.get_running_loop().create_task(self._report_end())

    async def _report_end(self) -> None:
        """Wait for the exit status and the rest of the output, each for a bounded time, and tell the inbox."""
        await _within(GRACE, self._exited)
        await _within(_SETTLE, self._closed)
        status = None if self._process is None else self._process.get_returncode()
        ended = "closed its pipes" if status is None else "ended"
        last = self._stderr.splitlines()[-LAST_LINES:]
        self._inbox.lost(ConnectionClosed(f"{self._name} {ended}", exit_status=status, stderr=last))


def _signal(process: asyncio.SubprocessTransport, number: int) -> None:
    """Signal the whole process group: with `uv run …` and similar commands the server is a child of the process."""
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.get_pid(), number)
        else:
            process.send_signal(number)
