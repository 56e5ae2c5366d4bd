"""The `redstart` command. Each subcommand is a module of its own, loaded when it is called.

A module has `options(parser)`, which must be quick, and `act(arguments)`, whose result is the exit status. It raises
`CommandError` to end with a text. `PASSES_ON = True` in it means that `--` begins words that are not ours; they are
then `arguments.passed_on`. The options of modules that are slow to load are in `cli/options.py`.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn, TextIO

from redstart.cli.output import INTERRUPTED, USAGE, CommandError, near, printable, say

COMMANDS = {
    "new": "make a server to begin with, from a template",
    "run": "serve a file, a module or an object",
    "dev": "serve it with the inspector, and load it again when its files change",
    "worker": "run the tasks of a server that other processes serve",
    "list": "list the tools, prompts and resources of a server",
    "call": "call a tool of a server",
    "task": "look at a task that a server works on, wait for it, answer it, or cancel it",
    "read": "read a resource of a server",
    "prompt": "get a prompt of a server, as the chat that it begins",
    "inspect": "show any MCP server in the inspector: a URL, a target, or a command after `--`",
    "check": "look at a server as clients of every protocol revision do",
    "test": "try how any server behaves in every protocol revision",
    "bench": "measure how many calls a second a server answers, and how long they take",
    "doctor": "say what is installed and set up, and whether a server starts as a client would start it",
    "install": "put a server into the configuration of clients",
    "uninstall": "take a server out of the configuration of clients",
    "build": "make a bundle for desktop clients, the file for the MCP registry, or a Dockerfile",
    "completion": "print what makes a shell complete commands, options, and names of tools",
}
MEANT = {"serve": "run", "start": "run", "init": "new", "create": "new", "lint": "check", "tools": "list"}
"""Words of other programs for our commands."""
EPILOG = """\
A TARGET is a file (server.py), a module (package.module), an object or a function in one of them (server.py:app),
an installed server (entry points of the group redstart.servers), a folder, or nothing: then [tool.redstart] in
pyproject.toml names it, or it is server.py, app.py or main.py. Commands that use a server also take a URL, or a
command after `--`.

Exit statuses: 0 done, 1 a tool failed or a problem was found, 2 wrong usage, 3 no connection, 4 an error of the
protocol.
"""

BROKEN_PIPE = 128 + 13
"""The status of a command that SIGPIPE has ended, as shells count it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status. A reader of stdout may end early, as `head` does."""
    try:
        try:
            return _main(argv)
        except CommandError as error:
            if str(error):  # else it has been said
                say(f"redstart: {printable(str(error))}")  # it may quote a server
            return error.status
        except KeyboardInterrupt:
            say()  # the terminal has shown ^C
            return INTERRUPTED
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


class CommandParser(argparse.ArgumentParser):
    """A parser that says which option was probably meant."""

    def error(self, message: str) -> NoReturn:
        before, _, unknown = message.partition("unrecognized arguments: ")
        if not before and unknown.startswith("-"):
            known = [name for action in self._actions for name in action.option_strings]
            message += near(unknown.split()[0].partition("=")[0], [name for name in known if name.startswith("--")])
        super().error(message)


def parsers(wanted: str | None = None) -> tuple[CommandParser, dict[str, CommandParser]]:
    """The parser, and those of the commands. Only the options of the `wanted` command are loaded; "*" means all."""
    from redstart import __version__

    parser = CommandParser(
        prog="redstart",
        description="Make any Python application an MCP server, and use any MCP server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"redstart {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    made: dict[str, CommandParser] = {}
    for name, text in COMMANDS.items():
        made[name] = command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if wanted in (name, "*"):  # the other commands only need their names
            _describe(name, command)
    return parser, made


def _describe(name: str, command: CommandParser) -> None:
    """The options of a command. Those of a command that is slow to load are apart, so that its help is quick."""
    from redstart.cli import options

    if (described := getattr(options, name, None)) is not None:
        described(command)
        act, takes_more = partial(_act, name), name in options.PASSING_ON
    else:
        module = import_module(f"redstart.cli.{name}")
        module.options(command)
        act, takes_more = module.act, getattr(module, "PASSES_ON", False)
    command.set_defaults(act=act, takes_more=takes_more)


def _act(name: str, arguments: argparse.Namespace) -> int:
    status: int = import_module(f"redstart.cli.{name}").act(arguments)
    return status


def _no_command(word: str) -> CommandError:
    if word.startswith(("http://", "https://")):
        return CommandError(f"{word} is not a command; to see what it offers: redstart list {word}")
    if word.partition(":")[0].endswith(".py"):
        return CommandError(f"{word} is not a command; to serve it: redstart run {word}")
    meant = f"; did you mean {MEANT[word]}?" if word in MEANT else near(word, COMMANDS, most=len(COMMANDS))
    return CommandError(f"there is no command {word}{meant}")


def _main(argv: Sequence[str] | None) -> int:
    arguments = [*(sys.argv[1:] if argv is None else argv)]  # here `list` is the module of that command
    place = next((n for n, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments))
    wanted = arguments[place] if place < len(arguments) else None
    if wanted is not None and wanted not in COMMANDS:
        raise _no_command(wanted)
    parser, commands = parsers(wanted)
    parser.parse_args(arguments[:place])  # --help and --version; nothing else stands before a command
    if wanted is None:
        parser.print_help(sys.stderr)
        return USAGE
    command, own, passed_on = commands[wanted], arguments[place + 1 :], []
    if command.get_default("takes_more") and "--" in own:
        end = own.index("--")
        own, passed_on = own[:end], own[end + 1 :]
    given = argparse.Namespace(passed_on=passed_on, given=arguments)
    parsed = command.parse_intermixed_args(own, given)  # words and options in any order
    status: int = parsed.act(parsed)
    return status
