"""The event loop: uvloop where it is installed, unless REDSTART_LOOP=asyncio; and the run of a server in a new one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from redstart.execution.threads import on_loop
from redstart.features.errors import SettingsError
from redstart.server.runtime import Hosted
from redstart.wire.jsonrpc import ProtocolError

LEAVE: Final = 0.5
"""Seconds that tasks have to end after they were cancelled, when their loop ends."""


def say(line: str) -> None:
    """Write a line for whoever reads stderr. Nobody may be there any more: Ctrl-C ends the `tee` of `| tee log` too."""
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop of the fastest kind there is."""
    if os.environ.get("REDSTART_LOOP") != "asyncio":
        with suppress(ImportError):
            import uvloop

            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on a new loop to its end. SIGTERM and Ctrl-C before `work` has its own handler are an end, too."""
    if on_loop():
        work.close()
        raise RuntimeError(
            "server.run() makes an event loop of its own, and one runs here already: write await server.run_async(…)"
        )
    loop = new_loop()
    try:
        with suppress(KeyboardInterrupt), _sigterm_as_ctrl_c():
            loop.run_until_complete(work)
    finally:
        _end_tasks(loop)
        loop.close()


def run_server(server: Hosted, work: Coroutine[Any, Any, None]) -> None:
    """As `run_loop`, for the server of a process: an error that keeps it from starting ends the program with a text."""
    try:
        run_loop(work)
    except Exception as error:
        # SystemExit in a thread prints nothing, so the exception stays as it is there.
        if threading.current_thread() is not threading.main_thread():
            raise
        if isinstance(error, SettingsError):
            raise SystemExit(f"redstart: {error}") from error
        if isinstance(error, ProtocolError) and error.retry_after:  # StoreAway; a server without a store loads none
            raise SystemExit(f"redstart: {server.runtime.name} did not start: {_away(server, error)}") from None
        if error is not server.runtime.failure:
            raise
        from redstart.features.startup_errors import not_started

        raise SystemExit(f"redstart: {not_started(server.runtime.name, error)}") from error


def _away(server: Hosted, error: ProtocolError) -> str:
    """Which store does not answer, and what its library says: this is for the operator, and not for callers."""
    from redstart.store.open import shown_url

    store = server.runtime.options["store"]
    named = shown_url(store) if isinstance(store, str) else type(store).__name__
    why = str(error.__context__ or "") or getattr(error, "reason", str(error))  # a TimeoutError has no words
    return f"its store {named} is away: {' '.join(str(why).split())}"


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left: a loop that is closed logs an error for each task that has not ended."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        with suppress(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(tasks, timeout=LEAVE))


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Meanwhile SIGTERM raises KeyboardInterrupt, unless somebody handles it: by itself it would end the process within
    its lifespan, and process 1 of a container would not even hear of it."""
    free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ours = free and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def on_signals(act: Callable[[int], None]) -> Iterator[None]:
    """Meanwhile SIGTERM and Ctrl-C call `act` on the running loop. Outside of the main thread they cannot."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, act, number)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(number)
