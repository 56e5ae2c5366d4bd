"""`redstart task URL ID`: look at a call that a server works on as a task, wait for it, answer it, or cancel it."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any, Final

from redstart.cli.connect import URLS, WHERE, parted
from redstart.cli.output import FAILED, OK, CommandError, printable, say, show, show_json
from redstart.cli.results import result_options, show_result, talk

if TYPE_CHECKING:
    from redstart.cli.progress import ProgressLine
    from redstart.client import Client, RemoteTask, TaskInfo

PASSES_ON: Final = True


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TARGET ID", help=f"{WHERE}; the id of the task")
    parser.add_argument(
        "--wait", action="store_true", help="wait for its end, and print its result (--answer waits too)"
    )
    parser.add_argument("--cancel", action="store_true", help="have the server stop it")
    result_options(parser)


def act(arguments: argparse.Namespace) -> int:
    target, rest = parted(arguments.words, arguments.passed_on)
    if len(rest) != 1:
        raise CommandError("which task? Write its id, which `redstart call … --no-wait` has printed")
    if arguments.cancel and (arguments.wait or arguments.answer):
        raise CommandError("--cancel stops the task, so there is nothing to wait for or to answer")

    async def work(client: Client, line: ProgressLine) -> int:
        task = await client.get_task(rest[0])
        if arguments.cancel and not task.done:
            await task.cancel()
        if arguments.wait or arguments.answer or task.status == "completed":
            return await _ended(task, "the task", line, arguments, target)
        _show_state(task.info, arguments)
        return FAILED if task.status == "failed" else OK

    return talk(arguments, target, work)


async def begun(
    task: RemoteTask[Any], tool: str, line: ProgressLine, arguments: argparse.Namespace, target: str | None
) -> int:
    """What `redstart call … --task` does with the task."""
    if not task.id:
        say(f"{tool} was answered at once: there is no task")
    elif arguments.no_wait:
        if not _is_url(target):
            say("The server ends with this command. Only a store that outlives it (store=) keeps the task.")
        if arguments.json:
            _show_state(task.info, arguments)
        else:
            show(task.id)
        return OK
    else:
        say(f"Task {printable(task.id)}")
    return await _ended(task, tool, line, arguments, target)


async def _ended(
    task: RemoteTask[Any], tool: str, line: ProgressLine, arguments: argparse.Namespace, target: str | None
) -> int:
    """Wait for the end; print the result. After Ctrl-C a server at a URL goes on with the task."""
    import asyncio  # slow to load, and --help does not need it

    from redstart.client import ClientError, TaskCancelled

    try:
        result = await task.result(on_change=lambda info: line.state(_state(info)))
    except TaskCancelled as error:
        raise CommandError(printable(str(error)), FAILED) from None
    except asyncio.CancelledError:
        line.erase()
        if _is_url(target):
            say(f"\nThe task goes on. Look at it or stop it: redstart task {target} {printable(task.id)} [--cancel]")
        else:
            with contextlib.suppress(ClientError, TimeoutError):  # the server may have heard of Ctrl-C too
                await task.cancel()
            say("\nThe task is cancelled, because its server ends with this command.")
        raise
    line.erase()
    return show_result(result, tool, arguments)


def _is_url(target: str | None) -> bool:
    return target is not None and target.startswith(URLS)


def _state(info: TaskInfo) -> str:
    return f"{info.status}: {info.status_message}" if info.status_message else info.status


def _show_state(info: TaskInfo, arguments: argparse.Namespace) -> None:
    """The state of the task, and what it asks."""
    import msgspec

    if arguments.json:
        show_json({name: value for name, value in msgspec.to_builtins(info).items() if value is not None})
        return
    show(_state(info))
    for question in (info.input_requests or {}).values():
        asked = question.get("params") if isinstance(question, dict) else None
        if isinstance(asked, dict) and "message" in asked:
            show(f"asks: {asked['message']} (--wait asks you, --answer NAME=VALUE answers)")
