"""How a change reaches many listeners over real HTTP, and what one that does not read does to the others.

    python -m bench.listeners               # 10,000 listeners: time until the last one knows, memory per stream
    python -m bench.listeners --stalled     # 100 listeners, with and without one that never reads

The client is one process with raw sockets and epoll, so that what is measured is the server.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
SECONDS = 120.0
BLOCKS = 3
MOST = 20  # KiB of memory for a listener
BURST = 500  # how many connections are being opened at once


def serve(uri: str) -> None:
    """The server: one resource, and a tool that says that it has changed."""
    from redstart import Server

    server = Server("listeners")
    server.resource(uri, name="watched")(lambda: "text")

    @server.tool
    async def touch() -> None:
        server.notify(uri)

    server.run("http", port=0, max_streams=100_000, max_streams_per_caller=100_000)


def post(id: int, method: str, params: dict[str, object], port: int) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}).encode()
    name = f"mcp-name: {params['name']}\r\n" if "name" in params else ""
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\n"
        f"mcp-method: {method}\r\n{name}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Listeners:
    """Many open `subscriptions/listen` streams, and one connection that causes changes."""

    def __init__(self, port: int, uri: str) -> None:
        self.port = port
        self.uri = uri
        self.sockets: dict[int, socket.socket] = {}
        self.poll = select.epoll()
        self.trigger: socket.socket | None = None
        self.calls = 0

    def connect(self, receive: int = 0) -> socket.socket:
        made = socket.socket()
        if receive:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        made.connect(("127.0.0.1", self.port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def subscribe(self, number: int, receive: int = 0) -> socket.socket:
        made = self.connect(receive)
        wanted = {"notifications": {"resourceSubscriptions": [self.uri]}}
        made.sendall(post(number, "subscriptions/listen", wanted, self.port))
        return made

    def open(self, count: int) -> float:
        """Open so many, each acknowledged; the seconds it took."""
        begin = time.perf_counter()
        while len(self.sockets) < count:
            new = {}
            for _ in range(min(BURST, count - len(self.sockets))):
                made = self.subscribe(len(self.sockets) + len(new) + 1)
                self.poll.register(made, select.EPOLLIN)
                new[made.fileno()] = made
            self.sockets |= new
            self.await_mark(set(new), b"subscriptions/acknowledged")
        return time.perf_counter() - begin

    def await_mark(self, waiting: set[int], mark: bytes) -> list[float]:
        """Read until each of these has received `mark`; when each of them did."""
        times, deadline, tails = [], time.monotonic() + SECONDS, dict.fromkeys(waiting, b"")
        while waiting:
            ready = self.poll.poll(1.0, 4096)
            now = time.perf_counter()
            for number, _ in ready:
                data = self.sockets[number].recv(1 << 18)
                if not data:
                    raise SystemExit(f"a listener was cut off; {len(waiting)} were waiting")
                tail = tails.get(number, b"") + data
                tails[number] = tail[-64:]
                if mark in tail and number in waiting:
                    waiting.discard(number)
                    times.append(now)
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(waiting)} listeners still wait for {mark.decode()}")
        return times

    def change(self) -> list[float]:
        """One change: the seconds after which each listener knew, in order."""
        self.calls += 1
        if self.trigger is None:  # not before: a connection that says nothing for ten seconds is closed
            self.trigger = self.connect()
        begin = time.perf_counter()
        self.trigger.sendall(post(self.calls, "tools/call", {"name": "touch", "arguments": {}}, self.port))
        times = self.await_mark(set(self.sockets), b'"_meta":{"io.modelcontextprotocol/subscriptionId"')
        answer = b""
        while b"}" not in answer:
            answer += self.trigger.recv(65536)
        return sorted(at - begin for at in times)

    def close(self) -> None:
        for made in (*self.sockets.values(), self.trigger):
            if made is not None:
                made.close()
        self.poll.close()


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Process:
    """The server in a process of its own."""

    def __init__(self, uri: str) -> None:
        command = [sys.executable, "-m", "bench.listeners", "--serve", uri]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        line = self.process.stderr.readline().decode()
        self.port = int(line.rsplit(":", 1)[1].partition("/")[0])

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        errors = self.process.communicate(timeout=60)[1]
        if errors:
            print(errors.decode(errors="replace")[-2000:], file=sys.stderr)


def many(count: int) -> int:
    """A change on a server with many listeners; 1 if one of them costs too much memory."""
    with Process("notes://one") as server:
        before = resident(server.process.pid)
        listeners = Listeners(server.port, "notes://one")
        opened = listeners.open(count)
        held = (resident(server.process.pid) - before) / count
        print(f"{count:,} listeners opened in {opened:.2f} s, {held / 1024:.1f} KiB of server memory each (≤ {MOST})")
        for number in range(5):
            times = listeners.change()
            p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
            print(f"change {number + 1}: p50 {p50:.3f} s, p99 {p99:.3f} s, all after {times[-1]:.3f} s")
        listeners.close()
    return int(held / 1024 > MOST)


def stalled(count: int, rounds: int) -> None:
    """The latency of the others, without and with one that never reads: in turns, because machines have moods."""
    uri = "notes://" + "x" * 8000  # large, so that what is not read soon fills every buffer on the way
    times: dict[str, list[float]] = {"all read": [], "one does not": []}
    with Process(uri) as server:
        listeners = Listeners(server.port, uri)
        listeners.open(count - 1)
        for _ in range(20):
            listeners.change()
        for turn in range(BLOCKS):
            times["all read"] += (time for _ in range(rounds) for time in listeners.change())
            sleeper = listeners.subscribe(0, receive=4096)
            times["one does not"] += (time for _ in range(rounds) for time in listeners.change())
            print(f"turn {turn + 1}: the stream of the one that does not read: {_end_of(sleeper)}")
            sleeper.close()
        listeners.close()
    p99 = {}
    for name, found in times.items():
        found.sort()
        p99[name] = found[int(len(found) * 0.99)]
        median = statistics.median(found)
        print(f"{name:13} p50 {median * 1e3:.2f} ms, p99 {p99[name] * 1e3:.2f} ms, {len(found):,} events")
    print(f"p99 with a stalled reader is {p99['one does not'] / p99['all read']:.2f} x")


def _end_of(sleeper: socket.socket) -> str:
    sleeper.settimeout(30)
    size, tail = 0, b""
    try:
        while data := sleeper.recv(1 << 20):
            size += len(data)
            tail = (tail + data)[-400:]
            if b"does not read" in tail:
                return f"{size:,} bytes, then {tail.split(b': ')[-1][:50]!r}"
    except TimeoutError:
        return f"{size:,} bytes, and still open"
    except ConnectionResetError:
        return f"{size:,} bytes, then reset"
    return f"{size:,} bytes, then closed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.listeners", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=0, help="how many listeners (default 10,000; 100 if --stalled)")
    parser.add_argument("--stalled", action="store_true", help="one of them never reads")
    parser.add_argument("--rounds", type=int, default=700, help="changes in each turn if --stalled")
    parser.add_argument("--serve", metavar="URI", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if arguments.serve:
        serve(arguments.serve)
    elif arguments.stalled:
        stalled(arguments.count or 100, arguments.rounds)
    else:
        return many(arguments.count or 10_000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
