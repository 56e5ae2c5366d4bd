"""Functions for the children of test_process.py: a child can only run what it can import."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from redstart import Client, Depends, Image, Progress, ProtocolError, Server, Text, ToolError

opened: list[str] = []


@dataclass
class Point:
    x: int
    y: int


class Pair(NamedTuple):
    left: int
    right: date


class OwnError(Exception):
    pass


def pid() -> int:
    return os.getpid()


def doubled(price: Decimal) -> Decimal:
    return 2 * price


def echo(point: Point, day: date) -> dict[str, Any]:
    print("not for the protocol")
    return {"kind": type(point).__name__, "x": point.x + point.y, "pair": Pair(1, day), "pid": os.getpid()}


async def waits() -> str:
    return "awaited"


def nothing() -> None:
    return None


def content() -> list[Any]:
    return [Text("see"), Image(b"\x89PNG")]


def fails(how: str) -> str:
    if how == "tool":
        raise ToolError("no such city")
    if how == "protocol":
        raise ProtocolError(-32000, "refused", {"why": "so"})
    if how == "own":
        raise OwnError("own secret")
    if how == "die":
        os._exit(7)
    raise ValueError("secret")


def nan() -> float:
    return float("nan")


def counts(n: int) -> Iterator[Any]:
    for i in range(n):
        yield Progress(i + 1, n)
        yield f"part {i}"
    return


def hangs(marker: str) -> None:
    """Start a child of our own, write down both process ids, then never end."""
    inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(f"{marker}.part", "w") as file:
        file.write(f"{os.getpid()} {inner.pid}")
    os.rename(f"{marker}.part", marker)
    inner.wait()


def burns(marker: str) -> None:
    """As `hangs`, but the wait lets no other thread of this process run."""
    inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(f"{marker}.part", "w") as file:
        file.write(f"{os.getpid()} {inner.pid}")
    os.rename(f"{marker}.part", marker)
    re.match(r"(a+)+$", "a" * 60 + "b")


def resource() -> Iterator[str]:
    opened.append("open")
    yield "value"
    opened.append("closed")


def depends(value: Annotated[str, Depends(resource)]) -> list[str]:
    return [value, *opened]


def by_hand(args: dict[str, Any]) -> str:
    return f"{args['n']} by hand"


def nested(depth: int) -> str:
    """Call this very tool, in a server of this process."""
    if depth > 4:
        raise RuntimeError("without end")
    server = Server("nested", processes=1)
    server.tool(executor="process")(nested)

    async def call() -> str:
        async with Client(server) as client:
            result = await client.call_tool("nested", {"depth": depth + 1})
            raise ToolError(result.text)

    return asyncio.run(call())
