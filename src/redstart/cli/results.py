"""What `redstart call` and `redstart task` have in common: a client that asks, and the result of a tool."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from redstart.cli.connect import sampling_hint, server_options, use
from redstart.cli.output import FAILED, OK, USAGE, printable, say, show_json, styled

if TYPE_CHECKING:
    from redstart.cli.progress import ProgressLine
    from redstart.client import CallResult, Client, LogMessage
    from redstart.wire.jsonrpc import JsonObject

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def result_options(parser: argparse.ArgumentParser) -> None:
    """The options of a command that may get the result of a tool, and be asked by it."""
    parser.add_argument("--json", action="store_true", help="print the whole result as one JSON document")
    text = "answer a question of the tool; `decline` and `cancel` are answers too (default: ask in the terminal)"
    parser.add_argument("--answer", action="append", default=[], metavar="NAME=VALUE", help=text)
    kept = "save images, audio and binary resources: a file, a folder/, or - for stdout"
    parser.add_argument("--save", metavar="PATH", help=kept)
    parser.add_argument(
        "--root", action="append", default=[], metavar="FOLDER", help="a folder that the server may use"
    )
    level = "show log messages of the server from this level on (default info)"
    parser.add_argument("--log-level", choices=LEVELS, default="info", metavar="LEVEL", help=level)
    server_options(parser)


def talk(
    arguments: argparse.Namespace,
    target: str | None,
    work: Callable[[Client, ProgressLine], Coroutine[Any, Any, int]],
) -> int:
    """Do the work with a client that shows progress and logs, and asks the person; the exit status."""
    from redstart.cli.forms import TypedAnswers
    from redstart.cli.keyboard import Keyboard
    from redstart.cli.progress import progress_line

    answers = TypedAnswers(arguments.answer, Keyboard())
    least = LEVELS.index(arguments.log_level)
    with progress_line() as line:
        status = use(
            arguments,
            target,
            lambda client: work(client, line),
            on_elicit=answers,
            on_progress=line.show,
            on_log=lambda message: _log(message, least),
            log_level=arguments.log_level,
            roots=arguments.root or None,
        )
    if answers.unused():
        say(f"redstart: no question asked for {', '.join(answers.unused())}")
    return USAGE if answers.unanswered and status == OK else status


def show_result(result: CallResult[Any], name: str, arguments: argparse.Namespace) -> int:
    """Print what a tool returned; the exit status."""
    from redstart.cli.blocks import deliver

    if arguments.json:
        show_json(_document(result))
        return FAILED if result.is_error else OK
    if result.is_error:
        reason = printable(result.text) or "it gave no reason"
        say(f"{styled(f'{name} failed:', 'red', sys.stderr)} {reason}{sampling_hint(reason)}")
        return FAILED
    if result.content or result.structured is None:
        deliver(result.content, arguments.save, name)
    else:
        show_json(result.data)
    return OK


def _document(result: CallResult[Any]) -> JsonObject:
    """The result as it came."""
    import msgspec

    document: JsonObject = {"content": msgspec.to_builtins(result.content)}
    if result.structured is not None:
        document["structuredContent"] = result.structured
    document["isError"] = result.is_error
    if result.meta:
        document["_meta"] = result.meta
    return document


def _log(message: LogMessage, least: int) -> None:
    """Show a log message of the server. The level is checked here, because a handshake server may ignore it."""
    level = message.level if message.level in LEVELS else "info"
    if LEVELS.index(level) >= least:
        text = message.data if isinstance(message.data, str) else json.dumps(message.data, ensure_ascii=False)
        source = f" {message.logger}" if message.logger else ""
        say(styled(printable(f"{level}{source}: {text}"), "dim", sys.stderr))
