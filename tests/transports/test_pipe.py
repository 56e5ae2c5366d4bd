"""What goes out on a pipe: when it is written, what happens while nobody reads, and what stays when it ends."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from pathlib import Path

import pytest

from redstart.transports.pipe import HIGH_WATER, KEPT, PipeWriter, Stderr, never_waiting
from support import run

LARGE = b"x" * (1 << 18)
"""More than a pipe holds."""
MANY = 2 * HIGH_WATER // len(LARGE)
"""As many of those are more than a client may leave unread."""


class Reader:
    """What a writer pauses."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


class Pipe:
    """A pipe or a pair of sockets, our writer at one end of it and the client at the other."""

    def __init__(self, calls: Sized = (), ends: tuple[int, int] | None = None) -> None:
        self.end, fd = ends or os.pipe()
        self.fd = fd
        os.set_blocking(self.end, False)
        self.writer = PipeWriter(fd, asyncio.get_running_loop(), lambda data: data + b"\n", calls)
        self.writer.reader = self.reader = Reader()

    def read(self) -> bytes:
        """What is there now."""
        try:
            return os.read(self.end, 1 << 20)
        except BlockingIOError:
            return b""

    async def read_all(self, size: int) -> bytes:
        """So many bytes, as they come."""
        data = b""
        while len(data) < size:
            data += self.read()
            await asyncio.sleep(0)
        return data

    def fill(self) -> int:
        """Write until the writer no longer wants to be asked; how many bytes that were."""
        for number in range(1, MANY):
            self.writer.send(LARGE)
            if self.reader.calls[-1:] == ["pause"]:
                return number * (len(LARGE) + 1)
        raise AssertionError("the client was not paused")


@contextmanager
def pipe(calls: Sized = (), ends: tuple[int, int] | None = None) -> Iterator[Pipe]:
    made = Pipe(calls, ends)
    try:
        yield made
    finally:
        made.writer.close()
        os.close(made.end)


def test_a_message_leaves_at_once_where_nobody_else_is_about_to_answer() -> None:
    async def test() -> None:
        with pipe() as p:
            p.writer.send(b"one")
            assert p.read() == b"one\n"
            assert p.reader.calls == []

    run(test())


def test_the_answers_of_one_turn_leave_together() -> None:
    async def test() -> None:
        with pipe(calls=["another"]) as p:
            p.writer.send(b"one")
            p.writer.send(b"two")
            assert p.read() == b""
            p.writer.release()  # the write that is due takes all
            assert p.read() == b""
            await asyncio.sleep(0)
            assert p.read() == b"one\ntwo\n"
            p.writer.send(b"three")
            await asyncio.sleep(0)
            assert p.read() == b"three\n"

    run(test())


def test_an_answer_joins_the_write_that_is_due_although_it_is_the_last() -> None:
    async def test() -> None:
        calls = ["another"]
        with pipe(calls) as p:
            p.writer.send(b"one")
            calls.clear()
            p.writer.send(b"two")
            assert p.read() == b""
            await asyncio.sleep(0)
            assert p.read() == b"one\ntwo\n"

    run(test())


def test_what_is_held_leaves_when_it_is_released() -> None:
    async def test() -> None:
        with pipe() as p:
            p.writer.held = True
            p.writer.send(b"one")
            p.writer.send(b"two")
            assert p.read() == b""
            p.writer.release()
            assert p.read() == b"one\ntwo\n"
            p.writer.send(b"three")
            assert p.read() == b"three\n"

    run(test())


def test_a_client_that_does_not_read_is_not_read_either_until_it_has_caught_up() -> None:
    async def test() -> None:
        with pipe() as p:
            sent = p.fill()
            assert HIGH_WATER < sent <= HIGH_WATER + 2 * len(LARGE)
            p.writer.send(LARGE)
            p.writer.release()
            sent += len(LARGE) + 1
            assert p.reader.calls == ["pause"]
            waiting = asyncio.create_task(p.writer.ready())
            for _ in range(3):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert await p.read_all(sent) == (LARGE + b"\n") * (sent // (len(LARGE) + 1))
            await waiting
            assert p.reader.calls == ["pause", "resume"]
            p.writer.send(b"next")
            assert p.read() == b"next\n"
            await p.writer.ready()  # there is nothing to wait for

    run(test())


def test_one_message_may_be_more_than_a_client_may_leave_unread() -> None:
    async def test() -> None:
        with pipe() as p:
            p.writer.send(b"x" * (2 * HIGH_WATER))
            assert p.reader.calls == ["pause"]
            await p.read_all(2 * HIGH_WATER + 1)
            assert p.reader.calls == ["pause", "resume"]

    run(test())


def test_before_anything_is_read_there_is_nothing_to_pause() -> None:
    async def test() -> None:
        with pipe() as p:
            p.writer.reader = None
            p.writer.send(b"x" * (2 * HIGH_WATER))
            await p.read_all(2 * HIGH_WATER + 1)
            p.writer.send(b"next")
            assert p.read() == b"next\n"

    run(test())


def test_a_socket_that_nobody_reads_is_not_waited_for() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        with pipe(ends=(theirs.detach(), ours.detach())) as p:
            assert not os.get_blocking(p.fd)
            sent = p.fill()
            await p.read_all(sent)

    run(test())


def test_a_file_that_buffers_is_flushed_at_once() -> None:
    class Written(io.RawIOBase):
        data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += bytes(data)  # type: ignore[call-overload]
            return len(data)  # type: ignore[arg-type]

    async def test() -> None:
        raw = Written()
        file = io.BufferedWriter(raw)
        writer = PipeWriter(file, asyncio.get_running_loop(), bytes, ())
        writer.send(b"one")
        assert raw.data == b"one"
        writer.close()
        assert not file.closed

    run(test())


def test_a_client_may_fall_behind_again() -> None:
    async def test() -> None:
        with pipe() as p:
            for times in (1, 2):
                sent = p.fill()
                waiting = asyncio.create_task(p.writer.ready())
                for _ in range(3):
                    await asyncio.sleep(0)
                assert not waiting.done()
                await p.read_all(sent)
                await waiting
                assert p.reader.calls == ["pause", "resume"] * times
            p.writer.held = True
            p.writer.send(b"held")  # what told us that the client reads again is not asked any more
            for _ in range(3):
                await asyncio.sleep(0)
            assert p.read() == b""

    run(test())


def test_what_waited_before_does_not_count_again() -> None:
    async def test() -> None:
        with pipe() as p:
            for _ in range(8):
                p.writer.send(LARGE)
                p.writer.send(LARGE)
                await p.read_all(2 * len(LARGE) + 2)
                await p.writer.ready()
            assert p.reader.calls == []

    run(test())


def test_a_client_that_has_gone_holds_nobody() -> None:
    async def test() -> None:
        with pipe() as p:
            p.fill()
            waiting = asyncio.create_task(p.writer.ready())
            await asyncio.sleep(0)
            os.close(p.end)
            await waiting
            assert p.writer.broken
            assert p.writer.rest == b""
            assert p.reader.calls == ["pause", "resume"]
            p.writer.send(b"nobody hears this")
            await p.writer.flushed(within=10)
            p.end = os.open(os.devnull, os.O_RDONLY)

    run(test())


def test_the_end_waits_so_long_for_a_client_and_no_longer() -> None:
    async def test() -> None:
        with pipe(calls=["another"]) as p:
            p.writer.send(b"one")
            await p.writer.flushed(within=10)
            assert p.read() == b"one\n"
            p.writer.send(LARGE)
            await p.writer.flushed(within=0.01)
            ending = asyncio.create_task(p.writer.flushed(within=10))
            for _ in range(3):
                await asyncio.sleep(0)
            assert not ending.done()
            assert await p.read_all(len(LARGE) + 1) == LARGE + b"\n"
            await ending

    run(test())


def test_a_close_holds_nobody_who_waits_for_the_client() -> None:
    async def test() -> None:
        with pipe() as p:
            p.fill()
            waiting = asyncio.create_task(p.writer.ready())
            await asyncio.sleep(0)
            shared = os.dup(p.fd)
            p.writer.close()
            await waiting
            assert p.reader.calls == ["pause", "resume"]
            assert not asyncio.get_running_loop().remove_writer(p.fd)
            os.close(shared)
            p.writer = PipeWriter(io.BytesIO(), asyncio.get_running_loop(), bytes, ())

    run(test())


def test_a_shared_pipe_blocks_again_and_is_closed() -> None:
    async def test() -> None:
        with pipe() as p:
            shared = os.dup(p.fd)
            assert not os.get_blocking(shared)
            p.writer.close()
            assert os.get_blocking(shared)
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(p.fd)
            os.dup2(shared, p.fd)  # the number may be another file's now
            p.writer.send(b"late")
            assert p.read() == b""
            os.close(p.fd)
            os.close(shared)
            p.writer = PipeWriter(io.BytesIO(), asyncio.get_running_loop(), bytes, ())

    run(test())


# ---------------------------------------------------------------- stderr


@contextmanager
def stderr(encoding: str = "utf-8") -> Iterator[tuple[Stderr, int, io.TextIOWrapper]]:
    end, fd = os.pipe()
    os.set_blocking(fd, False)
    os.set_blocking(end, False)
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    try:
        yield Stderr(file, fd), end, file
    finally:
        os.close(end)


def test_lines_on_stderr_leave_at_once_and_later_go_to_the_file() -> None:
    with stderr() as (err, end, file):
        assert err.write("héllo\n") == 6
        err.writelines(["a\n", "b\n"])
        assert os.read(end, 100) == "héllo\na\nb\n".encode()
        assert err.encoding == "utf-8"
        err.end()
        assert os.read(end, 1) == b""  # ours was the last one
        assert err.write("late\n") == 5
        file.flush()
        assert file.buffer.getvalue() == b"late\n"  # type: ignore[attr-defined]


def test_stderr_has_the_encoding_of_its_file() -> None:
    with stderr("latin-1") as (err, end, _):
        err.write("h\u00e9llo \u2603\n")
        assert os.read(end, 100) == b"h\xe9llo \\u2603\n"
        err.end()


def test_stderr_that_nobody_reads_is_kept_up_to_a_limit_and_the_rest_is_counted() -> None:
    line = "x" * 999 + "\n"
    with stderr() as (err, end, _):
        for _ in range(300):
            err.write(line)
        data = b""
        while True:
            try:
                data += os.read(end, 1 << 20)
            except BlockingIOError:
                break
            err.flush()
        lines = data.decode().splitlines(keepends=True)
        assert set(lines[:-1]) == {line}
        lost = 300 - len(lines[:-1])
        assert lines[-1] == f"redstart: nobody has read stderr, so {lost} messages were left out\n"
        assert KEPT < len(data) < KEPT + (1 << 16) + 2000
        err.write("again\n")
        assert os.read(end, 100) == b"again\n"


def _unread(err: Stderr, end: int) -> bytes:
    """Write until some is kept, then read what the pipe holds."""
    for _ in range(80):
        err.write("x" * 1000)
    return os.read(end, 1 << 20)


def test_the_next_line_brings_what_was_kept() -> None:
    with stderr() as (err, end, _):
        data = _unread(err, end)
        err.write("next\n")
        data += os.read(end, 1 << 20)
        assert data == b"x" * 80_000 + b"next\n"


def test_more_than_the_limit_is_no_reason_to_be_silent_for_ever() -> None:
    with stderr() as (err, end, _):
        for _ in range(300):
            err.write("x" * 1000)
        os.read(end, 1 << 20)
        err.write("next\n")
        assert os.read(end, 1 << 20).endswith(b"messages were left out\nnext\n")


def test_what_was_kept_leaves_at_the_end() -> None:
    with stderr() as (err, end, _):
        data = _unread(err, end)
        err.end()
        assert data + os.read(end, 1 << 20) == b"x" * 80_000


def test_stderr_whose_reader_has_gone_is_no_error() -> None:
    with stderr() as (err, _, _):
        for _ in range(100):
            err.write("x" * 1000)
    assert err.write("nobody reads this\n") == 18
    err.end()


@contextmanager
def descriptor_2(fd: int, file: object) -> Iterator[None]:
    """Meanwhile fd 2 leads there, and `sys.stderr` is this file."""
    kept, before = os.dup(2), sys.stderr
    os.dup2(fd, 2)
    sys.stderr = file
    try:
        yield
    finally:
        sys.stderr = before
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def logging_to(*handlers: tuple[str, logging.Handler]) -> Iterator[None]:
    for name, handler in handlers:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name, handler in handlers:
            logging.getLogger(name).removeHandler(handler)


def test_a_stderr_that_nobody_reads_holds_neither_print_nor_logs() -> None:
    end, fd = os.pipe()
    elsewhere = io.StringIO()
    with open(2, "w", closefd=False) as file, descriptor_2(fd, file):
        os.close(fd)
        root, ours, other = (logging.StreamHandler(to) for to in (file, file, elsewhere))
        stdout = sys.stdout
        with logging_to(("", root), ("redstart", ours), ("", other), ("", logging.NullHandler())):
            with never_waiting():
                print("x" * 90_000)  # more than a pipe holds
                data = os.read(end, 1 << 20)
                logging.getLogger("redstart.test").error("told")
                data += os.read(end, 1 << 20)
                assert data == b"x" * 90_000 + b"\n" + b"told\n" * 2
                assert elsewhere.getvalue() == "told\n"
                assert os.get_blocking(2)  # those who share it may depend on that
            assert (sys.stdout, sys.stderr) == (stdout, file)
            assert (root.stream, ours.stream, other.stream) == (file, file, elsewhere)
    assert os.read(end, 1) == b""  # nobody else holds it
    os.close(end)


@pytest.mark.parametrize("what", ["no stdout", "no stderr", "stderr in memory", "fd 2 is a file"])
def test_where_stderr_stays_as_it_is(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end, fd = os.pipe()
    if what == "fd 2 is a file":
        os.close(fd)
        fd = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT)
    if what == "no stdout":
        monkeypatch.setattr(sys, "stdout", None)
    other = {"no stderr": None, "stderr in memory": io.StringIO()}
    with open(2, "w", closefd=False) as file, descriptor_2(fd, other.get(what, file)):
        before = sys.stdout, sys.stderr
        with never_waiting():
            assert (sys.stdout, sys.stderr) == before
    os.close(fd)
    os.close(end)
