"""The subscribers of one process, and what each of them has not read yet. Every engine delivers its messages here."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Self

BACKLOG: Final = 1024
"""Messages that wait for a slow subscriber. Older ones are lost, which the contract of a bus allows."""


class Bus:
    """Who subscribes to which topic. For one event loop."""

    def __init__(self) -> None:
        self.topics: dict[str, set[Subscription]] = {}

    def subscribe(self, *topics: str) -> Subscription:
        """The messages of some topics from now on."""
        subscription = Subscription(self, topics)
        for topic in topics:
            self.topics.setdefault(topic, set()).add(subscription)
        return subscription

    def deliver(self, topic: str, data: bytes) -> None:
        """Wake the subscribers of a topic."""
        for subscription in self.topics.get(topic, ()):
            subscription.put(topic, data)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscriber, and the topics that nobody else subscribes to."""
        for topic in subscription.topics:
            others = self.topics.get(topic, set())
            others.discard(subscription)
            if not others:
                self.topics.pop(topic, None)


class Subscription:
    """An asynchronous iterator of (topic, message). It ends when it is closed."""

    def __init__(self, bus: Bus, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._bus = bus
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=BACKLOG)
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, topic: str, data: bytes) -> None:
        """Add a message."""
        self._waiting.append((topic, data))
        self._ready.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """End the subscription: a reader that waits is told so."""
        self._closed = True
        self._waiting.clear()
        self._ready.set()
        self._bus.unsubscribe(self)
