"""A server for ASGI servers that are not ours: by itself, and as a part of a FastAPI application."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redstart import Server


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@asynccontextmanager
async def lifespan(server: Any) -> AsyncIterator[None]:
    if "FAIL" in os.environ:
        raise ConnectionError("no database")
    say("lifespan begins")
    yield
    say("lifespan ends")


server = Server("hosted", lifespan=lifespan)


@server.tool
async def rest(until: str) -> str:
    """Until a file of this name is there: workers of some servers have no stdin to be told by."""
    say("resting")
    while not os.path.exists(until):
        await asyncio.sleep(0.02)
    return "rested"


app = server.asgi(keep_alive=0.2, drain=float(os.environ.get("DRAIN", "30")))


def in_fastapi() -> Any:
    from fastapi import FastAPI

    application = FastAPI(lifespan=server.lifespan_context)
    application.add_route("/mcp", app)
    application.add_route("/mcp/", app)
    return application


def in_fastapi_without_lifespan() -> Any:
    from fastapi import FastAPI

    application = FastAPI()
    application.add_route("/mcp", app)
    return application
