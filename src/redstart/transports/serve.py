"""`server.run("http")`: the ASGI application on uvicorn, with a deadline for slow bodies and a clean end.

uvicorn itself waits for every request alike when it stops, and what then still runs it cuts off without an answer.
Here, on SIGTERM and Ctrl-C, calls that wait for a person end at once, other open requests have time to finish, every
client gets an answer, and the process ends with status 0.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

from redstart.server.runtime import GRACE
from redstart.transports.admin import admin_port
from redstart.transports.connection import Backlog, Connection
from redstart.transports.http import Endpoint
from redstart.transports.http_options import HttpOptions
from redstart.transports.listen import BACKLOG, bind, bind_unix, is_loopback, removed_at_end, tls_context, url_host
from redstart.transports.loop import on_signals, run_server, say

if TYPE_CHECKING:
    from ssl import SSLContext

    from redstart.server.runtime import Hosted

TICK: Final = 0.02
PATIENCE: Final = 0.5
"""Seconds that a stop may take before a person who waits for it is told so."""


def run_http(server: Hosted, options: HttpOptions) -> None:
    """Serve on a socket until SIGTERM or Ctrl-C."""
    run_server(server, serve_http(server, options))


async def serve_http(server: Hosted, options: HttpOptions, tell: Callable[[str], object] | None = None) -> None:
    """As `run_http`, in a loop that runs; a cancellation is an orderly end too.

    `tell` gets the URL once clients can connect; without it, stderr does.
    """
    tls = tls_context(options["tls_cert"], options["tls_key"])
    listener, uds = options["listener"], options["uds"]
    if uds is None and (listener is None or listener.family in (socket.AF_INET, socket.AF_INET6)):
        host = options["host"] if listener is None else listener.getsockname()[0]
        check_name(host, options)
        if is_loopback(host):  # 127.0.0.2, too, is a name that this server answers to
            options["allowed_hosts"] = [*options["allowed_hosts"], url_host(host)]
    app = Endpoint(server, options)
    async with admin_port(app, options):
        if listener is not None:
            await _serve_on(listener, server, app, options, tls, tell)
        elif uds is not None:
            listener = bind_unix(os.fspath(uds))
            with removed_at_end(uds):
                await _serve_on(listener, server, app, options, tls, tell)
        else:
            await _serve_on(bind(options["host"], options["port"]), server, app, options, tls, tell)


async def _serve_on(
    listener: socket.socket,
    server: Hosted,
    app: Endpoint,
    options: HttpOptions,
    tls: SSLContext | None,
    tell: Callable[[str], object] | None,
) -> None:
    try:
        await app.start(signals=False)  # before anybody is told that it is served, and not inside of uvicorn
    except BaseException:
        listener.close()
        await server.runtime.stop()  # a start that was cancelled may have opened the lifespan
        raise
    url, name = _shown(listener, app.path, tls is not None), server.runtime.name
    tell = tell or (lambda url: say(f"{name} is served at {url}"))
    runner = UvicornServer(_config(app, options, tls), app, partial(tell, url), options)
    runner.serving = serving = asyncio.get_running_loop().create_task(runner.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        if serving.cancelled():  # by a second Ctrl-C
            return
        runner.should_exit = True
        await serving
        if server.runtime.started:  # older versions of uvicorn shut down nothing before they have started
            await server.runtime.stop()
        raise
    finally:
        listener.close()


def _shown(listener: socket.socket, path: str, secure: bool) -> str:
    """Where clients find it."""
    address, scheme = listener.getsockname(), "https" if secure else "http"
    if isinstance(address, tuple):
        return f"{scheme}://{url_host(address[0])}:{address[1]}{path}"
    return f"{scheme}://localhost{path} on the unix socket {address}"


def _config(app: Endpoint, options: HttpOptions, tls: SSLContext | None) -> uvicorn.Config:
    limits = {
        "limits": app.limits,
        "deadline": options["body_deadline"],
        "max_headers": options["max_headers"],
        "backlog": Backlog(options["max_unsent_bytes"]),
    }
    config = uvicorn.Config(
        app,
        http=type("Connection", (Connection,), limits),
        ws="none",
        lifespan="off",  # the endpoint is started before, and stopped by `UvicornServer`
        proxy_headers=False,
        log_config=None,
        log_level="warning",
    )
    config.load()
    config.ssl = tls
    return config


def check_name(host: str, options: HttpOptions) -> None:
    """Refuse an address that others can reach if nobody has said under which name they do."""
    if not is_loopback(host) and options["public_url"] is None and not options["allowed_hosts"]:
        raise SystemExit(
            f"{host} can be reached from other machines, so say under which name: "
            'server.run("http", host=…, public_url="https://mcp.example.com") or allowed_hosts=[…]; '
            "on the command line --public-url or --allow-host"
        )


class UvicornServer(uvicorn.Server):  # type: ignore[misc, unused-ignore]
    """Serves one Endpoint until a signal comes, or `should_exit` is set."""

    serving: asyncio.Task[None]

    def __init__(
        self, config: uvicorn.Config, app: Endpoint, announce: Callable[[], object], options: HttpOptions
    ) -> None:
        super().__init__(config)
        self._app = app
        self._drain = app.drain
        self._delay = options["drain_delay"]
        self._handshake = options["body_deadline"]
        self._announce = announce
        self._watched = False
        """Whether somebody has pressed Ctrl-C, and waits."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        for listener in sockets or ():
            self.servers.append(await self._listen(listener))
        self._announce()  # now, because whoever reads it may send a signal

    async def _listen(self, listener: socket.socket) -> asyncio.Server:
        """As uvicorn does it, which has no limit of its own for the handshake of TLS."""
        config = self.config

        def connect() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg, unused-ignore]
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        deadline = None if config.ssl is None else self._handshake
        return await asyncio.get_running_loop().create_server(
            connect, sock=listener, ssl=config.ssl, backlog=BACKLOG, ssl_handshake_timeout=deadline
        )

    async def on_tick(self, counter: int) -> bool:
        # Ten times a second; many connections are looked after more seldom.
        if len(self.server_state.connections) < 100 or counter % 10 == 0:
            self._sweep()
        return bool(await super().on_tick(counter))

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in tuple(self.server_state.connections):
            connection.sweep(now)  # type: ignore[union-attr, unused-ignore]

    # ------------------------------------------------------------ signals

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again when all is done, and the status would not be 0.
        with on_signals(lambda number: self.handle_exit(number, None)):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._watched = sig == signal.SIGINT
        super().handle_exit(sig, frame)
        if self.force_exit:  # a second Ctrl-C waits for nothing
            self._cut_off()
            self.serving.cancel()

    # ------------------------------------------------------------ the end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.health.stopping = True
        if self._delay:
            await self._go_on(self._delay)
        for listening in self.servers:
            listening.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        runtime = self._app.runtime
        # Other processes go on with the tasks of this one; those in memory have the time of the open requests.
        tasks = asyncio.get_running_loop().create_task(runtime.stop_tasks()) if runtime.shares else None
        self._app.end_waits()
        if not await self._drained() and self._app.end_calls():
            await self._quiet(GRACE)
        self._cut_off()
        if tasks is not None:
            await tasks
        await runtime.stop()

    async def _go_on(self, seconds: float) -> None:
        """Serve as before: load balancers send requests until they have noticed that the server stops."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(left, PATIENCE))
            self._sweep()

    async def _drained(self) -> bool:
        """Whether open requests finish in the time they have; a person who waits for that is told so."""
        first = min(self._drain, PATIENCE)
        if not await self._quiet(first) and self._watched and self._drain > first:
            say(f"stopping: open requests have {self._drain:g} s to finish; Ctrl-C ends them now")
        return await self._quiet(self._drain - first)

    async def _quiet(self, seconds: float) -> bool:
        """Whether every request comes to its end within so many seconds."""
        loop, state = asyncio.get_running_loop(), self.server_state
        deadline = loop.time() + seconds
        swept = loop.time()
        while state.tasks or state.connections:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(TICK)
            if loop.time() - swept > PATIENCE:  # a client that does not read must not delay the end
                swept = loop.time()
                self._sweep()
        return True

    def _cut_off(self) -> None:
        """End what is still there: routes that go on, and clients that do not read what they are told."""
        for task in tuple(self.server_state.tasks):
            task.cancel()
        for connection in tuple(self.server_state.connections):
            connection.cut_off()  # type: ignore[union-attr, unused-ignore]
