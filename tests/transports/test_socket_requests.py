"""Requests on a socket, byte by byte: what is answered, in which order, and when the connection ends; in process."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any
from unittest.mock import ANY

import pytest

from redstart import Context, Server
from redstart.store.memory import MemoryStore
from redstart.store.shared import StoreAway
from redstart.transports import connection, serve
from redstart.transports.connection import Connection
from redstart.transports.http import Endpoint
from redstart.transports.loop import new_loop
from support import MODERN, LeapingLoop, free_port, initialize, leap, message, modern, run, until
from transports.test_serve import HEAD, PING, POST, SIZE

WHOLE = POST + SIZE + b"\r\n" + PING
CLOSE = b"Connection: close\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LIMIT = 20_000
LONG = 12 * 1024 * 1024
"""More than fits into the sockets."""
LONG_ROUTE = b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONGER = 4 * LONG
"""So much more that what fits into the sockets makes no difference."""
LONGER_ROUTE = LONG_ROUTE.replace(b"/long", b"/long?times=4")
LOOPS = [asyncio.new_event_loop, new_loop]
BROKEN = (OSError, asyncio.IncompleteReadError)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def post(body: bytes, *more: bytes) -> bytes:
    accept = b"Accept: text/event-stream, application/json\r\n"
    return b"%b%b%bContent-Length: %d\r\n\r\n%b" % (POST, accept, b"".join(more), len(body), body)


def named(id: Any, tool: str, *more: bytes, **arguments: Any) -> bytes:
    """A whole modern call."""
    body = modern(id, "tools/call", {"name": tool, "arguments": arguments}, progressToken=1)
    head = f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n".encode()
    return post(body, head, *more)


class Peer:
    """A raw client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        status = int(head[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        if status == 100:
            return status, headers, b""
        if headers.get("transfer-encoding") != "chunked":
            return status, headers, await self.reader.read()
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return status, headers, body


class Stage:
    """A server on a socket of this process."""

    serving: asyncio.Task[None]

    def __init__(self, auth: Any = None, store: Any = None) -> None:
        self.server = Server("socket", version="1", auth=auth, store=store)
        self.port = free_port()
        self.began, self.go, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.seen: list[tuple[str, str]] = []
        self.peers: list[Peer] = []
        stage = self

        @self.server.tool
        async def wait(ctx: Context) -> str:
            stage.began.set()
            try:
                await stage.go.wait()
            finally:
                stage.ended.set()
            return "went on"

        @self.server.tool
        async def tell_and_wait(ctx: Context) -> str:
            await ctx.progress(1)
            return await wait(ctx)

        @self.server.tool
        async def ask(ctx: Context) -> str:
            return str(await ctx.confirm("Go on?"))

        @self.server.tool
        async def count(ctx: Context) -> str:
            await ctx.progress(1)
            await ctx.progress(2)
            return "counted"

        @self.server.tool
        async def long(ctx: Context, busy: float = 0) -> str:
            stage.began.set()
            time.sleep(busy)  # the loop is deaf meanwhile
            return "x" * LONG

        @self.server.tool
        async def burst(ctx: Context) -> str:
            stage.began.set()
            try:
                for part in range(3):
                    await ctx.progress(part + 1, message="x" * LONG)
            finally:
                stage.ended.set()
            return "sent"

        @self.server.tool
        async def crowd(ctx: Context) -> str:
            async with asyncio.TaskGroup() as group:
                for part in range(3):
                    group.create_task(ctx.progress(part + 1, message="x" * LONGER))
                    for _ in range(20):  # so that each is sent by itself, or waits for the one before it
                        await asyncio.sleep(0)
                stage.began.set()
            return "sent"

        @self.server.route("/look", methods=["GET", "HEAD"])
        async def look(request: Any) -> str:
            stage.seen.append((request.path, str(sorted(request.query.items()))))
            return "looked"

        @self.server.route("/long")
        async def long_route(request: Any) -> bytes:
            stage.seen.append((request.path, ""))
            return b"x" * LONG * int(request.query.get("times", 1))

        @self.server.route("/answer")
        async def answer(request: Any) -> Any:
            return int(request.query["status"]), {request.query["name"]: request.query["value"]}, "answered"

        @self.server.route("/wait")
        async def wait_route(request: Any) -> str:
            stage.began.set()
            await stage.go.wait()
            stage.ended.set()
            return "went on"

        @self.server.route("/forever")
        async def forever(request: Any) -> None:
            stage.began.set()
            await asyncio.Event().wait()

        @self.server.route("/echo", methods=["POST"])
        async def echo(request: Any) -> bytes:
            stage.seen.append((request.path, ""))
            return bytes(request.body)

    async def connect(self) -> Peer:
        while True:
            try:
                peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
            except OSError:
                await asyncio.sleep(0.01)
                continue
            near: socket.socket = peer.writer.get_extra_info("socket")
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # little is taken that nobody reads
            self.peers.append(peer)
            return peer


@asynccontextmanager
async def served(auth: Any = None, store: Any = None, **options: Any) -> AsyncIterator[Stage]:
    stage = Stage(auth, store)
    serving = asyncio.create_task(stage.server.run_async("http", port=stage.port, max_body_bytes=LIMIT, **options))
    stage.serving = serving
    try:
        yield stage
    finally:
        stage.go.set()
        for peer in stage.peers:
            peer.writer.transport.abort()
        serving.cancel()
        await asyncio.wait([serving])
    assert (Connection.unfinished, Connection.heads_in_all) == (0, 0)  # nothing of a connection outlives it


async def gone(stage: Stage, peer: Peer) -> None:
    """The client goes away, and the server has seen that."""
    peer.writer.transport.abort()
    other = await stage.connect()
    for _ in range(2):
        other.writer.write(b"GET /answer?status=200&name=a&value=b HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await other.response())[0] == 200


# What is sent, in pieces that arrive one after the other; the statuses; whether the connection is closed after them.
REQUESTS: dict[str, tuple[list[bytes], list[int], bool]] = {
    "one": ([WHOLE], [200], False),
    "known head": ([WHOLE, WHOLE, WHOLE], [200, 200, 200], False),
    "known head, half a body": ([WHOLE, WHOLE[:-5], WHOLE[-5:], WHOLE], [200, 200, 200], False),
    "known head and more": ([WHOLE, WHOLE + WHOLE[:30], WHOLE[30:]], [200, 200, 200], False),
    "many heads": (
        [POST + b"X-N: %d\r\n" % (n % 10) + SIZE + b"\r\n" + PING for n in range(30)],
        [200] * 30,
        False,
    ),
    "large head": ([POST + b"X-N: " + b"x" * 3000 + b"\r\n" + SIZE + b"\r\n" + PING] * 3, [200] * 3, False),
    "byte by byte": ([bytes([byte]) for byte in WHOLE * 2], [200, 200], False),
    "empty lines before it": ([WHOLE, b"\r\n", b"\r\n" + WHOLE, b"\r\n", WHOLE], [200] * 3, False),
    "two at once": ([WHOLE * 2], [200, 200], False),
    "many at once": ([WHOLE * 300], [200] * 300, False),
    "chunks": ([CHUNKED + chunk(PING[:9]) + chunk(PING[9:]) + b"0\r\n\r\n", WHOLE], [200, 200], False),
    "chunks in pieces": ([CHUNKED, chunk(PING[:9]), chunk(PING[9:20]), chunk(PING[20:]), b"0\r\n\r\n"], [200], False),
    "chunks, the first packet as long as the body": (
        [CHUNKED + (chunk(PING) + b"0\r\n\r\n")[: len(PING)], (chunk(PING) + b"0\r\n\r\n")[len(PING) :]] * 3,
        [200] * 3,
        False,
    ),
    "tiny chunks": (
        [CHUNKED + b"".join(chunk(b" ") for _ in range(18_000)) + chunk(PING) + b"0\r\n\r\n"],
        [200],
        False,
    ),
    "close": ([POST + CLOSE + SIZE + b"\r\n" + PING], [200], True),
    "close, then known": ([POST + CLOSE + SIZE + b"\r\n" + PING + WHOLE], [200], True),
    "HTTP/1.0": ([b"POST /mcp HTTP/1.0\r\n" + HEAD + SIZE + b"\r\n" + PING], [200], True),
    "HTTP/1.0 keep-alive": (
        [b"POST /mcp HTTP/1.0\r\nConnection: keep-alive\r\n" + HEAD + SIZE + b"\r\n" + PING],
        [200],
        True,
    ),
    "continue": ([POST + b"Expect: 100-continue\r\n" + SIZE + b"\r\n", PING], [100, 200], False),
    "continue in another header": ([POST + b"X-A: 100-continue\r\n" + SIZE + b"\r\n", PING], [200], False),
    "other expectation": ([POST + b"Expect: 200-ok\r\n" + SIZE + b"\r\n", PING], [200], False),
    "upgrade": ([POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + SIZE + b"\r\n" + PING] * 2, [200, 200], False),
    "upgrade in the body": ([POST + b"Content-Length: 12\r\n\r\n\r\nupgrade: x"], [400], False),
    "not HTTP": ([b"\x16\x03\x01\x02"], [400], True),
    "good, then not HTTP": ([WHOLE + b"nonsense\r\n\r\n"], [200, 400], True),
    "many good, then not HTTP": ([WHOLE * 300 + b"nonsense\r\n\r\n"], [200] * 300 + [400], True),
    "two good, then not HTTP": ([WHOLE * 2 + b"nonsense\r\n\r\n"], [200, 200, 400], True),
    "just small enough": ([POST + b"Content-Length: %d\r\n\r\n" % LIMIT + PING.ljust(LIMIT)], [200], False),
    "too large": ([POST + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1)], [413], True),
    "a size with thousands of zeros": (
        [POST + b"Content-Length: " + b"0" * 5000 + SIZE[16:] + b"\r\n" + PING],
        [200],
        False,
    ),
    "a size of zeros": ([POST + b"Content-Length: 00 \r\n\r\n"], [400], False),
    "too large, with thousands of zeros": (
        [POST + b"Content-Length: %b%d\r\n\r\n" % (b"0" * 5000, LIMIT + 1)],
        [413],
        True,
    ),
    "no size": ([POST + b"Content-Length: x\r\n\r\n"], [400], True),
    "just small enough in chunks": (
        [CHUNKED + chunk(b" " * 10_000) + chunk(PING.rjust(10_000)) + b"0\r\n\r\n"],
        [200],
        False,
    ),
    "too large in chunks": ([CHUNKED + chunk(b"x" * 10_000) + chunk(b"x" * 10_001)], [413], True),
    "256 headers": ([POST + b"X: y\r\n" * 253 + SIZE + b"\r\n" + PING], [200], False),
    "257 headers": ([POST + b"X: y\r\n" * 254 + SIZE + b"\r\n" + PING], [431], True),
    "long reply, then 257 headers, and it waits to go on": (
        [LONG_ROUTE, POST + b"Expect: 100-continue\r\n" + b"X: y\r\n" * 253 + SIZE + b"\r\n"],
        [200, 431],
        True,
    ),
    "long head": ([POST + b"X: " + b"y" * 30_000 + b"\r\n" + SIZE + b"\r\n" + PING], [200], False),
    "too long head": ([POST + b"X: " + b"y" * 66_000 + b"\r\n" + SIZE + b"\r\n" + PING], [431], True),
    "too long head in pieces": ([POST + b"X: ", *[b"y" * 9000] * 8], [431], True),
    "two long heads": ([POST + b"X: " + b"y" * 40_000 + b"\r\n" + SIZE + b"\r\n" + PING] * 2, [200, 200], False),
    "trailers": ([CHUNKED + chunk(PING) + b"0\r\nX: y\r\n\r\n" + WHOLE], [200, 200], False),
    "long trailers, then a long head": (
        [
            CHUNKED + chunk(PING) + b"0\r\nX: " + b"y" * 60_000 + b"\r\n\r\n",
            POST + b"X: " + b"y" * 60_000 + b"\r\n" + SIZE + b"\r\n" + PING,
        ],
        [200, 200],
        False,
    ),
    # Too long also if a part of them comes with the body, and is not counted; and not before the last of them is read.
    "too long trailers": ([CHUNKED + chunk(PING) + b"0\r\n", *[b"X: " + b"y" * 21_000 + b"\r\n"] * 4], [431], True),
    "long head, then a long line before a chunk": (
        [
            CHUNKED[:-2] + b"X: " + b"y" * 50_000 + b"\r\n\r\n",
            b"%x;x=" % len(PING) + b"y" * 20_000 + b"\r\n" + PING + b"\r\n0\r\n\r\n",
        ],
        [200],
        False,
    ),
    "absolute": ([b"POST http://localhost/mcp?a=b HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING], [200], False),
    "absolute without a path": ([b"POST http://localhost HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING], [404], False),
    "percent": ([b"POST /%6dcp?x HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING], [200], False),
    "stream": ([named(1, "count"), WHOLE], [200, 200], False),
    "unknown method": ([named(1, "count").replace(b"tools/call", b"tools/nope"), WHOLE], [404, 200], False),
    "question to who cannot be asked": ([named(1, "ask"), WHOLE], [400, 200], False),
    "stream, close": ([named(1, "count", CLOSE)], [200], True),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("what", REQUESTS)
def test_requests(what: str, loop: Any) -> None:
    pieces, statuses, closes = REQUESTS[what]

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            for piece in pieces:
                peer.writer.write(piece)
                await peer.writer.drain()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert [(await peer.response())[0] for _ in statuses] == statuses
            if closes:
                assert await peer.reader.read() == b""
            else:
                peer.writer.write(WHOLE)
                assert (await peer.response())[0] == 200
            peer.writer.close()
            good = await stage.connect()
            good.writer.write(WHOLE)
            assert (await good.response())[0] == 200
            good.writer.close()

    run(test(), loop=loop)


def test_only_some_small_heads_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_HEADS_IN_ALL", connection.MAX_HEADS + 2)
    monkeypatch.setattr(connection, "SMALL", 10_000)
    heads = [POST + b"X-N: %d\r\n" % n for n in range(connection.MAX_HEADS)]

    async def test() -> None:
        async with served() as stage:
            first, second = await stage.connect(), await stage.connect()
            for peer in (first, second, second):
                for head in heads:
                    peer.writer.write(head + SIZE + b"\r\n" + PING)
                    assert (await peer.response())[0] == 200
            assert Connection.heads_in_all == connection.MAX_HEADS + 2
            for packet in (
                POST + b"X: " + b"x" * 3000 + b"\r\n" + SIZE + b"\r\n" + PING,
                POST + b"Content-Length: 12000\r\n\r\n" + PING.ljust(12_000),
                CHUNKED + chunk(PING) + b"0\r\n\r\n",
                b"GET /look HTTP/1.1\r\n" + HEAD + b"\r\n",
            ):
                for _ in range(2):
                    first.writer.write(packet)
                    assert (await first.response())[0] == 200
            first.writer.write(WHOLE * 2)
            assert [(await first.response())[0] for _ in range(2)] == [200, 200]
            assert Connection.heads_in_all == connection.MAX_HEADS + 2
            first.writer.write(WHOLE)  # one more than a connection has: it begins anew
            assert (await first.response())[0] == 200
            assert Connection.heads_in_all == 3
            first.writer.close()
            second.writer.close()

    run(test())


def test_a_head_is_remembered_once() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            for _ in range(3):
                peer.writer.write(WHOLE)
                assert (await peer.response())[0] == 200
            assert Connection.heads_in_all == 1
            peer.writer.close()

    run(test())


def test_a_head_that_comes_again_must_agree_with_each_body() -> None:
    call = named(1, "wait")
    other = call.replace(b'"name": "wait"', b'"name": "wail"')
    older = call.replace(b'"%b"' % MODERN.encode(), b'"2026-07-27"')
    assert len(other) == len(older) == len(call)  # so that the head is the same too
    assert len({call, other, older}) == 3

    async def test() -> None:
        async with served() as stage:
            stage.go.set()
            peer = await stage.connect()
            for packet, status in ((call, 200), (call, 200), (other, 400), (call, 200), (older, 400), (call, 200)):
                peer.writer.write(packet)
                found, _, body = await peer.response()
                assert found == status, body
                if status == 400:
                    assert json.loads(body)["error"]["code"] == -32020
            peer.writer.close()

    run(test())


def test_answers_come_in_the_order_of_the_requests_and_have_their_own_bodies() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            slow = named(100, "wait")
            bodies = [message(n, "ping") for n in range(100, 400)]
            pings = [POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies]
            peer.writer.write(slow + b"".join(pings[1:50]))
            await stage.began.wait()
            peer.writer.write(b"".join(pings[50:200]))
            await peer.writer.drain()
            stage.go.set()
            for ping in pings[200:]:
                peer.writer.write(ping)
                await peer.writer.drain()
            answers = [json.loads((await peer.response())[2]) for _ in range(300)]
            assert [answer["id"] for answer in answers] == list(range(100, 400))
            assert answers[0]["result"]["content"][0]["text"] == "went on"
            peer.writer.close()

    run(test())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_that_was_sent_ahead_knows_nothing_of_the_one_before_it(loop: Any) -> None:
    """A proxy may send the requests of several users over one connection."""

    async def test() -> None:
        async with served() as stage:
            user: ContextVar[str] = ContextVar("user", default="nobody")

            @stage.server.tool
            async def sign_in(name: str) -> str:
                before = user.get()
                user.set(name)
                return before

            peer = await stage.connect()
            peer.writer.write(named(1, "sign_in", name="ada") + named(2, "sign_in", name="bob"))
            found = [await peer.response(), await peer.response()]
            peer.writer.write(named(3, "sign_in", name="eve"))  # read after the reading was held back
            found.append(await peer.response())
            assert [json.loads(body)["result"]["content"][0]["text"] for _, _, body in found] == ["nobody"] * 3
            peer.writer.close()

    run(test(), loop=loop)


@pytest.mark.parametrize("held_back", [False, True], ids=["whole requests wait", "a part of a packet waits"])
def test_nothing_is_lost_or_overtaken_while_requests_wait(held_back: bool) -> None:
    pings = [
        POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in (message(n, "ping") for n in range(9))
    ]
    slow = named("slow", "wait")
    start = b"POST /echo HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n"
    # What is parsed at a time ends within the first ping, so that none waits while the slow call runs.
    size = connection.SLICE - len(slow) - len(start) - 30 if held_back else 9
    first = start % size + b"x" * size

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(first + slow + b"".join(pings[:5]))
            await stage.began.wait()
            for ping in pings[5:]:
                peer.writer.write(ping)
                for _ in range(20):  # so that it comes as a packet of its own
                    await asyncio.sleep(0)
            stage.go.set()
            assert await peer.response() == (200, ANY, b"x" * size)
            answers = [json.loads((await peer.response())[2]) for _ in range(10)]
            assert [answer["id"] for answer in answers] == ["slow", *range(9)]

    run(test(), seconds=10)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_stream_is_one_response(version: bytes) -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "count").replace(b"HTTP/1.1", b"HTTP/" + version))
            status, headers, body = await peer.response()
            assert (status, headers["content-type"]) == (200, "text/event-stream")
            assert ("transfer-encoding" in headers) is (version == b"1.1")
            assert body.startswith(b"event: message")
            assert body.count(b"event: message") == 3
            assert b"counted" in body.split(b"\n\n")[-2]
            peer.writer.close()

    run(test())


def test_the_lines_of_an_accept_header_are_one_list_in_each_request_with_that_head() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            apart = b"Accept: text/event-stream\r\nX-A: b\r\nAccept: application/json\r\n"
            for _ in range(3):
                peer.writer.write(named(1, "count").replace(b"Accept: text/event-stream, application/json\r\n", apart))
                status, headers, body = await peer.response()
                assert (status, headers["content-type"]) == (200, "text/event-stream")
                assert body.count(b"event: message") == 3

    run(test())


def test_a_route_sees_path_and_query_and_head_has_no_body() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            for method, path in (
                ("GET", "/look?a=b"),
                ("HEAD", "/l%6fok"),
                ("GET", "http://localhost/look?c=d"),
                ("GET", "http://localhost/look"),
            ):
                peer.writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                head = await peer.reader.readuntil(b"\r\n\r\n")
                assert b"content-length: 6\r\n" in head
                if method == "GET":
                    assert await peer.reader.readexactly(6) == b"looked"
            assert stage.seen == [
                ("/look", "[('a', 'b')]"),
                ("/look", "[]"),
                ("/look", "[('c', 'd')]"),
                ("/look", "[]"),
            ]
            peer.writer.close()

    run(test())


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("status=200&name=X-A&value=b", b"HTTP/1.1 200 OK\r\n"),
        ("status=299&name=X-A&value=b", b"HTTP/1.1 299 \r\n"),
        ("status=1000&name=X-A&value=b", b"HTTP/1.1 500 "),
        ("status=200&name=X-A&value=b%0Ax-b:c", b"HTTP/1.1 500 "),
        ("status=200&name=X-A&value=b%0Dx-b:c", b"HTTP/1.1 500 "),
        ("status=200&name=X-A:b%0AX-B&value=c", b"HTTP/1.1 500 "),
        ("status=200&name=X-A:b%0DX-B&value=c", b"HTTP/1.1 500 "),
    ],
)
def test_the_status_and_the_headers_of_a_route(query: str, line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(f"GET /answer?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            reply = await peer.reader.readuntil(b"\r\n\r\n")
            assert reply.startswith(line)
            assert (b"\r\nx-a: b\r\n" in reply) is (b"500" not in line)

    run(test())
    assert ("ValueError" in caplog.text) is (b"500" in line)


def test_a_page_of_an_allowed_site_may_read_every_response() -> None:
    site = "https://page.example"

    async def test() -> None:
        async with served(allowed_origins=[site]) as stage:
            peer = await stage.connect()
            for piece in (WHOLE, named(1, "count"), named(1, "count").replace(b"tools/call", b"tools/nope")):
                peer.writer.write(piece.replace(b"\r\n", f"\r\nOrigin: {site}\r\n".encode(), 1))
                assert (await peer.response())[1]["access-control-allow-origin"] == site
            peer.writer.write(WHOLE)
            assert "access-control-allow-origin" not in (await peer.response())[1]

    run(test())


def test_a_head_that_was_checked_before_decides_nothing_that_may_have_changed() -> None:
    """On one connection, with the very same head each time: the token, the session, the page."""
    tokens = {"t": "somebody"}

    async def statuses(peer: Peer, request: bytes, change: Callable[[], object]) -> list[int]:
        found = []
        for _ in range(2):
            peer.writer.write(request)
            found.append((await peer.response())[0])
        change()
        peer.writer.write(request)
        return [*found, (await peer.response())[0]]

    async def test() -> None:
        async with served(auth=tokens.get) as stage:
            call = named(1, "count", b"Authorization: Bearer t\r\n")
            assert await statuses(await stage.connect(), call, tokens.clear) == [200, 200, 401]
        async with served() as stage:
            peer, other = await stage.connect(), await stage.connect()
            peer.writer.write(post(initialize()))
            session = (await peer.response())[1]["mcp-session-id"].encode()
            end = b"DELETE /mcp HTTP/1.1\r\n" + HEAD + b"Mcp-Session-Id: %b\r\n\r\n" % session
            ping = post(PING, b"Mcp-Session-Id: %b\r\n" % session)
            assert await statuses(peer, ping, lambda: None) == [200] * 3
            other.writer.write(end)
            assert (await other.response())[0] == 200
            assert await statuses(peer, ping, lambda: None) == [404] * 3
        async with served(allowed_origins=["https://page.example"]) as stage:
            peer = await stage.connect()
            for _ in range(3):
                peer.writer.write(named(1, "count", b"Origin: https://page.example\r\n"))
                assert (await peer.response())[1]["access-control-allow-origin"] == "https://page.example"

    run(test())


def test_a_client_that_hangs_up_cancels_its_modern_call() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "wait"))
            await stage.began.wait()
            peer.writer.close()
            await stage.ended.wait()

    run(test())


def test_a_client_that_hangs_up_before_its_call_begins_cancels_it_too() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def check(token: str) -> str:
        asked.set()
        await go.wait()
        return "somebody"

    async def test() -> None:
        async with served(auth=check) as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "wait", b"Authorization: Bearer t\r\n"))
            await asked.wait()
            await gone(stage, peer)
            go.set()
            await stage.ended.wait()

    run(test(), seconds=10)


def test_a_body_is_not_read_as_a_head() -> None:
    body = b"one\r\nUpgrade: two\r\n\r\nthree"
    head = b"POST /echo HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(head)
            assert (await peer.response())[0] == 100
            peer.writer.write(body)
            status, _, answer = await peer.response()
            assert (status, answer) == (200, body)
            peer.writer.close()

    run(test())


@pytest.mark.parametrize("end", [b"\r|\n\r\n", b"\r\n|\r\n", b"\r\n\r|\n", b"|\r|\n|\r|\n"])
def test_a_body_is_not_read_as_a_head_whose_end_comes_in_pieces(end: bytes) -> None:
    body = b"one\r\nUpgrade: two"
    head = b"POST /echo HTTP/1.1\r\n" + HEAD + b"Content-Length: %d" % len(body)
    pieces = (head + end + body + WHOLE).split(b"|")

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            for piece in pieces:
                peer.writer.write(piece)
                for _ in range(20):  # so that it comes as a packet of its own
                    await asyncio.sleep(0)
            assert (await peer.response())[::2] == (200, body)
            assert (await peer.response())[0] == 200  # so the next request is read from its first byte on
            peer.writer.close()

    run(test())


@pytest.mark.parametrize(
    "line", [b"CONNECTION: UPGRADE\r\nUPGRADE: H2C\r\n", b"Connection: Upgrade\r\nUpg|rade: h2c\r\n"]
)
def test_a_request_whose_upgrade_is_not_seen_in_time_does_not_run_without_its_body(line: bytes) -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            whole = b"POST /echo HTTP/1.1\r\n" + HEAD + line + b"Content-Length: 4\r\n\r\nbody"
            for piece in whole.split(b"|"):
                peer.writer.write(piece)
                for _ in range(20):  # so that it comes as a packet of its own
                    await asyncio.sleep(0)
            assert (await peer.response())[0] == 400
            assert await peer.reader.read() == b""
            assert stage.seen == []

    run(test())


def test_a_body_is_not_read_as_a_request_that_is_known() -> None:
    head = b"POST /echo HTTP/1.1\r\n" + HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(WHOLE)

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(WHOLE)
            assert (await peer.response())[0] == 200
            peer.writer.write(head)
            assert (await peer.response())[0] == 100
            peer.writer.write(WHOLE)
            status, _, answer = await peer.response()
            assert (status, answer) == (200, WHOLE)
            peer.writer.close()

    run(test())


def test_a_connection_without_requests_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "idle", 0.1)

    async def test() -> None:
        async with served() as stage:
            slow, peer = await stage.connect(), await stage.connect()
            slow.writer.write(named(1, "wait"))
            peer.writer.write(WHOLE)
            assert (await peer.response())[0] == 200
            assert await peer.reader.read() == b""
            stage.go.set()  # while a call runs, its connection is not idle
            assert (await slow.response())[0] == 200
            slow.writer.close()
            peer.writer.close()

    run(test())


def test_a_connection_is_idle_from_the_end_of_its_last_request_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "idle", 10)

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "wait"))
            await stage.began.wait()
            await leap(12)
            stage.go.set()
            assert (await peer.response())[0] == 200
            await leap(5)  # the server looks at its connections ten times a second
            peer.writer.write(WHOLE)
            assert (await peer.response())[0] == 200

    run(test(), loop=LeapingLoop)


@pytest.mark.parametrize("start", [b"", b"P", POST, POST + SIZE + b"\r\n{", WHOLE + b"P"], ids=str)
def test_a_request_that_is_not_complete_in_time(start: bytes) -> None:
    async def test() -> None:
        async with served(body_deadline=0.1) as stage:
            slow, peer = await stage.connect(), await stage.connect()
            slow.writer.write(named(1, "wait"))
            peer.writer.write(start)
            if start.startswith(WHOLE):
                assert (await peer.response())[0] == 200
            reply = await peer.reader.read()
            assert reply.startswith(b"HTTP/1.1 408 ")
            stage.go.set()  # a call may take longer
            assert (await slow.response())[0] == 200
            slow.writer.close()
            peer.writer.close()

    run(test())


def test_a_request_that_is_being_sent_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "idle", 0.1)

    async def test() -> None:
        async with served(body_deadline=0.5) as stage:
            peer = await stage.connect()
            peer.writer.write(POST)
            assert (await peer.response())[0] == 408

    run(test())


def test_a_request_has_its_time_from_its_own_beginning() -> None:
    async def test() -> None:
        async with served(body_deadline=10) as stage:
            peer = await stage.connect()
            for _ in range(2):
                peer.writer.write(WHOLE[:-5])
                await until(lambda: Connection.unfinished > 0)
                await leap(5)  # the server looks at its connections ten times a second
                peer.writer.write(WHOLE[-5:])
                assert (await peer.response())[0] == 200
                await leap(12)

    run(test(), loop=LeapingLoop, seconds=60)


def test_a_fault_of_ours_while_a_request_is_read_is_logged_and_is_a_500(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(connection: Connection, name: bytes, value: bytes) -> None:
        raise ZeroDivisionError("a fault of ours")

    async def test() -> None:
        monkeypatch.setattr(Connection, "on_header", fail)
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(WHOLE)
            assert (await peer.response())[0] == 500
            assert await peer.reader.read() == b""
            peer.writer.close()

    run(test())
    assert "ZeroDivisionError: a fault of ours" in caplog.text


def test_an_absolute_url_that_is_none_is_the_fault_of_the_client() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(WHOLE.replace(b"/mcp", b"http://[::1/mcp", 1))
            assert (await peer.response())[0] == 400
            peer.writer.close()

    run(test())


# ---------------------------------------------------------------- faults, and what a refusal leaves


async def no_answer(endpoint: Endpoint, request: Any) -> None:
    """Serves a request without any response."""


async def fails(endpoint: Endpoint, request: Any) -> None:
    raise ZeroDivisionError("a fault of ours")


async def fails_midway(endpoint: Endpoint, request: Any) -> None:
    await request.begin([], b"begun")
    raise ZeroDivisionError("a fault of ours")


async def ends_itself(endpoint: Endpoint, request: Any) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("serve", "start", "logged"),
    [
        (no_answer, b"", False),
        (fails, b"HTTP/1.1 500 ", True),
        (fails_midway, b"HTTP/1.1 200 ", True),
        (ends_itself, b"HTTP/1.1 500 ", True),
    ],
)
def test_a_fault_of_ours_while_a_request_is_served_ends_the_connection(
    serve: Any, start: bytes, logged: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        monkeypatch.setattr(Endpoint, "serve", serve)
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(WHOLE)
            reply = await peer.reader.read()
            assert reply.startswith(start)
            assert reply.count(b"HTTP/1.1") == bool(start)
            peer.writer.close()

    run(test())
    assert ("a request failed" in caplog.text) is logged


def test_after_a_refusal_nothing_more_is_served() -> None:
    known = b"POST /echo HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING

    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(known)
            assert (await peer.response())[0] == 200
            peer.writer.write(named(1, "wait"))
            await stage.began.wait()
            for ahead in (known.replace(SIZE, b"X: y\r\n" * 254 + SIZE), known):
                peer.writer.write(ahead)
                for _ in range(20):  # so that it comes as a packet of its own
                    await asyncio.sleep(0)
            stage.go.set()
            with suppress(ConnectionResetError):  # it closes without having read all
                assert [(await peer.response())[0] for _ in range(2)] == [200, 431]
                assert await peer.reader.read() == b""
            assert [path for path, _ in stage.seen] == ["/echo"]

    run(test())


def test_the_body_of_a_refused_request_is_dropped_while_its_refusal_waits() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "wait"))
            await stage.began.wait()
            peer.writer.write(CHUNKED + chunk(b"x" * 10_000))
            await until(lambda: Connection.unfinished == 10_000)
            peer.writer.write(chunk(b"x" * 10_001) + chunk(b"x" * 60_000))
            await until(lambda: Connection.unfinished == 0)
            stage.go.set()
            with suppress(ConnectionResetError):  # it closes without having read all
                assert [(await peer.response())[0] for _ in range(2)] == [200, 413]

    run(test())


@pytest.mark.parametrize(("limit", "fit"), [(100_000, 5), (1, 2)])  # at least two of the largest fit
def test_large_bodies_that_are_not_complete_have_a_size_in_all(
    limit: int, fit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_UNFINISHED", limit)
    monkeypatch.setattr(connection, "SMALL", 10_000)

    def padded(size: int) -> bytes:
        return POST + b"Content-Length: %d\r\n\r\n" % size + PING.ljust(size)

    async def send(peer: Peer, data: bytes, unfinished: int) -> None:
        peer.writer.write(data)
        await until(lambda: Connection.unfinished == unfinished)

    async def test() -> None:
        async with served() as stage:
            large = [await stage.connect() for _ in range(fit)]
            for number, peer in enumerate(large, 1):
                await send(peer, padded(LIMIT)[:-1000], number * 19_000)
            small = await stage.connect()
            await send(small, padded(10_000)[:-1000], fit * 19_000 + 9000)
            other = await stage.connect()
            other.writer.write(padded(LIMIT)[:-1000])
            status, _, text = await other.response()
            assert (status, b"may have %d bytes" % max(limit, 2 * LIMIT) in text) == (503, True)
            small.writer.write(b" " * 1000)  # small ones are always taken
            assert (await small.response())[0] == 200
            for peer in large:
                peer.writer.write(b" " * 1000)
                assert (await peer.response())[0] == 200

    run(test())


@pytest.mark.parametrize("goes", [False, True])
def test_large_bodies_that_wait_for_their_turn_count_as_well(goes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNFINISHED", 70_000)
    monkeypatch.setattr(connection, "SMALL", 10_000)
    large = POST + b"Content-Length: %d\r\n\r\n" % LIMIT + PING.ljust(LIMIT)

    async def test() -> None:
        async with served() as stage:
            peers = []
            for number in range(1, 4):
                peers.append(await stage.connect())
                peers[-1].writer.write(named(1, "wait") + large)
                await until(lambda number=number: Connection.unfinished == number * LIMIT)  # type: ignore[misc]
            other = await stage.connect()
            other.writer.write(large[:-1000])
            assert (await other.response())[0] == 503
            stage.go.set()
            for peer in peers:
                if goes:
                    peer.writer.transport.abort()
                else:
                    assert [(await peer.response())[0] for _ in range(2)] == [200, 200]
            await until(lambda: Connection.unfinished == 0)

    run(test(), seconds=10)


# ---------------------------------------------------------------- who does not read


def test_the_server_hangs_up_on_who_has_taken_nothing_for_longest(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=2 * LONG) as stage:
            for _ in range(3):  # what was taken does not count any more
                peer = await stage.connect()
                peer.writer.write(LONG_ROUTE)
                assert len((await peer.response())[2]) == LONG
            assert "does not read" not in caplog.text
            stage.seen.clear()
            peers = [await stage.connect() for _ in range(3)]
            for number, peer in enumerate(peers, 1):
                peer.writer.write(LONG_ROUTE)
                await until(lambda number=number: len(stage.seen) == number)  # type: ignore[misc]
            await until(lambda: "does not read" in caplog.text)
            with pytest.raises(BROKEN):
                await peers[0].response()
            for peer in peers[1:]:
                assert len((await peer.response())[2]) == LONG
            assert caplog.text.count("does not read") == 1

    run(test())


def test_what_a_client_has_taken_since_it_fell_behind_does_not_count() -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=LONGER + LONG * 2) as stage:
            first, second = await stage.connect(), await stage.connect()
            first.writer.write(LONGER_ROUTE)
            await first.reader.readuntil(b"\r\n\r\n")
            await first.reader.readexactly(LONGER - LONG)  # it is still behind, by a quarter
            second.writer.write(LONGER_ROUTE)
            assert len((await second.response())[2]) == LONGER
            await first.reader.readexactly(LONG)

    run(test())


@pytest.mark.parametrize("goes", [False, True], ids=["has caught up", "has gone"])
def test_a_client_that_is_not_behind_any_more_is_not_hung_up_on(goes: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=LONG) as stage:
            first, second = await stage.connect(), await stage.connect()
            first.writer.write(named(1, "burst"))
            if goes:
                await stage.began.wait()
                first.writer.transport.abort()
                await stage.ended.wait()
            else:
                await first.response()
            second.writer.write(LONGER_ROUTE)  # more than may wait, by itself
            assert len((await second.response())[2]) == LONGER
            if not goes:
                first.writer.write(WHOLE)
                assert (await first.response())[0] == 200

    run(test())
    assert "does not read" not in caplog.text


def test_a_reply_that_waits_for_the_one_before_it_counts(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=2 * LONGER) as stage:
            first, second = await stage.connect(), await stage.connect()
            first.writer.write(LONGER_ROUTE * 2)
            await until(lambda: len(stage.seen) == 2)
            second.writer.write(LONGER_ROUTE)
            assert len((await second.response())[2]) == LONGER
            with pytest.raises(BROKEN):
                await first.response()

    run(test())
    assert caplog.text.count("does not read") == 1


def test_a_reply_that_has_waited_counts_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=2 * LONGER) as stage:
            first, second = await stage.connect(), await stage.connect()
            first.writer.write(LONGER_ROUTE * 2)
            for _ in range(2):
                assert len((await first.response())[2]) == LONGER
            first.writer.write(LONGER_ROUTE)
            await until(lambda: len(stage.seen) == 3)
            second.writer.write(LONGER_ROUTE)
            for peer in (second, first):
                assert len((await peer.response())[2]) == LONGER

    run(test())
    assert "does not read" not in caplog.text


def test_messages_that_wait_behind_others_count(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=3 * LONGER) as stage:
            first, second = await stage.connect(), await stage.connect()
            first.writer.write(named(1, "crowd"))
            await stage.began.wait()
            second.writer.write(LONGER_ROUTE)
            assert len((await second.response())[2]) == LONGER
            with pytest.raises(BROKEN):
                await first.response()

    run(test())
    assert caplog.text.count("does not read") == 1


def test_what_a_client_has_yet_to_be_sent_counts_too(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(max_unsent_bytes=LONG * 5 // 2) as stage:
            first, second = await stage.connect(), await stage.connect()
            for peer in (first, second):
                stage.began.clear()
                peer.writer.write(named(1, "burst"))
                await stage.began.wait()
            await until(lambda: "does not read" in caplog.text)
            with pytest.raises(BROKEN):
                await first.response()
            assert len((await second.response())[2]) > 3 * LONG

    run(test())
    assert caplog.text.count("does not read") == 1


def test_a_call_whose_client_does_not_read_ends_when_it_goes() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "burst"))
            await stage.began.wait()
            assert not stage.ended.is_set()
            peer.writer.transport.abort()
            await stage.ended.wait()

    run(test())


def test_a_client_that_does_not_read_is_hung_up_on_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(write_deadline=0.3) as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "long"))
            await until(lambda: "does not read" in caplog.text)
            with pytest.raises(BROKEN):
                await peer.response()

    run(test())


def test_a_client_that_has_taken_all_is_not_taken_for_one_that_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(write_deadline=0.3) as stage:
            peer = await stage.connect()
            for _ in range(2):
                peer.writer.write(WHOLE)
                assert (await peer.response())[0] == 200
                await asyncio.sleep(0.6)

    run(test())
    assert not caplog.records


def test_a_stream_that_is_read_slowly_is_not_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(write_deadline=0.8, keep_alive=0.1) as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "burst"))
            taken = b""
            for _ in range(8):
                taken += await peer.reader.readexactly(LONG // 8)
                await asyncio.sleep(0.2)
            while b'"sent"' not in taken:
                taken = taken[-10:] + await peer.reader.read(1 << 20)

    run(test())
    assert not caplog.records


def test_the_time_in_which_the_server_was_busy_is_not_its_clients_delay(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(write_deadline=0.5) as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "long", busy=0.8))
            assert len((await peer.response())[2]) > LONG
            peer.writer.close()

    run(test())
    assert "does not read" not in caplog.text


def test_a_request_waits_from_its_own_beginning() -> None:
    """A stream begins when a client has waited for long; the time between its requests does not count."""

    async def test() -> None:
        async with served(keep_alive=10) as stage:
            peer = await stage.connect()
            stage.go.set()
            peer.writer.write(named(1, "wait"))
            assert (await peer.response())[1]["content-type"] == "application/json"
            stage.go.clear()
            stage.began.clear()
            await leap(10)
            peer.writer.write(named(1, "wait"))  # its head is known
            await stage.began.wait()
            await leap(5)  # the server looks at its connections ten times a second
            stage.go.set()
            assert (await peer.response())[1]["content-type"] == "application/json"
            stage.go.clear()
            stage.began.clear()
            peer.writer.write(named(1, "wait"))
            await stage.began.wait()
            await leap(12)
            head = await peer.reader.readuntil(b"\r\n\r\n")
            assert b"text/event-stream" in head
            peer.writer.close()

    run(test(), loop=LeapingLoop, seconds=60)


def test_a_stream_that_begins_without_a_message_goes_on() -> None:
    async def test() -> None:
        async with served(keep_alive=0.1) as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "wait"))
            assert b"text/event-stream" in await peer.reader.readuntil(b"\r\n\r\n")
            stage.go.set()
            size = int(await peer.reader.readuntil(b"\r\n"), 16)  # none is the end
            assert b"went on" in await peer.reader.readexactly(size)

    run(test())


def test_a_reply_that_waits_for_its_client_does_not_become_a_stream() -> None:
    async def test() -> None:
        async with served(keep_alive=0.3) as stage:
            peer = await stage.connect()
            stage.go.set()
            peer.writer.write(LONG_ROUTE + named(1, "wait"))
            await stage.ended.wait()
            await asyncio.sleep(0.6)  # the server looks at its connections ten times a second
            assert len((await peer.response())[2]) == LONG
            status, headers, body = await peer.response()
            assert (status, headers["content-type"], b"went on" in body) == (200, "application/json", True)
            peer.writer.write(WHOLE)
            assert (await peer.response())[1]["content-type"] == "application/json"

    run(test())


def test_a_stream_goes_no_further_than_its_client_reads() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(named(1, "burst"))
            await stage.began.wait()
            await asyncio.sleep(0.5)  # there is no event for "nothing more happens"
            assert not stage.ended.is_set()
            assert len((await peer.response())[2]) > 3 * LONG
            assert stage.ended.is_set()

    run(test())


def test_a_client_that_does_not_read_gets_no_further_replies_meanwhile() -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(LONG_ROUTE * 5)
            await until(lambda: len(stage.seen) == 2)
            await asyncio.sleep(0.05)  # there is no event for "nothing more happens"
            assert len(stage.seen) == 2
            for _ in range(5):
                assert len((await peer.response())[2]) == LONG

    run(test())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_goes_meanwhile_is_not_answered(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(LONG_ROUTE * 5)
            await until(lambda: len(stage.seen) == 2)
            await gone(stage, peer)
            assert len(stage.seen) == 2

    run(test(), loop=loop)
    assert not caplog.records


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["wait", "tell_and_wait", "a route"])
def test_an_answer_for_a_client_that_has_gone_is_dropped(
    kind: str, loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            if kind == "a route":
                peer.writer.write(LONG_ROUTE.replace(b"/long", b"/wait"))
            else:  # a client of a session may come back for its answer
                peer.writer.write(post(initialize()))
                session = (await peer.response())[1]["mcp-session-id"].encode()
                params = {"name": kind, "arguments": {}, "_meta": {"progressToken": 1}}
                peer.writer.write(post(message(1, "tools/call", params), b"Mcp-Session-Id: %b\r\n" % session))
            await stage.began.wait()
            await gone(stage, peer)
            stage.go.set()
            await stage.ended.wait()

    run(test(), loop=loop)
    assert not caplog.records


# ---------------------------------------------------------------- the end


def test_a_stop_closes_idle_connections_and_lets_a_call_finish() -> None:
    async def test() -> None:
        async with served() as stage:
            idle, busy = await stage.connect(), await stage.connect()
            idle.writer.write(WHOLE)
            assert (await idle.response())[0] == 200
            ahead = b"POST /echo HTTP/1.1\r\n" + HEAD + SIZE + b"\r\n" + PING
            busy.writer.write(named(1, "wait") + ahead)
            await stage.began.wait()
            stage.serving.cancel()
            assert await idle.reader.read() == b""
            stage.go.set()
            status, headers, _ = await busy.response()
            assert (status, headers["connection"]) == (200, "close")
            assert await busy.reader.read() == b""
            await asyncio.wait([stage.serving])
            assert stage.seen == []

    run(test(), seconds=10)


@pytest.mark.parametrize("size", [20, len(WHOLE) - 1], ids=["head", "body"])
def test_a_request_that_is_not_complete_at_a_stop_is_refused(size: int) -> None:
    async def test() -> None:
        async with served() as stage:
            peer = await stage.connect()
            peer.writer.write(WHOLE + WHOLE[:size])
            assert (await peer.response())[0] == 200
            stage.serving.cancel()
            status, headers, _ = await peer.response()
            assert (status, headers["retry-after"]) == (503, "1")
            assert await peer.reader.read() == b""

    run(test())


def test_a_route_that_does_not_end_is_refused_at_a_stop(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(drain=0.1) as stage:
            peer = await stage.connect()
            peer.writer.write(b"GET /forever HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await stage.began.wait()
            stage.serving.cancel()
            status, headers, _ = await peer.response()
            assert (status, headers["connection"]) == (503, "close")
            assert await peer.reader.read() == b""
            await asyncio.wait([stage.serving])

    run(test(), seconds=10)
    assert "failed" not in caplog.text


def test_a_route_that_does_not_end_and_whose_client_has_gone_ends_at_a_stop(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(drain=0.1) as stage:
            peer = await stage.connect()
            peer.writer.write(b"GET /forever HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await stage.began.wait()
            await gone(stage, peer)
            stage.serving.cancel()
            await asyncio.wait([stage.serving])

    run(test(), seconds=10)
    assert not caplog.records


def test_a_client_that_does_not_read_does_not_delay_a_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "STOPPING", 10)
    monkeypatch.setattr(serve, "PATIENCE", 0.1)
    stopping, shutdown = asyncio.Event(), Connection.shutdown

    def begin(self: Connection) -> None:
        shutdown(self)
        stopping.set()

    monkeypatch.setattr(Connection, "shutdown", begin)

    async def test() -> None:
        async with served(drain=30) as stage:
            peer = await stage.connect()
            peer.writer.write(LONG_ROUTE)
            await until(lambda: len(stage.seen) == 1)
            await leap(12)  # more than it has from now on
            stage.serving.cancel()
            await stopping.wait()
            await leap(5)
            assert "does not read" not in caplog.text
            await leap(6)
            await asyncio.wait([stage.serving])
            assert "does not read" in caplog.text
            with pytest.raises(BROKEN):
                await peer.response()

    run(test(), loop=LeapingLoop, seconds=60)


@pytest.mark.parametrize("kind", ["reply", "stream"])
def test_what_nobody_has_read_when_the_time_for_a_stop_is_over_is_dropped(kind: str) -> None:
    async def test() -> None:
        async with served(drain=0.1) as stage:
            peer = await stage.connect()
            peer.writer.write(LONGER_ROUTE if kind == "reply" else named(1, "crowd"))
            await peer.reader.readuntil(b"\r\n\r\n")
            stage.serving.cancel()
            await asyncio.wait([stage.serving])
            with pytest.raises(BROKEN):
                await peer.reader.readexactly(LONGER)

    run(test(), seconds=10)


class SlowStore(MemoryStore):
    """A store that lets a call wait for the answer whether it comes too soon."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.away = False

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        self.asked.set()
        await self.go.wait()
        if self.away:
            raise StoreAway("it was switched off")
        return await super().take(key, rate, burst)


def test_a_call_that_comes_too_soon_is_refused_once_however_late_that_is_known() -> None:
    """The client has waited for so long that its stream would have begun, if it were known that there is one."""

    async def test() -> None:
        store = SlowStore()
        async with served(store=store, rate_limit="1/day") as stage:
            stage.go.set()
            peer = await stage.connect()
            for status, kind in ((200, "text/event-stream"), (429, "application/json"), (429, "application/json")):
                store.asked.clear()
                store.go.clear()
                peer.writer.write(named(1, "wait"))
                await store.asked.wait()
                await leap(20)
                await leap(5)  # the server looks at its connections ten times a second
                store.go.set()
                found, headers, body = await peer.response()
                assert (found, headers["content-type"]) == (status, kind), body
            peer.writer.close()

    run(test(), loop=LeapingLoop, seconds=200)


def test_a_batch_that_is_refused_has_answers_also_if_its_last_call_was_cancelled_meanwhile() -> None:
    async def test() -> None:
        store = SlowStore()
        async with served(store=store, tool_rate_limits={"wait": "1/day"}) as stage:
            stage.go.set()
            peer, other = await stage.connect(), await stage.connect()
            peer.writer.write(post(initialize("2025-03-26")))
            _, headers, _ = await peer.response()
            session = f"Mcp-Session-Id: {headers['mcp-session-id']}\r\n".encode()
            calls = [message(id, "tools/call", {"name": "wait"}) for id in (1, 2)]
            peer.writer.write(post(b"[%b]" % b",".join(calls), session))
            await store.asked.wait()
            other.writer.write(post(message(None, "notifications/cancelled", {"requestId": 2}), session))
            assert (await other.response())[0] == 202
            store.go.set()
            status, _, body = await peer.response()
            assert (status, [answer["id"] for answer in json.loads(body)]) == (429, [1])

    run(test())


@pytest.mark.parametrize(("others", "ids"), [([], [None]), ([message(2, "no/such")], [2])])
def test_a_batch_that_is_refused_has_a_body_also_if_all_its_calls_were_cancelled(
    others: list[bytes], ids: list[int | None]
) -> None:
    async def test() -> None:
        store = SlowStore()
        store.away = True
        store.go.set()
        async with served(store=store, tool_rate_limits={"wait": "1/day"}) as stage:
            peer = await stage.connect()
            peer.writer.write(post(initialize("2025-03-26")))
            session = f"Mcp-Session-Id: {(await peer.response())[1]['mcp-session-id']}\r\n".encode()
            cancel = message(None, "notifications/cancelled", {"requestId": 1})
            parts = [*others, message(1, "tools/call", {"name": "wait"}), cancel]
            peer.writer.write(post(b"[%b]" % b",".join(parts), session))
            status, _, body = await peer.response()
            answers = json.loads(body)
            assert status == 503
            assert [answer.get("id") for answer in (answers if others else [answers])] == ids

    run(test())


class BrokenStore(MemoryStore):
    """A store that fails in a way that it does not know itself, such as without a thread."""

    broken = True

    async def take(self, key: str, rate: float, burst: float) -> tuple[bool, float]:
        if self.broken and "tool" in key:
            raise RuntimeError("can't start new thread")
        return await super().take(key, rate, burst)


@pytest.mark.parametrize("whole", [b"%b", b"[%b]"])
def test_a_call_whose_rate_could_not_be_asked_is_not_left_open(whole: bytes) -> None:
    async def test() -> None:
        store = BrokenStore()
        async with served(store=store, tool_rate_limits={"count": "100/minute"}) as stage:
            peer = await stage.connect()
            peer.writer.write(post(initialize("2025-03-26")))
            session = f"Mcp-Session-Id: {(await peer.response())[1]['mcp-session-id']}\r\n".encode()
            request = post(whole % message(1, "tools/call", {"name": "count"}), session)
            peer.writer.write(request)
            assert (await peer.response())[0] == 500
            store.broken = False
            again = await stage.connect()
            again.writer.write(request)
            assert b"counted" in (await again.response())[2]

    run(test())


@asynccontextmanager
async def first_transport(store: SlowStore) -> AsyncIterator[tuple[Stage, Peer, Callable[[bytes], Awaitable[Peer]]]]:
    """A stream of the first revision, whose client is initialized, and how it says something."""
    store.go.set()
    async with served(store=store, rate_limit="100/minute", legacy_sse=True) as stage:
        stream, other = await stage.connect(), await stage.connect()
        stream.writer.write(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
        path = (await stream.reader.readuntil(b"\n\n")).split()[-1]

        async def say(body: bytes) -> Peer:
            other.writer.write(post(body).replace(b"/mcp", path, 1))
            assert await other.response() == (202, ANY, b"")
            return other

        await say(initialize("2024-11-05"))
        await stream.reader.readuntil(b"\n\n")
        yield stage, stream, say
        stream.writer.close()
        other.writer.close()


def test_a_call_of_the_first_transport_is_answered_on_its_stream_only_while_the_store_is_away() -> None:
    async def test() -> None:
        store = SlowStore()
        async with first_transport(store) as (_, stream, say):
            store.away = True
            other = await say(message(5, "ping"))
            answer = await stream.reader.readuntil(b"\n\n")
            assert b'"id":5,"error"' in answer
            assert b"store of this server is away" in answer
            other.writer.write(WHOLE)
            store.away = False
            assert (await other.response())[0] == 200

    run(test())


def test_a_call_of_the_first_transport_that_is_cancelled_while_the_store_is_asked_does_not_run() -> None:
    async def test() -> None:
        store = SlowStore()
        async with first_transport(store) as (stage, stream, say):
            store.asked.clear()
            store.go.clear()
            await say(message(5, "tools/call", {"name": "wait"}))
            await store.asked.wait()
            await say(message(None, "notifications/cancelled", {"requestId": 5}))
            store.go.set()
            await say(message(6, "ping"))
            assert b'"id":6,"result"' in await stream.reader.readuntil(b"\n\n")
            assert not stage.began.is_set()

    run(test())
