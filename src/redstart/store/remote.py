"""What engines on a network have in common: connections that are used again, and one connection that listens."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from redstart.store.bus import Bus, Subscription
from redstart.store.shared import StoreAway

log = logging.getLogger("redstart")
TIMEOUT: Final = 5.0
"""Seconds after which a call fails if the engine has not answered."""
RETRY: Final = 0.5
"""Seconds between two attempts to connect the listener."""
PING: Final = 2.0
"""Seconds after which a listener that hears nothing asks whether the engine is still there."""
C = TypeVar("C")


def split_namespace(url: str) -> tuple[str, str]:
    """A URL without its `namespace`, and the namespace, which is `redstart` by default.

    >>> split_namespace("redis://localhost/0?namespace=birds")
    ('redis://localhost/0', 'birds')
    """
    place, _, query = url.partition("?")
    try:
        for host in urlsplit(place).netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        advice = "quote special characters of the password, as %2F for a slash"
        raise ValueError(f"the store does not have a valid URL: {advice}") from None
    pairs = parse_qsl(query, keep_blank_values=True)
    names = [value for key, value in pairs if key == "namespace"] or ["redstart"]
    if not re.fullmatch("[a-z_][a-z0-9_]{0,39}", names[-1]):
        raise ValueError("the namespace of a store has at most 40 characters: a-z, 0-9 and _, and no digit first")
    rest = urlencode([pair for pair in pairs if pair[0] != "namespace"], quote_via=quote)
    return f"{place}?{rest}" if rest else place, names[-1]


def away(engine: str, error: BaseException) -> StoreAway:
    """The error for callers. Its text is for users, so it names no host; the log has the rest."""
    log.debug("%s: %s", engine, error)
    if isinstance(error, TimeoutError):
        return StoreAway(f"{engine} did not answer within {TIMEOUT:.0f} s")
    return StoreAway(f"{engine} cannot be reached, or it refuses to work")


class Connections(Generic[C]):
    """Connections that are used by one caller at a time, and kept for the next one.

    When one of them fails, those that are idle are closed too: after a restart of the engine they are all dead.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[C]],
        is_usable: Callable[[C], Awaitable[bool]],
        close: Callable[[C], Awaitable[None]],
        limit: int,
    ) -> None:
        self._connect = connect
        self._is_usable = is_usable
        self._close = close
        self._idle: list[C] = []
        self._free = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def use(self, ends: float) -> AsyncIterator[C]:
        """A connection, by the time `ends` of the loop. If the block raises, the connection is closed."""
        async with asyncio.timeout_at(ends):
            await self._free.acquire()
        try:
            async with asyncio.timeout_at(ends):
                connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                await self._close(connection)
                if isinstance(error, Exception):  # a caller that was cancelled says nothing about the others
                    await self.close()
                raise
            self._idle.append(connection)
        finally:
            self._free.release()

    async def _take(self) -> C:
        while self._idle:
            connection = self._idle.pop()
            if await self._is_usable(connection):
                return connection
            await self._close(connection)
        return await self._connect()

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await self._close(self._idle.pop())


class RemoteBus(Bus):
    """The subscriptions of a process, which share one connection to the engine.

    The connection is opened by the first subscription and opened again when it was lost. Messages that were published
    meanwhile are lost, so every subscriber then gets an empty message: who is told reads its data again.
    """

    def __init__(self, engine: str, listen: Callable[[], Coroutine[None, None, None]], per_topic: bool) -> None:
        super().__init__()
        self._engine = engine
        self._listen = listen
        self._per_topic = per_topic
        """Whether the engine is told about every topic, and confirms it, in the order in which it was told."""
        self.changes: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()
        """Topics to tell the engine about: True for one that is new, False for one that nobody wants any more."""
        self._asked = self._confirmed = self._reopened = 0
        self._is_open = self._is_lost = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._runner: asyncio.Task[None] | None = None

    def subscribe(self, *topics: str) -> Subscription:
        added = [topic for topic in dict.fromkeys(topics) if topic not in self.topics]
        subscription = super().subscribe(*topics)
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        if self._per_topic or not self._is_open:
            self._asked += len(added)
        if self._is_open and self._per_topic:
            for topic in added:
                self.changes.put_nowait((True, topic))
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        if self._is_open and self._per_topic:
            for topic in dict.fromkeys(subscription.topics):
                if topic not in self.topics:
                    self.changes.put_nowait((False, topic))

    async def settled(self) -> None:
        """Wait until the engine knows the subscriptions that were made before: what is read now misses no message.

        It does not wait while the engine is away: every subscriber is told when it is back.
        """
        if self._confirmed < self._asked and not self._is_lost:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((self._asked, waiter))
            await waiter

    def opened(self) -> list[str]:
        """The listener is connected. The topics that the engine must be told about."""
        topics = list(self.topics) if self._per_topic else []
        while not self.changes.empty():
            self.changes.get_nowait()
        self._is_open = True
        self._reopened = self._asked
        self._confirmed = self._asked - len(topics)
        self._wake()
        return topics

    def confirm(self) -> None:
        """The engine knows one more topic."""
        self._confirmed += 1
        self._wake()

    def _wake(self) -> None:
        """Tell those who wait; after an interruption all subscribers, when all topics are confirmed."""
        if self._is_lost and self._confirmed >= self._reopened:
            self._is_lost = False
            log.info("the subscriptions to %s are back", self._engine)
            for topic in list(self.topics):
                self.deliver(topic, b"")
        self._release()

    def _release(self) -> None:
        while self._waiters and (self._is_lost or self._waiters[0][0] <= self._confirmed):
            waiter = self._waiters.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    async def _run(self) -> None:
        while True:
            reason = "the connection has ended"
            try:
                await self._listen()
            except Exception as error:
                reason = str(error) or type(error).__name__
            if not self._is_lost:
                log.warning("the subscriptions to %s are interrupted: %s", self._engine, reason)
            self._is_open = False
            self._is_lost = True
            self._release()
            await asyncio.sleep(RETRY)

    async def close(self) -> None:
        """End the listener and all subscriptions."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel()
            await asyncio.wait([runner], timeout=1)
        for subscription in set().union(*self.topics.values()):
            await subscription.aclose()
