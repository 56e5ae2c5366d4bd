"""Tasks where something goes wrong: clients that vanish, stores that fail in the middle, workers that stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from redstart import Server
from store.engines import running
from support import MODERN, Peer, run
from tasks.clients import EXTENSION, started, until


@pytest.mark.parametrize("engine", ["sqlite", "redis", "postgresql"])
def test_a_server_that_was_stopped_runs_on_another_loop(engine: str, tmp_path: Path) -> None:
    def twice(url: str) -> None:
        server = Server("twice", store=url)

        @server.tool(task="optional")
        async def double(number: int) -> int:
            return 2 * number

        async def session() -> None:
            peer = await Peer(server, MODERN, capabilities=EXTENSION).open()

            async def one(number: int) -> None:
                task = await until(peer, (await started(peer, "double", number=number))["taskId"])
                assert task["result"]["structuredContent"] == {"result": 2 * number}

            await asyncio.gather(*map(one, range(80)))  # more than there are connections: some have to wait
            await peer.close()

        for _ in range(2):
            run(session(), server)

    if engine == "sqlite":
        twice(f"sqlite:///{tmp_path}/store.db")
        return
    with running(engine) as place:
        twice(place.url)
