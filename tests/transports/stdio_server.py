"""The server that the stdio tests start: tools that print, hang, write to fd 1, flood. `--early` prints at import."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from redstart import Context, Progress, Server

if "--logging" in sys.argv:
    logging.basicConfig()
if "--early" in sys.argv:
    print("printed at import")

server = Server("stdio-test", version="1")


@server.tool
async def echo(text: str = "") -> str:
    return text


@server.tool
def sync_echo(text: str = "") -> str:
    return text


@server.tool
async def loud(how: str) -> str:
    """Leaves a kilobyte on stderr."""
    if how == "raise":
        raise ValueError("x" * 1000)
    if how == "print":
        print("x" * 1000)
    elif how == "log":
        logging.getLogger("loud").warning("x" * 1000)
    else:
        sys.stderr.write("x" * 1000 + "\n")
    return "said"


@server.tool
def noisy() -> str:
    print("print from a tool", flush=True)
    os.write(1, b"os.write to fd 1\n")
    subprocess.run([sys.executable, "-c", "print('a child'); import sys; sys.stdin.read()"], check=True)
    return "quiet"


@server.tool
def stuck(seconds: float = 600) -> str:
    sys.stderr.write("stuck\n")
    sys.stderr.flush()
    time.sleep(seconds)
    return "woke up"


@server.tool
async def wait(ctx: Context) -> str:
    await ctx.progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        sys.stderr.write("unwound\n")
        sys.stderr.flush()
    return "never"


told = asyncio.Event()


@server.tool
async def tell() -> str:
    told.set()
    return "told"


@server.tool
async def until_told(ctx: Context, words: str) -> str:
    """Says something without pause until `tell` is called."""
    count = 0
    while not told.is_set():
        count += 1
        await (ctx.progress(count) if words == "progress" else ctx.info(count))
    return "done"


@server.tool
async def chatty(ctx: Context, count: int) -> str:
    """Says so much, and on stderr when it is held back for a second."""
    for n in range(count):
        try:
            await asyncio.wait_for(ctx.progress(n), 1)
        except TimeoutError:
            sys.stderr.write("held back\n")
            sys.stderr.flush()
    sys.stderr.write("through\n")
    sys.stderr.flush()
    return "done"


@server.tool(executor="process")
def chatty_child(count: int) -> Iterator[Any]:
    for n in range(count):
        yield Progress(n)
    sys.stderr.write("through\n")
    sys.stderr.flush()


@server.tool
async def large(size: int) -> str:
    return "x" * size


@server.tool
async def add_tool() -> str:
    async def late() -> str:
        return "late"

    server.register(late)
    return "added"


if __name__ == "__main__":
    limits = {"max_message_bytes": 1 << 20} if "--small" in sys.argv else {}
    server.run(**limits)  # type: ignore[call-overload]
