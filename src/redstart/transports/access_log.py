"""The access log: one line of JSON for each HTTP request, when its response has ended. Loaded only if it is wanted.

It says who asked for what, and how that ended. It never says a token, a query string, an argument or a result; a user
is shown by a hash of its key, so that lines of one user can be found.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Final

from redstart.features.principal import user_mark
from redstart.protocol import headers as h
from redstart.transports.address import client_site
from redstart.transports.request import HttpRequest
from redstart.wire.jsonrpc import encode

log = logging.getLogger("redstart.access")
LONGEST: Final = 256
"""The characters of a path or a header that are shown."""
CLIENT_GONE: Final = 499
"""The status of a request whose client did not wait for the response, as nginx writes it."""

Serve = Callable[[HttpRequest], Coroutine[object, object, None]]


def logged(serve: Serve) -> Serve:
    """`serve`, with a line for each request. Where nobody has set up this logger, the lines go to stderr."""
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)

    async def serve_and_log(request: HttpRequest) -> None:
        began = time.perf_counter()
        failed = True
        try:
            await serve(request)
            failed = False
        finally:
            status = request.status or (500 if failed else CLIENT_GONE)
            log.info("%s", _line(request, status, time.perf_counter() - began))

    return serve_and_log


def _line(request: HttpRequest, status: int, seconds: float) -> str:
    scope, headers = request.scope, request.headers
    shown = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "client": client_site(scope),
        "user": user_mark(request.user),
        "method": scope["method"],
        "path": scope["path"][:LONGEST] + ("?…" if scope.get("query_string") else ""),
        "status": status,
        "ms": round(seconds * 1000, 3),
        "version": _shown(headers.get(h.VERSION, b"")),
        "mcp_method": _shown(headers.get(h.METHOD, b"")),
        "mcp_name": _shown(headers.get(h.NAME, b"")),
        "agent": _shown(headers.get(b"user-agent", b"")),
    }
    return encode({name: value for name, value in shown.items() if value != ""}).decode()


def _shown(value: bytes) -> str:
    """A header without its query: the name of a resource may be a URL that has one."""
    text = value[: LONGEST + 1].decode("latin-1")
    place, question, _ = text.partition("?")
    return place[:LONGEST] + ("?…" if question else "")
