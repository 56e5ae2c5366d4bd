"""Many clients at once, on real sockets: what they see, and what the server holds afterwards.

`python -m tests.faults.load` runs all of it at full size and prints the figures; the test suite runs it smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .attacks import LATEST, META, MODERN, message, post
from .running import read, serving

SERVER = Path(__file__).parent / "load_server.py"
PEERS = Path(__file__).parents[2] / "bench" / "servers"
DEADLINE = 60.0
SITES = 1000
"""The addresses of the clients that open sessions."""
LONGEST = 0.05
"""Seconds for a call after a storm of cancellations."""
ACCEPT = "Accept: application/json, text/event-stream"
Figures = dict[str, float]


class Client:
    """One connection in this loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, address: str = "127.0.0.1") -> Client:
        async with asyncio.timeout(DEADLINE):
            return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, tool: str, id: int = 0, **arguments: Any) -> None:
        self.writer.write(modern_call(tool, id, **arguments))

    async def reply(self) -> tuple[int, dict[bytes, bytes], Any]:
        """The status, the headers and the JSON of a response that has a length."""
        async with asyncio.timeout(DEADLINE):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:-2])}
            body = await self.reader.readexactly(int(headers[b"content-length"]))
        return int(lines[0].split()[1]), headers, json.loads(body or b"null")

    async def text(self, tool: str, id: int = 0, **arguments: Any) -> str:
        """The text of a tool's result."""
        self.send(tool, id, **arguments)
        status, _, answer = await self.reply()
        assert (status, answer["id"]) == (200, id), answer
        found: str = answer["result"]["content"][0]["text"]
        return found


def modern_call(tool: str, id: int = 0, **arguments: Any) -> bytes:
    body = message(id, "tools/call", name=tool, arguments=arguments, _meta=META)
    named = (f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", f"Mcp-Name: {tool}")
    return post(body, *named, ACCEPT)


async def held(port: int) -> dict[str, int]:
    client = await Client.open(port)
    client.send("held")
    _, _, answer = await client.reply()
    await client.close()
    found: dict[str, int] = answer["result"]["structuredContent"]
    return found


async def latencies(port: int, count: int) -> list[float]:
    client = await Client.open(port)
    found = []
    for _ in range(count):
        began = time.perf_counter()
        assert await client.text("echo", text="x") == "x"
        found.append(time.perf_counter() - began)
    await client.close()
    return sorted(found)


async def good_client(port: int, turns: Iterable[object]) -> list[float]:
    """What a client sees that comes, calls and goes again and again. The first call on a connection takes longest, so
    latencies are only compared between clients that come equally often."""
    found: list[float] = []
    for _ in turns:
        found += await latencies(port, 100)
        await asyncio.sleep(0.05)
    return sorted(found)


# ---------------------------------------------------------------- the runs


async def half_open(port: int, count: int, patience: float = DEADLINE) -> Figures:
    """So many connections that never send a whole request; when the last one was closed, and what a good client saw."""
    before = await good_client(port, range(20))
    whole = modern_call("echo", text="x")
    parts = (b"", b"POST /mcp HTTP/1.1\r\nHost: loc", whole[:-5])
    all_open = asyncio.Barrier(count + 1)
    began = time.perf_counter()

    async def one(number: int) -> float:
        client = await Client.open(port)
        client.writer.write(parts[number % len(parts)])
        opened = time.perf_counter()
        await all_open.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await client.reader.read()
        await client.close()
        return time.perf_counter() - opened

    clients = asyncio.gather(*(one(number) for number in range(count)))
    await all_open.wait()  # how fast this process opens them is not what is measured
    meanwhile = await good_client(port, iter(clients.done, True))
    closed = await clients
    after = await good_client(port, range(20))
    calm = [times[len(times) * 99 // 100] for times in (before, after)]
    return {
        "connections": count,
        "closed": sum(took < patience for took in closed),
        "closed within s": max(closed),
        "p99 over before": meanwhile[len(meanwhile) * 99 // 100] / max(calm),
        "p99 before ms": 1000 * before[len(before) * 99 // 100],
        "p99 meanwhile ms": 1000 * meanwhile[len(meanwhile) * 99 // 100],
        "p50 before ms": 1000 * before[len(before) // 2],
        "p50 meanwhile ms": 1000 * meanwhile[len(meanwhile) // 2],
        "took s": time.perf_counter() - began,
    }


async def drained(process: subprocess.Popen[bytes], port: int, count: int) -> Figures:
    """SIGTERM while so many calls run: each has its answer, and the status is 0."""
    clients = [await Client.open(port) for _ in range(count)]
    for number, client in enumerate(clients):
        client.send("rest", seconds=4.0, text=str(number))  # all of them run at once for a while
    while (await held(port))["running"] < count:
        await asyncio.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    began = time.perf_counter()
    replies = await asyncio.gather(*(client.reply() for client in clients))
    texts = [answer["result"]["content"][0]["text"] for _, _, answer in replies]
    assert texts == [str(number) for number in range(count)]
    status = await asyncio.to_thread(process.wait, DEADLINE)
    for client in clients:
        await client.close()
    took = time.perf_counter() - began
    return {"calls": count, "answered": len(texts), "unanswered": count - len(texts), "status": status, "took s": took}


async def same_id(port: int, count: int, rounds: int) -> Figures:
    """So many clients at once, of both eras, that all use the id 0: each sees its own answers only."""
    begun = asyncio.Barrier(count)

    async def one(number: int) -> None:
        client = await Client.open(port)
        headers = [] if number % 2 else [f"MCP-Protocol-Version: {LATEST}", f"Mcp-Session-Id: {await session(client)}"]
        async with begun:
            pass
        for turn in range(rounds):
            text = f"{number} {turn}"
            if number % 2:
                client.send("rest", seconds=0.01, text=text)
            else:
                body = message(0, "tools/call", name="rest", arguments={"seconds": 0.01, "text": text})
                client.writer.write(post(body, *headers))
            _, _, answer = await client.reply()
            assert (answer["id"], answer["result"]["content"][0]["text"]) == (0, text)
        await client.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(count)))
    return {"clients": count, "calls": count * rounds, "took s": time.perf_counter() - began}


async def session(client: Client) -> str:
    info = {"name": "load", "version": "1"}
    hello = message(0, "initialize", protocolVersion=LATEST, capabilities={}, clientInfo=info)
    client.writer.write(post(hello, ACCEPT))
    status, headers, _ = await client.reply()
    assert status == 200
    return headers[b"mcp-session-id"].decode()


async def cancelled(port: int, count: int, together: int = 50) -> Figures:
    """So many calls that begin and are cancelled, half by hanging up and half by a notification; what is left then."""
    await storm(port, min(count, 500), together)  # what is made once is made now
    before = await settled(port)
    began = time.perf_counter()
    await storm(port, count, together)
    took = time.perf_counter() - began
    began = time.perf_counter()
    client = await Client.open(port)
    assert await client.text("echo", text="x") == "x"
    next_call = time.perf_counter() - began
    await client.close()
    after = await settled(port, before)
    assert after["started"] - before["started"] == after["cancelled"] - before["cancelled"] == count, (before, after)
    return {
        "calls": count,
        "took s": took,
        "next call ms": 1000 * next_call,
        "tasks more": after["tasks"] - before["tasks"],
        "fds more": after["fds"] - before["fds"],
        "KiB more": (after["bytes"] - before["bytes"]) / 1024,
    }


async def settled(port: int, before: dict[str, int] | None = None) -> dict[str, int]:
    """What the server holds when all calls have unwound and their connections are closed, no more than `before`.

    A connection that we have closed is there until the server has noticed it. If it never does, the figures tell.
    """

    def is_settled() -> bool:
        same = all(found[kind] == last.get(kind) for kind in ("tasks", "fds"))
        less = before is None or all(found[kind] <= before[kind] for kind in ("tasks", "fds"))
        return found["started"] == found["cancelled"] and same and less

    found: dict[str, int] = await held(port)
    last: dict[str, int] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE):
            while not is_settled():
                await asyncio.sleep(0.02)
                found, last = await held(port), found
    return found


async def storm(port: int, count: int, together: int) -> None:
    numbers = iter(range(count))

    async def some(way: Callable[[], Awaitable[None]]) -> None:
        for _ in numbers:
            await way()

    async def hang_up() -> None:
        client = await Client.open(port)
        client.writer.write(modern_call("hold"))
        await client.reader.readuntil(b"notifications/progress")
        await client.close()

    async def with_notices() -> None:
        calling, telling = await Client.open(port), await Client.open(port)
        headers = (f"MCP-Protocol-Version: {LATEST}", f"Mcp-Session-Id: {await session(calling)}")
        for _ in numbers:
            body = message(0, "tools/call", name="hold", arguments={}, _meta={"progressToken": 1})
            calling.writer.write(post(body, *headers))
            await calling.reader.readuntil(b"notifications/progress")
            telling.writer.write(post(message(None, "notifications/cancelled", requestId=0), *headers))
            status, _, _ = await telling.reply()
            assert status == 202
            await calling.reader.readuntil(b"0\r\n\r\n")
        await calling.close()
        await telling.close()

    async with asyncio.timeout(DEADLINE * 3), asyncio.TaskGroup() as group:
        for number in range(together):
            group.create_task(some(hang_up) if number % 2 else with_notices())


async def abandoned(port: int, pid: int, count: int, together: int = 32) -> Figures:
    """So many clients that open a session and are never seen again; what the server holds then."""
    numbers = iter(range(count))
    callers = [f"127.0.{number // 250 + 1}.{number % 250 + 1}" for number in range(SITES)]

    async def some(number: int) -> None:
        client = await Client.open(port, callers[number % SITES])
        for turn, _ in enumerate(numbers):
            if turn % 50 == 49:  # a caller has a share of the sessions, so many callers come
                await client.close()
                number += together
                client = await Client.open(port, callers[number % SITES])
            key = await session(client)
            headers = (f"MCP-Protocol-Version: {LATEST}", f"Mcp-Session-Id: {key}")
            client.writer.write(post(message(None, "notifications/initialized"), *headers, ACCEPT))
            status, _, _ = await client.reply()
            assert status == 202
        await client.close()

    await asyncio.gather(*(some(number) for number in range(together) if number < count // 10))
    before, began = resident(pid), time.perf_counter()
    numbers = iter(range(count))
    await asyncio.gather(*(some(number) for number in range(together)))
    took = time.perf_counter() - began
    more = resident(pid) - before
    return {"sessions": count, "MiB more": more / 2**20, "KiB more for each": more / 1024 / count, "took s": took}


def resident(pid: int) -> int:
    """The bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- at full size

BARS: dict[str, dict[str, float]] = {
    "half-open connections": {"closed within s": 10, "p99 over before": 2},
    "clients that use the id 0": {},  # wrong answers are errors
    "calls that are cancelled": {
        "took s": 60,
        "next call ms": 1000 * LONGEST,
        "tasks more": 0,
        "fds more": 0,
        "KiB more": 4096,
    },
    "abandoned handshakes": {"MiB more": 50},
    "calls that run at SIGTERM": {"unanswered": 0, "status": 0, "lines of the log more": 0},
}
"""The most that a figure of a run may be."""


def ours() -> Iterator[tuple[str, Figures]]:
    with serving(SERVER) as (_, port, _):
        yield "half-open connections", asyncio.run(half_open(port, 1000))
        yield "clients that use the id 0", asyncio.run(same_id(port, 1000, 10))
        yield "calls that are cancelled", asyncio.run(cancelled(port, 10_000))
    with serving(SERVER) as (process, port, _):
        yield "abandoned handshakes", asyncio.run(abandoned(port, process.pid, 100_000))
    with serving(SERVER) as (process, port, noise):
        figures = asyncio.run(drained(process, port, 100))
        lines = read(noise).count(b"\n") - 1  # the first one says where it is served
        yield "calls that run at SIGTERM", {**figures, "lines of the log more": lines}


@contextmanager
def peer(name: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The server that the benchmarks use for another library."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with subprocess.Popen([sys.executable, str(PEERS / f"{name}_server.py"), "--port", str(port)]) as process:
        try:
            until = time.monotonic() + DEADLINE
            while not _listens(port):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            yield process, port
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def theirs(name: str) -> Iterator[tuple[str, Figures]]:
    """The same of another library, as far as its server has what a run needs, and smaller: it may have no limits."""
    with peer(name) as (process, port):
        yield "half-open connections", asyncio.run(half_open(port, 800, patience=15))
    with peer(name) as (process, port):
        yield "abandoned handshakes", asyncio.run(abandoned(port, process.pid, 3000))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.load", description=__doc__)
    parser.add_argument("--beside", action="append", default=[], choices=["mcp", "fastmcp"], help="another library too")
    options = parser.parse_args()
    missed = 0
    for title, figures in ours():
        late = [name for name, most in BARS[title].items() if figures[name] > most]
        missed += len(late)
        show(title, figures, f"  FAILED: {', '.join(late)}" if late else "")
    for name in options.beside:
        for title, figures in theirs(name):
            show(f"{name}, {title}", figures)
    return int(missed > 0)


def show(title: str, figures: Figures, verdict: str = "") -> None:
    print(f"{title}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()) + verdict, flush=True)


if __name__ == "__main__":
    sys.exit(main())
