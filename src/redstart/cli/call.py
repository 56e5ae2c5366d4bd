"""`redstart call server.py add a=1 b=2`: call a tool, and print what it returns.

The result is on stdout; progress, questions and the failure of a tool are on stderr.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from redstart.cli.connect import WHERE, parted_with_arguments
from redstart.cli.results import result_options, show_result, talk

if TYPE_CHECKING:
    from redstart.cli.progress import ProgressLine
    from redstart.client import Client

PASSES_ON: Final = True
EPILOG: Final = """\
ARGUMENT is name=value, read by the schema of the tool; name:=JSON; outer.inner=value for an object in an object; the
same name again for the next item of a list. A value @file is the content of a file, and - that of stdin. A JSON object,
@file or - without a name holds several arguments.
"""


def options(parser: argparse.ArgumentParser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("words", nargs="*", metavar="TARGET TOOL ARGUMENT", help=f"{WHERE}; a tool; its arguments")
    task = "call it as a task, and wait as long as it takes; Ctrl-C leaves it to the server of a URL"
    parser.add_argument("--task", action="store_true", help=task)
    begun = "print the id of the task when it has begun; `redstart task` does the rest"
    parser.add_argument("--no-wait", action="store_true", help=begun)
    result_options(parser)


def act(arguments: argparse.Namespace) -> int:
    from redstart.cli.arguments import is_argument, tool_arguments

    target, wanted, words = parted_with_arguments(arguments, is_argument)

    async def work(client: Client, line: ProgressLine) -> int:
        name, values = await tool_arguments(client, wanted, words)
        if arguments.task or arguments.no_wait:
            from redstart.cli.task import begun

            return await begun(await client.start_task(name, values), name, line, arguments, target)
        result = await client.call_tool(name, values)
        line.erase()
        return show_result(result, name, arguments)

    return talk(arguments, target, work)
