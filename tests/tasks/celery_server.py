"""A server that leaves its work to Celery: the same file is the server and the Celery application."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import celery

from redstart import Context, Server

jobs: Any = celery.Celery("jobs", broker=os.environ["BROKER"])
server = Server("words", store=os.environ["STORE"])


@jobs.task(name="count_words")  # type: ignore[untyped-decorator]
def count_words(token: str, words: str) -> None:
    """In a worker of Celery."""

    async def work() -> None:
        async with server.task(token) as task:
            if not await task.progress(0, message="counting"):
                return  # it was cancelled
            while words == "slow":
                await asyncio.sleep(0.05)
                if not await task.progress(0):
                    return
            if words:
                await task.finish(len(words.split()))
            else:
                await task.fail("There are no words.")

    asyncio.run(work())


def revoke(token: str) -> None:
    jobs.control.revoke(token)
    Path(os.environ["REVOKED"]).touch()


@server.tool(task="required", on_cancel=revoke)
async def count(words: str, ctx: Context) -> int:
    """Count words, elsewhere."""
    token = await ctx.hand_over()
    await asyncio.to_thread(count_words.apply_async, (token, words), task_id=token)
    return 0


if __name__ == "__main__":
    server.run()
