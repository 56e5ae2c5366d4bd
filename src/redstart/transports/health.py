"""`/healthz` and `/readyz`: what load balancers and orchestrators ask, with no token and under any host name.

The first says that the process lives. The second is a 503 with a short reason while nothing can be served: the server
has not started, it stops, or its store is away. Neither runs code of the application beyond its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from redstart.features.errors import log
from redstart.transports.http_options import EndpointOptions
from redstart.transports.request import JSON, HttpRequest, Rejection
from redstart.wire.jsonrpc import ProtocolError, encode

if TYPE_CHECKING:
    from redstart.server.runtime import Runtime

LIVES: Final = "the process runs"
READY: Final = "the server is ready"
STOPPING: Final = "the server is stopping"
NOT_STARTED: Final = "the server has not started"
AWAY: Final = "the store is away"
ASKED: Final = 1.0
"""Seconds for which an answer of the store counts: anybody may ask, and must not be able to keep the store busy."""
PATIENCE: Final = 2.0
"""Seconds that the store has to answer; probes usually wait for about as long."""
_ALLOW: Final = (b"allow", b"GET, HEAD")
_FRESH: Final = (b"cache-control", b"no-store")


class Health:
    """The two paths of one endpoint. A route of the application at one of them is served instead."""

    def __init__(self, runtime: Runtime, options: EndpointOptions) -> None:
        self._runtime = runtime
        self._live, self._ready = options["health_path"], options["ready_path"]
        self.stopping = False
        self._asked = -ASKED
        self._asking: asyncio.Task[bool] | None = None

    def knows(self, path: str) -> bool:
        """Whether this path is one of the two."""
        runtime = self._runtime
        return path in (self._live, self._ready) and path not in runtime.routes and path not in runtime.mcp_paths

    async def serve(self, request: HttpRequest, prepare: Callable[[], Awaitable[None]]) -> None:
        """Answer a probe. `prepare` starts the server if nobody has: a host may wait for readiness first."""
        if request.scope["method"] not in ("GET", "HEAD"):
            raise Rejection(405, f"{request.scope['method']} is not supported here", _ALLOW)
        problem = None if request.path == self._live else await self._problem(prepare)
        body = encode({"ok": problem is None, "reason": problem or (LIVES if request.path == self._live else READY)})
        await request.reply(200 if problem is None else 503, body, [JSON, _FRESH])

    async def _problem(self, prepare: Callable[[], Awaitable[None]]) -> str | None:
        """Why no request should be sent here now."""
        if self.stopping:
            return STOPPING
        try:
            await prepare()
        except ProtocolError:
            return AWAY
        except Rejection:
            return NOT_STARTED
        return AWAY if await self.store_is_away() else None

    async def store_is_away(self) -> bool:
        return self._runtime.replica is not None and not await self._store_answers()

    async def _store_answers(self) -> bool:
        """Whether the store is there; probes that come together, or soon after another, ask it once."""
        loop = asyncio.get_running_loop()
        if self._asking is None or (self._asking.done() and loop.time() - self._asked >= ASKED):
            self._asking = loop.create_task(self._ask_store())
        return await asyncio.shield(self._asking)

    async def _ask_store(self) -> bool:
        replica = self._runtime.replica
        assert replica is not None
        try:
            async with asyncio.timeout(PATIENCE):
                await replica.store.kv_get(replica.key("ready"))
            return True
        except Exception as error:
            log.warning("not ready: %s", "the store did not answer in time" if not str(error) else error)
            return False
        finally:
            self._asked = asyncio.get_running_loop().time()
