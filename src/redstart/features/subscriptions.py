"""Change notifications for handshake sessions, and for the `subscriptions/listen` streams of modern clients.

One call, `changed` or `updated`, reaches both. A change is told once per turn of the loop, even if it happened often.
Spec: /specification/2026-07-28/basic/patterns/subscriptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Protocol

from msgspec import UNSET, Raw

from redstart.protocol.call import Call, Channel
from redstart.protocol.link import Link
from redstart.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError, encode, notification
from redstart.wire.meta import SUBSCRIPTION_ID
from redstart.wire.types import ListenFilter, Result

KINDS: Final = {"tools": "tools_list_changed", "prompts": "prompts_list_changed", "resources": "resources_list_changed"}
"""What a list is called, and the field of a listen filter that asks for its changes."""
MAX_URIS: Final = 1024
MAX_SUBSCRIBED: Final = 128 * 1024
"""How many resources one session or one stream may wait for, and how many characters their URIs have together."""
MAX_SUBSCRIBED_BY_ALL: Final = 32 * 1024 * 1024
"""How many characters the URIs of all sessions and streams have together, with the headers that are kept for them."""
HEADER_COST: Final = 100
"""What a header takes in memory beside its bytes."""
_NOTHING: Final = Raw(b"{}")
_UPDATED: Final = "notifications/resources/updated"


class Peer(Protocol):
    """A connected client: what comes in is fed to its link, what belongs to no request goes out on its channel."""

    @property
    def link(self) -> Link: ...
    @property
    def channel(self) -> Channel: ...


class _Listener:
    """One open `subscriptions/listen`."""

    __slots__ = ("_tail", "call", "done", "filter", "uris")

    def __init__(self, call: Call, filter: ListenFilter, done: asyncio.Future[None]) -> None:
        self.call = call
        self.filter = filter
        self.done = done
        self.uris = frozenset(filter.resource_subscriptions or ())
        self._tail = b'"_meta":{"%b":%b}}}' % (SUBSCRIPTION_ID.encode(), call.raw_id)

    def tell(self, head: bytes) -> None:
        """Send a message that is the same for all, up to the id of the subscription."""
        if self.call.open:
            self.call.channel.send(head + self._tail)


def _head(method: str) -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":{' % encode(method)


class Hub:
    """All subscribers of change notifications."""

    def __init__(
        self, offers: Callable[[], Collection[str]], rule: Callable[[str], Callable[[Call], bool] | None]
    ) -> None:
        self.peers: dict[Link, Peer] = {}
        self._offers = offers
        """The capabilities of the server, as it is now."""
        self._rule = rule
        """Who may see the resource at a URI, as a function of a call; None means everybody."""
        self.listeners: set[_Listener] = set()
        self._sizes: dict[Link | Call, int] = {}
        """What each session and each stream keeps: the characters of the URIs that it waits for, and its headers."""
        self._subscribed = 0
        """Their sum."""
        self._waiting: dict[tuple[str, str], None] = {}
        """What to tell at the end of this turn of the loop: what `tell` takes. Each once."""
        self.relay: Callable[[str, str], None] | None = None
        """Tells all processes that share the store, also this one, what `tell` takes."""
        self.loop: asyncio.AbstractEventLoop | None = None

    def join(self, peer: Peer) -> None:
        """A peer that is to be told."""
        self.peers[peer.link] = peer

    def leave(self, peer: Peer) -> None:
        """Forget a peer that has gone, and its subscriptions."""
        self.peers.pop(peer.link, None)
        self._release(peer.link)

    def restore(self, link: Link, uris: Collection[str]) -> None:
        """The subscriptions of a session, as another process has left them."""
        if link.session is not None:
            self._hold(link, uris, link.subscriber, "session")
            link.session.subscriptions = set(uris)

    def _hold(self, holder: Link | Call, uris: Collection[str], call: Call | None, where: str) -> None:
        """Count the URIs that a session or a stream waits for, and the headers of the call that is kept for `visible=`;
        refuse what is too much for it, or for the server."""
        size = sum(map(len, uris))
        if len(uris) > MAX_URIS or size > MAX_SUBSCRIBED:
            raise ProtocolError(
                INVALID_PARAMS,
                f"One {where} may subscribe to {MAX_URIS} resources whose URIs have {MAX_SUBSCRIBED} characters "
                "together; unsubscribe from others first, or use another one",
            )
        headers = (call.headers if call is not None else None) or {}
        size += sum(len(name) + len(value) + HEADER_COST for name, value in headers.items())
        more = size - self._sizes.get(holder, 0)
        if self._subscribed + more > MAX_SUBSCRIBED_BY_ALL:
            raise ProtocolError(INTERNAL_ERROR, "This server holds as many subscriptions as it can; try again later")
        self._subscribed += more
        self._sizes[holder] = size

    def _release(self, holder: Link | Call) -> None:
        self._subscribed -= self._sizes.pop(holder, 0)

    # ------------------------------------------------------------ telling

    def changed(self, kind: str) -> None:
        """Tell subscribers that the list of tools, prompts or resources has changed."""
        self._soon("changed", kind)

    def updated(self, uri: str) -> None:
        """Tell subscribers that the contents of a resource have changed."""
        self._soon("updated", uri)

    def _soon(self, kind: str, what: str) -> None:
        if self.loop is not None and not self.loop.is_closed():  # else nobody is connected yet
            self.loop.call_soon_threadsafe(self._add, kind, what)

    def _add(self, kind: str, what: str) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._waiting[kind, what] = None

    def _tell_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        tell = self.relay or self.tell
        for kind, what in waiting:
            tell(kind, what)

    def tell(self, kind: str, what: str) -> None:
        """Tell the subscribers in this process: of a list that has "changed", or the URI of an "updated" resource."""
        if kind == "updated":
            self._tell_updated(what)
        elif what in KINDS:
            self._tell_changed(what)

    def _tell_changed(self, kind: str) -> None:
        method = f"notifications/{kind}/list_changed"
        message = notification(method, {})
        for peer in tuple(self.peers.values()):
            if peer.link.session is not None and peer.link.session.initialized and peer.link.hears:
                peer.channel.send(message)
        wanted, head = KINDS[kind], _head(method)
        for listener in tuple(self.listeners):
            if getattr(listener.filter, wanted) is True:
                listener.tell(head)

    def _tell_updated(self, uri: str) -> None:
        sees = self._rule(uri) or (lambda call: True)
        message = notification(_UPDATED, {"uri": uri})
        for peer in tuple(self.peers.values()):
            session, subscriber = peer.link.session, peer.link.subscriber
            if session is None or subscriber is None or not peer.link.hears:
                continue
            if uri in session.subscriptions and sees(subscriber):
                peer.channel.send(message)
        head = _head(_UPDATED) + b'"uri":%b,' % encode(uri)
        for listener in tuple(self.listeners):
            if uri in listener.uris and sees(listener.call):
                listener.tell(head)

    # ------------------------------------------------------------ methods

    async def listen(self, call: Call) -> Result:
        """`subscriptions/listen`: acknowledge first, then tell until either side ends it."""
        accepted = self._accepted(call.params.notifications)
        self._hold(call, accepted.resource_subscriptions or (), call, "stream")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        listener = _Listener(call, accepted, done)
        call.raw_params = _NOTHING  # the call goes on for long: its body need not be kept
        meta = {SUBSCRIPTION_ID: call.id}
        params = {"notifications": accepted, "_meta": meta}
        ack = call.link.notify(call, "notifications/subscriptions/acknowledged", params)
        if ack is not None:
            call.channel.send(ack)
            self.listeners.add(listener)
        try:
            await done
        finally:
            self.listeners.discard(listener)
            self._release(call)
        return Result(meta=meta)

    def _accepted(self, wanted: ListenFilter) -> ListenFilter:
        """The part of a filter that this server can serve."""
        uris, offers = wanted.resource_subscriptions, self._offers()
        accepted = ListenFilter()
        for kind, name in KINDS.items():
            if getattr(wanted, name) is True and kind in offers:
                setattr(accepted, name, True)
        if uris is not UNSET and "resources" in offers:
            accepted.resource_subscriptions = uris
        if "tasks" in offers:  # only those that this client may see are left
            accepted.task_ids = wanted.task_ids
        return accepted

    async def subscribe(self, call: Call) -> Result:
        """`resources/subscribe` of the handshake era; subscribing twice has no further effect.

        A URI that is unknown, or hidden from this client, gets the same answer as any other: a client cannot find
        out that it exists.
        """
        if call.session is not None:
            subscribed = {*call.session.subscriptions, call.params.uri}
            self._hold(call.link, subscribed, call, "session")
            call.session.subscriptions = subscribed
            call.raw_params = _NOTHING  # the call is kept for as long as the session: its body is not
            call.link.subscriber = call
        return Result()

    async def unsubscribe(self, call: Call) -> Result:
        """`resources/unsubscribe`; a URI that was never subscribed is not an error."""
        if call.session is not None:
            call.session.subscriptions.discard(call.params.uri)
            if call.session.subscriptions:
                self._hold(call.link, call.session.subscriptions, call.link.subscriber, "session")
            else:
                call.link.subscriber = None
                self._release(call.link)
        return Result()

    def close(self) -> None:
        """End every listen stream with its result."""
        for listener in tuple(self.listeners):
            if not listener.done.done():
                listener.done.set_result(None)
