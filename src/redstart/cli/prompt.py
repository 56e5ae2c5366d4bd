"""`redstart prompt server.py review code=@main.py`: the messages of a prompt, as a chat."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from redstart.cli.connect import WHERE, is_pair, parted_with_arguments, server_options, use
from redstart.cli.output import OK, CommandError, meant, near, printable, say, show_json, styled

if TYPE_CHECKING:
    from redstart.client import Client
    from redstart.wire.types import GetPromptResult, ListedPrompt

PASSES_ON: Final = True
COLOURS: Final = {"user": "cyan", "assistant": "green"}


def options(parser: argparse.ArgumentParser) -> None:
    more = f"{WHERE}; a prompt; its arguments as name=text, name=@file or name=- for stdin"
    parser.add_argument("words", nargs="*", metavar="TARGET PROMPT NAME=TEXT", help=more)
    parser.add_argument("--json", action="store_true", help="print the whole result as one JSON document")
    parser.add_argument("--save", metavar="PATH", help="save images, audio and binary resources: a file or a folder/")
    server_options(parser)


def act(arguments: argparse.Namespace) -> int:
    target, name, words = parted_with_arguments(arguments, is_pair)

    async def work(client: Client) -> int:
        listed = await client.list_prompts() if "prompts" in client.server_capabilities else []
        prompt = meant("prompt", name, {prompt.name: prompt for prompt in listed})
        return _show(await client.get_prompt(prompt.name, _arguments(prompt, words)), prompt.name, arguments)

    return use(arguments, target, work)


def _arguments(prompt: ListedPrompt, words: Sequence[str]) -> dict[str, str]:
    from redstart.cli.arguments import content

    known = {argument.name: argument for argument in prompt.arguments or ()}
    given: dict[str, str] = {}
    for word in words:
        key, mark, text = word.partition("=")
        if not mark:
            raise CommandError(f"{word} is not an argument: write name=text")
        if key not in known:
            raise CommandError(f"{prompt.name} has no argument {key}{near(key, known)}")
        is_file = text == "-" or (text.startswith("@") and len(text) > 1)
        given[key] = content(text).decode("utf-8", "replace") if is_file else text
    if lacking := [key for key, argument in known.items() if argument.required and key not in given]:
        raise CommandError(printable(f"{prompt.name} needs {', '.join(f'{key}=…' for key in lacking)}"))
    return given


def _show(result: GetPromptResult, name: str, arguments: argparse.Namespace) -> int:
    from redstart.cli.blocks import deliver

    if arguments.json:
        import msgspec

        document = {"description": result.description} if result.description else {}
        show_json({**document, "messages": msgspec.to_builtins(result.messages)})
        return OK
    if result.description:
        say(styled(printable(result.description), "dim", sys.stderr))
    for number, message in enumerate(result.messages):
        role = printable(str(message.role))
        head = styled(f"{role}:", COLOURS.get(role, "bold"), sys.stdout)
        print(("\n" if number else "") + head)
        deliver([message.content], arguments.save, f"{name}-{number + 1}")
    return OK
