"""The event parser: a table of streams, and any stream cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart.client.sse import EventParser, ServerEvent

TABLE: list[tuple[str, bytes, list[ServerEvent]]] = [
    ("one event", b"data: {}\n\n", [ServerEvent(b"{}")]),
    ("no space after the colon", b"data:{}\n\n", [ServerEvent(b"{}")]),
    ("only the first space goes", b"data:  x\n\n", [ServerEvent(b" x")]),
    ("CRLF", b"id: 1\r\ndata: {}\r\n\r\n", [ServerEvent(b"{}", id="1")]),
    ("CR", b"id: 1\rdata: {}\r\rdata: 2\n\n", [ServerEvent(b"{}", id="1"), ServerEvent(b"2")]),
    ("mixed line ends", b"data: 1\r\n\ndata: 2\n\r\n", [ServerEvent(b"1"), ServerEvent(b"2")]),
    ("comments", b": ping\n\ndata: x\n: in between\n\n", [ServerEvent(b"x")]),
    ("several data lines", b"data: {\ndata: }\n\n", [ServerEvent(b"{\n}")]),
    ("a field without colon", b"data\n\n", [ServerEvent(b"")]),
    ("a priming event", b"id: a/1\ndata:\n\n", [ServerEvent(b"", id="a/1")]),
    ("an id alone", b"id: 7\n\n", [ServerEvent(b"", id="7")]),
    ("retry", b"retry: 500\n\n", [ServerEvent(b"", retry=500)]),
    ("a retry that is no number", b"retry: soon\ndata: x\n\n", [ServerEvent(b"x")]),
    ("a retry of 5000 digits", b"retry: " + b"9" * 5000 + b"\ndata: x\n\n", [ServerEvent(b"x")]),
    ("an id with NUL", b"id: a\0b\ndata: x\n\n", [ServerEvent(b"x")]),
    ("another kind of event", b"event: endpoint\ndata: /m\n\n", [ServerEvent(b"/m", "endpoint")]),
    ("unknown fields", b"color: red\ndata: x\n\n", [ServerEvent(b"x")]),
    ("a byte order mark", b"\xef\xbb\xbfdata: x\n\n", [ServerEvent(b"x")]),
    ("UTF-8", 'data: "\N{SNOWMAN}"\n\n'.encode(), [ServerEvent('"\N{SNOWMAN}"'.encode())]),
    ("an unfinished event", b"data: x\n\ndata: y\n", [ServerEvent(b"x")]),
    ("nothing", b"\n\n\r\n", []),
]


@pytest.mark.parametrize(("stream", "events"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_stream_in_one_piece(stream: bytes, events: list[ServerEvent]) -> None:
    # One more byte, because a carriage return at the very end may be half of a line end.
    assert EventParser().feed(stream + b":") == events


@pytest.mark.parametrize(("stream", "events"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_stream_byte_by_byte(stream: bytes, events: list[ServerEvent]) -> None:
    parser = EventParser()
    found = [event for byte in stream + b":" for event in parser.feed(bytes([byte]))]
    assert found == events


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1), min_size=1, max_size=5
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_any_stream_cut_anywhere(texts: list[str], end: str, data: st.DataObject) -> None:
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode() + b":"
    parser = EventParser()
    found = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += parser.feed(stream[:size])
        stream = stream[size:]
    assert [event.data.decode() for event in found] == texts
