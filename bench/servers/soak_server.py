"""The server of the soak: a tool for each thing that a call may do. Its argument is a port; 0 picks one.

What it keeps on purpose (idle sessions, missed events, finished tasks) has small bounds here, so that a run of a minute
reaches all of them in its warm-up: what grows afterwards is a leak.
"""

import asyncio
import gc
import os
import sys
import threading
import time

from redstart import Accepted, Context, Server, TaskLimits

IDLE = 8.0
server = Server("soak", version="1.0.0", tasks=TaskLimits(ttl=IDLE, max_ttl=IDLE, keep=IDLE, poll=0.1))


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers on the loop."""
    return a + b


@server.tool
def add_sync(a: int, b: int) -> int:
    """Add two numbers in a thread."""
    return a + b


@server.tool
async def rest(seconds: float) -> str:
    """Wait on the loop."""
    await asyncio.sleep(seconds)
    return "rested"


@server.tool
def rest_sync(seconds: float) -> str:
    """Wait in a thread."""
    time.sleep(seconds)
    return "rested"


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Tell of each step."""
    for number in range(to):
        await ctx.progress(number + 1, to, f"step {number + 1}")
    return "counted"


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user."""
    match await ctx.elicit("Which number?", int):
        case Accepted(number):
            return f"the number {number}"
    return "no number"


@server.tool
async def hold(ctx: Context) -> str:
    """Say that it has begun, and wait until the call is cancelled."""
    await ctx.progress(1)
    await asyncio.Event().wait()
    return ""


@server.tool
async def fail(ctx: Context) -> str:
    """Raise."""
    raise LookupError("no such bird")


@server.tool(task="optional")
async def work(ctx: Context) -> str:
    """A task. It has no `ctx.step`, whose result is kept for a day, so that nobody does it again."""
    await ctx.progress(1, 2, "half of it")
    return "worked"


@server.tool
async def touch(name: str) -> None:
    """Say that a note has changed."""
    server.notify(f"notes://{name}")


@server.tool
async def held() -> dict[str, int]:
    """What the process has now, apart from its memory."""
    fds = len(os.listdir("/proc/self/fd"))
    objects = len(gc.get_objects())
    return {"tasks": len(asyncio.all_tasks()), "fds": fds, "threads": threading.active_count(), "objects": objects}


@server.resource("notes://{name}", mime_type="text/plain")
def note(name: str) -> str:
    """A note."""
    return f"the note {name}"


@server.prompt
def review(code: str) -> str:
    """Ask for a review."""
    return f"Review this: {code}"


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]), session_idle=IDLE, max_sessions=1000, max_kept_bytes=1 << 20)
