"""`server.run("http")` as a process: sockets, deadlines, signals."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, Server
from redstart.features.rules import OptionError
from support import DEADLINE, MODERN, initialize, message, modern
from transports.support import HERE, Child


@contextmanager
def serving(fresh: bool = False, **options: Any) -> Iterator[tuple[Child, str, int]]:
    """A server in a process; in a fresh one glibc gives large blocks back when they are freed, instead of keeping some
    of them, so that the resident size of the process tells what the server holds."""
    env = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"} if fresh else {}
    with Child(json.dumps({"port": 0, **options}), script=HERE / "http_server.py", fresh=fresh, env=env) as child:
        line = child.read_until(b"\n", "stderr").decode()
        assert line.startswith("http-test is served at http://")
        host, _, port = line.rsplit("/", 1)[0].rpartition("//")[2].rpartition(":")
        yield child, host.strip("[]"), int(port)


class Socket:
    """A raw HTTP/1.1 client."""

    def __init__(self, host: str, port: int) -> None:
        self.name = f"[{host}]" if ":" in host else host
        self.socket = socket.create_connection((host, port), timeout=DEADLINE)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.close()
        self.socket.close()

    def head(self, size: int | None, *more: str) -> bytes:
        lines = ["POST /mcp HTTP/1.1", f"Host: {self.name}", "Content-Type: application/json", *more]
        lines.append("Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}")
        return "\r\n".join([*lines, "", ""]).encode()

    def post(self, body: bytes, *more: str) -> None:
        self.socket.sendall(self.head(len(body), *more) + body)

    def modern(self, id: Any, method: str, params: dict[str, Any] | None = None) -> None:
        named = [f"Mcp-Name: {params['name']}"] if params and "name" in params else []
        self.post(modern(id, method, params), f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", *named)

    def response(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if "content-length" in headers:
            return status, headers, self.file.read(int(headers["content-length"]))
        body = b""
        while size := int(self.file.readline(), 16):
            body += self.file.read(size)
            self.file.readline()
        self.file.readline()
        return status, headers, body

    def ended(self) -> bytes:
        """What comes until the other side closes."""
        return self.file.read()


SLOW_START = """
import asyncio, sys
from contextlib import asynccontextmanager

from redstart import Server


@asynccontextmanager
async def lifespan(server):
    try:
        print("begins", file=sys.stderr, flush=True)  # a signal may come before the next line
        await asyncio.Event().wait()
        yield
    finally:
        print("ends", file=sys.stderr)


Server("slow", lifespan=lifespan).run("http", uds=sys.argv[1])
"""


@pytest.mark.parametrize("loop", ["asyncio", ""])
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT"])
def test_a_signal_while_the_server_starts_ends_its_lifespan(how: str, loop: str, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Child(command=[sys.executable, "-c", SLOW_START, str(path)], env={"REDSTART_LOOP": loop}) as child:
        child.read_until(b"begins\n", "stderr")
        assert child.end(how)[0] == 0
        assert child.rest("stderr") == b"ends\n"
    assert not path.exists()


@pytest.mark.requirement("145")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_it_answers_under_the_name_it_says(host: str) -> None:
    with serving(host=host) as (child, where, port), Socket(where, port) as client:
        for n in range(3):  # on one connection
            client.modern(n, "tools/call", {"name": "echo", "arguments": {"text": "é"}})
            status, headers, body = client.response()
            assert status == 200
            assert headers["content-type"] == "application/json"
            assert json.loads(body)["result"]["content"][0]["text"] == "é"
        status, seconds = child.end("SIGTERM")
        assert status == 0
        assert seconds < 5
        assert child.rest("stderr") == b""
        assert child.rest() == b""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "0.0.0.0"}, b"public_url"),
        ({"host": "::"}, b"public_url"),
        ({"host": "203.0.113.1", "public_url": "https://x"}, b"cannot listen"),
    ],
)
def test_what_it_does_not_start_with(options: dict[str, Any], said: bytes) -> None:
    with Child(json.dumps({"port": 0, **options}), script=HERE / "http_server.py") as child:
        assert child.process.wait(DEADLINE) == 1
        noise = child.rest("stderr")
        assert said in noise
        assert b"Traceback" not in noise


@pytest.mark.requirement("R9")
def test_a_request_that_trickles_in_is_cut_off() -> None:
    with serving(body_deadline=0.5) as (_, host, port):
        starts = [
            b"",
            b"P",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        ]
        clients = [Socket(host, port) for _ in starts]
        started = time.monotonic()
        for client, start in zip(clients, starts, strict=True):
            client.socket.sendall(start)
        with Socket(host, port) as good:  # meanwhile others are served
            good.modern(1, "server/discover")
            assert good.response()[0] == 200
            for client in clients:
                reply = client.ended()
                assert reply == b"" or reply.startswith(b"HTTP/1.1 408 ")
                client.__exit__()
            assert 0.4 < time.monotonic() - started < 5
        with Socket(host, port) as drip:  # a byte now and then does not help
            drip.socket.sendall(starts[-1])
            drip.socket.settimeout(0.1)
            started = time.monotonic()
            while time.monotonic() - started < 5:
                try:
                    drip.socket.sendall(b" ")
                    if not drip.socket.recv(100):
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            assert time.monotonic() - started < 4


def test_a_slow_handler_is_not_a_slow_request() -> None:
    with serving(body_deadline=0.3) as (_, host, port), Socket(host, port) as client:
        client.modern(1, "tools/call", {"name": "nap", "arguments": {"seconds": 1}})
        assert client.response()[0] == 200


def test_a_body_over_the_limit() -> None:
    with serving(max_body_bytes=10_000) as (_, host, port):
        with Socket(host, port) as declared:
            declared.socket.sendall(declared.head(10_001))
            assert declared.response()[0] == 413
        with Socket(host, port) as chunked:
            chunked.socket.sendall(chunked.head(None))
            chunk = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
            chunked.socket.sendall(chunk * 3)
            assert chunked.response()[0] == 413
        with Socket(host, port) as good:
            good.modern(1, "server/discover")
            assert good.response()[0] == 200


@pytest.mark.requirement("R6")
@pytest.mark.parametrize("era", ["modern", "handshake"])
@pytest.mark.parametrize("tool", ["nap", "stuck"])
def test_sigterm_lets_requests_finish(era: str, tool: str) -> None:
    arguments = {"name": tool, "arguments": {"seconds": 1}}
    with serving() as (child, host, port), Socket(host, port) as client:
        if era == "modern":
            client.modern(1, "tools/call", arguments)
        else:
            client.post(initialize())
            session = client.response()[1]["mcp-session-id"]
            client.post(message(1, "tools/call", arguments), f"Mcp-Session-Id: {session}")
        child.read_until(b"napping\n" if tool == "nap" else b"stuck\n", "stderr")
        child.process.terminate()
        status, _, body = client.response()
        assert status == 200
        assert json.loads(body)["result"]["content"][0]["text"] in ("rested", "woke up")
        assert child.process.wait(DEADLINE) == 0
        assert child.rest("stderr") == b""


@pytest.mark.requirement("R6", "T104")
def test_sigterm_ends_streams_with_their_last_message() -> None:
    with serving() as (child, host, port), Socket(host, port) as listener, Socket(host, port) as other:
        listener.modern("L", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert listener.file.readline().startswith(b"HTTP/1.1 200")
        other.post(initialize())
        session = other.response()[1]["mcp-session-id"]
        get = f"GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
        other.socket.sendall(get.encode())
        assert other.file.readline().startswith(b"HTTP/1.1 200")
        while b"acknowledged" not in listener.file.readline():
            pass
        started = time.monotonic()
        child.process.terminate()
        rest = listener.ended()
        assert b'"id":"L"' in rest
        assert b'"resultType":"complete"' in rest
        other.ended()
        assert child.process.wait(DEADLINE) == 0
        assert time.monotonic() - started < 5
        assert child.rest("stderr") == b""


def test_a_modern_client_that_hangs_up_leaves_nothing_behind() -> None:
    with serving() as (child, host, port):
        for _ in range(20):
            with Socket(host, port) as client:
                client.modern(1, "tools/call", {"name": "nap", "arguments": {"seconds": 600}})
                child.read_until(b"napping\n", "stderr")
        status, seconds = child.end("SIGTERM")
        assert status == 0
        assert seconds < 5
        assert child.rest("stderr") == b""


def test_ctrl_c_is_a_clean_end() -> None:
    with serving() as (child, host, port), Socket(host, port) as client:
        client.modern(1, "server/discover")
        client.response()
        status, seconds = child.end("SIGINT")
        assert status == 0
        assert seconds < 5
        assert child.rest("stderr") == b""


PING = message(1, "ping")
HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"
SIZE = b"Content-Length: %d\r\n" % len(PING)
POST = b"POST /mcp HTTP/1.1\r\n" + HEAD


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (POST + SIZE + b"\r\n" + PING, 200),
        (b"POST http://localhost/mcp HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING, 200),
        (b"POST /%6dcp HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING, 200),
        (b"POST /mcp HTTP/1.0\r\n" + HEAD + SIZE + b"\r\n" + PING, 200),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(PING), PING), 200),
        (b"POST /mcp%00 HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING, 404),
        (b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
        (POST + SIZE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + SIZE + b"Content-Length: 1\r\n\r\n" + PING, 400),
        (POST + b"Content-Length: %b\r\n\r\n" % (b"9" * 5000), 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"X-A: a\r\n b\r\n" + SIZE + b"\r\n" + PING, 400),
        (POST + b"X-A: a\x00b\r\n" + SIZE + b"\r\n" + PING, 400),
        (b"CONNECT localhost:80 HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (
            POST
            + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
            + SIZE
            + b"\r\n"
            + PING,
            200,
        ),  # as the JDK's client offers it, with every first request
        (
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000,
            431,
        ),
    ],
)
def test_odd_requests(request_bytes: bytes, status: int) -> None:
    with serving() as (_, host, port):
        with Socket(host, port) as client:
            client.socket.sendall(request_bytes)
            assert client.response()[0] == status
        with Socket(host, port) as good:
            good.modern(1, "server/discover")
            assert good.response()[0] == 200


def test_a_body_that_looks_like_a_known_request_is_a_body() -> None:
    """Heads are remembered: bytes in the middle of a request must not be looked up among them."""
    known = POST + SIZE + b"\r\n" + PING
    head = POST + b"Content-Length: %d\r\n\r\n" % len(known)
    with serving() as (_, host, port), Socket(host, port) as client:
        client.socket.sendall(known)
        assert client.response()[0] == 200
        client.socket.sendall(known + head)  # a whole request, and the head of the next one
        assert client.response()[0] == 200
        client.socket.sendall(known)  # its body
        assert client.response()[0] == 400
        client.socket.sendall(known)
        assert client.response()[0] == 200


def test_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    with serving() as (_, host, port), Socket(host, port) as client:
        slow = modern(0, "tools/call", {"name": "nap", "arguments": {"seconds": 0.2}})
        client.post(slow, f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: nap")
        for id in range(1, 300):
            client.post(message(id, "ping"))
        assert [json.loads(client.response()[2])["id"] for _ in range(300)] == list(range(300))


def test_a_socket_that_is_bound_already() -> None:
    """Its address counts, and not `host=`: an address that others can reach needs a name."""
    server = Server("given")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def main() -> None:
            serving = asyncio.create_task(server.run_async("http", listener=listener, port=1))
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                assert client.server_info.name == "given"
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving

        asyncio.run(main())
    with (
        socket.create_server(("0.0.0.0", 0)) as listener,
        pytest.raises(SystemExit, match=r"0\.0\.0\.0 can be reached"),
    ):
        server.run("http", listener=listener)
    for wrong in (3, "127.0.0.1:80", socket.AF_INET):
        with pytest.raises(OptionError, match="listener must be a TCP or unix socket that is bound"):
            server.run("http", listener=wrong)  # type: ignore[call-overload]
