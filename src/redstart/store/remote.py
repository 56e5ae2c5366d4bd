"""What engines on a network have in common: connections that are used again, and one connection that listens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from redstart.store.bus import Bus, Subscription
from redstart.store.shared import StoreAway, log

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
    slow, broken = f"did not answer within {TIMEOUT:.0f} s", "cannot be reached, or it refuses to work"
    return StoreAway(f"{engine} {slow if isinstance(error, TimeoutError) else broken}")


class Connections(Generic[C]):
    """Connections that are used by one caller at a time, and kept for the next one.

    When one of them fails, all others are closed too, if they are idle or as soon as they are: after a restart of the
    engine they are all dead.
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
        idle, connection, is_kept = self._idle, None, False
        try:
            async with asyncio.timeout_at(ends):
                while self._idle and connection is None:
                    connection = self._idle.pop()
                    if not await self._is_usable(connection):
                        await self._close(connection)
                        connection = None
                connection = connection or await self._connect()
            yield connection
            is_kept = idle is self._idle  # else all were closed meanwhile
        except Exception:  # a caller that was cancelled says nothing about the others
            await self.close()
            raise
        finally:
            self._free.release()
            if is_kept and connection is not None:
                idle.append(connection)
            elif connection is not None:
                await self._close(connection)

    async def close(self) -> None:
        """Close the connections: those that are idle now, the others after their use."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await self._close(connection)


class RemoteBus(Bus):
    """The subscriptions of a process. One connection receives the messages of all topics, and this bus sorts them.

    The connection is opened by the first subscription and opened again when it was lost. Messages that were published
    meanwhile are lost, so every subscriber then gets an empty message: who is told reads its data again.
    """

    def __init__(self, engine: str, listen: Callable[[], Coroutine[None, None, None]]) -> None:
        super().__init__()
        self._engine = engine
        self._listen = listen
        self._is_lost = False
        self._tried = asyncio.Event()
        """Set when the listener has been connected, or could not be."""
        self._runner: asyncio.Task[None] | None = None

    def subscribe(self, *topics: str) -> Subscription:
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        return super().subscribe(*topics)

    async def settled(self) -> None:
        """Wait until messages are received, if somebody has subscribed: what is read now misses no message.

        It does not wait while the engine is away: every subscriber is told when it is back.
        """
        if self._runner is not None:
            await self._tried.wait()

    def opened(self) -> None:
        """The listener receives messages from now on."""
        if self._is_lost:
            self._is_lost = False
            log.info("the subscriptions to %s are back", self._engine)
            for topic in list(self.topics):
                self.deliver(topic, b"")
        self._tried.set()

    async def _run(self) -> None:
        while True:
            reason = "the connection has ended"
            try:
                await self._listen()
            except Exception as error:
                reason = str(error) or type(error).__name__
            if not self._is_lost:
                log.warning("the subscriptions to %s are interrupted: %s", self._engine, reason)
            self._is_lost = True
            self._tried.set()
            await asyncio.sleep(RETRY)

    async def close(self) -> None:
        """End the listener and all subscriptions."""
        runner, self._runner = self._runner, None
        self._tried = asyncio.Event()
        if runner is not None:
            runner.cancel()
            await asyncio.wait([runner], timeout=1)
        for subscription in set().union(*self.topics.values()):
            await subscription.aclose()
