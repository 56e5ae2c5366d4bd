"""`redstart run file.py`, `redstart run package.module[:object]`: serve it on stdio, or with --http on a port."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Final

from redstart.cli.target import ready
from redstart.features.rules import OptionError
from redstart.server.runtime import DRAIN
from redstart.server.settings import MAX_PORT
from redstart.transports.options import transport_options

OF_HTTP: Final = {
    "host": "host",
    "port": "port",
    "path": "path",
    "public_url": "public_url",
    "allow_host": "allowed_hosts",
    "allow_origin": "allowed_origins",
    "drain": "drain",
}
"""The options that mean something over HTTP only, and what `Server.run` calls them."""


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
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=_port, help="port to listen on (default 8000; 0 picks one)")
    parser.add_argument("--path", help="path of the endpoint (default /mcp)")
    parser.add_argument("--public-url", help="the URL under which clients reach the server")
    parser.add_argument("--allow-host", action="append", help="a further host name to answer to")
    parser.add_argument("--allow-origin", action="append", help="a site whose pages may use the server")
    wait = f"seconds for open calls at the end (default {DRAIN:g})"
    parser.add_argument("--drain", type=_seconds, help=wait)
    parser.add_argument("--framing", choices=["auto", "newline", "content-length"], default="auto")


def act(arguments: argparse.Namespace) -> int:
    given = {name: value for name in OF_HTTP if (value := getattr(arguments, name)) is not None}
    if given and not arguments.http:
        sys.stderr.write(f"redstart: --{next(iter(given)).replace('_', '-')} is for HTTP; write --http beside it\n")
        return 2
    named = {OF_HTTP[name]: value for name, value in given.items()}
    try:
        transport_options("run", "http", named)
    except OptionError as error:
        sys.stderr.write(f"redstart: {str(error).partition(': ')[2]}\n")  # without the line of our own script
        return 2
    sys.argv = [arguments.target.partition(":")[0], *arguments.passed_on]  # as in `python file.py`
    if not arguments.http:
        # What the module prints while it is imported must not reach the protocol's pipe.
        from redstart.transports.stdio import guard_stdout

        guard_stdout()
    server = ready(arguments.target)
    if server is None:
        return 2
    if arguments.http:
        server.run("http", **named)
    else:
        server.run("stdio", framing=arguments.framing)
    return 0
