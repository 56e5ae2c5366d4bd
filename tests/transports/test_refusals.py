"""A refusal says which limit was reached and which option changes it; one that passes says when to try again."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, Server
from support import DEADLINE, free_port, initialize, run
from transports.support import Child, Http

SOURCE = """
from redstart import Server
Server("small").run("http", port=PORT, max_body_bytes=100, body_deadline=0.5, max_headers=9)
"""
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    number = free_port()
    file: Path = tmp_path_factory.mktemp("small") / "small.py"
    file.write_text(SOURCE.replace("PORT", str(number)))
    with Child(command=[sys.executable, str(file)]) as child:
        child.read_until(b"is served at", "stderr")
        yield number


@pytest.mark.parametrize(
    ("sent", "status", "option"),
    [
        (HEAD + b"Content-Length: 101\r\n\r\n", b"413", b"max_body_bytes="),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n80\r\n" + b"x" * 128 + b"\r\n", b"413", b"max_body_bytes="),
        (HEAD + b"Content-Length: 50\r\n\r\n", b"408", b"body_deadline="),
        (HEAD + b"X: y\r\n" * 8 + b"\r\n", b"431", b"9 headers (max_headers=)"),
        (HEAD + b"X: " + b"y" * 65536 + b"\r\n\r\n", b"431", b"65536 bytes (no option changes it)"),
    ],
)
def test_on_our_own_socket(port: int, sent: bytes, status: bytes, option: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as client:
        client.sendall(sent)
        answer = b""
        while data := client.recv(65536):
            answer += data
    assert answer.split()[1] == status
    assert option in answer


def test_under_a_host() -> None:
    async def test() -> None:
        server = Server("small")
        refused = await Http(server.asgi(max_body_bytes=100)).send(b" " * 101)
        assert refused.status == 413
        assert "max_body_bytes=" in refused.json()["error"]["message"]
        await server.runtime.stop()

    run(test())


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
@pytest.mark.parametrize("depth", [16, 64, 256])
def test_how_deeply_a_message_may_be_nested(depth: int, revision: str) -> None:
    server = Server("deep", max_depth=depth)

    @server.tool
    def echo(x: Any) -> Any:
        return x

    async def test() -> None:
        deepest: Any = []
        for _ in range(depth - 4):  # the message, its params, their arguments, and the list that is there
            deepest = [deepest]
        async with Client(server, protocol=revision) as c:
            assert json.loads((await c.call_tool("echo", {"x": deepest})).text) == deepest
        http = Http(server.asgi())
        session = await http.open("2025-03-26")
        batched = revision == "2025-03-26"  # which is a level more
        brackets = b"[" * (depth - batched), b"]" * (depth - batched)
        message = b'{"jsonrpc":"2.0","id":1,"method":%b%b}' % brackets
        refused = await http.send(b"[%b]" % message if batched else message, headers=session)
        assert refused.status == 400
        assert refused.json()["error"]["message"] == f"Nested deeper than {depth} levels (max_depth=)"
        await server.runtime.stop()

    run(test())


def test_no_room_for_a_session() -> None:
    async def test() -> None:
        server = Server("small")
        http = Http(server.asgi(max_sessions=1))
        session = await http.open()
        stream = http.start(method="GET", headers={**session, "accept": "text/event-stream"})
        await stream.started.wait()
        opened = await http.send(initialize())
        other = {**session, "mcp-session-id": opened.headers["mcp-session-id"], "accept": "text/event-stream"}
        refused = await http.send(method="GET", headers=other)
        assert (refused.status, "retry-after" in refused.headers) == (503, True)
        assert "max_sessions=" in refused.json()["error"]["message"]
        stream.disconnect()
        await stream.task
        await server.runtime.stop()

    run(test())
