"""Framing: the same messages, however the bytes are cut; and the events of SSE."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redstart.protocol.framing import OVERSIZED, SSE_COMMENT, UNREADABLE, Framer, Framing, sse_event, sse_prime

A, B = b'{"a":1}', b'{"b":"\xc3\xa9"}'


def counted(*messages: bytes, end: bytes = b"\r\n") -> bytes:
    return b"".join(b"Content-Length: %d%b%b%b" % (len(m), end, end, m) for m in messages)


@pytest.mark.requirement("2", "T1", "T2")
@pytest.mark.parametrize(
    ("data", "framing", "messages"),
    [
        (b"", "auto", []),
        (b"\n\r\n \n", "auto", []),
        (A + b"\n" + B + b"\n", "newline", [A, B]),
        (A + b"\r\n" + B + b"\r\n", "newline", [A + b"\r", B + b"\r"]),
        (b"\n\n" + A + b"\n\n\n" + B + b"\n", "newline", [A, B]),
        (b"   " + A + b"\n", "newline", [A]),
        (A, "newline", []),
        (b"content\n" + A + b"\n", "newline", [b"content", A]),
        (b"Content-Type: x\n", "newline", [b"Content-Type: x"]),
        (counted(A, B), "content-length", [A, B]),
        (counted(A, B, end=b"\n"), "content-length", [A, B]),
        (b"\r\n\r\n" + counted(A), "content-length", [A]),
        (counted(A) + b"\r\n" + counted(B) + b"\n\n", "content-length", [A, B]),
        (counted(b"x\r\n\r\ny", B, end=b"\n"), "content-length", [b"x\r\n\r\ny", B]),
        (b"cOnTeNt-LeNgTh:7\r\nContent-Type: x\r\n\r\n" + A, "content-length", [A]),
        (b"Content-Length: x\r\n\r\n", "content-length", [UNREADABLE]),
        (b"Content-Length: -1\r\n\r\n", "content-length", [UNREADABLE]),
        (b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", "content-length", [UNREADABLE]),
        (counted(A) + b"garbage: 1\r\n\r\n", "content-length", [A, UNREADABLE]),
        (b"Content-Length: 0\r\n\r\n" + counted(A), "content-length", [b"", A]),
    ],
)
def test_whole_and_byte_by_byte(data: bytes, framing: Framing, messages: list[bytes]) -> None:
    whole = Framer()
    assert whole.feed(data) == messages
    assert whole.framing == framing
    single = Framer()
    assert [m for n in range(len(data)) for m in single.feed(data[n : n + 1])] == messages
    assert single.framing == framing


def test_blank_lines_are_no_messages_wherever_the_bytes_are_cut() -> None:
    framer = Framer()
    assert framer.feed(A[:3]) == []
    assert framer.feed(A[3:] + b"\n\r\n\n  \n" + B[:3]) == [A]
    assert framer.feed(B[3:] + b"\n") == [B]


@given(st.lists(st.binary(max_size=40).filter(lambda m: b"\n" not in m), max_size=8), st.data(), st.booleans())
def test_any_cut_gives_the_same_messages(messages: list[bytes], data: st.DataObject, lengths: bool) -> None:
    if lengths:
        messages = [m for m in messages if m]
        stream, framing = counted(*messages), "content-length"
    else:
        messages = [m for m in messages if m.strip()]
        stream, framing = b"".join(m + b"\n" for m in messages), "newline"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    framer = Framer(framing)  # type: ignore[arg-type]
    assert [m for piece in pieces for m in framer.feed(piece)] == messages
    assert framer.pending() == b""


@pytest.mark.parametrize(
    ("data", "framing", "rest"),
    [
        (A, "auto", A),
        (A + b"\n" + B, "auto", B),
        (A + b"\n  ", "auto", b""),
        (b"Content-Le", "auto", b"Content-Le"),
        (counted(A)[:-1], "auto", b""),
        (b"\n", "auto", b""),
        (b"x" * 101, "newline", b""),
    ],
)
def test_what_is_left_at_the_end(data: bytes, framing: Framing, rest: bytes) -> None:
    framer = Framer(framing, limit=100)
    framer.feed(data)
    assert framer.pending() == rest
    assert framer.pending() == b""


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("data", "messages"),
    [
        (b"x" * 100 + b"\n" + A + b"\n", [b"x" * 100, A]),
        (b"x" * 101 + b"\n" + A + b"\n", [OVERSIZED, A]),
        (A + b" " * 200 + b"\n" + B + b"\n", [OVERSIZED, B]),  # not the message that its beginning happens to be
        (A + b"\n" + b"x" * 5000 + b"\n" + B + b"\n", [A, OVERSIZED, B]),
        (b"x" * 5000 + b"\n" + b"y" * 5000 + b"\n" + A + b"\n", [OVERSIZED, OVERSIZED, A]),
        (counted(b"x" * 100, A), [b"x" * 100, A]),
        (counted(b"x" * 101, A), [OVERSIZED, A]),
        (counted(A, b"x" * 5000, B), [A, OVERSIZED, B]),
        (counted(A + b" " * 200, B), [OVERSIZED, B]),
    ],
)
def test_a_message_over_the_limit_is_skipped(data: bytes, messages: list[bytes], size: int) -> None:
    framer = Framer(limit=100)
    assert [m for at in range(0, len(data), size) for m in framer.feed(data[at : at + size])] == messages


def test_a_header_without_an_end_is_given_up() -> None:
    framer = Framer()
    found = framer.feed(b"Content-Length: 5" + b" " * 2000)
    assert found == [UNREADABLE]
    assert framer.feed(counted(A)) == [A]


def test_a_large_message_in_small_pieces_is_not_copied_again_and_again() -> None:
    import time

    started = time.process_time()
    for framing, head, tail in (("newline", b"", b"\n"), ("content-length", b"Content-Length: 50000000\r\n\r\n", b"")):
        framer = Framer(framing)  # type: ignore[arg-type]
        framer.feed(head)
        chunk = b"x" * 10_000
        found = [m for _ in range(5_000) for m in framer.feed(chunk)] + framer.feed(tail)
        assert [len(m) for m in found] == [50_000_000]
    assert time.process_time() - started < 3


@pytest.mark.requirement("2")
def test_the_answer_is_framed_in_kind() -> None:
    for data, framed in ((A + b"\n", B + b"\n"), (counted(A), counted(B)), (b"", B + b"\n")):
        framer = Framer()
        framer.feed(data)
        assert framer.frame(B) == framed
    assert Framer("content-length").frame(B) == counted(B)


def test_server_sent_events() -> None:
    assert sse_event(A) == b'event: message\ndata: {"a":1}\n\n'
    assert sse_event(A, "p1-3") == b'id: p1-3\nevent: message\ndata: {"a":1}\n\n'
    assert sse_event(A, "g-1", 5) == b'id: g-1\nretry: 5\nevent: message\ndata: {"a":1}\n\n'
    assert sse_prime("p1-0", 1000) == b"id: p1-0\nretry: 1000\ndata: \n\n"
    assert SSE_COMMENT.startswith(b":")
    assert SSE_COMMENT.endswith(b"\n\n")


def test_blank_lines_before_a_header_are_not_kept() -> None:
    """Kept, they would be read again with everything that follows: minutes for two megabytes."""
    framer = Framer("content-length")
    for _ in range(20_000):
        assert framer.feed(b"\r\n" * 50) == []
    assert framer.feed(b"\nContent-Length: 2\r\n\r\n{}\r\n\n") == [b"{}"]
    assert framer.feed(b"Content-Length: 2\r\n\r\n[]") == [b"[]"]
