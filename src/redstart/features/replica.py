"""What the processes of one server tell each other. Loaded only if they share a store.

All of them listen to one topic. A message may be lost, so nothing that must not be lost depends on it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, Struct

from redstart.features.errors import log
from redstart.features.subscriptions import Hub
from redstart.store.shared import MAX_MESSAGE, SharedState, StoreAway, scoped
from redstart.wire.jsonrpc import encode

LARGE_TTL: Final = 60.0
"""Seconds for which a message that is too large for the bus is kept under a key."""
MAX_WAITING: Final = 10_000
"""Writes that wait for a slow store. What comes after them is dropped."""


class Word(Struct, omit_defaults=True):
    """A message to the other processes."""

    kind: str
    session: str = ""
    id: str = ""
    text: str = ""
    data: Raw = Raw(b"null")


Work = Callable[[], Awaitable[object]]
WordHandler = Callable[[Word], Awaitable[None]]


class Replica:
    """This process, as one of several that serve the same clients."""

    def __init__(self, name: str, store: SharedState, hub: Hub) -> None:
        self.store = store
        self._name = name
        self._hub = hub
        self._handlers: dict[str, list[WordHandler]] = {"changed": [self._changed], "updated": [self._changed]}
        """What is done with a message of each kind. The sender gets its own messages too."""
        self.on_return: list[Callable[[], Awaitable[None]]] = []
        """Called when messages may have been lost."""
        self._lines: dict[str, deque[Work]] = {}
        """What is to be written. Each line is written in its order, and beside the others."""
        self._waiting = 0
        self._listener: asyncio.Task[None] | None = None
        self._senders: set[asyncio.Task[None]] = set()
        self._is_away = False
        hub.relay = self._relay

    def key(self, *parts: str) -> str:
        """A key that the processes of this server share."""
        return scoped("", "replica", self._name, *parts)

    def on(self, kind: str, handler: WordHandler) -> None:
        """Handle the messages of a kind."""
        self._handlers.setdefault(kind, []).append(handler)

    async def ring(self, own: bytes | None = None) -> bytes:
        """The key of all processes. If the store has none (any more), it gets the one of this process."""
        key = self.key("ring")
        await self.store.kv_set(key, own or secrets.token_hex(32).encode(), nx=True, durable=True)
        kept = await self.store.kv_get(key)
        if kept is None:
            raise StoreAway("it does not keep the keys of this server")
        return kept

    async def start(self) -> None:
        """Listen to the others."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(self.store.subscribe(self.key("words"))))
            await self.store.kv_get(self.key("ring"))  # the engine knows the subscription now

    def stop(self) -> None:
        for task in (self._listener, *self._senders):
            if task is not None:
                task.cancel()
        self._listener = None

    # ------------------------------------------------------------ sending

    def later(self, work: Work, line: str = "") -> None:
        """Write to the store soon, after what was given before for the same line. What cannot be written is dropped."""
        if self._waiting >= MAX_WAITING:
            self._note_away("too many writes wait for it")
            return
        self._waiting += 1
        if line in self._lines:
            self._lines[line].append(work)
            return
        self._lines[line] = deque([work])
        sender = asyncio.create_task(self._send(line))
        self._senders.add(sender)
        sender.add_done_callback(partial(self._sent, line))

    def tell(self, word: Word) -> None:
        """Send a message soon."""
        self.later(lambda: self.publish(word))

    async def publish(self, word: Word) -> None:
        if len(encode(word)) > MAX_MESSAGE:
            word = await self._kept(word)
        await self.store.publish(self.key("words"), encode(word))

    async def _kept(self, word: Word) -> Word:
        """Keep a message that is too large for the bus for a while; the message that names it."""
        key = self.key("large", secrets.token_hex(12))
        await self.store.kv_set(key, encode(word), LARGE_TTL)
        return Word("large", id=key)

    @asynccontextmanager
    async def sendable(self, word: Word) -> AsyncIterator[Word]:
        """A message that may be published several times: what is too large for the bus is kept once, meanwhile."""
        if len(encode(word)) <= MAX_MESSAGE:
            yield word
            return
        kept = await self._kept(word)
        try:
            yield kept
        finally:
            with suppress(StoreAway):
                await self.store.kv_delete(kept.id)

    async def _send(self, line: str) -> None:
        works = self._lines[line]
        while works:
            self._waiting -= 1
            try:
                await works.popleft()()
                self._is_away = False
            except StoreAway as error:
                self._note_away(str(error))
            except Exception:
                log.exception("what other processes should know could not be written")
        del self._lines[line]

    def _sent(self, line: str, sender: asyncio.Task[None]) -> None:
        self._senders.discard(sender)
        if sender.cancelled():
            self._waiting -= len(self._lines.pop(line))

    def _note_away(self, reason: str) -> None:
        if not self._is_away:
            log.warning("other processes of this server are not told what happens here: %s", reason)
        self._is_away = True

    # ------------------------------------------------------------ changes

    def _relay(self, kind: str, what: str) -> None:
        """Tell all processes of a change, also this one: subscriptions that were made before it are then known."""
        is_listening = self._listener is not None
        if not is_listening:
            self._hub.tell(kind, what)

        async def publish() -> None:
            try:
                await self.publish(Word(kind, text=what))
            except StoreAway:
                if is_listening:
                    self._hub.tell(kind, what)
                raise

        self.later(publish)

    async def _changed(self, word: Word) -> None:
        self._hub.tell(word.kind, word.text)

    # ------------------------------------------------------------ receiving

    async def _listen(self, messages: object) -> None:
        async for _, data in messages:  # type: ignore[attr-defined]
            try:
                await self._receive(data)
            except StoreAway as error:
                log.warning("a message of another process is lost: %s", error)
            except Exception:
                log.exception("a message of another process could not be handled")

    async def _receive(self, data: bytes) -> None:
        """Handle one message before the next: a change comes after the subscriptions that were made before it."""
        if not data:
            for call in self.on_return:
                await call()
            return
        word = msgspec.json.decode(data, type=Word)
        if word.kind == "large":
            kept = await self.store.kv_get(word.id)
            if kept is None:
                return
            word = msgspec.json.decode(kept, type=Word)
        for handler in self._handlers.get(word.kind, ()):
            await handler(word)
