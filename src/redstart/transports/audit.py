"""Which HTTP responses are refusals, and what the logger `redstart.audit` says of them."""

from __future__ import annotations

from typing import Final

from redstart.features.audit import note_refusal
from redstart.protocol import headers as h
from redstart.transports.address import client_site
from redstart.transports.request import HttpRequest

EVENTS: Final = {
    400: "malformed",
    401: "no valid token",
    403: "not allowed",
    404: "unknown session",
    413: "too large",
    421: "unknown host",
    429: "limit",
    503: "overload",
}
LONGEST: Final = 256


def note_response(request: HttpRequest) -> None:
    """Write a line for a request that was refused."""
    status, headers = request.status, request.headers
    if not _is_refusal(request):
        return
    note_refusal(
        EVENTS[status],
        request.user,
        status=status,
        reason=request.reason[: 2 * LONGEST],
        client=client_site(request.scope),
        method=request.scope["method"],
        path=request.scope["path"][:LONGEST],
        mcp_method=_shown(headers.get(h.METHOD, b"")),
        mcp_name=_shown(headers.get(h.NAME, b"")),
    )


def _is_refusal(request: HttpRequest) -> bool:
    """Whether a response is a refusal: a wrong path, an unknown method of MCP or a failed probe is not."""
    status = request.status
    if status == 404:
        return bool(request.reason) and h.SESSION in request.headers
    if status == 503:
        return bool(request.reason) or request.scope["method"] == "POST"
    return status == 403 or (status in EVENTS and bool(request.reason))


def _shown(value: bytes) -> str:
    """A header without its query: the name of a resource may be a URL that has one."""
    return value[:LONGEST].decode("latin-1").partition("?")[0]
