"""Finding the era and the revision that both sides speak.

`server/discover` first; whatever is no sign of a modern server leads to `initialize`, never one particular code.
Spec: /specification/2026-07-28/basic/versioning (detection), /specification/2025-11-25/basic/lifecycle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from redstart.client.connection import RpcConnection
from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS, HandshakeDialect, ModernDialect
from redstart.client.errors import (
    ClientError,
    ConnectionClosed,
    HttpError,
    InvalidReply,
    NotSupported,
    RequestError,
)
from redstart.client.handlers import QuestionHandlers
from redstart.client.results import decoded
from redstart.wire import meta
from redstart.wire.jsonrpc import HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION
from redstart.wire.meta import Implementation
from redstart.wire.types import DiscoverResult, InitializeResult

log = logging.getLogger("redstart.client")

PROBE: Final = 3.0
"""Seconds of silence on a pipe after which `initialize` is tried too."""

_ACCESS: Final = (401, 402, 403, 407, 429)
"""HTTP statuses that say who may ask, nothing about the era."""

_UNKNOWN: Final = (400, 404, 405)
"""HTTP statuses of a server that does not know Streamable HTTP."""

_discovered: Final = msgspec.json.Decoder(DiscoverResult)
_initialized: Final = msgspec.json.Decoder(InitializeResult)


class Negotiated(Struct, frozen=True):
    """What is known of the server."""

    version: str
    info: Implementation
    capabilities: dict[str, Any]
    instructions: str | None


class Negotiator:
    """Opens a connection by the rules of one era, or finds out which."""

    def __init__(
        self,
        connection: RpcConnection,
        handlers: QuestionHandlers,
        client_info: Mapping[str, Any],
        log_level: str | None,
        modern_level: str | None,
    ) -> None:
        self._connection = connection
        self._handlers = handlers
        self._client_info = client_info
        self._log_level = log_level
        self._modern_level = modern_level
        self._modern: ModernDialect

    async def open(self, protocol: str) -> Negotiated:
        """Settle on `protocol`, which is a revision or "auto"."""
        if protocol in MODERN_VERSIONS:
            return await self._pinned(protocol)
        if protocol in HANDSHAKE_VERSIONS:
            return await self._shake_hands(protocol, exact=True)
        return await self._detect()

    # ---------------------------------------------------------------- the modern era

    async def _discover(self, version: str) -> Negotiated:
        connection = self._connection
        capabilities = self._handlers.capabilities(version)
        connection.dialect = self._modern = ModernDialect(version, capabilities, self._client_info, self._modern_level)
        raw = await connection.request("server/discover")
        found: DiscoverResult = decoded("server/discover", _discovered, raw)
        if version not in found.supported_versions:
            raise NotSupported(f"the server does not speak {version}, but {_listed(found.supported_versions)}")
        said = found.meta.get(meta.SERVER_INFO) if isinstance(found.meta, dict) else None
        try:
            info = msgspec.convert(said, Implementation)
        except msgspec.ValidationError:
            info = Implementation("")  # it should say who it is, but need not
        return Negotiated(version, info, found.capabilities, found.instructions or None)

    async def _pinned(self, version: str) -> Negotiated:
        """The server at this very revision, or what it speaks instead."""
        try:
            return await self._discover(version)
        except (RequestError, HttpError, InvalidReply, ConnectionClosed) as error:
            if isinstance(error, RequestError) and (offered := _offered(error)):
                raise NotSupported(f"the server does not speak {version}, but {_listed(offered)}") from error
            await self._verdict(error)
            try:
                older = await self._shake_hands(HANDSHAKE_VERSIONS[-1])
            except (ClientError, TimeoutError):
                if not isinstance(error, HttpError) or error.status not in _UNKNOWN:
                    raise error from None
                raise NotSupported(f"there is no MCP endpoint here: {error.request}: HTTP {error.status}") from error
            raise NotSupported(f"the server does not speak {version}, but {older.version}") from error

    async def _detect(self) -> Negotiated:
        probe = asyncio.ensure_future(self._discover(MODERN_VERSIONS[-1]))
        probe.add_done_callback(_seen)
        try:
            return await self._first_answer(probe)
        except (ClientError, TimeoutError) as error:
            offer = await self._verdict(error)
        finally:
            probe.cancel()
        return await (self._shake_hands(HANDSHAKE_VERSIONS[-1]) if offer is None else self._discover(offer))

    async def _first_answer(self, probe: asyncio.Future[Negotiated]) -> Negotiated:
        """The answer to the probe, or to `initialize` where there is none for a while.

        Silence on a pipe is an older server that ignores the question, or any server that is slow to start. Ask the
        older way too: a server that knows both answers in the order of the questions.
        """
        if self._connection.transport.http or (await asyncio.wait([probe], timeout=PROBE))[0]:
            return await probe
        hello = asyncio.ensure_future(self.initialize(HANDSHAKE_VERSIONS[-1]))
        hello.add_done_callback(_seen)
        try:
            await asyncio.wait([probe, hello], return_when=asyncio.FIRST_COMPLETED)
            if probe.done() and probe.exception() is None:
                self._connection.dialect = self._modern
                return probe.result()
            return await hello
        finally:
            hello.cancel()

    async def _verdict(self, error: ClientError | TimeoutError) -> str | None:
        """A modern revision to try, or `None` for the handshake; raises what is no sign of either."""
        if isinstance(error, RequestError):
            if error.code in (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY):
                raise error
            _refuse_strangers(error)
            return _mutual(error)
        if isinstance(error, HttpError) and error.status in _ACCESS:
            raise error
        if isinstance(error, TimeoutError) or (isinstance(error, ConnectionClosed) and not await self._restarted()):
            raise error
        return None

    async def _restarted(self) -> bool:
        """There are servers that end when the first request is not `initialize`: start them once more."""
        connection = self._connection
        if connection.gone is None or not connection.transport.restartable:
            return False
        log.debug("the server ended over server/discover; it is started once more")
        await connection.open(connection.transport)
        return True

    # ---------------------------------------------------------------- the handshake era

    async def _shake_hands(self, version: str, *, exact: bool = False) -> Negotiated:
        """`initialize`, by an older transport where the server refuses the very idea of this one."""
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
        """The handshake, its two messages, and the log level that was asked for."""
        connection = self._connection
        connection.dialect = HandshakeDialect()
        params = {
            "protocolVersion": version,
            "capabilities": self._handlers.capabilities(version),
            "clientInfo": self._client_info,
        }
        raw = await connection.request("initialize", params)
        result: InitializeResult = decoded("initialize", _initialized, raw)
        answered = result.protocol_version
        if answered not in HANDSHAKE_VERSIONS or (exact and answered != version):
            raise NotSupported(f"asked for {version}, the server speaks {answered}")
        connection.dialect = HandshakeDialect(answered)
        await connection.notify("notifications/initialized")
        connection.transport.listen(connection.dialect.headers("", {}))
        if self._log_level is not None and "logging" in result.capabilities:
            await connection.request("logging/setLevel", {"level": self._log_level})
        return Negotiated(answered, result.server_info, result.capabilities, result.instructions or None)


def _seen(task: asyncio.Future[Negotiated]) -> None:
    """The loser of a race has an exception that nobody waits for."""
    if not task.cancelled():
        task.exception()


def _mutual(error: RequestError) -> str | None:
    """The newest revision that a "wrong version" error offers and we speak."""
    offered = _offered(error)
    return next((version for version in reversed(MODERN_VERSIONS) if version in offered), None)


def _offered(error: RequestError) -> list[str]:
    if error.code != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(error.data, dict):
        return []
    offered = error.data.get("supported")
    return offered if isinstance(offered, list) else []


def _refuse_strangers(error: RequestError) -> None:
    """A server that names its revisions, none of them ours, is no older server."""
    offered = _offered(error)
    if offered and not set(offered) & {*HANDSHAKE_VERSIONS, *MODERN_VERSIONS}:
        raise NotSupported(f"the server speaks {_listed(offered)}, none of which this client does") from error


def _listed(versions: list[str]) -> str:
    return ", ".join(versions) or "no revision"
