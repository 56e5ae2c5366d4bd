"""`redstart run --http --inspect`: the page beside a server in production. Loaded only with that option.

What callers say is not shown. With several processes all of them have the same token, and tell each other what happens.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any, Final

from redstart.inspector.host import Host
from redstart.inspector.page import InspectorPages
from redstart.inspector.tap import LogTap
from redstart.server.server import Server
from redstart.transports.http_options import HttpOptions
from redstart.transports.loop import run_server
from redstart.transports.options import transport_options
from redstart.transports.serve import serve_http

TOKEN: Final = "REDSTART_INSPECT_TOKEN"


def share_token() -> None:
    """Give the processes that this one starts the same token."""
    os.environ.setdefault(TOKEN, secrets.token_urlsafe(24))
    sys.stderr.write(f"redstart: the inspector is at /#token={os.environ[TOKEN]}\n")


def run_inspected(server: Server, target: str, named: Mapping[str, Any]) -> None:
    """As `server.run("http")`, with the page."""
    _, http = transport_options("run", "http", dict(named))
    shared = server.runtime.shares
    host = Host(server, strict=True, prefix=f"{os.getpid()}." if shared else "")
    pages = InspectorPages(host, mode="run", target=target, path=http["path"], token=os.environ.get(TOKEN))
    host.pages = pages
    # The server is never replaced, so its calls need not be counted. It may be observed later.
    host.answer = lambda call: server.runtime.answer(call)
    run_server(server, _serve(host, pages, http, shared))


async def _serve(host: Host, pages: InspectorPages, http: HttpOptions, shared: bool) -> None:
    handler = LogTap(host.seen, asyncio.get_running_loop())
    logging.getLogger().addHandler(handler)
    telling = None
    if shared and host.replica is not None:
        from redstart.inspector.workers import Workers

        workers = Workers(host, host.replica)
        pages.merge, pages.gather = workers.merge, workers.gather
        telling = asyncio.create_task(workers.run())

    def tell(url: str) -> None:
        pages.endpoint = url
        sys.stderr.write(f"{host.name} is served at {url}\n")
        if TOKEN not in os.environ:
            site = url.removesuffix(http["path"]) if url.startswith("http") else url
            sys.stderr.write(f"  inspector  {site}/#token={pages.token}\n")

    try:
        await serve_http(host, http, tell)
    finally:
        logging.getLogger().removeHandler(handler)
        if telling is not None:
            telling.cancel()
