"""The server of the load runs: calls that wait, and what it holds, so that a leak is seen. Its argument is a port."""

from __future__ import annotations

import asyncio
import gc
import os
import sys

from redstart import Context, Server

server = Server("load", version="1")
counts = {"running": 0, "started": 0, "cancelled": 0}


@server.tool
async def echo(text: str = "") -> str:
    await asyncio.sleep(0)
    return text


@server.tool
async def rest(seconds: float, text: str = "") -> str:
    counts["running"] += 1
    try:
        await asyncio.sleep(seconds)
    finally:
        counts["running"] -= 1
    return text


@server.tool
async def hold(ctx: Context) -> str:
    """Says that it has begun, and waits until it is cancelled."""
    counts["started"] += 1
    await ctx.progress(1)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        counts["cancelled"] += 1
        raise
    return ""


@server.tool
async def held() -> dict[str, int]:
    """What the process has now."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    fds, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
    return {**counts, "tasks": tasks, "fds": fds, "bytes": pages * os.sysconf("SC_PAGE_SIZE")}


if __name__ == "__main__":
    more = 100_000  # the clients of a run have one address
    server.run("http", port=int(sys.argv[1]), max_calls=more, max_calls_per_caller=more)
