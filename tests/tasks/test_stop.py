"""A worker that stops while it claims: what it has claimed and not begun goes back into its queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from redstart import Server, TaskLimits
from redstart.store.memory import MemoryStore
from redstart.store.sqlite import SqliteStore
from redstart.store.tasks import OVERDUE, StoredTask
from support import Peer, run
from tasks.clients import EXTENSION, started, until


class Slow(MemoryStore):
    """A store whose answer to a claim takes its time on the way."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.claimed = asyncio.Event()

    async def task_claim(self, queues: Sequence[str], most: int, lease: float) -> list[StoredTask]:
        claimed = await super().task_claim(queues, most, lease)
        if claimed and OVERDUE not in queues:
            self.claimed.set()
            if self._seconds:
                await asyncio.sleep(self._seconds)
        return claimed


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("seconds", [0, 0.1])
def test_what_was_claimed_and_not_begun_goes_back(seconds: float, retries: int) -> None:
    async def main() -> None:
        begun: list[int] = []
        store = Slow(seconds)
        maker, server = Server("jobs", store=store, tasks=TaskLimits(concurrent=0)), Server("jobs", store=store)

        @maker.tool(task="optional", retries=retries)
        @server.tool(task="optional", retries=retries)
        async def work() -> None:
            begun.append(1)
            await asyncio.Event().wait()

        peer = await Peer(maker, capabilities=EXTENSION).open()
        await server.runtime.start()

        async def stop() -> None:
            await store.claimed.wait()
            await server.runtime.stop()

        stopping = asyncio.create_task(stop())
        id: Any = (await started(peer, "work"))["taskId"]
        await stopping
        await maker.runtime.stop()
        assert begun == []
        [again] = await MemoryStore.task_claim(store, ["jobs/work"], 1, 5)
        assert again.id == id

    run(main(), seconds=10)


def test_the_work_on_a_task_in_a_store_that_was_given_as_an_object_may_end(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(str(tmp_path / "tasks.db"))
        server = Server("jobs", store=store)
        began = asyncio.Event()

        @server.tool(task="optional")
        async def work() -> str:
            began.set()
            await asyncio.sleep(0.2)  # the work
            return "done"

        peer = await Peer(server, capabilities=EXTENSION).open()
        id: Any = (await started(peer, "work"))["taskId"]
        await began.wait()
        await server.runtime.stop()
        peer = await Peer(server, capabilities=EXTENSION).open()
        assert (await until(peer, id))["status"] == "completed"
        await server.runtime.stop()
        await store.close()

    run(main(), seconds=10)
