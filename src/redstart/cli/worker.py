"""`redstart worker file.py --store redis://…`: run the tasks of a server, and serve no client."""

from __future__ import annotations

import argparse
import asyncio
import sys

from msgspec.structs import replace

from redstart.cli.run import seconds, whole
from redstart.cli.target import ready, store_option
from redstart.server.runtime import DRAIN
from redstart.server.server import Server, in_words
from redstart.store.open import is_shared
from redstart.tasks.record import TaskLimits
from redstart.transports.loop import on_signals, run_loop


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="file.py or package.module, each also with :object; or a folder")
    store_option(parser)
    parser.add_argument("--concurrency", type=whole, help="how many tasks run at once (default: as the server says)")
    text = f"seconds for running tasks that cannot be repeated, at the end (default {DRAIN:g})"
    parser.add_argument("--drain", type=seconds, default=DRAIN, help=text)


def act(arguments: argparse.Namespace) -> int:
    sys.argv = [arguments.target.partition(":")[0], *arguments.passed_on]
    server = ready(arguments.target, arguments.store)
    if server is None:
        return 2
    tools = [tool.name for tool in server.tools if tool.task != "forbidden"]
    if not is_shared(server.runtime.store):
        advice = "write --store redis://…, postgresql://… or sqlite:///file.db, the same as the server's"
        sys.stderr.write(f"redstart: no other process can see a store in memory, so a worker has no work; {advice}\n")
        return 2
    if not tools:
        advice = 'write @server.tool(task="optional")'
        sys.stderr.write(f"redstart: {server.name} has no tool that runs as a task; {advice}\n")
        return 2
    tasks = server.runtime.tasks
    concurrent = arguments.concurrency or tasks.limits.concurrent or TaskLimits().concurrent
    tasks.limits = replace(tasks.limits, concurrent=concurrent)
    server.runtime.drain = arguments.drain
    line = f"a worker of {server.name} runs {', '.join(tools)}: {concurrent} at once\n"
    with in_words(server):
        run_loop(_work(server, line))
    return 0


async def _work(server: Server, announcement: str) -> None:
    """Run tasks until SIGTERM or Ctrl-C. The second signal ends the process at once."""
    stopped = asyncio.Event()
    with on_signals(lambda number: stopped.set()):
        await server.runtime.start()
        sys.stderr.write(announcement)
        sys.stderr.flush()
        await stopped.wait()
    if server.runtime.worker.legs:
        sys.stderr.write(f"stopping: tasks have {server.runtime.drain:g} s to finish; Ctrl-C ends them now\n")
        sys.stderr.flush()
    await server.runtime.stop()
