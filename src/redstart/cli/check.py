"""`redstart check file.py`: look at a server as clients of every revision do; status 1 if there is a problem."""

from __future__ import annotations

import argparse
import asyncio
import sys

from redstart.cli.target import ready
from redstart.server.startup_errors import not_started


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="what `redstart run` takes")


def act(arguments: argparse.Namespace) -> int:
    from redstart.testing.suite import problems

    server = ready(arguments.target)
    if server is None:
        return 2
    try:
        reported = asyncio.run(problems(server))
    except Exception as error:
        if error is not server.runtime.failure:
            raise
        sys.stderr.write(f"redstart: {not_started(server.name, error)}\n")
        return 1
    for problem in reported:
        print(problem)
    counts = len(server.tools), len(server.prompts), len(server.resources) + len(server.templates)
    offered = map(_counted, counts, ("tool", "prompt", "resource"))
    verdict = _counted(len(reported), "problem") if reported else "nothing wrong in any revision"
    sys.stderr.write(f"{server.name}: {', '.join((*offered, verdict))}\n")
    return 1 if reported else 0


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
