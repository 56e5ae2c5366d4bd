"""uvicorn's server with our end: who waits for a person is told at once, who works has time, nobody is silent.

uvicorn itself waits for every request alike, and what then still runs it cuts off without an answer.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from redstart.server.runtime import GRACE
from redstart.transports.http import Endpoint

TICK: Final = 0.02
PATIENCE: Final = 0.5
"""Seconds of a stop that need no words."""


class UvicornServer(uvicorn.Server):  # type: ignore[misc, unused-ignore]
    """Serves one Endpoint until a signal comes, or `should_exit` is set."""

    def __init__(self, config: Any, app: Endpoint, said: str) -> None:
        super().__init__(config)
        self._app = app
        self._drain = app.drain
        self._said = said
        self._serving: asyncio.Task[Any] | None = None
        self._watched = False
        """Whether somebody has pressed Ctrl-C, and waits."""

    async def serve(self, sockets: Any = None) -> None:
        self._serving = asyncio.current_task()
        await super().serve(sockets)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        sys.stderr.write(self._said)  # now, because whoever reads it may send a signal
        sys.stderr.flush()

    async def on_tick(self, counter: int) -> bool:
        # Ten times a second; many connections are looked after more seldom.
        if len(self.server_state.connections) < 100 or counter % 10 == 0:
            self._sweep()
        return bool(await super().on_tick(counter))

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in tuple(self.server_state.connections):
            connection.sweep(now)  # type: ignore[union-attr, unused-ignore]

    # ------------------------------------------------------------ signals

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again when all is done, and the status would not be 0.
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._watched = sig == signal.SIGINT
        super().handle_exit(sig, frame)
        if self.force_exit and self._serving is not None:  # a second Ctrl-C
            self._serving.cancel()

    # ------------------------------------------------------------ the end

    async def shutdown(self, sockets: Any = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        try:
            self._app.end_waits()
            if not await self._drained() and self._app.end_calls():
                await self._quiet(GRACE)
        finally:
            self._cut_off()
        await self._app.runtime.stop()

    async def _drained(self) -> bool:
        """Whether open requests finish in the time they have; a person who waits for that is told so."""
        first = min(self._drain, PATIENCE)
        if await self._quiet(first):
            return True
        if self._watched and self._drain > first:
            sys.stderr.write(f"stopping: open requests have {self._drain:g} s to finish; Ctrl-C ends them now\n")
            sys.stderr.flush()
        return await self._quiet(self._drain - first)

    async def _quiet(self, seconds: float) -> bool:
        """Whether every request comes to its end within so many seconds."""
        loop, state = asyncio.get_running_loop(), self.server_state
        deadline = loop.time() + seconds
        swept = loop.time()
        while state.tasks or state.connections:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(TICK)
            if loop.time() - swept > PATIENCE:  # a client that does not read must not delay the end
                swept = loop.time()
                self._sweep()
        return True

    def _cut_off(self) -> None:
        """End what is still there: routes that go on, and clients that do not read what they are told."""
        for task in tuple(self.server_state.tasks):
            task.cancel()
        for connection in tuple(self.server_state.connections):
            connection.cut_off()  # type: ignore[union-attr, unused-ignore]
