"""The two eras as a client speaks them: what every request carries.

Knows `_meta` and the version headers. Must not know transports or tools.
Spec: /specification/2026-07-28/basic (envelope), /specification/2025-11-25/basic/lifecycle (handshake).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from redstart.client import headers
from redstart.protocol.handshake import REVISIONS
from redstart.protocol.modern import SUPPORTED
from redstart.wire import meta
from redstart.wire.jsonrpc import JsonMapping, JsonObject

HANDSHAKE_VERSIONS: Final = REVISIONS
MODERN_VERSIONS: Final = tuple(SUPPORTED)
FORMS_SINCE: Final = REVISIONS[2]
"""The first revision with elicitation."""
URLS_SINCE: Final = REVISIONS[3]
"""The first revision with elicitation by URL."""

VERSION_HEADER: Final = "MCP-Protocol-Version"


class HandshakeDialect:
    """The four revisions that settle the version and the capabilities by `initialize`.

    >>> HandshakeDialect(HANDSHAKE_VERSIONS[-1]).params({"name": "add"}, {"progressToken": 1})
    {'name': 'add', '_meta': {'progressToken': 1}}
    """

    modern = False

    def __init__(self, version: str = "") -> None:
        self.version = version

    def params(self, params: JsonMapping | None, own: JsonMapping) -> JsonObject | None:
        """The parameters with their `_meta`. A request without parameters stays without."""
        if own:
            return _with_meta(params, {}, own)
        return None if params is None else dict(params)

    def headers(self, method: str, params: JsonMapping) -> dict[str, str]:
        """The version, as soon as it is known."""
        return {VERSION_HEADER: self.version} if self.version else {}


class ModernDialect:
    """The revision in which every request names its version, its client and its capabilities.

    >>> ModernDialect(MODERN_VERSIONS[-1], {}, {"name": "c"}).headers("tools/list", {})["Mcp-Method"]
    'tools/list'
    """

    modern = True

    def __init__(
        self,
        version: str,
        capabilities: JsonMapping,
        client_info: JsonMapping,
        log_level: str | None = None,
    ) -> None:
        self.version = version
        self._envelope: JsonObject = {
            meta.PROTOCOL_VERSION: version,
            meta.CLIENT_CAPABILITIES: capabilities,
            meta.CLIENT_INFO: client_info,
        }
        if log_level is not None:
            self._envelope[meta.LOG_LEVEL] = log_level

    def params(self, params: JsonMapping | None, own: JsonMapping) -> JsonObject:
        """The parameters with the envelope."""
        return _with_meta(params, self._envelope, own)

    def headers(self, method: str, params: JsonMapping) -> dict[str, str]:
        """The headers that repeat parts of the body."""
        return {VERSION_HEADER: self.version, **headers.request_headers(method, params)}


def _with_meta(params: JsonMapping | None, envelope: JsonMapping, own: JsonMapping) -> JsonObject:
    params = params or {}
    return {**params, "_meta": {**envelope, **params.get("_meta", {}), **own}}


ClientDialect: TypeAlias = HandshakeDialect | ModernDialect
