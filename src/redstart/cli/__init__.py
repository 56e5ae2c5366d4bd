"""The `redstart` command. Each subcommand is a module of its own, loaded when it is called."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

COMMANDS = {
    "run": "serve a file, a module or an object",
    "worker": "run the tasks of a server that other processes serve",
    "check": "look at a server as clients of every protocol revision do",
    "doctor": "say what is installed and set up, and whether a server starts as a client would start it",
    "install": "print the entry for a client's configuration",
}


BROKEN_PIPE = 128 + 13
"""The status of a command that SIGPIPE has ended, as shells count it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status. A reader that goes, as `head` does, is not an error."""
    try:
        try:
            return _main(argv)
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()  # here and not at exit, where an error could not be caught
    except BrokenPipeError:
        broken = [stream for stream in (sys.stdout, sys.stderr) if _is_broken(stream)]
        if not broken:  # it was another pipe, of the server itself
            raise
        for stream in broken:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return BROKEN_PIPE


def _is_broken(stream: TextIO) -> bool:
    """Whether the reader of the stream has gone."""
    try:
        poll, descriptor = select.poll(), stream.fileno()
    except (AttributeError, OSError, ValueError):  # Windows has no poll; a stream may have no descriptor
        return False
    poll.register(descriptor, 0)  # errors are always reported
    return bool(poll.poll(0))


def _main(argv: Sequence[str] | None) -> int:
    from redstart import __version__

    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="redstart", description="Make any Python application an MCP server.")
    parser.add_argument("--version", action="version", version=f"redstart {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    wanted = next((argument for argument in arguments if argument in COMMANDS), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == wanted:  # the other commands only need their names
            module = import_module(f"redstart.cli.{name}")
            module.options(command)
            command.set_defaults(act=module.act)
    end = arguments.index("--") if wanted in ("run", "worker") and "--" in arguments else len(arguments)
    own, passed_on = arguments[:end], arguments[end + 1 :]  # what follows `--` is for the script that is served
    parsed = parser.parse_args(own, argparse.Namespace(passed_on=passed_on, given=arguments))
    status: int = parsed.act(parsed)
    return status
