"""`server.serve_background()`: HTTP from a thread with a loop of its own, for notebooks and tests.

A notebook runs a loop itself, and its user goes on to write cells while clients are served. What a cell registers is
served at once, because registering is possible from every thread.
"""

from __future__ import annotations

import asyncio
import html
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, Self

from redstart.server.runtime import Hosted
from redstart.transports.http_options import HttpOptions
from redstart.transports.listen import bind
from redstart.transports.loop import run_loop
from redstart.transports.serve import serve_http

SHOWN: Final = 10
"""How many names of each kind a notebook shows."""
_running: Final[dict[str, BackgroundServer]] = {}
"""What is served in this process, by the name of the server."""


class BackgroundServer:
    """A server that a thread serves: `url` is where clients find it, `stop()` ends it.

    >>> from redstart import Server
    >>> with Server("lab").serve_background(port=0) as served:
    ...     served.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, server: Hosted, options: HttpOptions) -> None:
        self.server = server
        self._name = server.runtime.name
        self.url = ""
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._started: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name=f"redstart {self._name}", daemon=True)

    def start(self) -> Self:
        """Serve; when this returns, clients can connect. What keeps the server from starting is raised here."""
        options = self._options
        if before := _running.pop(self._name, None):  # the cell was run again: clients keep their URL
            before.stop()
            if not options["port"]:
                options["port"] = before.port
        try:
            if options["listener"] is None and options["uds"] is None:
                options["listener"] = bind(options["host"], options["port"])
            self._thread.start()
            self.url = self._started.result()
        except SystemExit as refusal:  # in a notebook this would end the program, and not the cell
            raise RuntimeError(str(refusal)) from None
        _running[self._name] = self
        return self

    @property
    def port(self) -> int:
        """The port of its URL; 0 if it has none."""
        return int(self.url.rpartition(":")[2].partition("/")[0]) if self.url.count(":") > 1 else 0

    def _run(self) -> None:
        try:
            run_loop(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            if self._options["listener"] is not None:
                self._options["listener"].close()
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._serving = asyncio.get_running_loop(), asyncio.current_task()
        with suppress(asyncio.CancelledError):  # by `stop`
            await serve_http(self.server, self._options, self._started.set_result)

    def stop(self) -> None:
        """Stop serving as on SIGTERM, and wait until that is done. It can be called again."""
        if _running.get(self._name) is self:
            del _running[self._name]
        loop, serving = self._loop, self._serving
        if self._thread.is_alive() and loop is not None and serving is not None:
            loop.call_soon_threadsafe(serving.cancel)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "served" if self._thread.is_alive() else "stopped"
        return f"<{self._name}: {state} at {self.url}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the address, and what is served there."""
        offered = self.server.runtime.description
        lists = {
            "tools": [*offered.tools.items],
            "prompts": [*offered.prompts.items],
            "resources": [*offered.resources.items],
        }
        rows = [
            f"<li>{kind}: {', '.join(f'<code>{html.escape(key)}</code>' for key in keys[:SHOWN])}"
            f"{' …' if len(keys) > SHOWN else ''}</li>"
            for kind, keys in lists.items()
            if keys
        ]
        served = f"<b>{html.escape(self._name)}</b> is served at <code>{html.escape(self.url)}</code>"
        return f"<p>{served}; <code>.stop()</code> ends it.</p><ul>{''.join(rows)}</ul>"
