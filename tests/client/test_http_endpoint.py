"""One URL: the events of its streams, in one piece and cut anywhere, and its redirects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.support import DISCOVERED, Request, http_server
from redstart.client import Client, HttpError
from redstart.client.http_endpoint import events
from support import run

Row = tuple[str, str, str, int | None]


def one(data: str, event: str = "message", id: str = "", retry: int | None = None) -> Row:
    return data, event, id, retry


TABLE: list[tuple[str, bytes, list[Row]]] = [
    ("one event", b"data: {}\n\n", [one("{}")]),
    ("no space after the colon", b"data:{}\n\n", [one("{}")]),
    ("only the first space goes", b"data:  x\n\n", [one(" x")]),
    ("CRLF", b"id: 1\r\ndata: {}\r\n\r\n", [one("{}", id="1")]),
    ("CR", b"id: 1\rdata: {}\r\rdata: 2\n\n", [one("{}", id="1"), one("2", id="1")]),
    ("mixed line ends", b"data: 1\r\n\ndata: 2\n\r\n", [one("1"), one("2")]),
    ("comments", b": ping\n\ndata: x\n: in between\n\n", [one("x")]),
    ("several data lines", b"data: {\ndata: }\n\n", [one("{\n}")]),
    ("a field without colon", b"data\n\n", [one("")]),
    ("a priming event", b"id: a/1\ndata:\n\n", [one("", id="a/1")]),
    ("an id alone", b"id: 7\n\n", [one("", id="7")]),
    ("retry", b"retry: 500\n\n", [one("", retry=500)]),
    ("a retry that is not a number", b"retry: soon\ndata: x\n\n", [one("x")]),
    ("a retry of 5000 digits", b"retry: " + b"9" * 5000 + b"\ndata: x\n\n", [one("x")]),
    ("an id with NUL", b"id: a\0b\ndata: x\n\n", [one("x")]),
    ("another kind of event", b"event: endpoint\ndata: /m\n\n", [one("/m", "endpoint")]),
    ("unknown fields", b"color: red\ndata: x\n\n", [one("x")]),
    ("a byte order mark", b"\xef\xbb\xbfdata: x\n\n", [one("x")]),
    ("UTF-8", 'data: "\N{SNOWMAN}\u2028"\n\n'.encode(), [one('"\N{SNOWMAN}\u2028"')]),
    ("an unfinished event", b"data: x\n\ndata: y\n", [one("x")]),
    ("nothing", b"\n\n\r\n", []),
]


def read(chunks: Iterable[bytes]) -> list[Row]:
    """The events of a response that comes in these chunks."""

    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def main() -> list[Row]:
        response = httpx2.Response(
            200,
            headers={"Content-Type": "text/event-stream; charset=latin-1"},
            content=stream(),
            request=httpx2.Request("GET", "http://127.0.0.1/"),
        )
        return [(event.data, event.event, event.id, event.retry) async for event in events(response)]

    return run(main())


@pytest.mark.parametrize(("stream", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_stream_in_one_piece_and_in_single_bytes(stream: bytes, expected: list[Row]) -> None:
    assert read([stream]) == expected
    assert read(bytes([byte]) for byte in stream) == expected


@settings(deadline=None)  # a busy machine is slow
@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1), min_size=1, max_size=5
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_any_stream_cut_anywhere(texts: list[str], end: str, data: st.DataObject) -> None:
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    chunks = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        chunks.append(stream[:size])
        stream = stream[size:]
    assert [row[0] for row in read(chunks)] == texts


def test_a_redirect_on_the_same_origin_is_followed_and_no_other() -> None:
    async def main() -> None:
        elsewhere: list[Request] = []

        async def other(request: Request) -> None:
            elsewhere.append(request)
            await request.answer(500)

        async def handler(request: Request) -> None:
            if request.path == "/mcp":
                await request.answer(307, Location="/mcp/")
            elif request.message["method"] == "server/discover":
                await request.result(DISCOVERED)
            elif request.message["method"] == "x/loop":
                await request.answer(308, Location="/mcp/")
            else:
                await request.answer(307, Location=other_url)

        async with http_server(other) as other_url, http_server(handler) as url, Client(url) as c:
            with pytest.raises(HttpError, match=f"redirect to {other_url}"):
                await c.request("x/y")
            with pytest.raises(HttpError, match="too many redirects"):
                await c.request("x/loop")
        assert elsewhere == []

    run(main())
