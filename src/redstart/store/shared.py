"""The contract of shared state: keys that expire, topics that wake, short logs, rate limits.

Data is in the store; the bus only wakes readers, so a lost message costs time, never data. Values are bytes: JSON if
redstart writes them, never pickle. The owner of a value is part of its key: see `scoped`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256
from math import inf
from typing import Final, ParamSpec, Protocol, TypeVar

from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError

log = logging.getLogger("redstart")
P = ParamSpec("P")
T = TypeVar("T")

AGAIN: Final = 0.5
"""Seconds after which a call is tried again when the store was away."""
MAX_MESSAGE: Final = 4096
"""Bytes of a message on the bus. What is larger is kept under a key or in a log, and the message names that."""
MAX_KEY: Final = 512
"""Bytes of a key in an engine. A longer one is replaced by its hash."""
RETRY_AFTER: Final = 2
"""Seconds after which a caller may try again when the store was away."""


class StoreAway(ProtocolError):
    """The engine of the store does not answer. The process lives, and the next call tries again.

    Over HTTP this is 503 with Retry-After, else a JSON-RPC error.
    """

    retry_after = RETRY_AFTER

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(INTERNAL_ERROR, f"The store of this server is away: {reason}. Try again in a few seconds.")


async def patiently(call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call of the store returns, as soon as the store is there. For tasks: no client waits."""
    while True:
        try:
            return await call(*args, **kwargs)
        except StoreAway as error:
            log.warning("tasks wait: %s", error)
            await asyncio.sleep(AGAIN)


class Messages(Protocol):
    """An iterator of topics and their messages. A reader that was cancelled while it waited may read on."""

    def __aiter__(self) -> Messages: ...
    async def __anext__(self) -> tuple[str, bytes]: ...
    async def aclose(self) -> None: ...


class SharedState(Protocol):
    """The state that all processes of an application share. Each method is atomic."""

    async def kv_get(self, key: str) -> bytes | None:
        """The value, or None if there is none or it has expired."""

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        """Keep a value for `ttl` seconds. With `nx` an existing value is kept, and the result is False.

        With `durable` it returns after the value is on disk, so that a crash does not lose it.
        """

    async def kv_take(self, key: str) -> bytes | None:
        """Remove the value and return it. If several callers take it at once, one of them gets it."""

    async def kv_delete(self, key: str) -> None:
        """Forget a value."""

    async def publish(self, topic: str, data: bytes) -> None:
        """Wake the subscribers of `topic`. A message has at most MAX_MESSAGE bytes."""

    def subscribe(self, *topics: str) -> Messages:
        """The messages of some topics, from now on, until the iterator is closed."""

    async def log_append(self, stream: str, data: bytes, maxlen: int = 1000, ttl: float | None = None) -> str:
        """Add to a stream, which keeps its last `maxlen` entries; the id of the entry."""

    async def log_read(self, stream: str, after: str = "") -> list[tuple[str, bytes]]:
        """The entries after an id, oldest first."""

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        """Take a token of a bucket that refills at `rate` a second: whether there was one, else the seconds to wait."""

    async def close(self) -> None:
        """Close connections and threads."""


class StoreFull(ProtocolError):
    """A store has no room for a value; the text, which says why, is for the caller."""

    def __init__(self, limit: int, share: int) -> None:
        room = f"it keeps at most {limit} bytes, and at most {share} bytes for one principal"
        super().__init__(INTERNAL_ERROR, f"The store memory:// is full: {room}. Delete values, or give them a ttl.")


def scoped(principal: str, *parts: str) -> str:
    """A key that belongs to a user. Keys of different users are different, whatever the parts contain.

    >>> scoped("ada", "note", "1")
    '3:ada/4:note/1:1'
    """
    return "/".join(f"{len(part)}:{part}" for part in (principal, *parts))


def owner_of(key: str) -> str:
    """The user of a key that `scoped` made; of another key the part before its first slash.

    >>> owner_of(scoped("https://id.example/ada", "note"))
    'https://id.example/ada'
    """
    size, _, rest = key.partition(":")
    return rest[: int(size)] if size.isdecimal() and len(size) < 6 else key.partition("/")[0]


def as_bytes(text: str) -> bytes:
    """A text as engines keep it: also with characters that are not valid Unicode."""
    return text.encode("utf-8", "surrogatepass")


def as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def key_bytes(key: str) -> bytes:
    """A key, a topic or an id as an engine stores it: any text fits, and different texts stay different.

    >>> key_bytes("a"), len(key_bytes("a" * 1000))
    (b'a', 33)
    """
    name = as_bytes(key)
    return name if len(name) <= MAX_KEY else b"\xff" + sha256(name).digest()  # no text begins with the byte FF


def check_message(data: bytes) -> None:
    """Refuse a message that is too long for the bus of some engine."""
    if len(data) > MAX_MESSAGE:
        raise ValueError(f"a message has at most {MAX_MESSAGE} bytes, this one has {len(data)}")


def log_position(id: str) -> int:
    """The number of an entry of a log, 0 for an id that an engine with numbers has never given."""
    return int(id) if len(id) < 19 and id.isascii() and id.isdecimal() else 0


def refill(tokens: float, since: float, now: float, rate: float, burst: float) -> tuple[bool, float, float, float]:
    """Take a token of a bucket: whether there was one, else the seconds to wait; what is left; when it is full again.

    >>> refill(0.5, 10.0, 11.0, 0.5, 3.0)
    (True, 0.0, 0.0, 17.0)
    """
    tokens = min(burst, tokens + max(0.0, now - since) * rate)
    allowed = tokens >= 1
    left = tokens - allowed
    full = now + (burst - left) / rate if rate > 0 else inf
    wait = 0.0 if allowed else (1 - left) / rate if rate > 0 else inf
    return allowed, wait, left, full
