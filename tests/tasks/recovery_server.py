"""A server whose tasks leave notes in a folder: what ran, and how often. Started by test_recovery.py."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from redstart import Context, Server, TaskLimits

FOLDER = Path(os.environ["FOLDER"])
LIMITS = TaskLimits(lease=float(os.environ.get("LEASE", "1.5")))
server = Server(os.environ.get("NAME", "recovery"), store=os.environ["STORE"], tasks=LIMITS)


def note(text: str) -> None:
    with (FOLDER / "notes").open("a") as notes:
        notes.write(text + "\n")


async def until_released() -> None:
    """The test decides how long the work takes."""
    while not (FOLDER / "go").exists():
        await asyncio.sleep(0.01)


@server.tool(task="optional", annotations={"idempotentHint": True})
async def safe(ctx: Context) -> int:
    note(f"safe {ctx.attempt}")
    await until_released()
    return ctx.attempt


@server.tool(task="optional")
async def unsafe(ctx: Context) -> int:
    note(f"unsafe {ctx.attempt}")
    await until_released()
    note("unsafe ended")
    return ctx.attempt


@server.tool(task="optional", retries=1)
async def retried(ctx: Context) -> int:
    note(f"retried {ctx.attempt}")
    await until_released()
    return ctx.attempt


@server.tool(task="optional", retries=2)
async def counts(ctx: Context) -> list[int]:
    """It has counted three numbers when it is killed, and goes on with the next one."""
    seen = []
    for number in range(await ctx.checkpoint() or 0, 6):
        if number == 3:
            note("three")
            await until_released()
        seen.append(number)
        await ctx.checkpoint(number + 1)
    return seen


@server.tool(task="optional", retries=2)
async def pays(ctx: Context) -> str:
    def pay() -> str:
        note("paid")
        return "receipt 7"

    receipt = await ctx.step("pay", pay)
    note(f"waits {ctx.attempt}")
    await until_released()
    return receipt


@server.tool(task="optional")
async def asks(ctx: Context) -> str:
    note("asks")
    name = await ctx.ask("Your name?", str, "name")
    return f"Hello {name}"


if __name__ == "__main__":
    server.run()
