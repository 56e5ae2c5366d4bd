"""A proxy without affinity: each HTTP request goes to the next of several servers, whatever connection it comes on."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Iterable, Iterator
from itertools import cycle

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PART = 65536


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head and the body of one request. It is to be the only one on its connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = b""
    if length := re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE):
        body = await reader.readexactly(int(length[1]))
    elif re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
        while not body.endswith(b"0\r\n\r\n"):
            size = await reader.readuntil(b"\r\n")
            body += size + await reader.readexactly(int(size, 16) + 2)
    head = re.sub(rb"\r\n(connection|keep-alive):[^\r]*", b"", head, flags=re.IGNORECASE)
    return head[:-2] + b"connection: close\r\n\r\n" + body


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(PART):
        writer.write(part)
        await writer.drain()


async def forward(client: Streams, port: int, request: bytes) -> None:
    """Pass one request on, and its response back, until either side closes."""
    server = await asyncio.open_connection("127.0.0.1", port)
    server[1].write(request)
    both = [asyncio.create_task(copy(server[0], client[1])), asyncio.create_task(copy(client[0], server[1]))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(both)
        server[1].close()


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def serve(port: int, ports: list[int], ready: threading.Event, stop: asyncio.Event) -> None:
    turns = cycle(ports)
    open_connections: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await forward((reader, writer), next(turns), await read_request(reader))
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(pass_on(reader, writer))
        open_connections.add(task)
        task.add_done_callback(open_connections.discard)

    async with await asyncio.start_server(accept, "127.0.0.1", port, limit=1 << 20):
        ready.set()
        await stop.wait()
        await end(tuple(open_connections))


@contextlib.contextmanager
def round_robin(port: int, ports: list[int]) -> Iterator[None]:
    """Run a proxy at `port` for the servers at `ports`, in a thread."""
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(port, ports, ready, stop),), daemon=True)
    thread.start()
    if not ready.wait(10):
        raise RuntimeError(f"the proxy does not listen on port {port}")
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
