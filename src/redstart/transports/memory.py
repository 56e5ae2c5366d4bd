"""A peer in the same process: messages are handed over as bytes, so nothing is skipped that a pipe would do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redstart.server.server import Server


class _Inbox:
    """The client's end: a channel that calls a function."""

    __slots__ = ("on_message",)

    def __init__(self, on_message: Callable[[bytes], None]) -> None:
        self.on_message: Callable[[bytes], None] | None = on_message

    def send(self, data: bytes) -> None:
        if self.on_message is not None:
            self.on_message(data)

    async def drain(self) -> None:
        """Nothing to wait for: the message is already there."""


class MemoryPeer:
    """One client of `server` in this process. `on_message` gets each message that the server sends."""

    def __init__(self, server: Server, on_message: Callable[[bytes], None], principal: Any = None) -> None:
        self._host = server.host
        self._principal = principal
        self._waiting: list[bytes] = []
        self._starting: asyncio.Task[None] | None = None
        self.channel = _Inbox(on_message)
        self.link = self._host.link()
        self._host.hub.peers.add(self)

    def send(self, data: bytes) -> None:
        """One message from the client to the server; after `close` there is none."""
        if self.channel.on_message is None:
            return
        if self._host.started:
            self._host.feed(self, data, self._principal)
            return
        self._waiting.append(data)
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        await self._host.start()
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._host.feed(self, data, self._principal)

    async def close(self) -> None:
        """The client has gone."""
        self.channel.on_message = None
        if self._starting is not None:
            await self._starting
        self._host.hub.peers.discard(self)
        self._host.drop(self.link)
