"""The options of the commands whose modules are slow to load, because they hold or use a server.

Loads nothing of the server, so that `--help` is quick. The functions have the names of their commands.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from typing import Final

from redstart.cli.connect import WHERE, number, server_options, whole_number
from redstart.cli.project import target_argument
from redstart.server import DRAIN, MAX_PORT

PASSING_ON: Final = ("run", "worker", "dev", "inspect")
"""The commands for which `--` begins words that are not ours."""
MOST: Final = 1000
"""The most processes, or tasks at once, that can be asked for."""
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json", "github")
KINDS: Final = ("mcpb", "server-json", "docker")


def port_number(text: str) -> int:
    return whole_number(text, MAX_PORT, 0, "a port is a whole number")


def seconds(text: str) -> float:
    return number(text, "a number of seconds", most=math.inf)


def whole(text: str) -> int:
    return whole_number(text, MOST)


def setting(text: str) -> tuple[str, object]:
    """A name and its value, which is JSON or else a text.

    >>> setting("max_streams=20000"), setting("rate_limit=600/minute")
    (('max_streams', 20000), ('rate_limit', '600/minute'))
    """
    name, mark, value = text.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"a name, = and a value, as max_streams=20000, not {text}")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value.strip()


def log_option(parser: argparse.ArgumentParser) -> None:
    """`--log-level`, or the environment variable REDSTART_LOG_LEVEL."""
    text = "write the log of the server to stderr from this level on (default warning; or REDSTART_LOG_LEVEL)"
    parser.add_argument("--log-level", choices=LEVELS, default=os.environ.get("REDSTART_LOG_LEVEL"), help=text)


def store_option(parser: argparse.ArgumentParser) -> None:
    """`--store`, or the environment variable REDSTART_STORE."""
    text = "where tasks and shared state are kept: sqlite:///file.db, redis://… or postgresql://… (or REDSTART_STORE)"
    parser.add_argument("--store", default=os.environ.get("REDSTART_STORE"), metavar="URL", help=text)


def run(parser: argparse.ArgumentParser) -> None:
    target_argument(parser)
    parser.add_argument("--http", action="store_true", help="serve Streamable HTTP instead of stdio")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=port_number, help="port to listen on (default 8000; 0 picks one)")
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
    parser.add_argument(
        "--admin-port", type=port_number, help="port for /metrics, of all processes together (default none)"
    )
    parser.add_argument("--admin-host", help="address of the admin port (default 127.0.0.1)")
    further = 'another option of server.run("http", …), such as a limit: max_streams=20000, rate_limit=600/minute'
    parser.add_argument("--set", type=setting, action="append", metavar="NAME=VALUE", help=further)
    store_option(parser)
    parser.add_argument("--workers", type=whole, help="how many processes serve (default 1)")
    shown = "serve the page of the inspector beside the endpoint, without arguments and results of callers"
    parser.add_argument("--inspect", action="store_true", default=None, help=shown)
    parser.add_argument("--framing", choices=["auto", "newline", "content-length"], default="auto")
    log_option(parser)


def worker(parser: argparse.ArgumentParser) -> None:
    target_argument(parser)
    store_option(parser)
    parser.add_argument("--concurrency", type=whole, help="how many tasks run at once (default: as the server says)")
    text = f"seconds for running tasks that cannot be repeated, at the end (default {DRAIN:g})"
    parser.add_argument("--drain", type=seconds, default=DRAIN, help=text)
    log_option(parser)


def dev(parser: argparse.ArgumentParser) -> None:
    target_argument(parser)
    parser.add_argument("--port", type=port_number, help="port of 127.0.0.1 (default 8000, or the next free one)")
    parser.add_argument("--path", default="/mcp", help="path of the endpoint (default /mcp)")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")
    parser.add_argument("--no-reload", action="store_true", help="do not load the target again when its files change")
    parser.add_argument("--stdio", action="store_true", help="also serve a client on stdin and stdout")
    store_option(parser)


def inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help=WHERE)
    parser.add_argument("--port", type=port_number, help="port of 127.0.0.1 (default 8000, or the next free one)")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")
    file = "a configuration of a client, with mcpServers: the page shows its servers in turn"
    parser.add_argument("--config", metavar="FILE", help=file)
    signs_in = "sign in to a URL with OAuth, in the browser, when it asks for that"
    parser.add_argument("--oauth", action="store_true", help=signs_in)
    server_options(parser)


def check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", help="what `redstart run` takes")
    codes = "rules, or beginnings of their codes, with commas between them: RS1,RS401"
    parser.add_argument("--select", default="", metavar="CODES", help=f"only these {codes}")
    parser.add_argument("--ignore", default="", metavar="CODES", help=f"not these {codes}")
    parser.add_argument(
        "--client", default="", metavar="CLIENTS", help="only what matters for these clients, with commas between them"
    )
    parser.add_argument("--fix", action="store_true", help="change in the source what can be changed safely")
    parser.add_argument("--output-format", choices=list(FORMATS), default="text", help="how problems are printed")
    parser.add_argument("--json", action="store_const", const="json", dest="output_format", help="the same as json")
    parser.add_argument("--rules", action="store_true", help="print all rules")


def install(parser: argparse.ArgumentParser) -> None:
    from redstart.cli.configs.clients import CLIENTS

    parser.add_argument("target", nargs="?", help="what `redstart run` takes, or the URL of a server")
    parser.add_argument("clients", nargs="*", metavar="client", help=", ".join(CLIENTS))
    parser.add_argument("--all", action="store_true", help="every client that seems to be installed")
    parser.add_argument("--list", action="store_true", help="show what has been installed")
    parser.add_argument("--name", help="what the client calls the server (default: its own name)")
    variable = "a variable for the server; without a value, or if it is a secret, the client looks it up itself"
    parser.add_argument("--env", action="append", default=[], metavar="KEY[=VALUE]", help=variable)
    header = "a header for a URL; ${NAME} in it is a variable of the client's environment"
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'", help=header)
    parser.add_argument("--scope", choices=["user", "project"], default="user", help="for you, or for this folder")
    parser.add_argument("--dev", action="store_true", help="VS Code: start again when a file changes, and debug")
    parser.add_argument("--force", action="store_true", help="replace an entry of that name that somebody else wrote")
    parser.add_argument("--dry-run", action="store_true", help="print the change as a diff; write nothing")
    parser.add_argument("--print", action="store_true", help="print the entry, a link and a badge; write nothing")
    parser.add_argument("--no-verify", action="store_true", help="do not start the server before writing")
    parser.add_argument("--timeout", type=float, default=30, help="seconds for the server to answer (default 30)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def uninstall(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the name that `redstart install --list` shows, or the file of the server")
    parser.add_argument("clients", nargs="*", metavar="client", help="only there (default: everywhere)")
    parser.add_argument("--scope", choices=["user", "project"], help="only of this scope")
    parser.add_argument("--dry-run", action="store_true", help="print the change as a diff; write nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", choices=KINDS, help="a bundle for desktop clients, the registry's file, or a Dockerfile"
    )
    parser.add_argument("target", help="what `redstart run` takes: a file")
    parser.add_argument("--out", metavar="FILE", help="where to write it; - is stdout")
    manifests = "version of the manifest: 0.4 is run by uv, 0.3 by a Python that has redstart (default 0.4)"
    parser.add_argument("--manifest", choices=["0.3", "0.4"], default="0.4", help=f"mcpb: {manifests}")
    asked = "mcpb: a variable that the client asks for and keeps as a secret"
    parser.add_argument("--env", action="append", default=[], metavar="KEY", help=asked)
    parser.add_argument("--name", default="", help="server-json: its name in the registry, as io.github.USER/NAME")
    parser.add_argument("--url", default="", help="server-json: where it is served over HTTP")


def doctor(parser: argparse.ArgumentParser) -> None:
    meant = "what `redstart run` takes, a URL, or the name of a client (default: look at the installation only)"
    parser.add_argument("target", nargs="?", help=meant)
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'", help="a header for a URL")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--timeout", type=float, default=10, help="seconds for each answer of the server (default 10)")
