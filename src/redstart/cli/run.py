"""`redstart run file.py`, `redstart run package.module[:object]`: serve it on stdio, or with --http on a port.

Each option that says how to serve over HTTP may come from the environment too: `--public-url` is REDSTART_PUBLIC_URL.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from redstart.cli.options import LEVELS, port_number, seconds, setting, whole
from redstart.cli.output import CommandError
from redstart.cli.target import chosen, ready
from redstart.features.errors import SettingsError
from redstart.features.rules import OptionError
from redstart.server.server import Server
from redstart.store.open import is_shared
from redstart.transports.http_options import HttpOptions
from redstart.transports.options import transport_options

_SAME: Final = ("host", "port", "path", "public_url", "uds", "tls_cert", "tls_key", "drain", "drain_delay")
OF_HTTP: Final = {
    **{name: name for name in (*_SAME, "access_log", "admin_port", "admin_host")},
    "allow_host": "allowed_hosts",
    "allow_origin": "allowed_origins",
    "trust_proxy": "trusted_proxies",
}
"""The options that mean something over HTTP only, and what `Server.run` calls them."""


def set_log_level(level: str | None) -> None:
    """Write the log to stderr, with times. Without a level, logging stays as the application sets it up."""
    if level is None:
        return
    if level not in LEVELS:
        raise CommandError(f"REDSTART_LOG_LEVEL is one of {', '.join(LEVELS)}, not {level}")
    import logging

    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _from_environment(arguments: argparse.Namespace) -> None:
    """Options that were not given, from variables of their names. What may be given often is separated by commas."""
    for name in (*OF_HTTP, "set", "workers"):
        variable = f"REDSTART_{name.upper()}"
        text = os.environ.get(variable)
        if not text or getattr(arguments, name) is not None:
            continue
        read = READ.get(name, str)
        try:
            setattr(arguments, name, read(text))
        except argparse.ArgumentTypeError as error:
            raise CommandError(f"{variable}: {error}") from None


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"1 for yes or 0 for no, not {text}")
    return text == "1"


def _several(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


READ: Final[dict[str, Callable[[str], object]]] = {
    **dict.fromkeys(("port", "admin_port"), port_number),
    **dict.fromkeys(("drain", "drain_delay"), seconds),
    **dict.fromkeys(("allow_host", "allow_origin", "trust_proxy"), _several),
    "access_log": _flag,
    "set": lambda text: [setting(part) for part in re.split(r",(?=\s*\w+=)", text)],  # JSON has commas too
    "workers": whole,
}
"""How the text of a variable becomes the value of an option; any other is a text."""


def act(arguments: argparse.Namespace) -> int:
    target = chosen(arguments.target)
    set_log_level(arguments.log_level)
    if arguments.http:
        _from_environment(arguments)
    names = (*OF_HTTP, "set", "workers", "inspect")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if given and not arguments.http:
        raise CommandError(f"--{next(iter(given)).replace('_', '-')} is for HTTP; write --http beside it")
    workers: int = given.pop("workers", 1)
    given.pop("inspect", None)
    further = dict(given.pop("set", ()))
    named = {OF_HTTP[name]: value for name, value in given.items()} | further
    if "admin_host" in named and "admin_port" not in named:
        raise CommandError("--admin-host is the address of the admin port; write --admin-port beside it")
    try:
        _, checked = transport_options("run", "http", named)
    except OptionError as error:
        raise CommandError(str(error).partition(": ")[2]) from None  # without the line of our own script
    sys.argv = [target.partition(":")[0], *arguments.passed_on]  # as in `python file.py`
    with nullcontext() if arguments.http else _pipes_of_the_protocol():
        server = ready(target, arguments.store)
    if not arguments.http:
        server.run("stdio", framing=arguments.framing)
    elif workers == 1:
        _run_http(server, arguments, named)
    else:
        from redstart.cli.supervisor import given_admin_listener, given_listener

        listener = given_listener()
        if listener is None:
            return _supervise(server, workers, arguments, checked)
        named.pop("admin_port", None)  # it is the supervisor's
        _run_http(server, arguments, {**named, "listener": listener, "admin_listener": given_admin_listener()})
    return 0


@contextmanager
def _pipes_of_the_protocol() -> Iterator[None]:
    """While code is loaded: what it prints must not reach the client, and what it reads would be a message of it."""
    from redstart.transports.stdio import guard_stdout

    guard_stdout()
    if sys.stdin is None:  # closed before Python started
        yield
        return
    own, nowhere = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    try:
        yield
    finally:
        os.dup2(own, 0)
        os.close(own)
        os.close(nowhere)


def _run_http(server: Server, arguments: argparse.Namespace, named: dict[str, Any]) -> None:
    if arguments.inspect:
        from redstart.cli.inspected import run_inspected

        run_inspected(server, arguments.target or server.name, named)
    else:
        server.run("http", **named)


def _supervise(server: Server, workers: int, arguments: argparse.Namespace, options: HttpOptions) -> int:
    """Look after several processes that have the same command as this one."""
    if not is_shared(server.runtime.store):
        raise CommandError(
            f"{workers} processes cannot share a store in memory: what one of them keeps, the others do not "
            "see. Write --store redis://…, postgresql://… or sqlite:///file.db, or leave out --workers."
        )
    if sys.platform == "win32":
        raise CommandError("--workers is for Linux and macOS: a process of Windows cannot inherit a socket")
    from redstart.cli.supervisor import Supervisor, listeners
    from redstart.transports.listen import bind_unix, removed_at_end, tls_context
    from redstart.transports.serve import check_name

    tls_context(options["tls_cert"], options["tls_key"])  # an error now, and not in each process again and again
    try:
        server.asgi(path=options["path"], public_url=options["public_url"])  # the same for `auth=` and routes
    except SettingsError as error:
        raise SystemExit(f"redstart: {error}") from None
    command, uds = [sys.executable, "-m", "redstart", *arguments.given], options["uds"]
    if arguments.inspect:
        from redstart.cli.inspected import share_token

        share_token()
    if uds is not None:  # the processes take connections of one socket in turn
        sockets = [bind_unix(os.fspath(uds))] * workers
    else:
        check_name(options["host"], options)
        sockets = listeners(options["host"], options["port"], workers)
    admin = None if options["admin_port"] is None else (options["admin_host"], options["admin_port"])
    with removed_at_end(uds):
        return asyncio.run(Supervisor(command, sockets, admin).run())
