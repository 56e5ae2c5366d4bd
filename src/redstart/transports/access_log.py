"""The access log: one line of JSON for each HTTP request, when its response has ended. Loaded only if it is wanted.

It says who asked for what, and how that ended. It never says a token, a query string, an argument or a result; a user
is shown by a hash of its key, so that lines of one user can be found.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from redstart.features.audit import log_line
from redstart.features.principal import user_mark
from redstart.observe.metrics import Outcome, is_task_run, outcome_of
from redstart.protocol import headers as h
from redstart.protocol.call import Call
from redstart.transports.audit import said_by, shown
from redstart.transports.request import HttpRequest

if TYPE_CHECKING:
    from redstart.server.runtime import Runtime

log = logging.getLogger("redstart.access")
CLIENT_GONE: Final = 499
"""The status of a request whose client did not wait for the response, as nginx writes it."""

Serve = Callable[[HttpRequest], Coroutine[object, object, None]]
Ended = list[tuple[str, str, str]]
"""The method, the name and the outcome of each call of a request."""
_ENDED: Final[ContextVar[Ended]] = ContextVar("ended")


def logged(serve: Serve, runtime: Runtime) -> Serve:
    """`serve`, with a line for each request. Where nobody has set up this logger, the lines go to stderr."""
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
    runtime.observe(_see)

    async def serve_and_log(request: HttpRequest) -> None:
        began, failed, ended = time.perf_counter(), True, Ended()
        _ENDED.set(ended)
        try:
            await serve(request)
            failed = False
        finally:
            status = request.status or (500 if failed else CLIENT_GONE)
            log.info("%s", _line(request, status, time.perf_counter() - began, ended))

    return serve_and_log


def _see(call: Call) -> Callable[[Outcome], None]:
    """Note how a call ends for the line of its request, which the headers of older revisions do not name."""
    ended = Ended() if is_task_run(call) else _ENDED.get(Ended())
    method, name = call.method.name, call.name or call.uri or ""
    return lambda outcome: ended.append((method, name, outcome_of(outcome)))


def _line(request: HttpRequest, status: int, seconds: float, ended: Ended) -> str:
    fields: dict[str, object] = {
        "status": status,
        "ms": round(seconds * 1000, 3),
        "user": user_mark(request.user),
        **said_by(request),
        "version": shown(request.headers.get(h.VERSION, b"").decode("latin-1")),
        "agent": shown(request.headers.get(b"user-agent", b"").decode("latin-1")),
    }
    for name, values in zip(("mcp_method", "mcp_name", "outcome"), zip(*ended, strict=True), strict=False):
        fields[name] = shown(",".join(dict.fromkeys(values)))
    return log_line(**fields)
