"""`server.run("http")`: the ASGI application on uvicorn, with a deadline for slow bodies and a clean end.

uvicorn has no limit from the first byte of a request to the end of its body; our protocol adds one. On SIGTERM
listeners get their last message, open requests may finish, and the process ends with status 0.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from redstart.transports.http import Endpoint
from redstart.transports.loop import new_loop

if TYPE_CHECKING:
    from redstart.server.server import Server

BODY_DEADLINE: Final = 10.0
DRAIN: Final = 30.0
log = logging.getLogger("redstart")


def run_http(server: Server, **options: Any) -> None:
    """Serve on a socket until SIGTERM or Ctrl-C."""
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(serve_http(server, **options))
    except KeyboardInterrupt:
        pass  # Ctrl-C before uvicorn took over the signal, or a second one
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def serve_http(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    public_url: str | None = None,
    body_deadline: float = BODY_DEADLINE,
    drain: float = DRAIN,
    **options: Any,
) -> None:
    """As `run_http`, in a loop that runs; a cancellation is an orderly end too."""
    import uvicorn

    if not _is_loopback(host) and public_url is None and not options.get("allowed_hosts"):
        raise SystemExit(
            f"{host} can be reached from other machines, so say under which name: "
            'server.run("http", host=…, public_url="https://mcp.example.com") or allowed_hosts=[…]'
        )
    if _is_loopback(host):  # 127.0.0.2, too, is a name that this server answers to
        options["allowed_hosts"] = [*options.get("allowed_hosts", ()), _url_host(host)]
    app = Endpoint(server, path=path, public_url=public_url, **options)
    listener = _bind(host, port)
    try:
        await server.host.start()  # before anybody is told that it is served, and not inside of uvicorn
    except BaseException:
        listener.close()
        raise
    config = uvicorn.Config(
        app,
        http=_protocol(body_deadline, app.guard.max_body),
        ws="none",
        lifespan="on",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=int(drain),
    )
    runner = _runner(config, app)
    shown = f"http://{_url_host(host)}:{listener.getsockname()[1]}{app.path}"
    sys.stderr.write(f"{server.name} is served at {shown}\n")
    sys.stderr.flush()
    serving = asyncio.get_running_loop().create_task(runner.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        runner.should_exit = True
        await serving
        raise


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


def _protocol(deadline: float, max_body: int) -> Any:
    """Our HTTP connection with this server's limits."""
    from redstart.transports.connection import Connection

    limits = {"deadline": deadline, "max_body": max_body}
    return type("Connection", (Connection,), limits)


def _runner(config: Any, app: Endpoint) -> Any:
    """uvicorn with our end: listeners are told first, and a signal means a clean exit."""
    import uvicorn

    class Runner(uvicorn.Server):  # type: ignore[misc, unused-ignore]
        async def on_tick(self, counter: int) -> bool:
            # Ten times a second; many connections are looked after more seldom.
            if len(self.server_state.connections) < 100 or counter % 10 == 0:
                now = asyncio.get_running_loop().time()
                for connection in tuple(self.server_state.connections):
                    connection.sweep(now)  # type: ignore[union-attr, unused-ignore]
            return bool(await super().on_tick(counter))

        async def shutdown(self, sockets: Any = None) -> None:
            # Streams that never end by themselves must not hold up the drain.
            app.host.hub.close()
            app.sessions.end_streams()
            await super().shutdown(sockets)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn's own raises the signal again when all is done, and the status would not be 0.
            loop = asyncio.get_running_loop()
            numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
            for number in numbers:
                loop.add_signal_handler(number, self.handle_exit, number, None)
            try:
                yield
            finally:
                for number in numbers:
                    loop.remove_signal_handler(number)

    return Runner(config)
