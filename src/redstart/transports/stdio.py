"""stdio: one peer on two pipes.

fd 1 belongs to the protocol alone: it is duplicated at the start and then points at stderr, so that neither
`print` nor C code nor a child process can corrupt the stream. Spec: /specification/2026-07-28/basic/transports/stdio.
"""

from __future__ import annotations

import asyncio
import io
import os
import select
import stat
import sys
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from redstart.protocol.framing import Framer
from redstart.transports.loop import on_signals, run_loop, run_server
from redstart.transports.options import StdioOptions
from redstart.transports.pipe import PipeWriter, never_waiting

if TYPE_CHECKING:
    from redstart.server.runtime import Hosted

GRACE: Final = 0.5
"""Seconds that open calls have after the end of the input: enough for the answers to `echo … | server`."""
PATIENCE: Final = 10.0
"""Seconds after which a client has gone that has closed our input and has taken no byte of our output meanwhile."""
READ_SIZE: Final = 1 << 18
HINT: Final = (
    "{name} is waiting for an MCP client on stdin: it is meant to be started by one. Ctrl-D ends it.\n"
    "To try it, leave it and use: redstart list …, redstart call …; to serve a port: redstart run … --http\n"
)


def run_stdio(server: Hosted, options: StdioOptions) -> None:
    """Serve on this process's stdin and stdout, or on the given binary files, until the input ends."""
    _fill_standard_descriptors()
    if options["stdin"] is None and options["stdout"] is None:
        run_server(server, serve_stdio(server, options))
    else:
        run_loop(serve_stdio(server, options))


async def serve_stdio(server: Hosted, options: StdioOptions) -> None:
    """Serve one peer on two files until it goes away or a signal comes."""
    stdin, stdout = options["stdin"], options["stdout"]
    own = stdin is None and stdout is None
    if own and sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(HINT.format(name=server.runtime.name))
    source = _private_input() if stdin is None else _shared(stdin)
    sink = _private_output() if stdout is None else _shared(stdout)
    with never_waiting() if own else nullcontext():
        framer = Framer(options["framing"], options["max_message_bytes"])
        await _serve(server, framer, source, sink, own=own, shared=stdout is not None)


async def _serve(
    server: Hosted, framer: Framer, source: int | BinaryIO, sink: int | BinaryIO, *, own: bool, shared: bool
) -> None:
    peer = StdioPeer(server, framer, sink)
    server.runtime.hub.join(peer)
    try:
        await server.runtime.start()
        with on_signals(lambda number: peer.stop()) if own else nullcontext():
            await peer.read_from(source)
            await peer.finish()
    finally:
        server.runtime.hub.leave(peer)
        server.runtime.drop(peer.link)
        if shared:
            peer.channel.close()
        await server.runtime.stop()


def _fill_standard_descriptors() -> None:
    """Let 0, 1 and 2 be open: else the loop's own descriptors would land there, and libuv aborts on those."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


def _shared(file: object) -> int | BinaryIO:
    """A descriptor of our own for a given file, which stays open when we end; without one, the file itself."""
    if isinstance(file, io.TextIOBase):
        file = getattr(file, "buffer", None)
        if file is None:
            raise TypeError("stdin= and stdout= are binary files: sys.stdin.buffer, a socket's makefile, io.BytesIO")
    binary = cast(BinaryIO, file)
    try:
        return os.dup(binary.fileno())
    except (AttributeError, io.UnsupportedOperation):
        return binary


def _can_be_polled(fd: int) -> bool:
    """Whether a loop can wait for input. Other devices (/dev/null) and regular files are always ready."""
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd))


_guarded: list[int] = []


def guard_stdout() -> None:
    """Take fd 1 for the protocol before any code of the application runs."""
    _guarded.append(_private_output())


def _private_input() -> int:
    """stdin under a descriptor of our own; 0 then leads nowhere, so that a child cannot take our messages."""
    if sys.stdin is None:  # closed before Python started: whatever 0 is now, it is not an input
        return os.open(os.devnull, os.O_RDONLY)
    own = os.dup(0)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    return own


def _private_output() -> int:
    """stdout under a descriptor of our own; 1 then leads to stderr. What `print` has buffered goes there too."""
    if _guarded:
        return _guarded.pop()
    if sys.stdout is None:
        return os.open(os.devnull, os.O_WRONLY)
    own = os.dup(1)
    other = 2 if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)
    os.dup2(other, 1)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    return own


class StdioPeer(asyncio.Protocol):
    """The client at the other end of the pipes."""

    def __init__(self, server: Hosted, framer: Framer, sink: int | BinaryIO) -> None:
        self._runtime = server.runtime
        self._user = server.runtime.local_user()
        self._framer = framer
        self._loop = asyncio.get_running_loop()
        self.link = server.runtime.link()
        self.channel = PipeWriter(sink, self._loop, framer.frame, self.link.calls)
        self._ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------ reading

    async def read_from(self, source: int | BinaryIO) -> None:
        """Read a descriptor, or a file without one, until the input ends or `end` is called."""
        if not isinstance(source, int) or not _can_be_polled(source):
            file = os.fdopen(source, "rb", buffering=0) if isinstance(source, int) else source
            self.channel.reader = _BlockingReader(self, file, self._loop)
            await self._ended
            return
        self._source = source
        pipe = os.fdopen(source, "rb", buffering=0)
        transport, _ = await self._loop.connect_read_pipe(lambda: self, pipe)
        try:
            await self._ended
        finally:
            if self.channel.reader is not None:
                self.channel.reader.resume_reading()
            transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Before the first bytes: they may ask for more than a client that does not read is given.
        self.channel.reader = _Watched(self, cast(asyncio.ReadTransport, transport), self._source)

    def feed(self, data: bytes) -> None:
        """Bytes from the peer; what they lead to goes out in one write where it can."""
        channel, runtime, user = self.channel, self._runtime, self._user
        channel.held = True
        for message in self._framer.feed(data):
            runtime.feed(self, message, user)
        channel.release()

    data_received = feed

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def end(self) -> None:
        """No more input."""
        rest = self._framer.pending()
        if rest:
            self._runtime.feed(self, rest, self._user)
        self.stop()

    def stop(self) -> None:
        """Serve no longer, although there may be more input."""
        if not self._ended.done():
            self._ended.set_result(None)

    # ------------------------------------------------------------ the end

    async def finish(self) -> None:
        """Let open calls answer for a moment, and send what is left."""
        self._runtime.hub.close()  # listeners would wait for ever: they get their last message now
        deadline = self._loop.time() + GRACE
        runs = [call.run for call in self.link.calls.values() if call.run is not None]
        if runs:
            await asyncio.wait(runs, timeout=GRACE)
        await self.channel.flushed(within=max(0.0, deadline - self._loop.time()) + GRACE)


class _Watched:
    """A pipe. Its end is noticed also while we do not read it because the client does not take our output."""

    def __init__(self, peer: StdioPeer, transport: asyncio.ReadTransport, fd: int) -> None:
        self._peer = peer
        self._transport = transport
        self._poll = select.poll()
        self._poll.register(fd, 0)  # only what is always told: the other end was closed
        self._timer: asyncio.TimerHandle | None = None

    def pause_reading(self) -> None:
        self._transport.pause_reading()
        self._look(None)

    def resume_reading(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._transport.resume_reading()

    def _look(self, last: object) -> None:
        rest = self._peer.channel.rest
        if rest is last and self._poll.poll(0):
            self._peer.stop()
        else:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._look, rest)


class _BlockingReader:
    """For regular files and Windows, where a read cannot be waited for: a thread, one chunk ahead at most."""

    def __init__(self, peer: StdioPeer, source: BinaryIO | io.FileIO, loop: asyncio.AbstractEventLoop) -> None:
        self._peer = peer
        self._loop = loop
        self._source = source
        self._go = threading.Event()
        self._paused = False
        self._go.set()
        threading.Thread(target=self._run, name="redstart-stdin", daemon=True).start()

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while data := self._read():
                self._go.clear()
                self._loop.call_soon_threadsafe(self._deliver, data)
            self._loop.call_soon_threadsafe(self._peer.end)
        if isinstance(self._source, io.FileIO):  # a descriptor of our own, then
            self._source.close()

    def _read(self) -> bytes:
        self._go.wait()
        try:
            data: bytes = getattr(self._source, "read1", self._source.read)(READ_SIZE)
            return data
        except (OSError, ValueError):  # a directory, a terminal that went away: no input
            return b""

    def _deliver(self, data: bytes) -> None:
        self._peer.feed(data)
        if not self._paused:
            self._go.set()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._go.set()
