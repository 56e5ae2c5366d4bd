"""A tool that costs 300 µs of CPU, for `python -m bench.workers`."""

import time

from redstart import Server

server = Server("busy")


@server.tool(executor="inline")
def add(a: int, b: int) -> int:
    """Add two numbers, slowly."""
    end = time.thread_time_ns() + 300_000
    while time.thread_time_ns() < end:
        pass
    return a + b
