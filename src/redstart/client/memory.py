"""Messages to a Server object in this process: no socket, no subprocess, the same bytes.

The first client of a server that nobody runs starts it, so a lifespan that fails does so where the caller sees it; the
last one stops it, so a test's server is cleaned up before its event loop closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from redstart.client.errors import RequestError
from redstart.client.transport import Inbox, Outgoing
from redstart.wire.jsonrpc import INVALID_REQUEST

_clients: Final[WeakKeyDictionary[Any, int]] = WeakKeyDictionary()
"""How many clients each server has that only its clients run."""


class MemoryTransport:
    """A redstart Server in the same process and event loop."""

    http = False
    restartable = False

    def __init__(self, server: Any, user: Any = None, token: str | None = None) -> None:
        self._server = server
        self._user = user
        self._token = token
        self._peer: Any = None
        self._runs_it = False

    async def open(self, inbox: Inbox) -> None:
        from redstart.transports.memory import MemoryPeer

        runtime = self._server.runtime
        if runtime in _clients or not runtime.started:
            self._runs_it = True
            _clients[runtime] = _clients.get(runtime, 0) + 1
            await runtime.start()
        user = self._user if self._token is None else await self._authenticate(self._token)
        self._peer = MemoryPeer(self._server, inbox.receive, user)

    async def _authenticate(self, token: str) -> Any:
        from redstart.server.authenticate import AuthError

        try:
            return await self._server.runtime.authenticator.user(token)
        except AuthError as error:
            raise RequestError(INVALID_REQUEST, str(error)) from None

    async def ready(self) -> None:
        return

    def send(self, message: Outgoing) -> asyncio.Future[None] | None:
        self._peer.send(message.data)
        return None

    def cancel(self, id: int, *, modern: bool) -> bool:
        return False

    def listen(self, headers: Mapping[str, str]) -> None:
        return

    async def listening(self) -> None:
        return

    def older(self) -> None:
        return None

    async def close(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()
        if self._runs_it:
            self._runs_it = False
            runtime = self._server.runtime
            _clients[runtime] -= 1
            if not _clients[runtime]:
                del _clients[runtime]
                await runtime.stop()
