"""A client in the same process that can have many calls open, cancel them and see notifications."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redstart import Server
from redstart.transports.memory import MemoryPeer

R = TypeVar("R")
MODERN = "2026-07-28"
SECONDS = 30


class Peer:
    def __init__(self, server: Server, token: str | None = None) -> None:
        self.notices: list[dict[str, Any]] = []
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._memory = MemoryPeer(server, self._take)
        self._last = 0
        self._meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        if token is not None:
            self._meta["progressToken"] = token

    def _take(self, data: bytes) -> None:
        message = json.loads(data)
        if "id" in message and "method" not in message:
            self._open.pop(message["id"]).set_result(message)
        else:
            self.notices.append(message)

    def start(self, tool: str, **arguments: Any) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        self._last += 1
        answer = self._open[self._last] = asyncio.get_running_loop().create_future()
        params = {"name": tool, "arguments": arguments, "_meta": self._meta}
        self._send({"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params})
        return self._last, answer

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result; an error fails the test."""
        answer = await self.start(tool, **arguments)[1]
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        return "\n".join(block["text"] for block in result["content"])

    async def failure(self, tool: str, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        assert result.get("isError") is True, result
        return "\n".join(block["text"] for block in result["content"])

    def cancel(self, id: int) -> None:
        params = {"requestId": id, "_meta": self._meta}
        self._open.pop(id).cancel()
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        self._memory.send(json.dumps(message).encode())

    async def close(self) -> None:
        await self._memory.close()


def play(server: Server, script: Callable[[Peer], Awaitable[R]], token: str | None = None) -> R:
    """Run `script` with one client; the server is stopped afterwards."""

    async def run() -> R:
        peer = Peer(server, token)
        try:
            async with asyncio.timeout(SECONDS):
                return await script(peer)
        finally:
            await peer.close()
            await server.runtime.stop()

    return asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until `condition` holds; a bounded wait, because `play` is."""
    while not condition():
        await asyncio.sleep(0.001)  # for what another thread or process does there is no event
