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
    408: "too slow",
    413: "too large",
    421: "unknown host",
    429: "limit",
    431: "too large",
    503: "overload",
}
LONGEST: Final = 256
"""The characters of a path or a header that are shown."""


def said_by(request: HttpRequest) -> dict[str, str]:
    """What a request says of itself, for its line in a log: nothing that is secret."""
    scope, headers = request.scope, request.headers
    return {
        "client": client_site(scope),
        "method": scope["method"],
        "path": scope["path"][:LONGEST] + ("?…" if scope.get("query_string") else ""),
        "mcp_method": shown(headers.get(h.METHOD, b"").decode("latin-1")),
        "mcp_name": shown(headers.get(h.NAME, b"").decode("latin-1")),
        "reason": request.reason[: 2 * LONGEST],
    }


def shown(text: str) -> str:
    """A header without its query: the name of a resource may be a URL that has one."""
    place, question, _ = text[: LONGEST + 1].partition("?")
    return place[:LONGEST] + ("?…" if question else "")


def note_response(request: HttpRequest) -> None:
    """Write a line for a request that was refused."""
    if _is_refusal(request):
        note_refusal(EVENTS[request.status], request.user, status=request.status, **said_by(request))


def note_hang_up(client: tuple[str, int] | None, status: int, reason: bytes) -> None:
    """Write a line for what was refused before it was read: nothing but its sender is known."""
    if status in EVENTS:
        site = client_site({"client": client})
        note_refusal(EVENTS[status], None, status=status, client=site, reason=reason.decode())


def _is_refusal(request: HttpRequest) -> bool:
    """Whether a response is a refusal: a wrong path, an unknown method of MCP or a failed probe is not."""
    status = request.status
    if status == 404:
        return bool(request.reason) and h.SESSION in request.headers
    if status == 503:
        return bool(request.reason) or request.scope["method"] == "POST"
    return status == 403 or (status in EVENTS and bool(request.reason))
