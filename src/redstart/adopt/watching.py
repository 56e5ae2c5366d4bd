"""Tells when something in some folders may have changed.

With watchfiles the operating system reports changes. Without it every second counts as a change. Both run in a
thread, which ends with the block that started it. The interpreter waits for that thread at its own end, because a
thread that returns from watchfiles into an interpreter that is being taken down aborts the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from redstart.features.errors import log

POLL: float = 1.0
"""Seconds between two reports, without watchfiles."""
SETTLE: Final = 60
"""Milliseconds without a further change after which what was written counts as complete."""


class _Stop(threading.Event):
    """Set when the block has ended, or when the interpreter ends without that."""

    def is_set(self) -> bool:
        return super().is_set() or not threading.main_thread().is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(timeout) or self.is_set()


@asynccontextmanager
async def watching(
    folders: Sequence[Path],
    *,
    settle: int = SETTLE,
    within: int = 10 * SETTLE,
    recursive: bool = True,
    only: str = "",
) -> AsyncIterator[asyncio.Event]:
    """An event that is set when something below `folders` may have changed; they need not exist yet.

    It is set after `settle` milliseconds without a further change, but at most `within` milliseconds after the first.
    Only files whose names end with `only` count.
    """
    loop, changed, stop = asyncio.get_running_loop(), asyncio.Event(), _Stop()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(changed.set)
        except RuntimeError:  # the loop is closed
            stop.set()

    options: dict[str, object] = {"step": settle, "debounce": within, "recursive": recursive}
    if only:
        options["watch_filter"] = lambda _, file: file.endswith(only)
    thread = threading.Thread(target=_watch, args=(folders, stop, tell, options), name="redstart-watching")
    thread.start()
    try:
        yield changed
    finally:
        stop.set()


def _watch(folders: Sequence[Path], stop: threading.Event, tell: Callable[[], None], given: dict[str, object]) -> None:
    """The thread: report once at the start, because something may have changed before, and then at each change."""
    while not stop.is_set():
        there = _identities(folders)  # taken before the first report, so that later changes are found below
        tell()
        try:
            for _ in _hints(folders, there, stop, given):
                tell()
        except FileNotFoundError:  # a folder was removed while its watch began
            stop.wait(POLL)
        except Exception:
            log.exception("watching %s failed; looking each second instead", ", ".join(map(str, folders)))
            for _ in _polls(stop):
                tell()


def _hints(
    folders: Sequence[Path], there: dict[str, int], stop: threading.Event, given: dict[str, object]
) -> Iterator[None]:
    """One item for each possible change; ends when the folders themselves were removed, added or replaced."""
    try:
        from watchfiles import watch
    except ImportError:
        yield from _polls(stop)
        return
    if not there:
        while not stop.wait(POLL) and not _identities(folders):
            pass
        return
    options: dict[str, object] = {"stop_event": stop, **given, "raise_interrupt": False}
    # A change between the first comparison and the start of the watch is found at the first time-out.
    first = True
    for changes in watch(*there, yield_on_timeout=True, rust_timeout=int(POLL * 1000), **options):
        if stop.is_set() or _identities(folders) != there:
            return
        if changes or first:
            first = False
            yield


def _polls(stop: threading.Event) -> Iterator[None]:
    while not stop.wait(POLL):
        yield


def _identities(folders: Sequence[Path]) -> dict[str, int]:
    """The folders that exist, with their inodes, because a new folder may have an old name."""
    identities = {}
    for folder in folders:
        try:
            identities[str(folder)] = os.stat(folder).st_ino
        except OSError:
            continue
    return identities
