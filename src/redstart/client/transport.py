"""The contract between a connection and whatever carries its messages.

A transport moves whole messages and knows nothing of what they ask. It tells its inbox three things: a message came,
one request will never be answered, nothing will ever be answered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from redstart.client.errors import ClientError


class Outgoing(Struct, frozen=True):
    """One message to send. `id` is there for requests only; `headers` matter to HTTP only."""

    data: bytes
    method: str = ""
    id: int | None = None
    headers: Mapping[str, str] = {}
    modern: bool = False


class Inbox(Protocol):
    """What a transport may tell the connection; every method returns at once."""

    def receive(self, data: bytes) -> None:
        """A message (or a batch of them) has come."""

    def fail(self, id: int, error: Exception) -> None:
        """The request `id` will not be answered; nothing happens where it was answered already."""

    def lost(self, error: ClientError) -> None:
        """The server is gone: every open request fails, and every later one."""

    def deaf(self, error: ClientError) -> None:
        """What the server says unasked will not be heard any more; requests may still be answered."""

    def is_open(self, id: int) -> bool:
        """Whether the request `id` still waits for its answer."""


class Transport(Protocol):
    """One way to reach a server."""

    http: bool
    """Whether headers travel with the messages."""

    restartable: bool
    """Whether a server that died over the opening question may be started once more."""

    async def open(self, inbox: Inbox) -> None:
        """Start the server or get ready to reach it."""

    async def ready(self) -> None:
        """Wait while the server is not reading what was sent before."""

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        """Send one message; a future tells when it was accepted, `None` that it already is."""

    def cancel(self, id: int, *, modern: bool) -> bool:
        """Stop waiting for request `id`; whether that in itself tells the server."""

    def listen(self, headers: Mapping[str, str]) -> None:
        """Open the stream for what the server says unasked, where that is a stream of its own."""

    async def listening(self) -> None:
        """Wait until that stream is open, or is known not to exist."""

    def older(self) -> Transport | None:
        """Another transport for a server that does not know this one."""

    async def close(self) -> None:
        """Let the server go; never raises."""
