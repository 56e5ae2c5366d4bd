"""The contract between a connection and the transport that carries its messages.

A transport moves whole messages and does not read them. It tells its inbox what happens: a message has come, a message
could not be taken, one request will not be answered, notifications will not come any more, no request will be answered
any more. A new way to reach a server is a new subclass.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from redstart.client.errors import ClientError, InvalidReply
from redstart.wire import jsonrpc

_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]++|[\]}]++', re.DOTALL)
"""Strings, also one without an end, and brackets in a row. No byte is read twice."""
MAX_TOKENS: Final = 1_000_000
"""So many are looked at to find out whose answer a message is that is nested too deeply: less than a second."""
TOO_DEEP: Final = "The answer of the server is nested too deeply to be read"


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

    def waiting(self) -> AbstractContextManager[None]:
        """In the block a human is waited for: no clock of a request runs."""


def messages_in(data: bytes) -> Sequence[bytes | Raw]:
    """The messages of a batch, which one handshake revision allows, or else the one message.

    InvalidReply: it is nested too deeply, and too large to find them.
    """
    if data.lstrip()[:1] != b"[":
        return [data]
    try:
        return jsonrpc.decode_batch(data)
    except RecursionError:  # because of one of them: the others can be read
        return [data[begin:end] for begin, end in islice(_nested(data), jsonrpc.MAX_BATCH)]


def refuse_deep(inbox: Inbox, data: bytes | Raw) -> bool:
    """End the request whose answer is nested too deeply to be decoded: nothing else would end it. False: no answer.

    InvalidReply: it is too large to find out whose answer it is.
    """
    kept, last, message = [], 0, bytes(data)
    for begin, end in _nested(message):
        kept.append(message[last:begin])
        last = end
    try:
        envelope = jsonrpc.decode_envelope(b"{}".join([*kept, message[last:] or b"}"]))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    if envelope.method is not UNSET or type(envelope.id) is not int:
        return False
    inbox.fail(envelope.id, InvalidReply(TOO_DEEP))
    return True


def _nested(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the objects and lists are that stand directly in the outermost one; one without an end goes to the end."""
    depth = begin = 0
    for count, token in enumerate(_TOKENS.finditer(data)):
        if count == MAX_TOKENS:
            raise InvalidReply(TOO_DEEP)
        at, end = token.span()
        if data[at] in b"[{":
            if depth < 2 <= depth + end - at:
                begin = at + 1 - depth
            depth += end - at
        elif data[at] in b"]}":
            if depth - (end - at) < 2 <= depth:
                yield begin, at + depth - 1
            depth -= end - at
    if depth >= 2:
        yield begin, len(data)


class Transport(ABC):
    """One way to reach a server."""

    http = False
    """Whether headers are sent with the messages."""

    restartable = False
    """Whether a server that ended because of the first request may be started once more."""

    sign_ins = 0
    """How often somebody has signed in. What was kept before was perhaps for somebody else."""

    identity: str | None = None
    """What names the server to other clients of this process: its URL, or its command."""

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
