"""The admin port: `GET /metrics` for Prometheus, on a socket apart from the one that clients use.

It has neither tokens nor TLS, so it listens on the loopback address unless another one is named. It serves one short
request at a time for each connection, and few connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from redstart.observe.metrics import CallMetrics, Figures, read, written
from redstart.transports.guard import Guard
from redstart.transports.listen import bind, is_loopback, url_host
from redstart.transports.loop import say
from redstart.transports.request import Rejection

if TYPE_CHECKING:
    from redstart.transports.http import Endpoint
    from redstart.transports.http_options import HttpOptions

Collect = Callable[[], Awaitable[Figures]]
SECONDS: Final = 5.0
"""How long one request on the admin port may take."""
ASKED: Final = 2.0
"""How long another process has for its figures."""
MAX_HEAD, MAX_OPEN, MAX_TEXT = 8192, 16, 64 * 1024 * 1024
_REFUSED: Final = (
    b"The figures are for this machine: ask for them as localhost or 127.0.0.1, and from no page of a browser. To have "
    b"your monitoring reach them, name an address with --admin-host (admin_host=)."
)
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class AdminPort:
    """Answers requests with what `collect` gives at that moment."""

    def __init__(self, collect: Collect, host: str) -> None:
        self._collect = collect
        # An address that others reach has names that nobody knows.
        self._guard = Guard([host] if is_loopback(host) else ["*"])
        self._open = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_OPEN:
                async with asyncio.timeout(SECONDS):
                    writer.write(await self._response(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is slow, has gone, or says too much
        finally:
            self._open -= 1
            writer.close()

    async def _response(self, head: bytes) -> bytes:
        first, *lines = head.split(b"\r\n")
        method, _, rest = first.partition(b" ")
        pairs = (line.partition(b":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        status, body = "200 OK", b""
        try:
            self._guard.check(headers)
        except Rejection as rejection:
            status, body = f"{rejection.status} Refused", _REFUSED
        else:
            if rest.partition(b" ")[0].partition(b"?")[0] != b"/metrics":
                status, body = "404 Not Found", b"The figures are at /metrics"
            elif method not in (b"GET", b"HEAD"):
                status, body = "405 Method Not Allowed", b"The figures can only be read"
            else:
                body = written(await self._collect())
        fields = f"content-type: {_TEXT}\r\ncontent-length: {len(body)}\r\nconnection: close"
        return f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode("latin-1") + (b"" if method == b"HEAD" else body)


@asynccontextmanager
async def serving_figures(listener: socket.socket, host: str, collect: Collect) -> AsyncIterator[None]:
    """Answer requests on this socket."""
    listener.setblocking(False)
    server = await asyncio.start_server(AdminPort(collect, host).connected, sock=listener, limit=MAX_HEAD)
    try:
        yield
    finally:
        server.close()


@asynccontextmanager
async def admin_port(app: Endpoint, options: HttpOptions) -> AsyncIterator[None]:
    """The admin port of one process, if the options ask for it."""
    listener, port = options["admin_listener"], options["admin_port"]
    if listener is None and port is None:
        yield
        return
    metrics = CallMetrics(app.runtime.known_name)
    app.runtime.observe(metrics.begin)

    async def collect() -> Figures:
        return metrics.figures() | await app.figures()

    host = options["admin_host"]
    if listener is None:
        listener = bind_admin(host, port or 0)
    else:
        host = listener.getsockname()[0]
    async with serving_figures(listener, host, collect):
        yield


def bind_admin(host: str, port: int) -> socket.socket:
    """The socket of an admin port; says where it is."""
    listener = bind(host, port)
    say(f"metrics are served at http://{url_host(host)}:{listener.getsockname()[1]}/metrics")
    return listener


async def ask_figures(port: int) -> Figures:
    """The figures of another process of ours on this machine. OSError or TimeoutError: it does not answer."""
    async with asyncio.timeout(ASKED):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
            text = await reader.read(MAX_TEXT)
            while part := await reader.read(MAX_TEXT):
                text += part
        finally:
            writer.close()
    head, _, body = text.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError("a process did not give its figures")
    return read(body.decode())
