"""The server of test_cancelled.py: tools that wait for ever, and one that says what is left of them."""

import asyncio
import ctypes
import gc
import os
import sys
import threading
import time
from typing import Any

from redstart import Server, SyncContext

server = Server("cancelled", threads=8)
opened = 0
MALLINFO = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]


@server.add_middleware
async def count(call: Any, next: Any) -> Any:
    global opened
    opened += call.method.name == "tools/call" and call.params.name in ("coroutine", "thread")
    return await next(call)


@server.tool
async def coroutine() -> None:
    await asyncio.Event().wait()


@server.tool
def thread(ctx: SyncContext) -> None:
    while not ctx.cancelled:
        time.sleep(0.0005)


@server.tool
async def ping() -> str:
    return "pong"


@server.tool
async def begun(count: int) -> int:
    """Answers when so many calls have begun since the last time."""
    global opened
    async with asyncio.timeout(20):
        while opened < count:
            await asyncio.sleep(0.001)
    began, opened = opened, 0
    return began


@server.tool
async def left() -> dict[str, int]:
    """What is there when everything has unwound."""
    found, last = facts(), None
    async with asyncio.timeout(20):
        # A thread whose call was cancelled was replaced meanwhile, and goes home when it finds that out.
        while (
            server.runtime.unwinding
            or found["tasks"] > 8
            or found["threads"] > server.options["threads"] + 1
            or found != last
        ):
            await asyncio.sleep(0.02)
            found, last = facts(), found
    gc.collect()
    return {**found, "objects": len(gc.get_objects()), "bytes": held()}


def facts() -> dict[str, int]:
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/dev/fd")),
    }


class Allocated(ctypes.Structure):
    """glibc's struct mallinfo2: the sums over all of its arenas."""

    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO]


def held() -> int:
    """The bytes that are allocated now: the resident size differs by megabytes from run to run for the same ones."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Allocated
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)  # in the arenas, and mapped one by one


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", port=int(sys.argv[1]), max_calls_per_caller=4096)
    else:
        server.run()
