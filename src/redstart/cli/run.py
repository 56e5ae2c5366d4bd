"""`redstart run file.py`, `redstart run package.module[:object]`: serve it on stdio, or with --http on a port."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from typing import Final

from redstart.cli.target import ready, store_option
from redstart.features.rules import OptionError
from redstart.server.runtime import DRAIN
from redstart.server.server import Server
from redstart.server.settings import MAX_PORT
from redstart.store.open import is_shared
from redstart.transports.http_options import HttpOptions
from redstart.transports.options import transport_options

OF_HTTP: Final = {
    "host": "host",
    "port": "port",
    "path": "path",
    "public_url": "public_url",
    "allow_host": "allowed_hosts",
    "allow_origin": "allowed_origins",
    "uds": "uds",
    "tls_cert": "tls_cert",
    "tls_key": "tls_key",
    "trust_proxy": "trusted_proxies",
    "access_log": "access_log",
    "drain": "drain",
    "drain_delay": "drain_delay",
    "admin_port": "admin_port",
    "admin_host": "admin_host",
}
"""The options that mean something over HTTP only, and what `Server.run` calls them."""
MOST: Final = 1000
"""The most processes, or tasks at once, that can be asked for."""


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port is a whole number from 0 to {MAX_PORT}, not {text}")
    return int(text)


def seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"a number of seconds, not {text}")
    return seconds


def whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:6]) <= MOST:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {MOST}, not {text}")
    return int(text)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="file.py or package.module, each also with :object; or a folder")
    parser.add_argument("--http", action="store_true", help="serve Streamable HTTP instead of stdio")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, help="port to listen on (default 8000; 0 picks one)")
    parser.add_argument("--path", help="path of the endpoint (default /mcp)")
    parser.add_argument("--public-url", help="the URL under which clients reach the server")
    parser.add_argument("--allow-host", action="append", help="a further host name to answer to")
    parser.add_argument("--allow-origin", action="append", help="a site whose pages may use the server")
    parser.add_argument("--uds", help="path of a unix socket to listen on instead of a port")
    parser.add_argument("--tls-cert", help="PEM file of the certificate chain: serve HTTPS")
    parser.add_argument("--tls-key", help="PEM file of its key, if that is another file")
    trusted = "network of a proxy whose X-Forwarded-* headers count, as 10.0.0.0/8; unix for those of a unix socket"
    parser.add_argument("--trust-proxy", action="append", help=trusted)
    lines = "write a line of JSON to stderr for each request, without tokens and query strings"
    parser.add_argument("--access-log", action="store_true", default=None, help=lines)
    wait = f"seconds for open calls at the end (default {DRAIN:g})"
    parser.add_argument("--drain", type=seconds, help=wait)
    notice = "seconds to go on after a signal, while /readyz is a 503, before new connections are refused (default 0)"
    parser.add_argument("--drain-delay", type=seconds, help=notice)
    parser.add_argument("--admin-port", type=_port, help="port for /metrics, of all processes together (default none)")
    parser.add_argument("--admin-host", help="address of the admin port (default 127.0.0.1)")
    store_option(parser)
    parser.add_argument("--workers", type=whole, help="how many processes serve (default 1)")
    parser.add_argument("--framing", choices=["auto", "newline", "content-length"], default="auto")


def act(arguments: argparse.Namespace) -> int:
    given = {name: value for name in (*OF_HTTP, "workers") if (value := getattr(arguments, name)) is not None}
    if given and not arguments.http:
        sys.stderr.write(f"redstart: --{next(iter(given)).replace('_', '-')} is for HTTP; write --http beside it\n")
        return 2
    workers: int = given.pop("workers", 1)
    named = {OF_HTTP[name]: value for name, value in given.items()}
    try:
        _, checked = transport_options("run", "http", named)
    except OptionError as error:
        sys.stderr.write(f"redstart: {str(error).partition(': ')[2]}\n")  # without the line of our own script
        return 2
    sys.argv = [arguments.target.partition(":")[0], *arguments.passed_on]  # as in `python file.py`
    if not arguments.http:
        # What the module prints while it is imported must not reach the protocol's pipe.
        from redstart.transports.stdio import guard_stdout

        guard_stdout()
    server = ready(arguments.target, arguments.store)
    if server is None:
        return 2
    if not arguments.http:
        server.run("stdio", framing=arguments.framing)
    elif workers == 1:
        server.run("http", **named)
    else:
        from redstart.cli.supervisor import given_admin_listener, given_listener

        listener = given_listener()
        if listener is None:
            return _supervise(server, workers, arguments.given, checked)
        named.pop("admin_port", None)  # it is the supervisor's
        server.run("http", **named, listener=listener, admin_listener=given_admin_listener())
    return 0


def _supervise(server: Server, workers: int, given: list[str], options: HttpOptions) -> int:
    """Look after several processes that have the same command as this one."""
    if not is_shared(server.runtime.store):
        sys.stderr.write(
            f"redstart: {workers} processes cannot share a store in memory: what one of them keeps, the others do not "
            "see. Write --store redis://…, postgresql://… or sqlite:///file.db, or leave out --workers.\n"
        )
        return 2
    if sys.platform == "win32":
        sys.stderr.write("redstart: --workers is for Linux and macOS: a process of Windows cannot inherit a socket\n")
        return 2
    from redstart.cli.supervisor import Supervisor, listeners
    from redstart.transports.listen import bind_unix, removed_at_end
    from redstart.transports.serve import check_name

    command, uds = [sys.executable, "-m", "redstart", *given], options["uds"]
    if uds is not None:  # the processes take connections of one socket in turn
        sockets = [bind_unix(os.fspath(uds))] * workers
    else:
        check_name(options["host"], options)
        sockets = listeners(options["host"], options["port"], workers)
    port = options["admin_port"]
    admin = None if port is None else (options["admin_host"], port)
    with removed_at_end(uds):
        return asyncio.run(Supervisor(command, sockets, admin).run())
