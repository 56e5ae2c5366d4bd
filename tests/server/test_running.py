"""Ways to run a server: on given streams, and inside a loop that already runs."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Server
from support import free_port, initialize, message, modern, run
from transports.support import Child


def echoing() -> Server:
    server = Server("given")

    @server.tool
    async def echo(text: str) -> str:
        return text

    return server


def said(text: str, id: int = 1) -> bytes:
    return modern(id, "tools/call", {"name": "echo", "arguments": {"text": text}}) + b"\n"


def texts(data: bytes) -> list[str]:
    return [json.loads(row)["result"]["content"][0]["text"] for row in data.splitlines()]


# ---------------------------------------------------------------- given streams


@pytest.mark.requirement("12")
def test_streams_in_memory() -> None:
    out = io.BytesIO()
    echoing().run(stdin=io.BytesIO(said("one") + said("two", 2)), stdout=out)
    assert texts(out.getvalue()) == ["one", "two"]


@pytest.mark.requirement("12")
def test_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(said("one") + said("two", 2))
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
        echoing().run(stdin=source, stdout=sink)
        sink.write(b"\n")  # they are still the caller's
        assert source.read() == b""
    assert texts((tmp_path / "out").read_bytes().rstrip()) == ["one", "two"]


@pytest.mark.requirement("12")
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_pipes_and_sockets_stay_open_and_blocking(kind: str) -> None:
    if kind == "pipe":
        (to_read, to_feed), (answers, to_write) = os.pipe(), os.pipe()
        files = [os.fdopen(fd, mode, buffering=0) for fd, mode in ((to_read, "rb"), (to_write, "wb"))]
        feed, read, closing = os.fdopen(to_feed, "wb", buffering=0), os.fdopen(answers, "rb"), files
        end = feed.close
    else:
        ours, theirs = socket.socketpair()
        files = [theirs.makefile("rb"), theirs.makefile("wb")]
        feed, read, closing = ours.makefile("wb", buffering=0), ours.makefile("rb"), [*files, ours, theirs]  # type: ignore[list-item,assignment]

        def end() -> None:
            ours.shutdown(socket.SHUT_WR)

    server = echoing()
    thread = threading.Thread(target=lambda: server.run(stdin=files[0], stdout=files[1]))
    thread.start()
    feed.write(said("one"))
    assert texts(read.readline()) == ["one"]
    feed.write(said("two", 2))
    assert texts(read.readline()) == ["two"]
    end()
    thread.join(10)
    assert not thread.is_alive()
    assert os.get_blocking(files[1].fileno())
    for file in (*closing, read, feed):
        file.close()


@pytest.mark.requirement("12")
def test_text_is_refused_and_its_bytes_are_taken() -> None:
    with pytest.raises(TypeError, match="binary"):
        echoing().run(stdin=io.StringIO("x"), stdout=io.BytesIO())
    out = io.TextIOWrapper(io.BytesIO())
    echoing().run(stdin=io.TextIOWrapper(io.BytesIO(said("one"))), stdout=out)
    assert texts(out.buffer.getvalue()) == ["one"]


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="stdio"):
        echoing().run("carrier pigeon")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="stdio"):
        run(echoing().run_async("carrier pigeon"))  # type: ignore[call-overload]


# ---------------------------------------------------------------- in a loop that runs


@pytest.mark.requirement("12", "5")
def test_run_async_on_given_streams_beside_other_work() -> None:
    async def test() -> None:
        out, server = io.BytesIO(), echoing()
        beside = asyncio.create_task(asyncio.sleep(0, "went on"))
        await server.run_async(stdin=io.BytesIO(said("one")), stdout=out)
        assert texts(out.getvalue()) == ["one"]
        assert await beside == "went on"
        assert not server.runtime.started

    run(test())


def test_cancelling_stdio_stops_it_and_closes_nothing_of_the_callers() -> None:
    async def test() -> None:
        source, feed = os.pipe()
        before = len(os.listdir("/dev/fd"))
        with os.fdopen(source, "rb", buffering=0) as file, os.fdopen(feed, "wb", buffering=0) as into:
            server, out = echoing(), Answers()
            serving = asyncio.create_task(server.run_async(stdin=file, stdout=out))
            into.write(said("one"))
            await out.arrived.wait()
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            await asyncio.sleep(0)  # a transport closes its pipe in the next turn
            into.write(said("two"))
            assert json.loads(os.read(file.fileno(), 65536))["id"] == 1
            assert len(os.listdir("/dev/fd")) == before
            assert not server.runtime.started
            assert not server.runtime.hub.peers

    run(test())


@pytest.mark.parametrize("turns", range(1, 8))
def test_stdio_may_be_cancelled_while_it_starts(turns: int) -> None:
    states: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        states.append("opened")
        try:
            await asyncio.sleep(0)
            yield
        finally:
            states.append("closed")

    async def test() -> None:
        source, feed = os.pipe()
        with os.fdopen(source, "rb", buffering=0) as file, os.fdopen(feed, "wb", buffering=0):
            server = Server("given", lifespan=lifespan)
            serving = asyncio.create_task(server.run_async(stdin=file, stdout=io.BytesIO()))
            for _ in range(turns):
                await asyncio.sleep(0)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            await asyncio.sleep(0)
            assert states in ([], ["opened", "closed"])
            assert not server.runtime.started

    run(test())


class Answers(io.RawIOBase):
    """A file in memory that says when something was written."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()

    def write(self, data: Any) -> int:
        self.arrived.set()
        return len(data)


def test_http_in_a_loop_that_runs_and_its_orderly_end() -> None:
    async def test() -> None:
        server, port = echoing(), free_port()
        serving = asyncio.create_task(server.run_async("http", port=port))
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.001)  # there is no event for "somebody listens now"
        body = initialize()
        head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        assert b"200" in await reader.readline()
        writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert not server.runtime.started
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0

    run(test())


SCRIPT = """
import asyncio, sys
from redstart import Server
server = Server("own loop")

@server.tool
async def echo(text: str) -> str:
    print("noise")
    return text

async def main() -> None:
    await server.run_async()
    print("after", file=sys.stderr)

asyncio.run(main())
"""


@pytest.mark.requirement("12")
@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGINT"])
def test_run_async_on_the_process_own_streams(how: str) -> None:
    with Child(command=[sys.executable, "-c", SCRIPT]) as child:
        child.write(said("one").strip(), message(2, "ping"))
        assert texts(child.read_until(b"\n")) == ["one"]
        assert json.loads(child.read_until(b"\n"))["id"] == 2
        status, _ = child.end(how)
        assert status == 0
        assert child.rest() == b""
        assert child.rest("stderr").endswith(b"after\n")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
