"""Where a new task begins: in the process that made it while that has room, else in the order of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redstart import Server, TaskLimits
from redstart.store.memory import MemoryStore
from redstart.store.tasks import OVERDUE, StoredTask
from support import MODERN, Peer
from tasks.clients import started, until, with_peer
from tasks.shaky import ShakyStore


class Watched(MemoryStore):
    """Sets `looked` when a worker has found nothing to claim."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()
        self.claimed: list[str] = []

    async def task_claim(self, queues: Sequence[str], limit: int, hold: float) -> list[StoredTask]:
        found = await super().task_claim(queues, limit, hold)
        if OVERDUE not in queues:
            self.claimed += [task.id for task in found]
            if not found:
                self.looked.set()
        return found


class Crowd:
    """Tools that say how many of them run, and wait until they are let go."""

    def __init__(self, server: Server) -> None:
        self.began: list[int] = []
        self.running = self.most = 0
        self.go = asyncio.Event()
        server.tool(task="optional")(self.work)

    async def work(self, number: int) -> int:
        self.began.append(number)
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go.wait()
        self.running -= 1
        return number


def test_a_new_task_begins_without_a_claim_in_a_process_that_has_room() -> None:
    store = Watched()
    server = Server("begin", store=store)
    crowd = Crowd(server)

    async def script(peer: Peer) -> None:
        await peer.call("tools/list")  # starts the server
        await store.looked.wait()
        ids = [(await started(peer, "work", number=number))["taskId"] for number in range(3)]
        crowd.go.set()
        assert [(await until(peer, id))["status"] for id in ids] == ["completed"] * 3
        assert store.claimed == []

    with_peer(MODERN, script, server=server)


def test_new_tasks_that_find_no_room_begin_in_their_order_when_there_is_some() -> None:
    store = Watched()
    server = Server("begin", store=store, tasks=TaskLimits(concurrent=2))
    crowd = Crowd(server)

    async def script(peer: Peer) -> None:
        await peer.call("tools/list")  # starts the server
        await store.looked.wait()
        tasks = [await started(peer, "work", number=number) for number in range(4)]
        tasks += await asyncio.gather(*(started(peer, "work", number=number) for number in range(4, 8)))
        assert crowd.most == 2
        crowd.go.set()
        for task in tasks:
            assert (await until(peer, task["taskId"]))["status"] == "completed"
        assert crowd.most == 2
        assert crowd.began == list(range(8))

    with_peer(MODERN, script, server=server)


def test_a_task_that_could_not_be_kept_takes_no_room() -> None:
    failing = True
    store = ShakyStore(lambda name: "before" if failing and name == "task_insert" else "")
    server = Server("begin", store=store, tasks=TaskLimits(concurrent=1))
    crowd = Crowd(server)

    async def script(peer: Peer) -> None:
        nonlocal failing
        crowd.go.set()
        for number in range(3):
            answer = await peer.call("tools/call", name="work", arguments={"number": number})
            assert "away" in answer["error"]["message"]
        failing = False
        task = await started(peer, "work", number=7)
        assert (await until(peer, task["taskId"]))["status"] == "completed"
        assert crowd.began == [7]

    with_peer(MODERN, script, server=server)


def test_a_task_that_is_made_while_the_server_stops_is_left_to_others() -> None:
    inserted, go = asyncio.Event(), asyncio.Event()

    class Slow(Watched):
        async def task_insert(
            self, task: StoredTask, queue: str, max_owned: int, max_all: int, delay: float = 0.0
        ) -> bool:
            kept = await super().task_insert(task, queue, max_owned, max_all, delay)
            inserted.set()
            await go.wait()
            return kept

    store = Slow()
    server = Server("begin", store=store)
    crowd = Crowd(server)

    async def script(peer: Peer) -> None:
        await peer.call("tools/list")
        await store.looked.wait()
        starting = asyncio.create_task(started(peer, "work", number=1))
        await inserted.wait()
        assert await MemoryStore.task_claim(store, ["begin/work"], 1, 5) == []  # it is ours already
        await server.runtime.stop()
        go.set()
        id = (await starting)["taskId"]
        [waits] = await MemoryStore.task_claim(store, ["begin/work"], 1, 5)
        assert (waits.id, crowd.began) == (id, [])

    with_peer(MODERN, script, server=server)
