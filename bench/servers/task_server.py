"""A server on stdio whose tools run as tasks, on the store TASK_STORE. One does nothing, two use a processor."""

import os
import sys
import threading
import time

from redstart import Server, SyncContext, TaskLimits

server = Server("tasks", store=os.environ["TASK_STORE"], threads=8, processes=4, tasks=TaskLimits(per_user=100_000))


@server.tool(task="required")
async def nothing(number: int) -> int:
    return number


def begin(name: str) -> None:
    """Tell on stderr that the task of this name uses a processor, in which process, and in which of its threads."""
    if name:
        sys.stderr.write(f"busy: {name} {os.getpid()} {threading.get_ident()}\n")
        sys.stderr.flush()


@server.tool(task="required")
def spin(ctx: SyncContext, seconds: float, name: str = "") -> int:
    """Use a processor in pure Python, in a thread."""
    begin(name)
    rounds, until = 0, time.monotonic() + seconds
    while time.monotonic() < until and not ctx.cancelled:
        rounds += sum(range(1000)) > 0
    return rounds


@server.tool(task="required", executor="process")
def spin_apart(seconds: float, name: str = "") -> int:
    """The same in a process of its own."""
    begin(name)
    rounds, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        rounds += sum(range(1000)) > 0
    return rounds


if __name__ == "__main__":
    server.run()
