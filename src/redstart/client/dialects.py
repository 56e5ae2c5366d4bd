"""The two eras as a client speaks them: what every request carries.

Knows: `_meta`, version headers. Must not know: transports, sockets, tools.
Spec: /specification/2026-07-28/basic (envelope), /specification/2025-11-25/basic/lifecycle (handshake).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from redstart.client import headers
from redstart.protocol.handshake import REVISIONS
from redstart.protocol.modern import SUPPORTED
from redstart.wire import meta

HANDSHAKE_VERSIONS: Final = REVISIONS
MODERN_VERSIONS: Final = tuple(SUPPORTED)
FORMS_SINCE: Final = REVISIONS[2]
"""The first revision with elicitation."""
URLS_SINCE: Final = REVISIONS[3]
"""The first revision with elicitation by URL."""

VERSION_HEADER: Final = "MCP-Protocol-Version"


class HandshakeDialect:
    """The four revisions whose `initialize` settles the version and who we are.

    >>> HandshakeDialect(HANDSHAKE_VERSIONS[-1]).params({"name": "add"}, {"progressToken": 1})
    {'name': 'add', '_meta': {'progressToken': 1}}
    """

    modern = False

    def __init__(self, version: str | None = None) -> None:
        self.version = version

    def params(self, params: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Any] | None:
        """The parameters of a request with its `_meta`; nothing stays nothing."""
        if not own:
            return None if params is None else dict(params)
        params = params or {}
        return {**params, "_meta": {**params.get("_meta", {}), **own}}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """The headers of a message: none before the version is known."""
        return {} if self.version is None else {VERSION_HEADER: self.version}


class ModernDialect:
    """The revision whose every request says for itself who asks, and with which capabilities.

    >>> ModernDialect(MODERN_VERSIONS[-1], {}, {"name": "c"}).headers("tools/list", {})["Mcp-Method"]
    'tools/list'
    """

    modern = True

    def __init__(
        self,
        version: str,
        capabilities: Mapping[str, Any],
        client_info: Mapping[str, Any],
        log_level: str | None = None,
    ) -> None:
        self.version = version
        self._envelope: dict[str, Any] = {
            meta.PROTOCOL_VERSION: version,
            meta.CLIENT_CAPABILITIES: capabilities,
            meta.CLIENT_INFO: client_info,
        }
        if log_level is not None:
            self._envelope[meta.LOG_LEVEL] = log_level

    def params(self, params: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a request with its envelope."""
        params = params or {}
        return {**params, "_meta": {**self._envelope, **params.get("_meta", {}), **own}}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """The headers that repeat the body."""
        return {VERSION_HEADER: self.version, **headers.request_headers(method, params)}


ClientDialect = HandshakeDialect | ModernDialect
