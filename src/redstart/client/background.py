"""The background tasks of a connection: kept until they are done, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundTasks:
    """Tasks that this object holds. They do not belong to the task of a caller, so any task may end them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def start(self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Run `work` until it is done or `cancel` ends it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until all of them are done."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def cancel(self) -> None:
        """End all of them, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await self.wait()
