"""Finding the era and the revision that both sides speak.

`server/discover` comes first. Every answer that is not of a modern server leads to `initialize`, whatever its code.
Spec: /specification/2026-07-28/basic/versioning (detection), /specification/2025-11-25/basic/lifecycle.
"""

from __future__ import annotations

import asyncio
import logging
import time
from importlib import metadata
from typing import Final

import msgspec
from msgspec import Struct

from redstart.client.connection import RpcConnection
from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS, HandshakeDialect, ModernDialect
from redstart.client.errors import ClientError, ConnectionClosed, HttpError, NotSupported, RequestError, SignInError
from redstart.client.options import ClientOptions
from redstart.client.results import decoded
from redstart.wire import jsonrpc, meta
from redstart.wire.meta import Implementation
from redstart.wire.types import DiscoverResult, InitializeResult

log = logging.getLogger("redstart.client")

PROBE: Final = 3.0
"""Seconds of silence on a pipe after which `initialize` is tried too."""

LATEST_HANDSHAKE: Final = HANDSHAKE_VERSIONS[-1]

_MODERN_CODES: Final = (jsonrpc.HEADER_MISMATCH, jsonrpc.MISSING_CLIENT_CAPABILITY)
"""Error codes that only a modern server has."""

_ACCESS: Final = (401, 402, 403, 407, 429)
"""HTTP statuses about access, which say nothing about the era."""

_UNKNOWN: Final = (400, 404, 405)
"""HTTP statuses of a server that does not know Streamable HTTP."""


REMEMBER: Final = 3600.0
"""Seconds in which a server that had no modern era is not asked for one again."""
MAX_KNOWN: Final = 1000
_handshakes: Final[dict[str, tuple[str, float]]] = {}
"""The servers of the handshake era that this process has met: the revision, and until when it counts."""


def forget_eras() -> None:
    """Ask every server again, as a new process does."""
    _handshakes.clear()


class Negotiated(Struct, frozen=True):
    """What the negotiation has found out about the server."""

    version: str
    info: Implementation
    capabilities: jsonrpc.JsonObject
    instructions: str | None


class Negotiator:
    """Opens a connection in one era, or finds out which era the server knows."""

    def __init__(self, connection: RpcConnection, options: ClientOptions) -> None:
        self._connection = connection
        self._capabilities = connection.handlers.capabilities
        self._client_info = options["client_info"] or {"name": "redstart", "version": _redstart_version()}
        self._log_level = options["log_level"]
        # Without a level a modern server sends no log at all; a client with a callback wants one.
        self._modern_log_level = self._log_level or (None if options["on_log"] is None else "info")

    async def open(self, protocol: str) -> Negotiated:
        """Settle on `protocol`, which is a revision or "auto"."""
        if protocol in HANDSHAKE_VERSIONS:
            return await self._handshake(protocol, exact=True)
        if protocol != "auto":
            return await self._probe(protocol)
        identity = self._connection.transport.identity
        known = await self._as_before(identity)
        server = await self._probe(protocol) if known is None else known
        if identity is not None and not self._connection.dialect.modern:
            while len(_handshakes) >= MAX_KNOWN:
                del _handshakes[next(iter(_handshakes))]
            _handshakes.setdefault(identity, (server.version, time.monotonic() + REMEMBER))
        return server

    async def _as_before(self, identity: str | None) -> Negotiated | None:
        """The handshake with a server that had no other era a while ago; None if it is not known, or has changed."""
        version, until = _handshakes.get(identity or "", ("", 0.0))
        if until <= time.monotonic():
            _handshakes.pop(identity or "", None)
            return None
        connection, transport = self._connection, self._connection.transport
        try:
            return await self._handshake(version)
        except (RequestError, HttpError, ConnectionClosed, NotSupported) as error:
            log.debug("the server does not know the handshake any more: %s", error)
        _handshakes.pop(identity or "", None)
        await connection.open(transport)
        return None

    async def _probe(self, protocol: str) -> Negotiated:
        """Ask for a modern revision first; what is not the answer of a modern server leads to `initialize`."""
        pinned = protocol in MODERN_VERSIONS
        try:
            server = await self._first_answer(protocol if pinned else MODERN_VERSIONS[-1])
        except (ClientError, TimeoutError) as error:
            server = await self._after_refusal(error, pinned)
        if pinned and server.version != protocol:
            raise _not_spoken(protocol, [server.version])
        return server

    async def _after_refusal(self, refusal: ClientError | TimeoutError, pinned: bool) -> Negotiated:
        """Try another revision. If that fails too, a client with a fixed revision gets the first refusal."""
        if pinned and isinstance(refusal, ConnectionClosed):  # a second start would end the same way
            raise refusal
        version = await self._other_version(refusal)
        try:
            return await (self._discover(version) if version in MODERN_VERSIONS else self._handshake(version))
        except (ClientError, TimeoutError):
            if not pinned:
                raise
            if isinstance(refusal, HttpError) and refusal.status in _UNKNOWN:
                text = f"there is no MCP endpoint here: {refusal.request}: HTTP {refusal.status}"
                raise NotSupported(text) from refusal
            raise refusal from None

    # ---------------------------------------------------------------- the modern era

    def _modern_dialect(self, version: str) -> ModernDialect:
        return ModernDialect(version, self._capabilities(version), self._client_info, self._modern_log_level)

    async def _discover(self, version: str) -> Negotiated:
        self._connection.dialect = self._modern_dialect(version)
        raw = await self._connection.request("server/discover")
        result = decoded("server/discover", DiscoverResult, raw)
        if version not in result.supported_versions:
            raise _not_spoken(version, result.supported_versions)
        info = result.meta.get(meta.SERVER_INFO) if isinstance(result.meta, dict) else None
        try:
            server = msgspec.convert(info, Implementation)
        except msgspec.ValidationError:
            server = Implementation("")  # a server should give its name, but need not
        return Negotiated(version, server, result.capabilities, result.instructions or None)

    async def _first_answer(self, version: str) -> Negotiated:
        """The answer to `server/discover`, or to `initialize` if a pipe stays silent for a while.

        A silent server is an older one that ignores the question, or any server that is slow to start. A server that
        knows both questions answers the first one first.
        """
        probe = asyncio.ensure_future(self._discover(version))
        tasks = [probe]
        try:
            if not self._connection.transport.http and not (await asyncio.wait(tasks, timeout=PROBE))[0]:
                tasks.append(asyncio.ensure_future(self.initialize(LATEST_HANDSHAKE)))
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if not probe.done() or probe.exception() is not None:
                    return await tasks[1]
            server = await probe
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._connection.dialect = self._modern_dialect(version)  # the answer to `initialize` may have come, too
        return server

    async def _other_version(self, error: ClientError | TimeoutError) -> str:
        """The revision to try after `error`; raises `error` again if it does not name another revision."""
        offered = _offered(error)
        if offered:
            common = [version for version in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS) if version in offered]
            if not common:
                raise NotSupported(f"the server speaks {', '.join(offered)}, none of which this client does") from error
            return common[-1]
        if isinstance(error, RequestError) and error.code in _MODERN_CODES:
            raise error
        refused = isinstance(error, HttpError) and error.status in _ACCESS
        if refused or isinstance(error, TimeoutError | SignInError):
            raise error
        if isinstance(error, ConnectionClosed):
            connection = self._connection
            if connection.gone is None or not connection.transport.restartable:
                raise error
            log.debug("the server ended because the first request was not initialize; it is started once more")
            await connection.open(connection.transport)
        return LATEST_HANDSHAKE

    # ---------------------------------------------------------------- the handshake era

    async def _handshake(self, version: str, *, exact: bool = False) -> Negotiated:
        """`initialize`, by an older transport if the server does not know this one."""
        try:
            return await self.initialize(version, exact=exact)
        except HttpError as error:
            older = self._connection.transport.older() if error.status in _UNKNOWN else None
            if older is None:
                raise
            try:
                await self._connection.open(older)
            except (ClientError, TimeoutError):
                raise error from None
        return await self.initialize(version, exact=exact)

    async def initialize(self, version: str, *, exact: bool = False) -> Negotiated:
        """The two messages of the handshake, and the log level that was asked for."""
        connection = self._connection
        connection.dialect = HandshakeDialect()
        params = {
            "protocolVersion": version,
            "capabilities": self._capabilities(version),
            "clientInfo": self._client_info,
        }
        result = decoded("initialize", InitializeResult, await connection.request("initialize", params))
        answered = result.protocol_version
        if answered not in HANDSHAKE_VERSIONS or (exact and answered != version):
            raise NotSupported(f"asked for {version}, the server speaks {answered}")
        connection.dialect = HandshakeDialect(answered)
        await connection.notify("notifications/initialized")
        connection.transport.listen(connection.dialect.headers("", {}))
        if self._log_level is not None and "logging" in result.capabilities:
            await connection.request("logging/setLevel", {"level": self._log_level})
        return Negotiated(answered, result.server_info, result.capabilities, result.instructions or None)


def _offered(error: Exception) -> list[str]:
    """The revisions that the error of an unsupported version names."""
    if not isinstance(error, RequestError) or error.code != jsonrpc.UNSUPPORTED_PROTOCOL_VERSION:
        return []
    offered = error.data.get("supported") if isinstance(error.data, dict) else None
    return [str(version) for version in offered] if isinstance(offered, list) else []


def _not_spoken(version: str, offered: list[str]) -> NotSupported:
    return NotSupported(f"the server does not speak {version}, but {', '.join(offered) or 'no revision'}")


def _redstart_version() -> str:
    try:
        return metadata.version("redstart")
    except metadata.PackageNotFoundError:
        return "0"
