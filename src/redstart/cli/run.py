"""`redstart run file.py`, `redstart run package.module[:object]`: serve it on stdio, or with --http on a port."""

from __future__ import annotations

import argparse
import math

from redstart.cli.target import ready
from redstart.server.checked import MAX_PORT
from redstart.server.host import DRAIN


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port is a whole number from 0 to {MAX_PORT}, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"a number of seconds, not {text}")
    return seconds


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="file.py or package.module, each also with :object; or a folder")
    parser.add_argument("--http", action="store_true", help="serve Streamable HTTP instead of stdio")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="port to listen on (default 8000; 0 picks one)")
    parser.add_argument("--path", default="/mcp", help="path of the endpoint (default /mcp)")
    parser.add_argument("--public-url", help="the URL under which clients reach the server")
    parser.add_argument("--allow-host", action="append", default=[], help="a further host name to answer to")
    parser.add_argument("--allow-origin", action="append", default=[], help="a site whose pages may use the server")
    wait = f"seconds for open calls at the end (default {DRAIN:g})"
    parser.add_argument("--drain", type=_seconds, default=DRAIN, help=wait)
    parser.add_argument("--framing", choices=["auto", "newline", "content-length"], default="auto")


def act(arguments: argparse.Namespace) -> int:
    if not arguments.http:
        # What the module prints while it is imported must not reach the protocol's pipe.
        from redstart.transports.stdio import guard_stdout

        guard_stdout()
    server = ready(arguments.target)
    if server is None:
        return 2
    if arguments.http:
        server.run(
            "http",
            host=arguments.host,
            port=arguments.port,
            path=arguments.path,
            public_url=arguments.public_url,
            allowed_hosts=arguments.allow_host,
            allowed_origins=arguments.allow_origin,
            drain=arguments.drain,
        )
    else:
        server.run("stdio", framing=arguments.framing)
    return 0
