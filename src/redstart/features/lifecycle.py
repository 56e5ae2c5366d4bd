"""The methods about the connection itself: initialize, ping, discover, the log level."""

from __future__ import annotations

from redstart.features.options import Cache
from redstart.protocol.call import Call
from redstart.protocol.handshake import DIALECTS
from redstart.protocol.modern import SUPPORTED, Modern
from redstart.wire.jsonrpc import INVALID_PARAMS, JsonObject, ProtocolError
from redstart.wire.meta import LOG_LEVELS, SERVER_INFO, Implementation
from redstart.wire.types import DiscoverResult, InitializeResult, Result


class Lifecycle:
    """Who the server is, and what it offers."""

    def __init__(
        self,
        info: Implementation,
        instructions: str | None,
        modern: Modern,
        capabilities: dict[str, JsonObject],
        cache: Cache,
    ) -> None:
        self.info = info
        self.instructions = instructions or None
        self.capabilities = capabilities
        self.cache = cache
        self._modern = modern

    async def initialize(self, call: Call) -> InitializeResult:
        dialect = DIALECTS[call.dialect.version]
        capabilities = dialect.capabilities(self.capabilities)
        if "tasks" in capabilities and not can_list(call):
            tasks = capabilities["tasks"]
            capabilities["tasks"] = {name: tasks[name] for name in tasks if name != "list"}
        return InitializeResult(
            protocol_version=dialect.version,
            capabilities=capabilities,
            server_info=self.info,
            instructions=self.instructions,
        )

    async def ping(self, call: Call) -> Result:
        return Result()

    async def discover(self, call: Call) -> DiscoverResult:
        return DiscoverResult(
            supported_versions=SUPPORTED,
            capabilities=self._modern.capabilities(self.capabilities),
            instructions=self.instructions,
            ttl_ms=int(self.cache.ttl * 1000),
            cache_scope=self.cache.scope,
            meta={SERVER_INFO: self.info},
        )

    async def set_level(self, call: Call) -> Result:
        level = call.params.level
        if level not in LOG_LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"Unknown log level {level!r}; expected one of {', '.join(LOG_LEVELS)}")
        if call.session is not None:
            call.session.log_level = level
        return Result()


def can_list(call: Call) -> bool:
    """Whether a client may list its tasks: over HTTP a client that nobody knows would see those of others."""
    return call.headers is None or call.user is not None
