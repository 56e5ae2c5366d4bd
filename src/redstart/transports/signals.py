"""Signals under somebody else's ASGI server.

uvicorn and others wait for open requests before they tell an application that they stop, so an event stream that never
ends by itself would hold up the end. Here the application hears of SIGTERM and Ctrl-C itself; the handler of the server
that was there before is called as ever.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Calls `on_stop` on the loop when the process is told to stop."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def install(self) -> None:
        """Listen, where a handler is there to go on with: a signal that would end the process still ends it."""
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is not threading.main_thread():
            return  # Python lets only the main thread set a handler
        for number in _NUMBERS:
            before = signal.getsignal(number)
            if callable(before) and number not in self._before:
                self._before[number] = before
                signal.signal(number, self._handle)

    def remove(self) -> None:
        """Listen no longer; where somebody has put a handler in front of ours since, ours only hands on."""
        for number, before in tuple(self._before.items()):
            if signal.getsignal(number) == self._handle:
                signal.signal(number, before)
                del self._before[number]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_stop)
        self._before[number](number, frame)
