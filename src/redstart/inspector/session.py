"""What `dev`, `inspect` and `run --inspect` have in common: a socket, the log, the browser, the lines at the start."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from html import escape
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from redstart.inspector.host import Host
from redstart.inspector.page import InspectorPages
from redstart.inspector.tap import LogTap
from redstart.transports.http_options import HttpOptions
from redstart.transports.listen import bind
from redstart.transports.serve import serve_http

PORT: Final = 8000
TRIED: Final = 20
"""The ports that are tried, where none was named."""


def listener_near(port: int | None) -> socket.socket:
    """A socket on loopback at this port; without a number at the first free one from 8000 on."""
    if port is not None:
        return bind("127.0.0.1", port)
    return next(filter(None, (_free(PORT + more) for more in range(TRIED))), None) or bind("127.0.0.1", 0)


def _free(port: int) -> socket.socket | None:
    try:
        return bind("127.0.0.1", port)
    except (OSError, SystemExit):
        return None


@asynccontextmanager
async def inspecting(
    host: Host, pages: InspectorPages, http: HttpOptions, *, open_browser: bool
) -> AsyncIterator[asyncio.Task[None]]:
    """Serve a host and its page meanwhile; the task that does so."""
    listener = http["listener"]
    assert listener is not None
    pages.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}{http['path']}"
    handler = LogTap(host.seen, asyncio.get_running_loop())
    with logged_to(handler):
        ready = asyncio.Event()
        tasks = [asyncio.create_task(serve_http(host, http, lambda url: _announce(pages, ready)))]
        if open_browser and _graphical():
            tasks.append(asyncio.create_task(_show(pages, ready)))
        try:
            yield tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class logged_to:  # used as a function
    """Meanwhile show the log to `handler`, and in the terminal where nobody has set logging up."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handlers = [handler]

    def __enter__(self) -> None:
        root = logging.getLogger()
        if not root.handlers:
            terminal = logging.StreamHandler(sys.stderr)
            terminal.setFormatter(logging.Formatter("%(asctime)s  %(levelname)s  %(name)s  %(message)s", "%H:%M:%S"))
            self._handlers.append(terminal)
            root.setLevel(logging.INFO)
            logging.getLogger("watchfiles").setLevel(logging.WARNING)
        for handler in self._handlers:
            root.addHandler(handler)

    def __exit__(self, *error: object) -> None:
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)


def page_url(pages: InspectorPages) -> str:
    """Where the page is, with the token in the part that a browser does not send."""
    return f"{pages.endpoint.removesuffix(pages.path)}/#token={pages.token}"


def _announce(pages: InspectorPages, ready: asyncio.Event) -> None:
    """Clients can connect now."""
    lines = f"redstart: {pages.target}", f"  endpoint   {pages.endpoint}", f"  inspector  {page_url(pages)}"
    sys.stderr.write("\n".join((*lines, "")))
    sys.stderr.flush()
    ready.set()


def _graphical() -> bool:
    """Whether a browser would have a window. One in the terminal would take it over, so that is not opened."""
    return bool(sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def _show(pages: InspectorPages, ready: asyncio.Event) -> None:
    """Open the browser. All users of this machine can read the arguments of a program, so the token is not one."""
    import webbrowser

    def opened(url: str) -> None:
        with suppress(webbrowser.Error):
            webbrowser.open(url)

    await ready.wait()
    with _redirect(page_url(pages)) as file:
        threading.Thread(target=opened, args=(file.as_uri(),), daemon=True).start()
        await pages.used.wait()


@contextmanager
def _redirect(url: str) -> Iterator[Path]:
    """Meanwhile a file that leads to `url`, and that only this user can read.

    It is in the home folder, because a browser that is a snap has a /tmp of its own and may not read hidden folders.
    """
    home = os.path.expanduser("~")
    folder = home if os.access(home, os.W_OK) else None
    text = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(url)}"><title>redstart</title>'
    with NamedTemporaryFile("w", prefix="redstart-", suffix=".html", dir=folder, delete=False) as file:
        file.write(text)
    try:
        yield Path(file.name)
    finally:
        with suppress(OSError):
            os.unlink(file.name)
