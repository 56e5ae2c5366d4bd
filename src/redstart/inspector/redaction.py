"""What is hidden before anything leaves the process. See docs/design/0007-inspector.md, "What is hidden".

Arguments are secret if the schema of the tool says `"writeOnly": true` or `"format": "password"`. In strict mode, for
servers in production, nothing that a user or a handler has said is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from redstart.protocol.headers import Headers
from redstart.wire.jsonrpc import decode, encode

HIDDEN: Final = "…"
SECRET_HEADER: Final = re.compile(rb"authorization|cookie|token|secret|key|password", re.IGNORECASE)
SHOWN_HEADERS: Final = frozenset(
    (b"accept", b"content-type", b"content-length", b"host", b"mcp-protocol-version", b"mcp-method", b"user-agent")
)
"""The headers whose values are shown in strict mode."""
MAX_HEADERS: Final = 64
MAX_VALUE: Final = 1024


def shown_headers(headers: Headers, *, strict: bool) -> dict[str, str]:
    """Headers without secrets."""
    found = {}
    for name, value in list(headers.items())[:MAX_HEADERS]:
        hidden = name not in SHOWN_HEADERS if strict else SECRET_HEADER.search(name) is not None
        found[name.decode("latin-1")] = HIDDEN if hidden else value[:MAX_VALUE].decode("latin-1")
    return found


def secret_names(schema: Mapping[str, object]) -> frozenset[str]:
    """The arguments that a schema marks as secret, also inside of objects: their names."""
    found: set[str] = set()
    _collect(schema, found, 0)
    return frozenset(found)


def _collect(schema: object, found: set[str], depth: int) -> None:
    if depth > 16:
        return
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            found.update(name for name, inner in properties.items() if _is_secret(inner))
        for inner in schema.values():
            _collect(inner, found, depth + 1)
    elif isinstance(schema, list):
        for inner in schema:
            _collect(inner, found, depth + 1)


def _is_secret(schema: object) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if schema.get("writeOnly") is True or schema.get("format") == "password":
        return True
    return any(_is_secret(part) for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key) or ())


def without_secrets(data: bytes, names: frozenset[str]) -> bytes:
    """A message whose arguments of these names are hidden, wherever they stand in it."""
    try:
        return encode(_hide(decode(data), names))
    except (ValueError, RecursionError):
        return b'"not shown, because it cannot be read and may have secrets in it"'


def _hide(value: object, names: frozenset[str]) -> object:
    if isinstance(value, dict):
        return {key: HIDDEN if key in names else _hide(inner, names) for key, inner in value.items()}
    return [_hide(inner, names) for inner in value] if isinstance(value, list) else value
