"""`redstart dev file.py`: serve over HTTP with the inspector, load it again after each change, log each call.

On loopback only. With --stdio a client on stdin and stdout is served as well, and stays connected over reloads.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import socket
from typing import Final

from redstart.cli.output import CommandError
from redstart.cli.project import chosen, find, parts
from redstart.cli.target import load
from redstart.cli.terminal import Lines
from redstart.features.startup_errors import not_started
from redstart.inspector.host import Host
from redstart.inspector.page import InspectorPages
from redstart.inspector.reload import Reloader
from redstart.inspector.session import inspecting, listener_near
from redstart.server.runtime import Runtime
from redstart.server.server import Server
from redstart.transports.loop import run_server
from redstart.transports.options import transport_options

DRAIN: Final = 0.5
"""Seconds that open calls have after Ctrl-C: a developer does not want to wait."""


def act(arguments: argparse.Namespace) -> int:
    target = chosen(arguments.target)
    sys.argv = [parts(target)[0], *arguments.passed_on]  # as in `python file.py`
    if arguments.stdio:
        from redstart.transports.stdio import guard_stdout

        guard_stdout()
    find(target)
    listener = listener_near(arguments.port)
    dev = Development(target, arguments)
    run_server(dev.host, dev.serve(listener))
    return 0


class Development:
    """One run of `redstart dev`."""

    def __init__(self, target: str, arguments: argparse.Namespace) -> None:
        self._target = target
        self._arguments = arguments
        server = self._first()
        place, _ = parts(target)
        self._checked: Server | None = None
        self._findings: Sequence[object] = ()
        """What `redstart check` says of the server that was checked last."""
        self._stand_in = Server(Path(place).stem or "server")
        self.host = Host(server or self._stand_in, replays=True)
        self.host.on_failure = self._not_started
        self.reloader = Reloader(self.host, lambda: load(target), place, server)
        reload = None if arguments.no_reload else self.reloader.reload
        self.pages = InspectorPages(
            self.host, mode="dev", target=target, path=arguments.path, facts=self._facts, reload=reload
        )
        self.host.pages = self.pages

    def _first(self) -> Server | None:
        """The server; None if it cannot be loaded yet: the first change that corrects it will do that."""
        try:
            server = load(self._target)
            server.runtime.load_keys()
            if self._arguments.store:
                server.runtime.use_store(self._arguments.store)
        except (CommandError, ValueError, ImportError) as error:
            sys.stderr.write(f"redstart: {error}\nredstart: waiting for a change of {self._target}\n")
            return None
        return server

    def _not_started(self, error: Exception) -> Runtime:
        sys.stderr.write(f"redstart: {not_started(self.host.name, error)}\n")
        return self._stand_in.runtime

    def _facts(self) -> Mapping[str, object]:
        from redstart.cli.facts import findings, snippets

        last, server = self.reloader.last, self.reloader.server
        if server is not self._checked:
            self._checked, self._findings = server, findings(server) if server is not None else []
        reload = {"count": self.reloader.events, "at": last.time, "ms": last.ms, "error": last.error} if last else None
        return {
            "reload": reload,
            "install": snippets(self._target, self.host.served.name, self.pages.endpoint),
            "findings": self._findings,
        }

    async def serve(self, listener: socket) -> None:
        """Serve until Ctrl-C, or until the client on stdin has gone."""
        host, arguments = self.host, self._arguments
        given = {"path": arguments.path, "listener": listener, "drain": DRAIN}
        _, http = transport_options("run", "http", given)
        host.ring.listeners.append(Lines(sys.stderr, host.seen.clients).show)
        async with inspecting(
            host, self.pages, http, open_browser=not arguments.no_open and not arguments.stdio
        ) as web:
            watcher = None if arguments.no_reload else asyncio.create_task(self.reloader.watch())
            try:
                await (self._serve_stdio(web) if arguments.stdio else web)
            finally:
                if watcher is not None:
                    watcher.cancel()

    async def _serve_stdio(self, web: asyncio.Task[None]) -> None:
        from redstart.transports.stdio import serve_stdio

        _, given = transport_options("run", "stdio", {})
        await self.host.start()
        pipe = asyncio.create_task(serve_stdio(self.host, given))
        await asyncio.wait((pipe, web), return_when=asyncio.FIRST_COMPLETED)
        for task in (pipe, web):
            task.cancel()
        await asyncio.gather(pipe, web, return_exceptions=True)
