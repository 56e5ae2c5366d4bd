"""`redstart run … --http --workers N`: several processes that serve one port, and one that looks after them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final

from redstart.cli.output import FAILED, INTERRUPTED, OK, USAGE
from redstart.observe.metrics import Figures, added, counters
from redstart.transports.admin import ask_figures, bind_admin, serving_figures
from redstart.transports.listen import bind
from redstart.transports.loop import on_signals, say

LISTENER: Final = "REDSTART_LISTENER"
"""The environment variable that tells a process of ours the descriptor of its socket."""
ADMIN: Final = "REDSTART_ADMIN_LISTENER"
"""The same for the socket on which it tells its figures."""
PAUSE, MAX_PAUSE, STEADY = 0.1, 5.0, 10.0
"""Seconds before a process that died is started again, at first and at most; after how long it counts as steady."""
TOLD: Final = (OK, -signal.SIGTERM, -signal.SIGINT, INTERRUPTED, USAGE)
"""How a process may end that was told to. With USAGE it could not start, and with INTERRUPTED it had not: so it had
nothing to finish."""


def given_listener() -> socket.socket | None:
    """The socket that a supervisor has given to this process, which then also ends with its supervisor."""
    descriptor = os.environ.pop(LISTENER, None)
    if descriptor is None:
        return None
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    listener = socket.socket(fileno=int(descriptor))
    listener.setblocking(False)
    return listener


def given_admin_listener() -> socket.socket | None:
    """The socket on which a supervisor asks this process for its figures."""
    descriptor = os.environ.pop(ADMIN, None)
    return None if descriptor is None else socket.socket(fileno=int(descriptor))


def _end_with_supervisor() -> None:
    """Our input is a pipe of the supervisor: its end is the end of the supervisor."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def listeners(host: str, port: int, count: int) -> list[socket.socket]:
    """The sockets of so many processes that serve one port."""
    alone = bind(host, port)  # an error if somebody has this port, even if they would share it
    if sys.platform != "linux":
        return [alone] * count
    port = alone.getsockname()[1]  # Linux shares connections out among the sockets of one port
    alone.close()
    return [bind(host, port, shared=True) for _ in range(count)]


class WorkerFigures:
    """The figures of the processes that serve one after the other on one socket. What one has counted stays counted."""

    def __init__(self) -> None:
        self.listener = bind("127.0.0.1", 0)
        self._port: int = self.listener.getsockname()[1]
        self._last: Figures = {}
        """Of the process that runs, when it was last asked."""
        self._ended: Figures = {}

    async def ask(self) -> Figures:
        with suppress(OSError, TimeoutError):
            self._last = await ask_figures(self._port) | {"redstart_workers": 1}
            return added(self._ended, self._last)
        return added(self._ended, counters(self._last))

    def process_ended(self) -> None:
        self._ended = added(self._ended, counters(self._last))
        self._last = {}


class Supervisor:
    """Keeps as many processes running as there are sockets."""

    def __init__(self, command: Sequence[str], sockets: Sequence[socket.socket], admin: tuple[str, int] | None) -> None:
        self._command = command
        self._sockets = sockets
        self._admin = admin
        """Where the sum of the figures of all processes is served."""
        self._figures = [WorkerFigures() if admin is not None else None for _ in sockets]
        self._running: set[Process] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Supervise until SIGTERM or Ctrl-C, and until all processes have ended; the exit status."""
        async with AsyncExitStack() as stack:
            if self._admin is not None:
                host, port = self._admin
                await stack.enter_async_context(serving_figures(bind_admin(host, port), host, self._collect))
            with on_signals(self._stop):
                ended = await asyncio.gather(*map(self._keep, self._sockets, self._figures))
        return OK if all(status in TOLD for status in ended) else FAILED

    async def _collect(self) -> Figures:
        return added(*await asyncio.gather(*(figures.ask() for figures in self._figures if figures is not None)))

    def _stop(self, number: int) -> None:
        self._stopping.set()
        for listener in self._sockets:  # as long as one of us has it open, clients would wait in its queue
            listener.close()
        for process in self._running:
            _tell(process, number)

    async def _keep(self, listener: socket.socket, figures: WorkerFigures | None) -> int:
        """Run a process for this socket, and another one when it dies."""
        pause, clock = PAUSE, asyncio.get_running_loop().time
        while not self._stopping.is_set():
            began, process = clock(), await self._start(listener, figures)
            status = await process.wait()
            if figures is not None:
                figures.process_ended()
            self._running.discard(process)
            if self._stopping.is_set():
                return status
            pause = PAUSE if clock() - began > STEADY else min(2 * pause, MAX_PAUSE)
            say(f"redstart: process {process.pid} ended with {status}; the next starts in {pause:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
        return OK

    async def _start(self, listener: socket.socket, figures: WorkerFigures | None) -> Process:
        passed = {LISTENER: listener.fileno()}
        if figures is not None:
            passed[ADMIN] = figures.listener.fileno()
        environment = os.environ | {name: str(descriptor) for name, descriptor in passed.items()}
        process = await create_subprocess_exec(
            *self._command, stdin=PIPE, pass_fds=[*passed.values()], env=environment, start_new_session=True
        )  # in a session of its own: Ctrl-C comes to us, and from us to the process
        self._running.add(process)
        if self._stopping.is_set():
            _tell(process, signal.SIGTERM)
        return process


def _tell(process: Process, number: int) -> None:
    """Send a signal. `process.send_signal` may read the exit status, and asyncio then reports 255 (Python 3.11)."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
