"""stdio: one peer on two pipes.

fd 1 belongs to the protocol alone: it is duplicated at the start and then points at stderr, so that neither
`print` nor C code nor a child process can corrupt the stream. Spec: /specification/2026-07-28/basic/transports/stdio.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from redstart.protocol.framing import MAX_MESSAGE, Framer, Framing
from redstart.transports.loop import new_loop

if TYPE_CHECKING:
    from redstart.server.server import Server

GRACE: Final = 0.5
"""Seconds that open calls have after the end of the input: enough for `echo … | server`, never a hang."""
HIGH_WATER: Final = 1 << 20
READ_SIZE: Final = 1 << 18
HINT: Final = (
    "{name} speaks MCP on stdin and stdout: it is meant to be started by an MCP client.\n"
    "To try it here, type one JSON-RPC message a line; Ctrl-D ends it. For a network server: redstart run … --http\n"
)


def run_stdio(
    server: Server,
    *,
    framing: Framing = "auto",
    stdin: Any = None,
    stdout: Any = None,
    max_message_bytes: int = MAX_MESSAGE,
) -> None:
    """Serve on this process's stdin and stdout, or on the given binary files, until the input ends."""
    _fill_standard_descriptors()
    loop = new_loop()
    try:
        asyncio.set_event_loop(loop)
        framer = Framer(framing, max_message_bytes)
        loop.run_until_complete(serve_stdio(server, framer, stdin=stdin, stdout=stdout))
    except KeyboardInterrupt:
        pass  # before the loop took over the signal
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def serve_stdio(server: Server, framer: Framer, *, stdin: Any = None, stdout: Any = None) -> None:
    """Serve one peer on two files until it goes away or a signal comes."""
    own = stdin is None and stdout is None
    if own and sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(HINT.format(name=server.name))
    source = _private_input() if stdin is None else stdin.fileno()
    sink = _private_output() if stdout is None else stdout.fileno()
    peer = StdioPeer(server, framer, sink)
    server.host.hub.peers.add(peer)
    await server.host.start()
    if own:
        peer.watch_signals()
    try:
        await peer.read_from(source)
        await peer.finish()
    finally:
        server.host.hub.peers.discard(peer)
        await server.host.stop()


def _fill_standard_descriptors() -> None:
    """Let 0, 1 and 2 be open: else the loop's own descriptors would land there, and libuv aborts on those."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


_guarded: list[int] = []


def guard_stdout() -> None:
    """Take fd 1 for the protocol before any code of the application runs."""
    _guarded.append(_private_output())


def _private_input() -> int:
    """stdin under a descriptor of our own; 0 then leads nowhere, so that a child cannot take our messages."""
    if sys.stdin is None:  # closed before Python started: whatever 0 is now, it is no input
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


class StdioPeer:
    """The client at the other end of the pipes."""

    def __init__(self, server: Server, framer: Framer, sink: int) -> None:
        self._host = server.host
        self._framer = framer
        self._loop = asyncio.get_running_loop()
        self.link = server.host.link()
        self.channel = Outlet(sink, self._loop, framer.frame, self.link.calls)
        self._ended: asyncio.Future[None] = self._loop.create_future()

    # ------------------------------------------------------------ reading

    async def read_from(self, source: int) -> None:
        """Read until the input ends, or `end` is called."""
        mode = os.fstat(source).st_mode
        # Other devices (/dev/null) and regular files are always ready, and no selector takes them.
        pollable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(source)
        if pollable and sys.platform != "win32":
            pipe = os.fdopen(source, "rb", buffering=0)
            transport, _ = await self._loop.connect_read_pipe(lambda: _Reader(self), pipe)
            self.channel.reader = transport
            await self._ended
            transport.close()
            return
        self.channel.reader = _BlockingReader(self, source, self._loop)
        await self._ended

    def feed(self, data: bytes) -> None:
        """Bytes from the peer; what they lead to goes out in one write where it can."""
        channel, host = self.channel, self._host
        channel.held = True
        for message in self._framer.feed(data):
            host.feed(self, message)
        channel.release()

    def end(self) -> None:
        """No more input."""
        rest = self._framer.pending()
        if rest:
            self._host.feed(self, rest)
        if not self._ended.done():
            self._ended.set_result(None)

    def watch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.add_signal_handler(number, self._stop)

    def _stop(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # ------------------------------------------------------------ the end

    async def finish(self) -> None:
        """Let open calls answer for a moment, then stop them and send what is left."""
        self._host.hub.close()  # listeners would wait for ever: they get their last message now
        deadline = self._loop.time() + GRACE
        runs = [call.run for call in self.link.calls.values() if call.run is not None]
        if runs:
            await asyncio.wait(runs, timeout=GRACE)
        self._host.drop(self.link)
        await self.channel.flushed(within=max(0.0, deadline - self._loop.time()) + GRACE)


class _Reader(asyncio.Protocol):
    """The loop's view of a StdioPeer."""

    __slots__ = ("_peer", "data_received")

    def __init__(self, peer: StdioPeer) -> None:
        self._peer = peer
        self.data_received = peer.feed  # type: ignore[method-assign]

    def eof_received(self) -> None:
        self._peer.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer.end()


class _BlockingReader:
    """For regular files and Windows, where a read cannot be waited for: a thread, one chunk ahead at most."""

    def __init__(self, peer: StdioPeer, source: int, loop: asyncio.AbstractEventLoop) -> None:
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
                self._loop.call_soon_threadsafe(self._take, data)
            self._loop.call_soon_threadsafe(self._peer.end)

    def _read(self) -> bytes:
        self._go.wait()
        try:
            return os.read(self._source, READ_SIZE)
        except OSError:  # a directory, a terminal that went away: no input
            return b""

    def _take(self, data: bytes) -> None:
        self._peer.feed(data)
        if not self._paused:
            self._go.set()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._go.set()


class Outlet:
    """What goes out: one write per batch, at once when nobody else is about to answer, and never without bound.

    A peer that does not read fills the buffer; over HIGH_WATER we stop reading from it until it has caught up.
    """

    def __init__(
        self, fd: int, loop: asyncio.AbstractEventLoop, frame: Callable[[bytes], bytes], calls: dict[Any, Any]
    ) -> None:
        self._fd = fd
        self._loop = loop
        self._frame = frame
        self._calls = calls
        self._parts: list[bytes] = []
        self._rest: bytes | memoryview = b""  # the part of a write that the peer has not taken yet
        self._size = 0
        self._scheduled = self._blocked = self._paused = self.broken = False
        self.held = False  # while more is about to be sent
        self._drained: asyncio.Event | None = None
        self.reader: Any = None
        mode = os.fstat(fd).st_mode
        self._polls = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        if self._polls:
            os.set_blocking(fd, False)

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
        if self._parts and not self._scheduled and not self._blocked:
            self._flush()

    async def drain(self) -> None:
        if self._blocked and not self.broken:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def _flush(self) -> None:
        self._scheduled = False
        parts, data = self._parts, self._rest
        try:
            while data or parts:
                if not data:
                    data = b"".join(parts) if len(parts) > 1 else parts[0]
                    parts.clear()
                if self.broken:
                    return
                written = os.write(self._fd, data)
                # A view, because a copy for each 64 KiB that a pipe takes would be quadratic.
                data = memoryview(data)[written:] if written < len(data) else b""
        except BlockingIOError:
            self._rest = data
            self._wait_writable()
        except OSError:  # the peer closed its end: nothing can be told to anybody any more
            self.broken = True
            self._rest = b""
            self._unblock()
        else:
            if self._blocked:
                self._rest = b""
                self._unblock()

    def _wait_writable(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._size = 0
            self._loop.add_writer(self._fd, self._flush)
            self._grow(len(self._rest))

    def _grow(self, size: int) -> None:
        """More is waiting for a peer that does not read: beyond HIGH_WATER it is not listened to either."""
        self._size += size
        if self._size > HIGH_WATER and self.reader is not None and not self._paused:
            self._paused = True
            self.reader.pause_reading()

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._fd)
        if self._paused:
            self._paused = False
            with suppress(RuntimeError):
                self.reader.resume_reading()
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    async def flushed(self, *, within: float) -> None:
        """Everything is out, or the peer has had its time."""
        if not self._blocked:
            self._flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.drain()
