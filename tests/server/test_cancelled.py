"""2,000 calls that begin and are cancelled leave nothing behind, over real pipes and real sockets."""

from __future__ import annotations

import ctypes
import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import MODERN, free_port, message, modern, serving
from transports.support import Child

SERVER = str(Path(__file__).parent / "cancelled_server.py")
CALLS = 2000
ROUNDS = 3

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="this C library does not tell how much is allocated"
)


@pytest.fixture(autouse=True)
def memory_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc counts every object of the servers, and no freed one that a thread keeps for its next allocation."""
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")


def leaves_nothing(before: dict[str, int], after: dict[str, int]) -> None:
    for name in ("tasks", "threads", "descriptors"):
        assert after[name] <= before[name], (before, after)
    assert after["objects"] - before["objects"] < CALLS // 2, (before, after)  # not even one object a call
    assert after["bytes"] - before["bytes"] < CALLS * 100, (before, after)  # not even a small one


# ---------------------------------------------------------------- stdio


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
def test_cancelled_by_notification_on_stdio(kind: str) -> None:
    with Child(command=[sys.executable, SERVER]) as child:
        ids = iter(range(1, 1_000_000))

        def ask(tool: str, **arguments: Any) -> Any:
            id = next(ids)
            answer = child.ask(modern(id, "tools/call", {"name": tool, "arguments": arguments}))
            assert answer["id"] == id, "a cancelled call was answered"
            return answer["result"]

        def round_of_calls() -> dict[str, int]:
            begun = [next(ids) for _ in range(CALLS)]
            child.write(*(modern(id, "tools/call", {"name": kind, "arguments": {}}) for id in begun))
            assert ask("begun", count=CALLS)["structuredContent"] == {"result": CALLS}
            child.write(*(message(None, "notifications/cancelled", {"requestId": id}) for id in begun))
            assert ask("ping")["content"][0]["text"] == "pong"
            left: dict[str, int] = ask("left")["structuredContent"]
            return left

        before = round_of_calls()
        for _ in range(ROUNDS - 1):
            after = round_of_calls()
        leaves_nothing(before, after)
        assert child.end()[0] == 0


# ---------------------------------------------------------------- HTTP


class Caller:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 20)

    def send(self, tool: str, **arguments: Any) -> None:
        body = modern(1, "tools/call", {"name": tool, "arguments": arguments})
        head = (
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\n"
            f"mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)

    def ask(self, tool: str, **arguments: Any) -> Any:
        self.send(tool, **arguments)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split()[0])
        while len(body) < size:
            body += self._socket.recv(65536)
        return json.loads(body)["result"]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CALLS + 500:
        pytest.skip("too few file descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, CALLS + 500), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize(
    "kind", ["coroutine", pytest.param("thread", marks=pytest.mark.slow("coroutines are the quick ones"))]
)
def test_cancelled_by_hanging_up_on_http(kind: str) -> None:
    port = free_port()
    with serving([sys.executable, SERVER, str(port)], port):
        observer = Caller(port)

        def round_of_calls() -> dict[str, int]:
            callers = [Caller(port) for _ in range(CALLS)]
            for caller in callers:
                caller.send(kind)
            assert observer.ask("begun", count=CALLS)["structuredContent"] == {"result": CALLS}
            for caller in callers:
                caller.close()
            assert observer.ask("ping")["content"][0]["text"] == "pong"
            left: dict[str, int] = observer.ask("left")["structuredContent"]
            return left

        before = round_of_calls()
        for _ in range(ROUNDS - 1):
            after = round_of_calls()
        leaves_nothing(before, after)
        observer.close()


# ---------------------------------------------------------------- what is loaded

NEVER_ASKED = """
import asyncio, sys
from redstart import Server
from redstart.transports.memory import MemoryPeer

server = Server("quiet")
begun = asyncio.Event()

@server.tool
async def wait() -> None:
    begun.set()
    await asyncio.Event().wait()

async def main():
    peer = MemoryPeer(server, lambda data: None)
    peer.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}')
    peer.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}')
    await begun.wait()
    task = next(iter(peer.link.calls.values())).run
    before = set(sys.modules)
    peer.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    await asyncio.wait([task])
    print(task.cancelled(), sorted(name for name in set(sys.modules) - before if name.startswith("redstart")))

asyncio.run(main())
"""


def test_the_first_cancellation_of_a_call_that_never_asked_loads_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", NEVER_ASKED], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "True []\n"
