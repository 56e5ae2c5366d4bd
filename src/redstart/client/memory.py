"""Messages to a Server object in this process: no socket, no subprocess, the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from redstart.client.transport import Inbox, Outgoing


class MemoryTransport:
    """A redstart Server in the same process and event loop."""

    http = False
    restartable = False

    def __init__(self, server: Any) -> None:
        self._server = server
        self._peer: Any = None

    async def open(self, inbox: Inbox) -> None:
        from redstart.transports.memory import MemoryPeer

        self._peer = MemoryPeer(self._server, on_message=inbox.receive)

    async def ready(self) -> None:
        return

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        self._peer.send(message.data)
        return None

    def cancel(self, id: int, *, modern: bool) -> bool:
        return False

    def listen(self, headers: Mapping[str, str]) -> None:
        return

    async def listening(self) -> None:
        return

    def older(self) -> None:
        return None

    async def close(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()
