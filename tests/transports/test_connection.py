"""What one connection may cost, and what a client that does not read, or reads slowly, holds up: a real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from support import MODERN, initialize, message, modern
from transports.support import Child
from transports.test_serve import HEAD, PING, POST, SIZE, Socket, serving

MIB = 1024 * 1024


def call(id: Any, tool: str, **arguments: Any) -> tuple[bytes, list[str]]:
    """A modern call and its headers."""
    body = modern(id, "tools/call", {"name": tool, "arguments": arguments}, progressToken=1)
    return body, [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", f"Mcp-Name: {tool}"]


def resident(child: Child, kind: str = "VmRSS") -> int:
    """The memory of a process, in bytes: now, or with `VmHWM` the most that it ever had."""
    for line in Path(f"/proc/{child.pid}/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {kind}")


linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")


# ---------------------------------------------------------------- trailers


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(PING), PING)


@pytest.mark.parametrize(
    "trailer", [b"Host: evil.example", b"Content-Type: text/plain", b"Accept: image/png", b"Mcp-Session-Id: x"]
)
def test_a_trailer_is_not_a_header(trailer: bytes) -> None:
    with serving() as (_, host, port), Socket(host, port) as client:
        for _ in range(2):  # the connection goes on
            client.socket.sendall(CHUNKED + trailer + b"\r\n\r\n")
            assert client.response()[0] == 200


@pytest.mark.parametrize("trailer", [b"X: y\r\n" * 1000, b"X: " + b"y" * 6000], ids=["many", "one that never ends"])
def test_trailers_have_a_size(trailer: bytes) -> None:
    with serving() as (_, host, port), Socket(host, port) as client:
        client.socket.sendall(CHUNKED)
        try:
            for _ in range(1000):
                client.socket.sendall(trailer)
        except OSError:  # it has hung up
            return
        assert client.response()[0] == 431


def test_a_body_in_small_chunks_is_not_taken_for_trailers() -> None:
    body = b" " * 100_000 + PING
    with serving() as (_, host, port), Socket(host, port) as client:
        client.socket.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        for letter in range(0, len(body), 100):
            part = body[letter : letter + 100]
            client.socket.sendall(b"%x\r\n" % len(part))
            client.socket.sendall(part + b"\r\n")
        client.socket.sendall(b"0\r\n\r\n")
        assert client.response()[0] == 200


# ---------------------------------------------------------------- idle connections


def idle_after(*requests: bytes, connections: int) -> int:
    """How much a server grows by connections that each sent these requests and now say nothing."""
    with serving(fresh=True) as (child, host, port), Socket(host, port) as first:
        for request in requests:
            first.socket.sendall(request)
            first.response()
        before = resident(child)
        clients = [Socket(host, port) for _ in range(connections)]
        try:
            for client in clients:
                for request in requests:
                    client.socket.sendall(request)
                    client.response()
            return resident(child) - before
        finally:
            for client in clients:
                client.__exit__()


@linux
def test_an_idle_connection_does_not_keep_the_heads_it_has_sent() -> None:
    lines = b"".join(b"A%d: %b\r\n" % (number, b"b" * 250) for number in range(200))
    requests = [POST + b"X: %d\r\n" % number + lines + SIZE + b"\r\n" + PING for number in range(8)]
    assert idle_after(*requests, connections=10) < 20 * MIB


@linux
def test_an_idle_connection_does_not_keep_its_last_head() -> None:
    lines = b"".join(b"A%d: %b\r\n" % (number, b"b" * 230) for number in range(240))
    assert idle_after(POST + lines + SIZE + b"\r\n" + PING, connections=300) < 8 * MIB


@linux
def test_an_idle_connection_does_not_keep_the_last_body() -> None:
    body = PING + b" " * (3 * MIB)
    request = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert idle_after(request, connections=20) < 30 * MIB


# ---------------------------------------------------------------- who does not read


def test_a_client_that_does_not_read_gives_a_concurrency_limit_back() -> None:
    with serving(write_deadline=1) as (_, host, port), Socket(host, port) as stalled, Socket(host, port) as good:
        body, headers = call(1, "chatter", words=1000)
        stalled.post(body, *headers)
        assert stalled.file.readline().startswith(b"HTTP/1.1 200")  # it has begun
        body, headers = call(2, "chatter", words=1)
        good.post(body, *headers)
        status, _, events = good.response()
        assert (status, b'"said"' in events) == (200, True)


def test_a_session_whose_client_does_not_read_does_so_too() -> None:
    with serving(write_deadline=1) as (_, host, port), Socket(host, port) as stalled, Socket(host, port) as good:
        stalled.post(initialize())
        session = f"Mcp-Session-Id: {stalled.response()[1]['mcp-session-id']}"
        arguments = {"name": "chatter", "arguments": {"words": 1000}, "_meta": {"progressToken": 1}}
        stalled.post(message(1, "tools/call", arguments), session)
        assert stalled.file.readline().startswith(b"HTTP/1.1 200")
        body, headers = call(2, "chatter", words=1)
        good.post(body, *headers)
        assert good.response()[0] == 200


def read_slowly(client: Socket, pause: Callable[[], None]) -> bytes:
    assert client.file.readline().startswith(b"HTTP/1.1 200")
    size = 0
    while (line := client.file.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
    body = b""
    while len(body) < size:
        part = client.file.read(min(MIB, size - len(body)))
        assert part, f"cut off after {len(body)} bytes"
        body += part
        pause()
    return body


@pytest.mark.slow("it reads many megabytes a little at a time")
def test_a_client_that_reads_slowly_gets_all() -> None:
    with serving(write_deadline=2) as (_, host, port), Socket(host, port) as client:
        body, headers = call(1, "long", size=24 * MIB)
        client.post(body, *headers)
        started = time.monotonic()
        reply = read_slowly(client, lambda: time.sleep(0.15))
        assert len(json.loads(reply)["result"]["content"][0]["text"]) == 24 * MIB
        assert time.monotonic() - started > 2


def test_an_unread_reply_does_not_hold_up_a_stop() -> None:
    with serving() as (child, host, port), Socket(host, port) as client:
        body, headers = call(1, "long", size=32 * MIB)
        client.post(body, *headers)
        child.read_until(b"long\n", "stderr")
        assert client.file.readline().startswith(b"HTTP/1.1 200")
        status, seconds = child.end("SIGTERM")
        assert status == 0
        assert seconds < 10


def test_an_unread_reply_ends_the_connection() -> None:
    with serving(write_deadline=0.5) as (child, host, port), Socket(host, port) as client:
        body, headers = call(1, "long", size=32 * MIB)
        client.post(body, *headers)
        assert client.file.readline().startswith(b"HTTP/1.1 200")
        assert b"does not read" in child.read_until(b"does not read", "stderr")


def ask_for(client: Socket, kind: str, size: int) -> None:
    """Ask for so much that only a part of it fits into the sockets: in one reply, or after an event."""
    if kind == "reply":
        body, headers = call(1, "long", size=size)
    else:
        body, headers = call(1, "burst", size=size)
    client.post(body, *headers)


@linux
@pytest.mark.parametrize("kind", ["reply", "stream"])
def test_what_waits_for_all_clients_together_is_bounded(kind: str) -> None:
    with serving(fresh=True, max_unsent_bytes=32 * MIB) as (child, host, port), ExitStack() as stack:
        with Socket(host, port) as first:  # what one of them takes is part of what a server needs
            ask_for(first, kind, 12 * MIB)
            assert first.response()[0] == 200
        before = resident(child)
        for _ in range(15):
            client = stack.enter_context(Socket(host, port))
            ask_for(client, kind, 12 * MIB)
            assert client.file.readline().startswith(b"HTTP/1.1 200")
        good = stack.enter_context(Socket(host, port))
        good.post(PING)
        assert good.response()[0] == 200
        assert resident(child) - before < 90 * MIB
        assert b"does not read" in child.read_until(b"does not read", "stderr")


def test_who_reads_is_not_hung_up_on_for_those_who_do_not() -> None:
    with serving(max_unsent_bytes=64 * MIB) as (_, host, port), ExitStack() as stack:
        good = stack.enter_context(Socket(host, port))
        ask_for(good, "reply", 24 * MIB)

        def another_stalls() -> None:
            client = stack.enter_context(Socket(host, port))
            ask_for(client, "reply", 12 * MIB)
            assert client.file.readline().startswith(b"HTTP/1.1 200")

        assert len(read_slowly(good, another_stalls)) > 24 * MIB


def test_a_reply_larger_than_what_may_wait_is_sent() -> None:
    with serving(max_unsent_bytes=MIB) as (_, host, port), Socket(host, port) as client:
        for _ in range(2):
            ask_for(client, "reply", 24 * MIB)
            assert len(read_slowly(client, lambda: None)) > 24 * MIB


@linux
def test_calls_whose_clients_have_gone_take_bounded_memory() -> None:
    with serving(fresh=True, drain=0.1) as (child, host, port), Socket(host, port) as good:
        good.post(initialize())
        session = f"Mcp-Session-Id: {good.response()[1]['mcp-session-id']}"
        before = resident(child)
        for number in range(400):
            params = {"name": "nap", "arguments": {"seconds": 50}, "_meta": {"padding": "x" * MIB}}
            with Socket(host, port) as client:
                client.post(message(number, "tools/call", params), session)
                child.read_until(b"napping\n", "stderr")
        good.post(message("last", "ping"), session)
        assert good.response()[0] == 200
        assert resident(child) - before < 220 * MIB


# ---------------------------------------------------------------- what is sent ahead


@pytest.mark.parametrize(
    ("ahead", "status"),
    [
        (POST + SIZE + b"\r\n" + PING[:5], 408),
        (b"\x16\x03\x01\x02\x00", 400),
        (POST + b"Content-Length: 99999999\r\n\r\n", 413),
        (POST + b"X: " + b"y" * 70_000, 431),
    ],
)
def test_a_bad_request_that_was_sent_ahead_is_refused_after_the_first_answer(ahead: bytes, status: int) -> None:
    with serving(body_deadline=0.3) as (child, host, port), Socket(host, port) as client:
        body, headers = call(1, "nap", seconds=1)
        client.post(body, *headers)
        child.read_until(b"napping\n", "stderr")
        client.socket.sendall(ahead)
        first, _, reply = client.response()
        assert (first, b"rested" in reply) == (200, True)
        assert client.response()[0] == status


def test_a_request_sent_ahead_is_not_told_to_go_on_in_the_middle_of_a_response() -> None:
    with serving() as (child, host, port), Socket(host, port) as client:
        body, headers = call(1, "nap", seconds=0.5)
        client.post(body, *headers)
        child.read_until(b"napping\n", "stderr")
        client.socket.sendall(b"POST /mcp HTTP/1.1\r\n" + HEAD + SIZE + b"Expect: 100-continue\r\n\r\n" + PING)
        assert [client.response()[0] for _ in range(2)] == [200, 200]


@linux
def test_what_is_sent_ahead_is_read_only_as_it_is_answered() -> None:
    count = 10_000
    with serving(fresh=True) as (child, host, port), Socket(host, port) as client:
        body, headers = call(1, "nap", seconds=1)
        client.post(body, *headers)
        child.read_until(b"napping\n", "stderr")
        before = resident(child)
        sender = threading.Thread(target=client.socket.sendall, args=(b"GET / HTTP/1.1\r\n\r\n" * count,))
        sender.start()
        first, _, reply = client.response()
        assert (first, b"rested" in reply) == (200, True)
        assert resident(child) - before < 3 * MIB
        assert {client.response()[0] for _ in range(count)} == {421}
        sender.join()
        assert resident(child) - before < 6 * MIB


# ---------------------------------------------------------------- old clients


def test_a_stream_to_an_old_client_ends_with_the_connection_and_has_no_chunks() -> None:
    with serving() as (_, host, port), Socket(host, port) as client:
        body, headers = call(1, "chatter", words=2)
        request = [b"POST /mcp HTTP/1.0", *HEAD.rstrip().split(b"\r\n"), *map(str.encode, headers)]
        client.socket.sendall(b"\r\n".join([*request, b"Content-Length: %d" % len(body), b"", body]))
        head, _, events = client.file.read().partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert events.startswith(b"event: message\n")
        assert b'"said"' in events.splitlines()[-2]


# ---------------------------------------------------------------- large requests


@linux
def test_a_body_in_tiny_chunks_takes_no_more_than_its_size() -> None:
    with serving(fresh=True) as (child, host, port), Socket(host, port) as client:
        before = resident(child)
        client.socket.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(100):
            client.socket.sendall(b"2\r\n  \r\n" * 10_000)
        client.socket.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(PING), PING))
        assert client.response()[0] == 200
        assert resident(child, "VmHWM") - before < 30 * MIB


def outcome(client: Socket) -> int:
    try:
        return client.response()[0]
    except (ConnectionError, IndexError, AssertionError):  # lost, because more was on its way
        return 0


@linux
def test_large_bodies_that_do_not_end_have_a_size_in_all() -> None:
    head = POST + b"Content-Length: %d\r\n\r\n" % (4 * MIB)
    with serving(fresh=True, body_deadline=3) as (child, host, port), ExitStack() as stack:
        before = resident(child)
        clients = [stack.enter_context(Socket(host, port)) for _ in range(60)]
        for client in clients:
            with suppress(ConnectionError):  # it may be refused before all of it is sent
                client.socket.sendall(head + b" " * (2 * MIB))
        good = stack.enter_context(Socket(host, port))
        good.post(PING)
        assert good.response()[0] == 200
        assert {outcome(client) for client in clients} & {0, 503}
        assert resident(child, "VmHWM") - before < 100 * MIB
        good.socket.sendall(head + b" " * (4 * MIB - len(PING)) + PING)  # what has ended does not count any more
        assert good.response()[0] == 200


def test_a_head_has_a_number_of_headers() -> None:
    with serving() as (_, host, port):
        for count, status in ((200, 200), (1000, 431)):
            with Socket(host, port) as client:
                client.socket.sendall(POST + b"a:\r\n" * count + SIZE + b"\r\n" + PING)
                assert client.response()[0] == status
