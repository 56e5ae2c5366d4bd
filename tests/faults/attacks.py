"""What a hostile client does, one function each. Each goes on until its time is over, and says how often it struck.

`python -m tests.faults.attacks sessions 8000 5` runs one of them for five seconds.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

MODERN, BATCHES, LATEST = "2026-07-28", "2025-03-26", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": 1,
}
STEADY = 0.01
"""Seconds between two strikes of one attacker: it has a connection of its own, not the whole machine."""


def message(id: Any, method: str, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST /mcp HTTP/1.1", "Host: localhost:8000", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def modern_call(tool: str, **arguments: Any) -> bytes:
    body = message(1, "tools/call", name=tool, arguments=arguments, _meta=META)
    return post(body, f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", f"Mcp-Name: {tool}")


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """One whole response: its status, headers and body."""
        line = self.file.readline()
        if not line:
            raise ConnectionResetError("the server has hung up")
        headers: dict[bytes, bytes] = {}
        while head := self.file.readline().strip():
            name, _, value = head.partition(b":")
            headers[name.lower()] = value.strip()
        if b"content-length" in headers:
            body = self.file.read(int(headers[b"content-length"]))
        else:
            body = b""
            while size := int(self.file.readline() or b"0", 16):
                body += self.file.read(size + 2)
            self.file.readline()
        return int(line.split()[1]), headers, body

    def ask(self, data: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
        self.send(data)
        return self.reply()

    def open_session(self, revision: str) -> str:
        initialize = message(0, "initialize", protocolVersion=revision, capabilities={})
        _, headers, _ = self.ask(post(initialize))
        id = f"Mcp-Session-Id: {headers[b'mcp-session-id'].decode()}"
        self.ask(post(message(None, "notifications/initialized"), id))
        return id


def undisturbed(port: int) -> Iterator[None]:
    """No attack. What a good client is compared with."""
    while True:
        yield


def stalled_readers(port: int) -> Iterator[None]:
    """Clients that ask for a lot and read none of it, until they are hung up on and come again."""
    while True:
        with ExitStack() as stack:
            for number in range(30):
                client = stack.enter_context(Client(port))
                if number:
                    client.send(modern_call("talk", words=1000, size=20_000))
                else:
                    client.send(modern_call("long", size=4_000_000))
                for _ in range(5):
                    yield
            ended = time.monotonic() + 3
            while time.monotonic() < ended:
                time.sleep(0.1)
                yield


def sessions(port: int) -> Iterator[None]:
    """Sessions without end, each with subscriptions."""
    with Client(port) as client:
        while True:
            id = client.open_session(LATEST)
            client.ask(post(message(1, "resources/subscribe", uri="notes://" + "x" * 8000), id))
            yield


def kept_events(port: int) -> Iterator[None]:
    """Sessions whose events are kept for a client that never comes back."""
    with Client(port) as client:
        while True:
            id = client.open_session(LATEST)
            arguments = {"words": 5, "size": 50_000}
            body = message(1, "tools/call", name="talk", arguments=arguments, _meta={"progressToken": "t" * 256})
            client.ask(post(body, id))
            yield


def trailers(port: int) -> Iterator[None]:
    """Requests whose trailers never end."""
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    body = message(1, "ping")
    while True:
        with Client(port) as client, suppress(OSError):
            client.send(head + b"%x\r\n%b\r\n0\r\n" % (len(body), body))
            for _ in range(100):
                client.send(b"Authorization: Bearer x\r\n" * 1000)
                yield
        yield


def heads(port: int) -> Iterator[None]:
    """Idle connections that have sent large heads."""
    lines = [f"A{number}: {'b' * 600}" for number in range(90)]
    with ExitStack() as stack:
        for number in range(200):
            client = stack.enter_context(Client(port))
            client.ask(post(message(1, "ping"), f"X: {number}", *lines))
            yield
        while True:
            yield


def batches(port: int) -> Iterator[None]:
    """Batches of too many messages, and of messages with large answers."""
    many = b"[" + b",".join(message(n, "ping") for n in range(20_000)) + b"]"
    large = [message(n, "tools/call", name="long", arguments={"size": 200_000}) for n in range(256)]
    with Client(port) as client:
        id = client.open_session(BATCHES)
        while True:
            client.ask(post(many, id))
            yield
            client.ask(post(b"[" + b",".join(large) + b"]", id))
            for _ in range(200):  # it is answered with 4 MiB: not more than every other second
                yield


ATTACKS: dict[str, Callable[[int], Iterator[None]]] = {
    attack.__name__: attack
    for attack in (undisturbed, stalled_readers, sessions, kept_events, trailers, heads, batches)
}


def main() -> None:
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    print("ready", flush=True)
    until = time.monotonic() + seconds
    struck = 0
    for _ in ATTACKS[name](port):
        struck += 1
        if time.monotonic() > until:
            break
        time.sleep(STEADY)
    print(struck, flush=True)


if __name__ == "__main__":
    main()
