"""Messages to a Server object in this process: no socket and no subprocess, but the same bytes.

The first client starts a server that is not running, so that the caller sees a lifespan that fails. The last client
stops it again, so that a test's server is cleaned up before its event loop closes.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from redstart.access.verifier import AuthError
from redstart.client.errors import RequestError
from redstart.client.transport import Inbox, Outgoing, Transport
from redstart.server.server import Server
from redstart.transports.memory import MemoryPeer
from redstart.transports.routes import Request
from redstart.wire.jsonrpc import INVALID_REQUEST

_clients: Final[WeakKeyDictionary[object, int]] = WeakKeyDictionary()
"""The servers that were started by a client, and how many clients each of them has."""


class MemoryTransport(Transport):
    """A redstart Server in the same process and event loop."""

    def __init__(self, server: Server, user: object = None, token: str | None = None) -> None:
        self._server = server
        self._user = user
        self._token = token
        self._peer: MemoryPeer | None = None
        self._started_here = False

    async def open(self, inbox: Inbox) -> None:
        runtime = self._server.runtime
        if runtime in _clients or not runtime.started:
            self._started_here = True
            _clients[runtime] = _clients.get(runtime, 0) + 1
            await runtime.start()
        user = self._user if self._token is None else await self._authenticate(self._token)
        self._peer = MemoryPeer(self._server, inbox.receive, user)

    async def _authenticate(self, token: str) -> object:
        authenticator = self._server.runtime.authenticator
        assert authenticator is not None, "a token is refused where nothing reads it"
        try:
            request = Request("POST", "/mcp", headers={"authorization": f"Bearer {token}"})
            return await authenticator.user(token, request)
        except AuthError as error:
            raise RequestError(INVALID_REQUEST, str(error)) from None

    def send(self, message: Outgoing) -> None:
        if self._peer is not None:
            self._peer.send(message.data)

    async def close(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()
        if self._started_here:
            self._started_here = False
            runtime = self._server.runtime
            _clients[runtime] -= 1
            if not _clients[runtime]:
                del _clients[runtime]
                await runtime.stop()
