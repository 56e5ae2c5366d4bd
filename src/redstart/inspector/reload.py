"""Loads the target again when its files change, and swaps the new server in. Clients stay connected.

The new server is built beside the running one, in a thread: calls go on meanwhile. Whatever fails, an import or the
start of a lifespan, leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from redstart.adopt.watching import watching
from redstart.inspector.differences import LISTS, Diff
from redstart.inspector.events import ReloadEvent
from redstart.inspector.failure import Failure, failure_of
from redstart.inspector.host import Host
from redstart.inspector.modules import Project, Stamp, differences
from redstart.server.server import Server

R = TypeVar("R")
STEP: Final = 10
DEBOUNCE: Final = 50
"""Milliseconds: see `watching`. The defaults of watchfiles would wait for up to 1,600."""


class Reloader:
    """Keeps a host at the newest state of its files. `load` makes the server; `place` is the file or module of it."""

    def __init__(self, host: Host, load: Callable[[], Server], place: str, server: Server | None) -> None:
        self._host = host
        self._load = load
        self.server = server
        """The server that is served; None if the target could not be loaded yet."""
        self._file = os.path.realpath(place) if place.endswith(".py") else None
        self._module = None if place.endswith(".py") else place
        self._project = Project({Path.cwd(), Path(place).resolve().parent if self._file else Path.cwd()})
        self._lock = asyncio.Lock()
        self._stamps: dict[str, Stamp] = {}
        self.events = 0
        self.last: ReloadEvent | None = None

    # ------------------------------------------------------------ watching

    @property
    def _files(self) -> set[str]:
        files = set(self._project.modules().values())
        return {*files, self._file} if self._file else files

    async def watch(self) -> None:
        """Load the target again after each change, until this is cancelled."""
        self._stamps = self._project.stamps(self._files)
        while True:
            folders = sorted({os.path.dirname(file) for file in self._files} or {os.getcwd()})
            paths = [Path(folder) for folder in folders]
            async with watching(paths, settle=STEP, within=DEBOUNCE, recursive=False, only=".py") as changed:
                while folders == sorted({os.path.dirname(file) for file in self._files} or {os.getcwd()}):
                    await changed.wait()
                    changed.clear()
                    await self.look()

    async def look(self) -> None:
        """Reload if a file of the project has changed; after an error, if any file beside them has."""
        now = self._project.stamps(self._files)
        files = differences(self._stamps, now)
        if files & self._files or (files and self._failed):
            await self.reload(files)
        else:
            self._stamps = now

    @property
    def _failed(self) -> bool:
        return self.server is None or (self.last is not None and self.last.error is not None)

    # ------------------------------------------------------------ reloading

    async def reload(self, files: Collection[str] = ()) -> ReloadEvent:
        """Load the target again now."""
        async with self._lock:
            began = time.perf_counter()
            self._stamps = self._project.stamps(self._files)  # what changes from now on is another change
            diffs, failure = dict.fromkeys(LISTS, Diff([], [], [])), None
            try:
                diffs = await self._swap(files)
            except Exception as error:
                failure = _failure(error)
            self._stamps = {**self._project.stamps(self._files), **self._stamps}
            ms = round((time.perf_counter() - began) * 1000, 3)
            self.last = ReloadEvent(ms=ms, files=_shown(files), error=failure, **diffs)  # type: ignore[arg-type]
            self.events += 1
            self._host.ring.add(self.last)
            return self.last

    async def _swap(self, files: Collection[str]) -> dict[str, Diff]:
        names = self._project.concerned(files, self._holds)
        with self._project.reloading(names, files):
            server = await _in_thread(self._load)
            diffs = await self._host.swap(server)
        self.server = server
        return diffs

    def _holds(self, module: ModuleType) -> bool:
        """Whether a module must be loaded again in any case: it is the target, or has the server in it."""
        if self.server is None or module.__name__ == self._module:
            return True
        if self._file is not None and os.path.realpath(module.__file__ or "") == self._file:
            return True
        return any(value is self.server for value in list(vars(module).values()))


def _shown(files: Collection[str]) -> list[str]:
    return sorted(os.path.relpath(file) for file in files)


async def _in_thread(work: Callable[[], R]) -> R:
    """The result of `work`, in a thread of its own that a process does not wait for when it ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def finish(act: Callable[..., None], value: object) -> None:
        if not done.done():
            act(value)

    def run() -> None:
        try:
            outcome: tuple[Callable[..., None], object] = done.set_result, work()
        except BaseException as error:
            wrapped = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            outcome = done.set_exception, wrapped
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, *outcome)

    threading.Thread(target=run, name="redstart-reload", daemon=True).start()
    return await done


def _failure(error: BaseException) -> Failure:
    """What is shown of an error. One of ours has its words; if it explains another, also the frames of that."""
    cause = error.__cause__ or error.__context__
    if error.__traceback__ is None or not _is_ours(error):
        return failure_of(error)
    if cause is None:  # the target cannot be served, and no line of it has failed
        return Failure(type(error).__qualname__, str(error), traceback=str(error))
    found = failure_of(cause)
    return Failure(found.type, found.text, found.id, found.place, found.frames, str(error))


def _is_ours(error: BaseException) -> bool:
    return sys.modules[type(error).__module__].__name__.startswith("redstart.")
