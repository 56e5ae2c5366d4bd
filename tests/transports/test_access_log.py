"""The access log: a line for each request on a real socket, whatever its end, and nothing in it that is secret."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redstart import Context, Server
from support import DEADLINE, MODERN, free_port, initialize, message, modern, run
from transports.support import Child, Http

SOURCE = """
import asyncio, sys
from redstart import Context, Server, ToolError
server = Server("logged", auth={"s3cret": "ada"}.get)
@server.tool
async def talk(ctx: Context) -> str:
    await ctx.progress(1)
    return "said"
@server.tool
async def wait() -> str:
    print("waits", file=sys.stderr, flush=True)
    await asyncio.sleep(60)
    return ""
@server.tool
async def fail() -> str:
    raise ToolError("no")
@server.resource("db://rows{?key}")
def rows(key: str = "") -> str:
    return "rows"
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[tuple[Child, int]]:
    (tmp_path / "logged.py").write_text(SOURCE)
    port = free_port()
    command = [sys.executable, "-m", "redstart", "run", str(tmp_path / "logged.py"), "--http", "--port", str(port)]
    with Child(command=[*command, "--access-log", "--trust-proxy", "127.0.0.1"]) as child:
        child.read_until(b"/mcp\n", "stderr")
        yield child, port


def send(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, {**sent, **named})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def line(child: Child) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(child.read_until(b"\n", "stderr"))
    assert found.pop("time").endswith("+00:00")
    assert found.pop("ms") >= 0
    return found


AUTH = {"authorization": "Bearer s3cret", "user_agent": "tests/1"}
CALL = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", **AUTH}


def test_one_line_for_each_request_without_secrets(child: tuple[Child, int]) -> None:
    process, port = child
    meta = {"progressToken": 1}
    body = modern(1, "tools/call", {"name": "talk", "arguments": {}}, **meta)
    assert send(port, "POST", "/mcp?key=hidden", body, mcp_name="talk", **CALL) == 200
    user = line(process)
    assert user.pop("user") not in ("", "ada")
    assert user == {
        "client": "127.0.0.1",
        "method": "POST",
        "path": "/mcp?…",
        "status": 200,
        "version": MODERN,
        "mcp_method": "tools/call",
        "mcp_name": "talk",
        "outcome": "ok",
        "agent": "tests/1",
    }
    read = {**CALL, "mcp_method": "resources/read", "mcp_name": "db://rows?key=hidden"}
    assert send(port, "POST", "/mcp", modern(1, "resources/read", {"uri": "db://rows?key=hidden"}), **read) == 200
    assert line(process)["mcp_name"] == "db://rows?…"
    assert send(port, "POST", "/mcp", initialize(), authorization="Bearer wrong") == 401
    refused = line(process)
    assert (refused["status"], "user" in refused) == (401, False)
    assert refused["reason"] == "A valid bearer token is needed"
    assert send(port, "GET", "/nowhere", x_forwarded_for="203.0.113.7") == 404
    assert (found := line(process))["client"] == "203.0.113.7"
    assert (found["path"], found["status"]) == ("/nowhere", 404)
    assert send(port, "GET", "/healthz") == 200
    assert line(process)["path"] == "/healthz"


def test_what_a_handshake_client_calls_and_how_it_ends(child: tuple[Child, int]) -> None:
    """Its requests have no header that names the method, and a tool that fails is a 200."""
    process, port = child
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **AUTH}
    connection.request("POST", "/mcp", initialize(), sent)
    response = connection.getresponse()
    response.read()
    sent["mcp-session-id"] = response.headers["mcp-session-id"]
    begun = line(process)
    assert (begun["mcp_method"], begun["outcome"], begun["status"]) == ("initialize", "ok", 200)
    for body, named in (
        (message(2, "tools/call", {"name": "fail", "arguments": {}}), ("tools/call", "fail", "tool_error")),
        (message(3, "tools/call", {"name": "nothing", "arguments": {}}), ("tools/call", "nothing", "error")),
        (message(4, "resources/read", {"uri": "db://rows?key=hidden"}), ("resources/read", "db://rows?…", "ok")),
    ):
        connection.request("POST", "/mcp", body, sent)
        connection.getresponse().read()
        found = line(process)
        assert (found["mcp_method"], found["mcp_name"], found["outcome"]) == named
    connection.close()


def test_what_a_client_sends_controls_no_terminal_and_ends_no_line(child: tuple[Child, int]) -> None:
    process, port = child
    assert send(port, "GET", "/%7F%C2%9B31m%E2%80%A8%E2%80%AE") == 404
    written = process.read_until(b"\n", "stderr").decode().removesuffix("\n")
    assert written.isprintable()
    assert json.loads(written)["path"] == "/\x7f\x9b31m\u2028\u202e"


def test_a_client_that_has_gone(child: tuple[Child, int]) -> None:
    process, port = child
    body = modern(1, "tools/call", {"name": "wait", "arguments": {}})
    fields = {"Host": "localhost", "Content-Type": "application/json", "Accept": "application/json"}
    fields |= {name.replace("_", "-"): value for name, value in CALL.items()} | {"Mcp-Name": "wait"}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as client:
        client.sendall(f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        process.read_until(b"waits\n", "stderr")
    assert line(process)["status"] == 499


def test_a_stream_under_another_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redstart.access")
    server = Server("logged")

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.progress(1)
        return "said"

    async def test() -> None:
        http = Http(server.asgi(access_log=True))
        response = await http.modern(1, "tools/call", {"name": "talk", "arguments": {}}, meta={"progressToken": 1})
        assert response.is_sse

    run(test(), server)
    (found,) = [json.loads(record.message) for record in caplog.records if record.name == "redstart.access"]
    assert (found["status"], found["outcome"]) == (200, "ok")


def test_without_the_option_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "logged.py").write_text(SOURCE)
    port = free_port()
    command = [sys.executable, "-m", "redstart", "run", str(tmp_path / "logged.py"), "--http", "--port", str(port)]
    with Child(command=command) as child:
        child.read_until(b"/mcp\n", "stderr")
        assert send(port, "GET", "/healthz") == 200
        assert child.end("SIGTERM")[0] == 0
        assert child.rest("stderr") == b""
