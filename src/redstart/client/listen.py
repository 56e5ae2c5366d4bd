"""Hearing of changes: an iterator of events, fed by `subscriptions/listen` or by the notifications of a session.

Spec: /specification/2026-07-28/basic/patterns/subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec import Struct

from redstart.client.connection import RpcConnection
from redstart.client.errors import ClientError
from redstart.wire.meta import SUBSCRIPTION_ID

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
BACKLOG: Final = 1000
"""Events that may wait for a slow listener; beyond that, an event that is waiting already is not added again."""

_KINDS: Final = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "resource",
}


class Event(Struct, frozen=True):
    """Something changed: `kind` is "tools", "prompts", "resources" (a list), or "resource" (the one at `uri`).

    >>> Event("resource", "notes://a").uri
    'notes://a'
    """

    kind: str
    uri: str | None = None


class Events:
    """The changes, as they come: `async for event in events`. Ends when the server ends it, raises when it breaks."""

    def __init__(self, kinds: set[str], uris: Sequence[str], subscription: int | None) -> None:
        self._kinds = kinds
        self._uris = tuple(uris)
        self._subscription = subscription
        self._pending: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None
        self.acknowledged: dict[str, Any] | None = None
        """What the server agreed to report (modern era)."""

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        while not self._pending:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._pending.popleft()

    async def opened(self) -> None:
        """Wait for the acknowledgement, or for the end."""
        while self.acknowledged is None and not self._ended:
            self._wake.clear()
            await self._wake.wait()
        if self._error is not None:
            raise self._error

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification, if it is one of ours."""
        if self._subscription is not None:
            id = (params.get("_meta") or {}).get(SUBSCRIPTION_ID)
            if isinstance(id, bool) or id != self._subscription:
                return
            if method == ACKNOWLEDGED:
                self.acknowledged = params.get("notifications") or {}
                self._wake.set()
        kind = _KINDS.get(method)
        uri = params.get("uri") if kind == "resource" else None
        if kind in self._kinds or (kind == "resource" and self._covers(uri)):
            self._add(Event(kind, uri))

    def _covers(self, uri: Any) -> bool:
        """A server may report a part of what was asked for."""
        return isinstance(uri, str) and any(
            uri == wanted or uri.startswith(wanted.rstrip("/") + "/") for wanted in self._uris
        )

    def _add(self, event: Event) -> None:
        if len(self._pending) >= BACKLOG:
            if event in self._pending:
                return
            self.end(ClientError(f"more than {BACKLOG} events wait; read what you depend on, and listen again"))
            return
        self._pending.append(event)
        self._wake.set()

    def end(self, error: BaseException | None) -> None:
        """No more will come; the first reason counts."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake.set()


class Subscriptions:
    """The resources a handshake server was asked to watch: by the user, or by listeners that share one request."""

    def __init__(self, request: Callable[..., Awaitable[object]]) -> None:
        self._request = request
        self._explicit: set[str] = set()
        self._listening: Counter[str] = Counter()

    async def subscribe(self, uri: str) -> None:
        """Watch `uri` until `unsubscribe`."""
        await self._request("resources/subscribe", {"uri": uri})
        self._explicit.add(uri)

    async def unsubscribe(self, uri: str) -> None:
        """Stop, unless a listener still wants it."""
        self._explicit.discard(uri)
        if not self._listening[uri]:
            await self._request("resources/unsubscribe", {"uri": uri})

    async def acquire(self, uri: str) -> None:
        """Watch `uri` for one listener more."""
        if uri not in self._explicit and not self._listening[uri]:
            await self._request("resources/subscribe", {"uri": uri})
        self._listening[uri] += 1

    async def release(self, uri: str) -> None:
        """One listener less."""
        self._listening[uri] -= 1
        if uri not in self._explicit and not self._listening[uri]:
            await self._request("resources/unsubscribe", {"uri": uri})

    async def renew(self) -> None:
        """Ask again for everything: the session is a new one."""
        for uri in {*self._explicit, *(+self._listening)}:
            await self._request("resources/subscribe", {"uri": uri})


@asynccontextmanager
async def modern_events(connection: RpcConnection, kinds: set[str], uris: Sequence[str]) -> AsyncIterator[Events]:
    """A `subscriptions/listen` that lasts as long as the block."""
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in sorted(kinds)}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    id, call = connection.start("subscriptions/listen", None)
    events = Events(kinds, uris, id)
    call.future.add_done_callback(
        lambda done: events.end(None if done.cancelled() else done.exception())  # a result is the end by the server
    )
    connection.listeners.add(events)
    try:
        try:
            async with asyncio.timeout(connection.timeout):
                await connection.transport.ready()
                connection.send(id, call.method, {"notifications": wanted}, {})
                await events.opened()
        except TimeoutError:
            raise TimeoutError(f"{call.method}: not acknowledged within {connection.timeout:g} seconds") from None
        yield events
    finally:
        connection.listeners.discard(events)
        connection.abandon(id, "the listener has gone")


@asynccontextmanager
async def handshake_events(
    connection: RpcConnection, subscriptions: Subscriptions, kinds: set[str], uris: Sequence[str]
) -> AsyncIterator[Events]:
    """The notifications of a session, and a subscription for every URI, as long as the block lasts."""
    events = Events(kinds, uris, None)
    connection.listeners.add(events)
    held: list[str] = []
    try:
        async with asyncio.timeout(connection.timeout):
            await connection.transport.listening()
        for uri in uris:
            await subscriptions.acquire(uri)
            held.append(uri)
        yield events
    finally:
        connection.listeners.discard(events)
        for uri in held:
            with contextlib.suppress(ClientError, TimeoutError):  # a server that is gone watches nothing
                await subscriptions.release(uri)
