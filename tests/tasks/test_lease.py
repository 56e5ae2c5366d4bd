"""The lease of a task ends with its run: what the run has left is kept for its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from redstart import Context, Server, TaskLimits
from redstart.store.memory import MemoryStore
from redstart.store.tasks import StoredTask
from support import MODERN, Peer, run
from tasks.clients import EXTENSION, started, until


class SlowStore(MemoryStore):
    """A store that is slow to say that it has written, and counts the renewals of leases."""

    def __init__(self) -> None:
        super().__init__()
        self.renewals = 0

    async def task_write(self, task: StoredTask, queue: str, delay: float) -> bool:
        written = await super().task_write(task, queue, delay)
        await asyncio.sleep(0.2)
        return written

    async def task_hold(self, tasks: Sequence[StoredTask], hold: float) -> list[str]:
        self.renewals += 1
        return await super().task_hold(tasks, hold)


@pytest.mark.parametrize("tool", ["ends", "asks"])
def test_a_renewal_does_not_reach_a_task_whose_run_is_over(tool: str) -> None:
    store = SlowStore()
    server = Server("lease", store=store, tasks=TaskLimits(lease=0.12))

    @server.tool(task="required")
    async def ends() -> str:
        return "done"

    @server.tool(task="required")
    async def asks(ctx: Context) -> str:
        return await ctx.ask("Your name?", str)

    async def script() -> None:
        peer = await Peer(server, MODERN, capabilities={"elicitation": {}, **EXTENSION}).open()
        id = (await started(peer, tool))["taskId"]
        await until(peer, id, "completed", "input_required")
        before = store.renewals
        while store.renewals < before + 30:  # five times the lease
            await asyncio.sleep(0.01)
            running = await started(peer, "ends")
        assert (await until(peer, id, "completed", "input_required", "failed"))["status"] != "failed"
        await until(peer, running["taskId"])
        await peer.close()

    run(script(), server)
