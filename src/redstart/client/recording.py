"""`Client(…, record="session.jsonl")`: every message of a session, one JSON object in a line.

`{"to": "server", "message": {…}}` and `{"to": "client", "message": {…}}`. `redstart.testing.replay` plays it again.
Headers are not written, so that a token is not in the file; what arguments and results hold is, so only its owner can
read it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from io import BufferedWriter
from pathlib import Path

from msgspec import Raw

from redstart.client.errors import ClientError
from redstart.client.transport import Inbox, Outgoing, Transport
from redstart.wire.jsonrpc import encode


class RecordedTransport(Transport):
    """A transport that writes down what another one carries."""

    def __init__(self, transport: Transport, path: str | os.PathLike[str]) -> None:
        self._transport = transport
        self._path = Path(path)
        self._file: BufferedWriter | None = None
        self.http = transport.http
        self.restartable = transport.restartable

    def write(self, to: str, data: bytes) -> None:
        if self._file is not None:
            self._file.write(encode({"to": to, "message": Raw(data)}) + b"\n")

    @property
    def sign_ins(self) -> int:  # type: ignore[override]  # it is only read
        return self._transport.sign_ins

    async def open(self, inbox: Inbox) -> None:
        if self._file is None:
            try:
                mode = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
                self._file = os.fdopen(os.open(self._path, mode, 0o600), "wb")  # once, and small
            except OSError as error:
                raise ClientError(f"record={str(self._path)!r}: {error.strerror}") from None
        await self._transport.open(_RecordedInbox(inbox, self))

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        self.write("server", message.data)
        return self._transport.send(message)

    async def close(self) -> None:
        await self._transport.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    async def ready(self) -> None:
        await self._transport.ready()

    def cancel(self, id: int, *, modern: bool) -> bool:
        return self._transport.cancel(id, modern=modern)

    def listen(self, headers: Mapping[str, str]) -> None:
        self._transport.listen(headers)

    async def listening(self) -> None:
        await self._transport.listening()

    def older(self) -> Transport | None:
        older = self._transport.older()
        return None if older is None else RecordedTransport(older, self._path)


class _RecordedInbox:
    """The inbox of a connection, with all that comes written down."""

    def __init__(self, inbox: Inbox, recorded: RecordedTransport) -> None:
        self._inbox = inbox
        self._recorded = recorded
        self.fail, self.fail_open, self.lost = inbox.fail, inbox.fail_open, inbox.lost
        self.notifications_ended, self.is_open, self.waiting = inbox.notifications_ended, inbox.is_open, inbox.waiting

    def receive(self, data: bytes) -> None:
        self._recorded.write("client", data)
        self._inbox.receive(data)
