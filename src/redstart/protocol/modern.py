"""The modern dialect: every message carries its own envelope, nothing is remembered between requests.

Knows: `_meta`, resultType, serverInfo, cache hints, error codes. Must not know: transports, tools, time.
Spec: /specification/2026-07-28/basic (envelope), /basic/patterns/mrtr (asking).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from redstart.protocol.dialect import Structured, Tasks
from redstart.protocol.headers import Headers, SteadyHeaders, check_agreement
from redstart.protocol.methods import MODERN, Method
from redstart.protocol.strict import MAX_DEPTH
from redstart.wire.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ProtocolError,
    encode,
)
from redstart.wire.meta import (
    CLIENT_CAPABILITIES,
    LOG_LEVELS,
    SERVER_INFO,
    TASKS_EXTENSION,
    Implementation,
    RequestMeta,
)
from redstart.wire.types import ListedTool

VERSION: Final = "2026-07-28"
SUPPORTED: Final = [VERSION]

# The HTTP status of a fault that a handler raised. Others are 200: a 400 with a code that is not of this
# revision would make a client of both eras fall back to the handshake.
HANDLER_STATUS: Final = {
    METHOD_NOT_FOUND: 404,
    MISSING_CLIENT_CAPABILITY: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
}

REFUSED_STATUS: Final = {METHOD_NOT_FOUND: 404}


class Refused(ProtocolError):
    """A modern request that was refused before any handler. Over HTTP it has a status of its own."""


class Modern:
    """The revision 2026-07-28, as the server with this name speaks it."""

    version = VERSION
    modern = True
    structured: Structured = "any"
    batches = False
    progress_messages = True
    asks = False
    primes = False
    url_required = False
    titled_choices = True
    sampling_parts = True
    tasks: Tasks = "extension"

    def __init__(self, server: Implementation, max_depth: int = MAX_DEPTH) -> None:
        self.rename(server)
        self.max_depth = max_depth
        """How deeply a message may be nested, of any revision."""

    def rename(self, server: Implementation) -> None:
        """From now on speak for the server with this name."""
        # It is part of every result, so its icons and texts are left out; `server/discover` has them.
        self._info = Raw(encode({"name": server.name, "version": server.version}))
        self._meta = Raw(encode({SERVER_INFO: self._info}))

    def dress(self, result: Any) -> bytes:
        if type(result) is Raw:
            return bytes(result)
        if result.result_type is None:
            result.result_type = "complete"
        if result.meta is None:
            result.meta = self._meta
        elif isinstance(result.meta, dict):
            result.meta = {SERVER_INFO: self._info, **result.meta}
        return encode(result)

    def entry(self, listed: Any) -> Any:
        if type(listed) is ListedTool and listed.execution is not None:
            return msgspec.structs.replace(listed, execution=None)
        return listed

    def block(self, block: Any) -> Any:
        return block

    def fault(self, error: ProtocolError) -> ProtocolError:
        if error.code == RESOURCE_NOT_FOUND:
            return ProtocolError(INVALID_PARAMS, error.message, error.data)
        return error

    def status(self, code: int) -> int:
        return HANDLER_STATUS.get(code, 200)

    def capabilities(self, offered: dict[str, Any]) -> dict[str, Any]:
        told = {name: value for name, value in offered.items() if name != "tasks"}
        return {**told, "extensions": {TASKS_EXTENSION: {}}} if "tasks" in offered else told


def check(row: Method | None, name: str, params: Any, meta: RequestMeta, headers: Headers | None) -> None:
    """Refuse a malformed modern request. The order is the spec's: envelope, headers, version, method.

    `params` is None where they could not be read: then there is no name to compare a header with.
    """
    version: str = meta.protocol_version  # type: ignore[assignment]  # without one it is not a modern request
    if meta.client_capabilities is UNSET:
        raise missing(CLIENT_CAPABILITIES)
    if headers is not None:
        names = None if row is None or params is None else row.names  # the parameter that `Mcp-Name` repeats
        wanted = version, row.raw if row else name.encode(), None if names is None else getattr(params, names)
        if not isinstance(headers, SteadyHeaders):
            check_agreement(headers, *wanted)
        elif headers.agree_with != wanted:
            check_agreement(headers, *wanted)
            headers.agree_with = wanted
    if version != VERSION:
        raise Refused(
            UNSUPPORTED_PROTOCOL_VERSION,
            "Unsupported protocol version",
            {"supported": SUPPORTED, "requested": version},
        )
    if row is None or not row.eras & MODERN:
        raise Refused(METHOD_NOT_FOUND, f"Method not found: {name}")
    if meta.log_level is not UNSET and meta.log_level not in LOG_LEVELS:
        raise Refused(INVALID_PARAMS, f"Unknown log level; expected one of {', '.join(LOG_LEVELS)}")


def missing(key: str) -> Refused:
    return Refused(INVALID_PARAMS, f"Every request of this protocol version needs params._meta[{key!r}]")
