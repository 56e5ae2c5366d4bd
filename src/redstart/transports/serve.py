"""`server.run("http")`: the ASGI application on uvicorn, with a deadline for slow bodies and a clean end.

uvicorn has no limit from the first byte of a request to the end of its body; our protocol adds one. On SIGTERM and
Ctrl-C listeners get their last message, open requests have time to finish, and the process ends with status 0.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from redstart.transports.http import Endpoint
from redstart.transports.loop import new_loop
from redstart.transports.options import HttpOptions

if TYPE_CHECKING:
    from redstart.server.runtime import Hosted

LEAVE: Final = 0.5
"""Seconds that anything has after a second Ctrl-C."""


def run_http(server: Hosted, options: HttpOptions) -> None:
    """Serve on a socket until SIGTERM or Ctrl-C."""
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(serve_http(server, options))
    except KeyboardInterrupt:
        pass  # Ctrl-C before uvicorn took over the signal
    finally:
        _end_tasks(loop)
        asyncio.set_event_loop(None)
        loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what a second Ctrl-C has left: a loop complains of tasks that it never ends."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        with suppress(KeyboardInterrupt):
            loop.run_until_complete(asyncio.wait(tasks, timeout=LEAVE))


async def serve_http(server: Hosted, options: HttpOptions) -> None:
    """As `run_http`, in a loop that runs; a cancellation is an orderly end too."""
    from redstart.transports.runner import UvicornServer

    host = options["host"]
    if not _is_loopback(host) and options["public_url"] is None and not options["allowed_hosts"]:
        raise SystemExit(
            f"{host} can be reached from other machines, so say under which name: "
            'server.run("http", host=…, public_url="https://mcp.example.com") or allowed_hosts=[…]'
        )
    if _is_loopback(host):  # 127.0.0.2, too, is a name that this server answers to
        options["allowed_hosts"] = [*options["allowed_hosts"], _url_host(host)]
    app = Endpoint(server, options)
    listener = _bind(host, options["port"])
    try:
        await app.start(signals=False)  # before anybody is told that it is served, and not inside of uvicorn
    except BaseException:
        listener.close()
        raise
    shown = f"http://{_url_host(host)}:{listener.getsockname()[1]}{app.path}"
    runner = UvicornServer(_config(app, options), app, f"{server.runtime.name} is served at {shown}\n")
    serving = asyncio.get_running_loop().create_task(runner.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        if serving.cancelled():  # by a second Ctrl-C
            return
        runner.should_exit = True
        await serving
        raise


def _config(app: Endpoint, options: HttpOptions) -> Any:
    import uvicorn

    return uvicorn.Config(
        app,
        http=_protocol(app, options),
        ws="none",
        lifespan="off",  # it is started before, and stopped by our runner
        access_log=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
    )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SystemExit(f"cannot listen on {host}:{port}: {error.strerror}. Try another port, or port 0.") from None
    listener.listen(2048)
    listener.setblocking(False)
    return listener


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _protocol(app: Endpoint, options: HttpOptions) -> Any:
    """Our HTTP connection with this server's limits."""
    from redstart.transports.backlog import Backlog
    from redstart.transports.connection import Connection

    limits = {
        "deadline": options["body_deadline"],
        "limits": app.limits,
        "backlog": Backlog(options["max_unsent_bytes"]),
    }
    return type("Connection", (Connection,), limits)
