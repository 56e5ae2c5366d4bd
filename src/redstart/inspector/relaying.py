"""Another server behind our endpoint: each call goes to it through a Relay, and everything is seen on the way.

A session of the handshake era has a connection of its own, because the server keeps what its handshake has settled.
Modern requests share one.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec import UNSET, Raw

from redstart.client.errors import ClientError
from redstart.client.relay import Relay
from redstart.client.transport import Transport
from redstart.features.principal import User
from redstart.inspector.host import Host
from redstart.inspector.tap import LinkEnd
from redstart.protocol.call import Call, Event
from redstart.protocol.headers import Headers
from redstart.protocol.link import Link
from redstart.server.server import Server
from redstart.transports.routes import Request
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError, decode_envelope, notification

PASSED_ON: Final = b"mcp-"
"""The headers of a request that go to the server, but for the session, which is ours."""
SESSION: Final = b"mcp-session-id"


class CallRequester:
    """A call of a client as the relay sees it."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def tell(self, method: str, params: dict[str, Any]) -> None:
        data = self._call.link.notify(self._call, method, params)
        if data is not None:
            self._call.channel.send(data)

    async def ask(self, method: str, params: Raw) -> Raw:
        asked = self._call.link.ask(self._call, method, params)
        if asked is None:
            raise ProtocolError(INTERNAL_ERROR, "The request that this question belongs to has been answered")
        pending, data = asked
        answered: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()

        def resolve(outcome: Raw | ProtocolError) -> None:
            if not answered.done():
                if isinstance(outcome, ProtocolError):
                    answered.set_exception(outcome)
                else:
                    answered.set_result(outcome)

        pending.resolve = resolve
        self._call.channel.send(data)
        return await answered


class RelayEnd(LinkEnd, kw_only=True, eq=False, gc=False):
    """Also passes on the notifications of a client, which a link does not report."""

    _host: RelayHost

    def received(self, link: Link, data: bytes, headers: Headers | None, events: list[Event]) -> None:
        super().received(link, data, headers, events)
        if not events:
            self._host.pass_on(link, data, headers)

    def left(self, link: Link) -> None:
        super().left(link)
        self._host.end_session(link)


class RelayHost(Host):
    """Serves what another server offers."""

    def __init__(self, name: str, connect: Callable[[], Transport], token: str) -> None:
        # Others on this machine must not use the server as this person: with their token, or by a process of theirs.
        super().__init__(Server(name, auth=self._person))
        self._token = token
        self.cookie = f"redstart-{secrets.token_hex(4)}={secrets.token_urlsafe(24)}"
        """What the browser sends along, once the page has shown the token."""
        self.answer = self._answer_by_relay
        self.tap = lambda: RelayEnd(self.seen, _host=self)
        self.seen.any_tool = True
        self._connect = connect
        self.upstream = ""
        """The name of the server that new connections go to, where there are several."""
        self._relays: dict[str, Relay] = {}
        """By the key of the session; modern requests to one server share one."""
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self.error: str | None = None
        """Why the server could not be reached when that was last tried."""
        self.revision: str | None = None
        self.lifespans.append(self._relaying)

    async def _person(self, request: Request) -> User | None:
        """The person who started this, by the cookie of the page or by the token that the terminal shows."""
        bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
        given = [bearer, request.headers.get("x-redstart-token", "")]
        cookies = [one.strip() for one in request.headers.get("cookie", "").split(";")]
        known = any(_same(one, self._token) for one in given) or any(_same(one, self.cookie) for one in cookies)
        return User("the person at the terminal") if known else None

    def use(self, upstream: str, connect: Callable[[], Transport]) -> None:
        """From now on connect to this server, in this way. Sessions of the handshake era stay with theirs."""
        if upstream == self.upstream:  # in another way
            self._hang_up(self._shared)
        else:
            self.seen.tallies.clear()
        self.upstream, self._connect = upstream, connect
        self.error = self.revision = None

    @property
    def _shared(self) -> str:
        """The key of modern requests."""
        return f"modern {self.upstream}"

    @property
    def is_open(self) -> bool:
        return any(relay.gone is None for relay in self._relays.values())

    @asynccontextmanager
    async def _relaying(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            relays, self._relays = list(self._relays.values()), {}
            await asyncio.gather(*(relay.close() for relay in relays), *self._closing, return_exceptions=True)

    # ------------------------------------------------------------ calls

    async def _answer_by_relay(self, call: Call) -> bytes | None:
        link, method = call.link, call.method.name
        try:
            relay = await self._connection(call)
            headers = _headers(call.headers)
            result = await relay.request(
                call.id, method, bytes(call.raw_params), headers, CallRequester(call), modern=call.dialect.modern
            )
            self.revision = call.dialect.version
            return link.reply(call, result)
        except ProtocolError as error:
            call.status = call.dialect.status(error.code)
            return link.fail(call, error)

    async def _connection(self, call: Call) -> Relay:
        """The connection that a call goes over. A handshake always begins one."""
        modern = call.dialect.modern
        key = self._shared if modern else self._key(call.link)
        async with self._opening:
            relay = self._relays.get(key)
            if relay is not None and relay.gone is None and call.method != "initialize":
                return relay
            if not modern and call.method != "initialize":
                ended = f": {relay.gone}" if relay is not None else ""
                raise ProtocolError(INTERNAL_ERROR, f"The connection of this session has ended{ended}. Connect again.")
            if relay is not None:
                await relay.close()
            link = None if modern else call.link
            try:
                relay = Relay(self._connect(), lambda method, params: self._push(link, key, method, params))
                await relay.open()
            except ClientError as error:
                self.error = str(error)
                raise ProtocolError(INTERNAL_ERROR, str(error), {"reason": "not started"}) from error
            self.error = None
            self._relays[key] = relay
            return relay

    def _key(self, link: Link) -> str:
        """A session over HTTP has another link for its handshake than for what follows."""
        session = link.session
        return session.key if session is not None and session.key else f"link {id(link)}"

    def _push(self, link: Link | None, key: str, method: str, params: dict[str, Any]) -> None:
        """A notification that belongs to no request goes to the clients of the connection that it came over."""
        data = notification(method, params)
        for peer in tuple(self.hub.peers.values()):
            if link is not None and self._key(peer.link) == key:
                peer.channel.send(data)

    # ------------------------------------------------------------ notifications and ends

    def pass_on(self, link: Link, data: bytes, headers: Headers | None) -> None:
        """Send a notification of a client to the server."""
        try:
            envelope = decode_envelope(data)
        except ValueError:
            return
        relay = self._relays.get(self._key(link) if link.session is not None else self._shared)
        if envelope.method is UNSET or envelope.id is not UNSET or relay is None:
            return
        if envelope.method != "notifications/cancelled":  # the call that ends tells the server
            params = bytes(envelope.params) if envelope.params is not UNSET else b"{}"
            relay.notify(envelope.method, params, _headers(headers))

    def end_session(self, link: Link) -> None:
        self._hang_up(self._key(link))

    def _hang_up(self, key: str) -> None:
        relay = self._relays.pop(key, None)
        if relay is not None:
            closing = asyncio.get_running_loop().create_task(relay.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def _headers(headers: Headers | None) -> dict[str, str]:
    """The headers of the protocol that go with a message."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in (headers or {}).items()
        if name.startswith(PASSED_ON) and name != SESSION
    }
