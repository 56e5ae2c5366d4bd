"""A client in the same process that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redstart import Server
from redstart.transports.memory import MemoryPeer
from support import modern, run


def test_a_client_that_goes_away_ends_its_calls() -> None:
    async def test() -> None:
        began, ended = asyncio.Event(), asyncio.Event()
        server = Server("memory")

        @server.tool
        async def wait() -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        answers: list[bytes] = []
        peer = MemoryPeer(server, answers.append)
        peer.send(modern(1, "tools/call", {"name": "wait", "arguments": {}}))
        await began.wait()
        await peer.close()
        await ended.wait()
        assert answers == []
        assert not server.runtime.hub.peers
        await server.runtime.stop()

    run(test())


def test_a_client_that_goes_away_while_the_server_starts_is_not_served() -> None:
    async def test() -> None:
        gate, calls = asyncio.Event(), []

        @asynccontextmanager
        async def lifespan(server: Server) -> AsyncIterator[None]:
            await gate.wait()
            yield

        server = Server("memory", lifespan=lifespan)

        @server.tool
        async def note() -> str:
            calls.append("note")
            return ""

        peer = MemoryPeer(server, lambda data: None)
        peer.send(modern(1, "tools/call", {"name": "note", "arguments": {}}))
        closing = asyncio.create_task(peer.close())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not closing.done()
        gate.set()
        await closing
        for _ in range(3):
            await asyncio.sleep(0)
        assert calls == []
        assert not server.runtime.hub.peers
        await server.runtime.stop()

    run(test())
