"""Listening for changes: an iterator of events from `subscriptions/listen`, or from the notifications of a session.

Spec: /specification/2026-07-28/basic/patterns/subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from redstart.client.connection import RpcConnection
from redstart.client.errors import ClientError
from redstart.client.requests import Requests
from redstart.wire.jsonrpc import JsonObject
from redstart.wire.meta import SUBSCRIPTION_ID

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
BACKLOG: Final = 1000
"""How many events may wait for a slow listener. Beyond that, an event that waits already is not added again."""

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
    """The changes as they come: `async for event in events`. Ends if the server ends it, raises if it breaks."""

    def __init__(self, kinds: set[str], uris: Sequence[str], subscription: int | None) -> None:
        self._kinds = kinds
        self._uris = tuple(uris)
        self._subscription = subscription
        self._pending: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None
        self.acknowledged: JsonObject | None = None
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

    def notified(self, method: str, params: JsonObject) -> None:
        """Add a notification, if it belongs to this subscription."""
        if self._subscription is not None:
            id = params.get("_meta", {}).get(SUBSCRIPTION_ID)
            if isinstance(id, bool) or id != self._subscription:
                return
            if method == ACKNOWLEDGED:
                self.acknowledged = params.get("notifications") or {}
                self._wake.set()
        kind = _KINDS.get(method)
        uri = params.get("uri") if kind == "resource" else None
        if kind in self._kinds or (kind == "resource" and self._covers(uri)):
            self._add(Event(kind, uri))

    def _covers(self, uri: object) -> bool:
        """Whether `uri` was asked for, or is below a URI that was asked for."""
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
        """No more events will come. The first reason counts."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake.set()


@asynccontextmanager
async def modern_events(connection: RpcConnection, kinds: set[str], uris: Sequence[str]) -> AsyncIterator[Events]:
    """A `subscriptions/listen` that lasts as long as the block."""
    wanted: JsonObject = {f"{kind}ListChanged": True for kind in sorted(kinds)}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    call = connection.start("subscriptions/listen", None)
    events = Events(kinds, uris, call.id)
    call.future.add_done_callback(
        lambda done: events.end(None if done.cancelled() else done.exception())  # a result: the server ends it
    )
    connection.listeners.add(events)
    try:
        try:
            async with asyncio.timeout(connection.timeout):
                await connection.send(call, {"notifications": wanted})
                await events.opened()
        except TimeoutError:
            raise TimeoutError(f"{call.method}: not acknowledged within {connection.timeout:g} seconds") from None
        yield events
    finally:
        connection.listeners.discard(events)
        connection.abandon(call, "the listener has gone")


@asynccontextmanager
async def handshake_events(requests: Requests, kinds: set[str], uris: Sequence[str]) -> AsyncIterator[Events]:
    """The notifications of a session, and a subscription for every URI, as long as the block lasts."""
    connection = requests.connection
    events = Events(kinds, uris, None)
    connection.listeners.add(events)
    try:
        async with asyncio.timeout(connection.timeout):
            await connection.transport.listening()
        for uri in uris:
            await watch(requests, uri, events)
        yield events
    finally:
        connection.listeners.discard(events)
        for uri in [uri for uri, holders in requests.watched.items() if events in holders]:
            with contextlib.suppress(ClientError, TimeoutError):  # a server that is gone watches nothing
                await unwatch(requests, uri, events)


async def watch(requests: Requests, uri: str, holder: object) -> None:
    """Have a handshake server watch `uri`; one request serves all holders."""
    if uri not in requests.watched:
        await requests.request("resources/subscribe", {"uri": uri})
    requests.watched.setdefault(uri, set()).add(holder)


async def unwatch(requests: Requests, uri: str, holder: object) -> None:
    """The end of `watch` for one holder. The server is told when there are no others."""
    holders = requests.watched.get(uri, set())
    holders.discard(holder)
    if not holders:
        requests.watched.pop(uri, None)
        await requests.request("resources/unsubscribe", {"uri": uri})
