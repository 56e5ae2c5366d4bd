"""Streamable HTTP at its edges: streams in pieces, sessions that end, streams that break, redirects, headers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.support import Request, Start, answer, event, handshake, http_server, modern
from redstart.client import (
    Client,
    ClientError,
    ConnectionClosed,
    HttpError,
    InvalidReply,
    RequestError,
    http,
    http_endpoint,
)
from support import run

# ---------------------------------------------------------------- streams and bodies


def test_a_stream_in_single_bytes_with_comments_and_split_characters() -> None:
    async def handler(request: Request) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        stream = b": hello\r\n\r\nevent: other\ndata: not json\n\n"
        stream += event("notifications/progress", {"progressToken": token, "progress": 1})
        stream += b'data: {\ndata: "jsonrpc":"2.0","method":"notifications/x"}\n\n'
        stream += answer(request, {"contents": [{"uri": "x:y", "text": "\N{SNOWMAN}"}]})
        await request.stream(*(bytes([byte]) for byte in stream))

    async def main() -> None:
        seen: list[float] = []
        others: list[str] = []
        async with (
            http_server(modern(handler)) as url,
            Client(url, on_notification=lambda n: others.append(n.method)) as c,
        ):
            read = await c.read_resource("x:y", on_progress=lambda p: seen.append(p.progress))
            assert read.contents[0].text == "\N{SNOWMAN}"
            assert seen == [1]
            assert others == ["notifications/progress", "notifications/x"]

    run(main())


@pytest.mark.parametrize(
    ("status", "body", "exception", "text"),
    [
        (200, {"jsonrpc": "2.0", "id": None, "error": {"code": 5, "message": "m"}}, RequestError, "5"),
        (400, {"jsonrpc": "2.0", "id": None, "error": {"code": 5, "message": "m"}}, RequestError, "5"),
        (404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "m"}}, RequestError, "-32601"),
        (200, {"jsonrpc": "2.0", "id": 999, "result": {}}, InvalidReply, "no answer to the request"),
        (200, b"<html>", InvalidReply, "no answer to the request"),
        (202, b"", InvalidReply, "HTTP 202"),
        (500, b"<html>\n  oops", HttpError, "HTTP 500: <html> oops"),
        (401, b"", HttpError, "HTTP 401"),
        (302, b"", HttpError, "HTTP 302"),
    ],
)
def test_bodies_that_are_no_result(status: int, body: Any, exception: type[ClientError], text: str) -> None:
    async def main() -> None:
        async with http_server(modern(lambda request: request.answer(status, body))) as url, Client(url) as c:
            with pytest.raises(exception, match=text):
                await c.request("x/y")

    run(main())


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_over_the_limit_is_refused(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "MAX_MESSAGE", 1000)

    async def main() -> None:
        async with http_server(modern(lambda request: request.answer(status, b"x" * 1001))) as url, Client(url) as c:
            with pytest.raises(InvalidReply, match="more than 1000 bytes"):
                await c.request("x/y")

    run(main())


def test_a_time_to_retry_without_measure_does_no_harm() -> None:
    async def handler(request: Request) -> None:
        await request.stream(b"retry: " + b"9" * 4000 + b"\n\n", answer(request, {"text": "here"}))

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url) as c:
            assert await c.request("x/y") == {"text": "here"}

    run(main())


def test_a_modern_stream_that_ends_early_is_no_answer() -> None:
    async def main() -> None:
        async with http_server(modern(lambda request: request.stream(b"id: 1\ndata:\n\n"))) as url, Client(url) as c:
            with pytest.raises(ConnectionClosed, match="ended the answer to x/y early"):
                await c.request("x/y")

    run(main())


def test_a_server_that_hangs_up() -> None:
    async def handler(request: Request) -> None:
        request.hang_up()

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url) as c:
            with pytest.raises(ConnectionClosed, match="POST"):
                await c.request("x/y")

    run(main())


def test_closing_the_stream_is_the_cancellation() -> None:
    async def main() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> None:
            arrived.set()
            await request.gone()
            left.set()

        async with http_server(modern(handler)) as url, Client(url) as c:
            call = asyncio.create_task(c.request("x/y"))
            await arrived.wait()
            call.cancel()
            await left.wait()

    run(main())


# ---------------------------------------------------------------- modern headers


# ---------------------------------------------------------------- rounds of questions


# ---------------------------------------------------------------- sessions


def test_a_session_is_named_everywhere_and_deleted_at_the_end() -> None:
    seen: list[Request] = []

    async def handler(request: Request) -> None:
        seen.append(request)
        if request.method == "POST":
            await request.result({})
        else:
            await request.answer(405)

    async def main() -> None:
        async def record(request: Request) -> None:
            if request.method in ("GET", "DELETE"):
                seen.append(request)
            await handshake(handler)(request)

        async with (
            http_server(record) as url,
            Client(url, protocol="2025-11-25", log_level="info") as c,
            c.listen(tools=True),
        ):
            await c.ping()

    run(main())
    assert {"GET", "POST", "DELETE"} == {request.method for request in seen}
    assert seen[-1].method == "DELETE"
    assert {request.headers["mcp-session-id"] for request in seen} == {"s1"}
    assert {request.headers["mcp-protocol-version"] for request in seen} == {"2025-11-25"}
    assert any(request.message and request.message["method"] == "logging/setLevel" for request in seen)


def test_a_server_without_sessions_gets_no_session_header() -> None:
    seen: list[Request] = []

    async def handler(request: Request) -> None:
        seen.append(request)
        await request.result({})

    async def main() -> None:
        server = handshake(handler, session=None, version="2025-06-18")
        async with http_server(server) as url, Client(url, protocol="2025-06-18") as c:
            await c.ping()

    run(main())
    assert [request.method for request in seen] == ["POST"]
    assert "mcp-session-id" not in seen[0].headers


# ---------------------------------------------------------------- streams that go on


def test_a_broken_answer_is_resumed_where_it_broke_off() -> None:
    waiting: list[Request] = []
    resumed: list[str | None] = []

    async def handler(request: Request) -> None:
        if request.method == "POST":
            waiting.append(request)
            note = event("notifications/x", at="a/2")
            await request.stream(b"id: a/1\nretry: 1\ndata:\n\n", note)
            return
        resumed.append(request.headers.get("last-event-id"))
        if resumed[-1] is None:
            await request.answer(405)  # the GET stream of its own, which this server lacks
        elif resumed[-1] == "a/2":
            await request.stream(event("notifications/y", at="a/3"))
        else:
            await request.stream(answer(waiting[0], {"text": "at last"}, at="a/4"))

    async def main() -> None:
        heard: list[str] = []
        server = handshake(handler, get=200)
        async with (
            http_server(server) as url,
            Client(url, protocol="2025-11-25", on_notification=lambda n: heard.append(n.method)) as c,
        ):
            assert await c.request("x/y") == {"text": "at last"}
            assert heard == ["notifications/x", "notifications/y"]

    run(main())
    assert [id for id in resumed if id] == ["a/2", "a/3"]


def test_resuming_gives_up_when_the_server_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ATTEMPTS", 2)

    async def handler(request: Request) -> None:
        if request.method == "POST":
            await request.stream(b"id: 1\nretry: 1\ndata:\n\n")
        elif "last-event-id" in request.headers:
            request.hang_up()
        else:
            await request.answer(405)

    async def main() -> None:
        async with http_server(handshake(handler, get=200)) as url, Client(url, protocol="2025-11-25") as c:
            with pytest.raises(ConnectionClosed, match="GET"):
                await c.request("x/y")

    run(main())


def test_a_resumption_that_is_refused_fails_the_call() -> None:
    async def handler(request: Request) -> None:
        if request.method == "POST":
            await request.stream(b"id: 1\nretry: 1\ndata:\n\n")
        else:
            await request.answer(400, b"no such event")

    async def main() -> None:
        async with http_server(handshake(handler, get=200)) as url, Client(url, protocol="2025-11-25") as c:
            with pytest.raises(HttpError, match="no such event"):
                await c.request("x/y")

    run(main())


def test_the_get_stream_goes_on_after_a_break() -> None:
    async def main() -> None:
        ids: list[str | None] = []
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def handler(request: Request) -> None:
            ids.append(request.headers.get("last-event-id"))
            n = len(ids)
            await request.stream(b"retry: 1\n\n", event(f"notifications/{n}", at=f"g/{n}"))

        server = handshake(handler, get=200)
        async with (
            http_server(server) as url,
            Client(url, protocol="2025-11-25", on_notification=lambda n: heard.put_nowait(n.method)),
        ):
            assert [await heard.get() for _ in range(3)] == ["notifications/1", "notifications/2", "notifications/3"]
        assert ids[:3] == [None, "g/1", "g/2"]

    run(main())


def test_a_get_stream_without_ids_is_not_asked_for_again_at_once() -> None:
    streams: list[Request] = []

    async def handler(request: Request) -> None:
        if request.method == "GET":
            streams.append(request)
            await request.stream(b"retry: 3600000\n\n")
        else:
            await request.result({})

    async def main() -> None:
        server = handshake(handler, get=200)
        async with http_server(server) as url, Client(url, protocol="2025-11-25") as c, c.listen(tools=True):
            for _ in range(5):
                await c.ping()

    run(main())
    assert len(streams) == 1


def test_the_sdk_server_drops_the_stream_of_a_call(start_http: Start) -> None:
    async def main() -> None:
        async with Client(start_http("resume"), protocol="2025-11-25") as c:
            assert (await c.call_tool("drop")).text == "survived"

    run(main())


# ---------------------------------------------------------------- questions in a session


# ---------------------------------------------------------------- where to


# ---------------------------------------------------------------- the first revision's transport
