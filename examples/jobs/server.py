"""An album of photos: long work with progress, a question in the middle, and a memory of where it was."""

from __future__ import annotations

import asyncio
import os

from redstart import Accepted, Context, Server, TaskLimits

SECONDS = float(os.environ.get("SECONDS_PER_PHOTO", "1"))
server = Server("jobs", store="sqlite:///jobs.db", tasks=TaskLimits(lease=5, poll=0.5))


async def develop(number: int) -> str:
    """The work itself; here it only takes its time."""
    await asyncio.sleep(SECONDS)
    return f"photo {number}"


@server.tool(task="optional", retries=3)
async def make_album(photos: int, ctx: Context) -> str:
    """Develop photos one after the other, and ask for a title when half of them are done."""
    done: list[str] = await ctx.checkpoint() or []  # empty, unless an earlier run has got so far

    async def develop_until(count: int) -> None:
        while len(done) < count:
            done.append(await develop(len(done) + 1))
            await ctx.progress(len(done), photos, f"{len(done)} of {photos} photos are developed")
            await ctx.checkpoint(done)

    await develop_until(photos // 2)
    answer = await ctx.elicit("What is the title of the album?", str, key="title")  # no process waits for it
    await develop_until(photos)
    title = answer.data if isinstance(answer, Accepted) else "Untitled"
    return f"{title}: {len(done)} photos, attempt {ctx.attempt}"


@server.tool(task="optional")
async def print_album(copies: int, ctx: Context) -> str:
    """Print copies. Paper cannot be unprinted: if the process dies, the task fails and is not begun anew."""
    for copy in range(copies):
        await asyncio.sleep(SECONDS)
        await ctx.progress(copy + 1, copies, f"{copy + 1} of {copies} copies are printed")
    return f"{copies} copies"


if __name__ == "__main__":
    server.run("http")
