"""`redstart check file.py`: look at a server as clients of every protocol revision do; status 1 where one stumbles."""

from __future__ import annotations

import argparse
import asyncio
import sys

from redstart.cli.target import ready


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="what `redstart run` takes")


def act(arguments: argparse.Namespace) -> int:
    from redstart.testing.suite import problems

    server = ready(arguments.target)
    if server is None:
        return 2
    found = asyncio.run(problems(server))
    for problem in found:
        print(problem)
    tools, prompts, resources = len(server.tools), len(server.prompts), len(server.resources) + len(server.templates)
    sys.stderr.write(f"{server.name}: {tools} tools, {prompts} prompts, {resources} resources, ")
    sys.stderr.write(f"{len(found)} problems\n" if found else "nothing wrong in any revision\n")
    return 1 if found else 0
