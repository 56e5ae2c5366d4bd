"""The `redstart` command. Each subcommand is a module of its own, loaded when it is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "run": "serve a file, a module or an object",
    "check": "look at a server as clients of every protocol revision do",
    "doctor": "say what is installed and set up, and whether a server starts as a client would start it",
    "install": "print the entry for a client's configuration",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="redstart", description="Make any Python application an MCP server.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    wanted = next((argument for argument in arguments if argument in COMMANDS), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == wanted:  # the others only need to be named
            module = import_module(f"redstart.cli.{name}")
            module.options(command)
            command.set_defaults(act=module.act)
    parsed = parser.parse_args(arguments)
    status: int = parsed.act(parsed)
    return status


def _version() -> str:
    from redstart import __version__

    return f"redstart {__version__}"
