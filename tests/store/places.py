"""An empty store of each engine for a test, and ways to open it several times and to make its engine fail."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from redstart.store.open import Store, open_store
from store import engines

NAMES = ("memory", "sqlite", "redis", "postgresql")
PATIENCE = 20.0


class Place:
    """Where a store is. Each `open` is as another process would do it."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url

    def open(self) -> Store:
        return open_store(self.url)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Store]:
        """A store that is closed at the end."""
        store = self.open()
        try:
            yield store
        finally:
            await store.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """A time in which the engine does not answer."""
        raise NotImplementedError


class MemoryPlace(Place):
    """One store for all, because memory is not shared."""

    def __init__(self) -> None:
        super().__init__("memory", "memory://")
        self._store = super().open()

    def open(self) -> Store:
        return self._store

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Store]:
        yield self._store


class SqlitePlace(Place):
    def __init__(self, path: Path) -> None:
        super().__init__("sqlite", f"sqlite:///{path}")
        self._path = path

    @contextmanager
    def away(self) -> Iterator[None]:
        holder = sqlite3.connect(self._path, isolation_level=None, timeout=PATIENCE)
        holder.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            holder.close()


class ServerPlace(Place):
    def __init__(self, name: str, engine: engines.Engine) -> None:
        super().__init__(name, engine.url)
        self._engine = engine

    @contextmanager
    def away(self) -> Iterator[None]:
        self._engine.kill()
        try:
            yield
        finally:
            self._engine.start()


async def eventually(check: Callable[[], Awaitable[object]], within: float = PATIENCE) -> None:
    """Ask again and again until the answer is true: for what depends on the clock of an engine."""
    ends = time.monotonic() + within
    while not await check():
        assert time.monotonic() < ends, f"not true within {within} s"
        await asyncio.sleep(0.01)
