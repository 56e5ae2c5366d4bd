"""The contract between a connection and the transport that carries its messages.

A transport moves whole messages and does not read them. It tells its inbox what happens: a message has come, a message
could not be taken, one request will not be answered, notifications will not come any more, no request will be answered
any more. A new way to reach a server is a new subclass.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from redstart.client.errors import ClientError


class Outgoing(Struct, frozen=True):
    """One message to send. Only requests have an `id`; only HTTP uses `headers`."""

    data: bytes
    method: str = ""
    id: int | None = None
    headers: Mapping[str, str] = {}
    modern: bool = False


class Inbox(Protocol):
    """What a transport reports to the connection. Every method returns at once."""

    def receive(self, data: bytes) -> None:
        """A message, or a batch of messages, has come."""

    def fail(self, id: int, error: Exception) -> None:
        """The request `id` will not be answered. Does nothing if it was answered already."""

    def fail_open(self, error: ClientError) -> None:
        """A message could not be taken. It may have been any answer: every request that is open now fails."""

    def lost(self, error: ClientError) -> None:
        """The server is gone: every open request fails, and every later one."""

    def notifications_ended(self, error: ClientError) -> None:
        """Notifications of the server will not come any more; requests may still be answered."""

    def is_open(self, id: int) -> bool:
        """Whether the request `id` still waits for its answer."""


class Transport(ABC):
    """One way to reach a server."""

    http = False
    """Whether headers are sent with the messages."""

    restartable = False
    """Whether a server that ended because of the first request may be started once more."""

    @abstractmethod
    async def open(self, inbox: Inbox) -> None:
        """Start the server, or prepare to reach it."""

    @abstractmethod
    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        """Send one message. `None` means that it is accepted; a future ends when it is."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection to the server, without raising."""

    async def ready(self) -> None:
        """Wait until the server has read enough of what was sent before."""
        return

    def cancel(self, id: int, *, modern: bool) -> bool:
        """Stop waiting for request `id`. The result says whether this already tells the server."""
        return False

    def listen(self, headers: Mapping[str, str]) -> None:
        """Open the stream of notifications, where that is a stream of its own."""
        return

    async def listening(self) -> None:
        """Wait until that stream is open, or is known not to exist."""
        return

    def older(self) -> Transport | None:
        """Another transport, for a server that does not know this one."""
        return None
