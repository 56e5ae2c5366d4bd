"""The worker of torture.py: `python torture_server.py STORE EFFECTS LEASE` runs tasks until it is killed."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from redstart import Context, Server, TaskLimits

STORE, EFFECTS, LEASE = sys.argv[1:4] if len(sys.argv) > 3 else ("memory://", os.devnull, "5")


def make_server(concurrent: int = 8) -> Server:
    limits = TaskLimits(lease=float(LEASE), concurrent=concurrent, per_user=20_000, keep=600)
    server = Server("torture", store=STORE, tasks=limits)

    def note(word: str, ctx: Context, leg: str) -> None:
        """One line, written at once: what has happened by now, whatever happens next."""
        line = f"{word} {ctx.task_id} {leg} {os.getpid()} {time.time():.3f}\n"
        effects = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(effects, line.encode())
        os.close(effects)

    @server.tool(task="required", annotations={"idempotentHint": True}, retries=1000)
    async def safe(seconds: float, ctx: Context) -> str:
        note("began", ctx, "safe")
        await asyncio.sleep(seconds)
        note("ended", ctx, "safe")
        return "safe"

    @server.tool(task="required")
    async def unsafe(seconds: float, ctx: Context) -> str:
        note("began", ctx, "unsafe")
        await asyncio.sleep(seconds)
        note("ended", ctx, "unsafe")
        return "unsafe"

    @server.tool(task="required")
    async def asks(seconds: float, ctx: Context) -> str:
        async def effect() -> int:
            note("began", ctx, "step")
            await asyncio.sleep(seconds)
            note("ended", ctx, "step")
            return 1

        await ctx.step("effect", effect)
        await ctx.confirm("Go on?", "go")
        note("began", ctx, "answered")
        await asyncio.sleep(seconds)
        note("ended", ctx, "answered")
        return "asked"

    return server


async def work() -> None:
    server = make_server()
    await server.runtime.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work())
