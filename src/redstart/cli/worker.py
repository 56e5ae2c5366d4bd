"""`redstart worker file.py --store redis://…`: run the tasks of a server, and serve no client."""

from __future__ import annotations

import argparse
import asyncio
import sys

from msgspec.structs import replace

from redstart.cli.output import CommandError
from redstart.cli.run import set_log_level
from redstart.cli.target import chosen, ready
from redstart.server.server import Server
from redstart.store.open import is_shared
from redstart.tasks.record import TaskLimits
from redstart.transports.loop import on_signals, run_server, say


def act(arguments: argparse.Namespace) -> int:
    target = chosen(arguments.target)
    set_log_level(arguments.log_level)
    sys.argv = [target.partition(":")[0], *arguments.passed_on]
    server = ready(target, arguments.store)
    tools = [tool.name for tool in server.tools if tool.task != "forbidden"]
    if not is_shared(server.runtime.store):
        advice = "write --store redis://…, postgresql://… or sqlite:///file.db, the same as the server's"
        raise CommandError(f"no other process can see a store in memory, so a worker has no work; {advice}")
    if not tools:
        advice = 'write @server.tool(task="optional")'
        raise CommandError(f"{server.name} has no tool that runs as a task; {advice}")
    tasks = server.runtime.tasks
    concurrent = arguments.concurrency or tasks.limits.concurrent or TaskLimits().concurrent
    tasks.limits = replace(tasks.limits, concurrent=concurrent)
    server.runtime.drain = arguments.drain
    line = f"a worker of {server.name} runs {', '.join(tools)}: {concurrent} at once"
    run_server(server, _work(server, line))
    return 0


async def _work(server: Server, announcement: str) -> None:
    """Run tasks until SIGTERM or Ctrl-C. The second signal ends the process at once."""
    stopped = asyncio.Event()
    with on_signals(lambda number: stopped.set()):
        await server.runtime.start()
        say(announcement)
        await stopped.wait()
    if server.runtime.worker.legs:
        say(f"stopping: tasks have {server.runtime.drain:g} s to finish; Ctrl-C ends them now")
    await server.runtime.stop()
