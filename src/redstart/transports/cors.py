"""CORS: what a browser must read before it lets a page of another site use the server.

Only the sites of `allowed_origins=` are told so. A page sends its token itself, so credentials of the browser (cookies)
are never allowed. Spec: https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from redstart.transports.request import ALLOW_ORIGIN, HeaderList

METHOD: Final = b"access-control-request-method"
_HEADERS: Final = b"access-control-request-headers"
_NAMES: Final = re.compile(rb"[\w!#$%&'*+.^`|~, -]{1,4096}", re.ASCII)
_EXPOSED: Final = (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate")
_MAX_AGE: Final = (b"access-control-max-age", b"600")


def grant(origin: bytes) -> HeaderList:
    """The headers by which a page of this site may read a response."""
    return [(ALLOW_ORIGIN, origin), (b"vary", b"Origin"), _EXPOSED]


def preflight(headers: Mapping[bytes, bytes]) -> HeaderList:
    """The permission that a browser asks for; what a method or a header leads to is decided when the request comes.

    The names are repeated, because `Mcp-Param-*` is a family of them and `*` does not stand for `Authorization`.
    """
    asked = ((b"access-control-allow-methods", METHOD), (b"access-control-allow-headers", _HEADERS))
    return [_MAX_AGE, *((given, headers[name]) for given, name in asked if _NAMES.fullmatch(headers.get(name, b"")))]
