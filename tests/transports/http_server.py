"""The server that the tests of `run("http")` start. Its options come as JSON."""

import asyncio
import json
import sys
import time

from redstart import Server

server = Server("http-test", version="1")


@server.tool
async def echo(text: str = "") -> str:
    return text


@server.tool
async def nap(seconds: float) -> str:
    sys.stderr.write("napping\n")
    sys.stderr.flush()
    await asyncio.sleep(seconds)
    return "rested"


@server.tool
def stuck(seconds: float) -> str:
    sys.stderr.write("stuck\n")
    sys.stderr.flush()
    time.sleep(seconds)
    return "woke up"


if __name__ == "__main__":
    server.run("http", **json.loads(sys.argv[1]))
