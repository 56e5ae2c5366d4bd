"""What the inspector costs: the CPU of a call with `redstart run --http --inspect`, beside the same without it.

Both servers run at the same time and are driven in turn, a second each, at 5,000 calls a second over 32 connections.
The event stream of the one is read meanwhile by a plain client. The inspector shows a number of events per second, so
the pace matters: a slice in which the machine was too busy for it is not counted.
"""

import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import build, messages
from bench.messages import MODERN
from bench.targets import TARGETS

RATE = 5000
WINDOW = 32
SLICE = 1.0
"""Seconds of one measurement: as long as the inspector's window of sampling."""
SLOWEST = 0.8
"""The part of the pace that a slice must have had to be counted."""
MODES = {"plain": (), "inspected": ("--inspect",)}
_TOKEN = re.compile(r"#token=(\S+)")


class WrongAnswer(Exception):
    """A server did not start, said something else than the sum, or its event stream ended."""


class Slice(NamedTuple):
    cpu_us: float
    rate: float


class Driven:
    """A server process, and the connections to it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.pid = process.pid
        self.port = port
        self._sockets: list[socket.socket] = []
        message = messages.call(MODERN, "add")
        self._body = message.body
        host = f"Host: 127.0.0.1:{port}"
        fixed = "Content-Type: application/json", "Accept: application/json, text/event-stream"
        self._head = "\r\n".join(("POST /mcp HTTP/1.1", host, *fixed, *message.headers))
        self._number = 100_000_000

    def _exchange(self) -> None:
        """One call on each connection."""
        first = self._number
        self._number += WINDOW
        for number, connection in enumerate(self._sockets, first):
            body = self._body.replace(messages.ID, str(number))
            connection.sendall(f"{self._head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        for number, connection in enumerate(self._sockets, first):
            reply = _reply(connection)
            if b'"text":"%d"' % (number + messages.ADDEND) not in reply or b'"id":%d' % number not in reply:
                raise WrongAnswer(reply[:500].decode(errors="replace"))

    def measured(self, seconds: float = SLICE) -> Slice:
        """The CPU of a call at the pace, and the pace that there was. The connections are made before."""
        with ExitStack() as stack:
            connect = partial(socket.create_connection, ("127.0.0.1", self.port), timeout=20)
            self._sockets = [stack.enter_context(connect()) for _ in range(WINDOW)]
            self._exchange()
            return self._paced(seconds)

    def _paced(self, seconds: float) -> Slice:
        begin, before, calls = time.perf_counter(), _cpu_us(self.pid), 0
        while (now := time.perf_counter()) < begin + seconds:
            due = begin + calls / RATE
            if now < due:
                time.sleep(due - now)
            self._exchange()
            calls += WINDOW
        return Slice((_cpu_us(self.pid) - before) / calls, calls / (time.perf_counter() - begin))


def _reply(connection: socket.socket) -> bytes:
    data = b""
    while True:
        head, separator, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE) if separator else None
        if found and len(body) >= int(found[1]):
            return data
        more = connection.recv(65536)
        if not more:
            raise WrongAnswer(f"the connection has ended: {data[:300]!r}")
        data += more


def _cpu_us(pid: int) -> float:
    """The CPU of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


class Follower(threading.Thread):
    """Reads the event stream, as a plain client."""

    def __init__(self, port: int, token: str) -> None:
        super().__init__(daemon=True)
        self.batches = 0
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        head = f"GET /_redstart/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Redstart-Token: {token}\r\n\r\n"
        self._socket.sendall(head.encode())
        if not self._socket.recv(65536).startswith(b"HTTP/1.1 200"):
            raise WrongAnswer("the event stream was refused")

    def run(self) -> None:
        while data := self._socket.recv(1 << 20):
            self.batches += data.count(b"event: batch")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _serving(options: tuple[str, ...]) -> Iterator[tuple[Driven, str]]:
    """A server of our command line, and the token of its inspector."""
    port = _free_port()
    command = [sys.executable, "-m", "redstart", "run", str(build.SERVERS / "redstart_server.py")]
    command += ["--http", "--port", str(port), *options]
    environment = TARGETS["redstart"].full_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{build.SERVERS}"
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr
        try:
            said = ""
            while not (_TOKEN.search(said) if options else "is served at" in said):
                line = process.stderr.readline().decode()
                if not line:
                    raise WrongAnswer(f"the server did not start: {said[-500:]}")
                said += line
            token = _TOKEN.search(said)
            yield Driven(process, port), token[1] if token else ""
        finally:
            process.kill()


def measure(slices: int, *, read: bool = True) -> list[dict[str, Slice]]:
    """Slices of both servers, neighbours in time together; the first ones warm up and are not among them."""
    found: list[dict[str, Slice]] = []
    with ExitStack() as stack:
        served = {mode: stack.enter_context(_serving(options)) for mode, options in MODES.items()}
        follower = None
        if read:
            follower = Follower(served["inspected"][0].port, served["inspected"][1])
            follower.start()
        for number in range(slices + 1):
            order = MODES if number % 2 else reversed(MODES)
            found.append({mode: served[mode][0].measured() for mode in order})
        if follower is not None and (not follower.is_alive() or follower.batches < slices):
            raise WrongAnswer(f"only {follower.batches} batches of events were read")
    return found[1:]


def counted(found: list[dict[str, Slice]]) -> list[dict[str, Slice]]:
    """Those that had the pace."""
    return [pair for pair in found if all(one.rate >= SLOWEST * RATE for one in pair.values())]


if __name__ == "__main__":
    if os.environ.get("SOURCE"):  # the working copy, and not the snapshot that the bench has made
        TARGETS["redstart"].environment["PYTHONPATH"] = os.environ["SOURCE"]
    for read in (True, False):
        pairs = counted(measure(int(sys.argv[1]) if sys.argv[1:] else 10, read=read))
        least = {mode: min(pair[mode].cpu_us for pair in pairs) for mode in MODES}
        ratio = statistics.median(pair["inspected"].cpu_us / pair["plain"].cpu_us for pair in pairs)
        print(
            f"{'read' if read else 'not read'}: plain {least['plain']:.1f} µs, inspected {least['inspected']:.1f} µs, "
            f"{least['inspected'] / least['plain']:.3f} × (median of neighbours {ratio:.3f} ×); {len(pairs)} slices"
        )
