"""A peer in the same process: messages are handed over as bytes, so nothing is skipped that a pipe would do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from redstart.features.errors import SettingsError, log
from redstart.protocol.call import Call, Cancel, Refusal
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError

if TYPE_CHECKING:
    from redstart.server.runtime import Hosted


class _Mailbox:
    """The client's end: a channel that calls a function."""

    __slots__ = ("on_message",)

    def __init__(self, on_message: Callable[[bytes], None]) -> None:
        self.on_message: Callable[[bytes], None] | None = on_message

    def send(self, data: bytes) -> None:
        if self.on_message is not None:
            self.on_message(data)

    async def ready(self) -> None:
        """There is nothing to wait for, because `send` has delivered the message."""


class MemoryPeer:
    """One client of `server` in this process. `on_message` gets each message that the server sends."""

    def __init__(self, server: Hosted, on_message: Callable[[bytes], None], principal: object = None) -> None:
        self._runtime = server.runtime
        self._principal = principal
        self._waiting: list[bytes] = []
        self._starting: asyncio.Task[None] | None = None
        self.channel = _Mailbox(on_message)
        self.link = self._runtime.link()
        self._runtime.hub.join(self)

    def send(self, data: bytes) -> None:
        """One message from the client to the server; after `close` there is none."""
        if self.channel.on_message is None:
            return
        if self._runtime.started:
            self._runtime.feed(self, data, self._principal)
            return
        self._waiting.append(data)
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        try:
            await self._runtime.start()
        except (Exception, asyncio.CancelledError) as error:
            if self._starting is not None and self._starting.cancelling():
                raise  # somebody ends this task; where nobody does, the lifespan itself was cancelled
            self._starting = None  # the next message tries again
            self._refuse(self._refusal(error))
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._runtime.feed(self, data, self._principal)

    def _refusal(self, error: BaseException) -> ProtocolError:
        if isinstance(error, SettingsError):
            log.error("the server did not start: %s", error)
            reason = str(error)
        else:
            reason = self._runtime.errors.text(error, "the start of the server")
        return ProtocolError(INTERNAL_ERROR, f"The server did not start: {reason}")

    def _refuse(self, refusal: ProtocolError) -> None:
        """Answer the messages that wait with the reason why the server did not start."""
        messages, self._waiting = self._waiting, []
        link = self._runtime.link()  # the peer's own must not remember a handshake that was refused
        for event in (event for data in messages for event in link.receive(data)):
            if isinstance(event, Call):
                answer = link.fail(event, refusal)
            else:
                answer = event.data if isinstance(event, Refusal | Cancel) else None
            if answer is not None:
                self.channel.send(answer)

    async def close(self) -> None:
        """The client has gone."""
        self.channel.on_message = None
        self._waiting.clear()  # what it sent before the server had started is not begun any more
        if self._starting is not None:
            await self._starting
        self._runtime.hub.leave(self)
        self._runtime.drop(self.link)
