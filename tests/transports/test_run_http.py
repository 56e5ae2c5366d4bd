"""`server.run_async("http")` in this process: where it listens, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Server
from redstart.transports import serve
from redstart.transports.listen import bind
from support import MODERN, Peer, initialize, modern, run, until
from tasks.clients import EXTENSION

SOON = 0.05
"""Seconds in place of those after which a person is told that a stop takes time."""
LONG = 12 * 1024 * 1024
"""More than fits into the sockets."""


class Connection:
    """A raw HTTP/1.1 client in this loop."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def get(self, path: str) -> None:
        self.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    def post(self, body: bytes, *more: str) -> None:
        lines = ["POST /mcp HTTP/1.1", f"Host: {self._host}", "Content-Type: application/json", *more]
        self.write("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)

    def modern(self, method: str, params: dict[str, Any]) -> None:
        named = [f"Mcp-Name: {params['name']}"] if "name" in params else []
        self.post(modern(1, method, params), f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", *named)

    async def response(self) -> tuple[int, Any]:
        """The status and the JSON of an answer that has a length."""
        status = int((await self._reader.readline()).split()[1])
        length = 0
        while line := (await self._reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            assert name.lower() not in ("server", "date")
            length = int(value) if name.lower() == "content-length" else length
        return status, json.loads(await self._reader.readexactly(length))

    async def read_until(self, mark: bytes) -> bytes:
        return await self._reader.readuntil(mark)

    async def ended(self) -> bytes:
        """What comes until the other side closes."""
        return await self._reader.read()

    def close(self) -> None:
        self._writer.close()


class Serving:
    """A server with a call that waits, on a free port of this host, and the connections of its clients."""

    def __init__(self, host: str = "127.0.0.1", store: str | None = None, **options: Any) -> None:
        self.server = Server("here", store=store)
        self.working = asyncio.Event()
        self.finish = asyncio.Event()
        self.ends: list[str] = []
        self.host = f"[{host}]" if ":" in host else host
        self.listener = bind(host, 0)
        self.address = self.listener.getsockname()[:2]
        self._connections: list[Connection] = []

        @self.server.tool
        async def work() -> str:
            return await self._wait("call")

        @self.server.tool(task="required", retries=1)
        async def job() -> str:
            return await self._wait("task")

        self.server.route("/wait")(self._route)
        self.server.route("/long")(lambda: "x" * LONG)
        self.task = asyncio.create_task(self.server.run_async("http", listener=self.listener, **options))

    async def _route(self) -> str:
        return await self._wait("route")

    async def _wait(self, name: str) -> str:
        self.working.set()
        try:
            await self.finish.wait()
            return "done"
        except asyncio.CancelledError:
            self.ends.append(name)
            raise

    async def connect(self) -> Connection:
        made = Connection(self.host, *await asyncio.open_connection(*self.address))
        self._connections.append(made)
        return made

    async def call(self) -> Connection:
        """A connection whose call runs."""
        client = await self.connect()
        client.modern("tools/call", {"name": "work"})
        await self.working.wait()
        return client

    async def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        with socket.socket(self.listener.family) as probe:
            assert probe.connect_ex(self.address) != 0


@asynccontextmanager
async def serving(host: str = "127.0.0.1", store: str | None = None, **options: Any) -> AsyncIterator[Serving]:
    made = Serving(host, store, **options)
    try:
        yield made
    finally:
        await made.close()


def kill(number: int) -> None:
    os.kill(os.getpid(), number)


# ---------------------------------------------------------------- the beginning


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_it_says_where_it_is_and_answers_there(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with serving(host) as s:
            client = await s.connect()
            client.post(initialize())
            assert (await client.response())[0] == 200
            said = capsys.readouterr().err
            assert said == f"here is served at http://{s.host}:{s.address[1]}/mcp\n"

    run(test())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "public_url"),
        ({"public_url": "https://x"}, "cannot listen on 203.0.113.1"),
        ({"allowed_hosts": ["x"]}, "cannot listen on 203.0.113.1"),
    ],
)
def test_an_address_that_others_reach_needs_a_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        run(Server("here").run_async("http", host="203.0.113.1", port=0, **options))


def test_a_port_is_shared_only_where_all_want_that() -> None:
    with bind("127.0.0.1", 0, shared=True) as one:
        port = one.getsockname()[1]
        with bind("127.0.0.1", port, shared=True) as other, socket.create_connection(other.getsockname()):
            assert other.getsockname() == one.getsockname()
        with pytest.raises(SystemExit, match="another process listens there"):
            bind("127.0.0.1", port)
    with bind("127.0.0.1", 0) as alone, pytest.raises(SystemExit, match="another process listens there"):
        bind("127.0.0.1", alone.getsockname()[1], shared=True)
    gc.collect()  # a socket that was left open is a warning


def test_a_port_can_be_used_again_at_once() -> None:
    with bind("127.0.0.1", 0) as before:
        address = before.getsockname()
        with socket.create_connection(address) as client:
            accepted, _ = before.accept()
            accepted.close()  # who closes first is remembered by the system for a minute
            assert client.recv(1) == b""
    with bind(*address) as after:
        assert after.getsockname() == address


def test_a_server_that_does_not_start_lets_its_port_go(capsys: pytest.CaptureFixture[str]) -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    listener = bind("127.0.0.1", 0)
    with pytest.raises(LookupError, match="no database"):
        run(Server("here", lifespan=broken).run_async("http", listener=listener))
    assert listener.fileno() == -1
    assert "is served" not in capsys.readouterr().err


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_start_may_be_cancelled_at_any_moment(turns: int) -> None:
    async def test() -> None:
        async with serving() as s:
            for _ in range(turns):
                await asyncio.sleep(0)
            s.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await s.task
            assert s.listener.fileno() == -1
            assert not s.server.runtime.started

    run(test())


def test_a_request_that_does_not_come_to_its_end_is_cut_off() -> None:
    async def test() -> None:
        async with serving(body_deadline=0.1) as s:
            client = await s.connect()
            client.write(b"POST /mcp HTTP/1.1\r\n")
            assert b" 408 " in await client.ended()

    run(test())


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_open_calls_finish(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "PATIENCE", SOON)

    async def test() -> None:
        async with serving(drain=20) as s:
            client, idle = await s.call(), await s.connect()
            capsys.readouterr()
            kill(number)
            assert await idle.ended() == b""
            with socket.socket() as probe:
                assert probe.connect_ex(s.address) != 0
            if number == signal.SIGINT:  # somebody sits there
                while not (said := capsys.readouterr().err):
                    await asyncio.sleep(0.001)  # there is no event for what is written
                assert said == "stopping: open requests have 20 s to finish; Ctrl-C ends them now\n"
            else:
                await asyncio.sleep(2 * SOON)
                assert capsys.readouterr().err == ""
            s.finish.set()
            status, answer = await client.response()
            assert status == 200
            assert answer["result"]["content"][0]["text"] == "done"
            await s.task
            assert not s.server.runtime.started

    run(test())


def test_a_stop_that_waits_for_nothing_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with serving(drain=20) as s:
            client = await s.connect()
            client.post(initialize())
            assert (await client.response())[0] == 200
            capsys.readouterr()
            kill(signal.SIGINT)
            await s.task
            assert capsys.readouterr().err == ""

    run(test(), seconds=10)


def test_a_stop_goes_on_where_nobody_reads_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `| tee log`: Ctrl-C ends the `tee` before us."""
    monkeypatch.setattr(serve, "PATIENCE", SOON)
    said = asyncio.Event()

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            said.set()
            raise BrokenPipeError

    async def test() -> None:
        async with serving(drain=20) as s:
            client = await s.call()
            monkeypatch.setattr(sys, "stderr", Broken())
            kill(signal.SIGINT)
            await said.wait()
            s.finish.set()
            assert (await client.response())[0] == 200
            await s.task
            assert s.ends == []
            assert not s.server.runtime.started

    run(test(), seconds=10)


def test_a_request_whose_client_has_gone_may_finish() -> None:
    async def test() -> None:
        async with serving(drain=20) as s:
            client, idle = await s.connect(), await s.connect()
            client.get("/wait")
            await s.working.wait()
            client.close()
            await asyncio.sleep(SOON)
            kill(signal.SIGTERM)
            await idle.ended()
            await asyncio.sleep(SOON)
            s.finish.set()
            await s.task
            assert s.ends == []

    run(test(), seconds=10)


def test_a_client_that_reads_gets_the_whole_of_its_answer() -> None:
    async def test() -> None:
        async with serving(drain=20) as s:
            client, idle = await s.connect(), await s.connect()
            client.get("/long")
            await client.read_until(b"\r\n\r\n")
            kill(signal.SIGTERM)
            await idle.ended()
            await asyncio.sleep(SOON)
            assert len(await client.ended()) == LONG
            await s.task

    run(test())


def test_a_client_that_does_not_read_is_left_when_its_time_is_over() -> None:
    async def test() -> None:
        async with serving(drain=SOON) as s:
            client = await s.connect()
            client.get("/long")
            await client.read_until(b"\r\n\r\n")
            kill(signal.SIGTERM)
            await s.task
            assert len(await client.ended()) < LONG

    run(test())


@pytest.mark.parametrize("shared", [False, True])
def test_tasks_go_on_elsewhere_at_once_and_those_in_memory_have_the_time_of_open_calls(
    shared: bool, tmp_path: Path
) -> None:
    async def test() -> None:
        async with serving(store=f"sqlite:///{tmp_path / 'tasks.db'}" if shared else None, drain=20) as s:
            peer = await Peer(s.server, capabilities=EXTENSION).open()
            await peer.request("tools/call", {"name": "job"})
            await s.working.wait()
            s.working.clear()
            client, idle = await s.call(), await s.connect()
            kill(signal.SIGTERM)
            await idle.ended()
            if shared:
                await until(lambda: s.ends == ["task"])
            else:
                await asyncio.sleep(4 * SOON)
                assert s.ends == []
            s.finish.set()
            assert (await client.response())[0] == 200
            await s.task

    run(test(), seconds=10)


@pytest.mark.parametrize("when", ["at once", "while load balancers notice", "while it drains"])
def test_a_second_ctrl_c_ends_at_once(when: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(drain=20, drain_delay=20 if when == "while load balancers notice" else 0) as s:
            client, other = await s.call(), await s.connect()
            kill(signal.SIGINT)
            if when == "while it drains":
                await other.ended()
            status = 200
            while when == "while load balancers notice" and status == 200:
                other.get("/readyz")
                status, _ = await other.response()
            kill(signal.SIGINT)
            await s.task
            assert (await client.ended()).startswith(b"HTTP/1.1 503 ")
            assert s.ends == ["call"]
            await s.server.runtime.stop()  # a lifespan that does not end has not been waited for
        assert caplog.text == ""

    run(test(), seconds=10)


def test_a_cancellation_lets_open_calls_finish_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "PATIENCE", SOON)

    async def test() -> None:
        async with serving(drain=20) as s:
            client, idle = await s.call(), await s.connect()
            s.task.cancel()
            await idle.ended()
            await asyncio.sleep(2 * SOON)
            assert "stopping" not in capsys.readouterr().err  # nobody sits there
            s.finish.set()
            assert (await client.response())[0] == 200
            with pytest.raises(asyncio.CancelledError):
                await s.task

    run(test())


def test_a_call_that_takes_too_long_is_ended_and_its_client_told(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with serving(drain=0.1) as s:
            client = await s.call()
            kill(signal.SIGINT)
            status, answer = await client.response()
            assert status == 200
            assert "stopping" in answer["error"]["message"]
            await s.task
            assert s.ends == ["call"]
            assert "Ctrl-C" not in capsys.readouterr().err  # there was no time for it

    run(test())


def test_a_route_that_takes_too_long_is_cut_off() -> None:
    async def test() -> None:
        async with serving(drain=0.1) as s:
            client = await s.connect()
            client.get("/wait")
            await s.working.wait()
            kill(signal.SIGTERM)
            await s.task
            await client.ended()
            await until(lambda: s.ends == ["route"])

    run(test())


def test_a_stream_gets_its_last_message_at_once() -> None:
    async def test() -> None:
        async with serving(drain=20) as s:
            client = await s.connect()
            client.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            await client.read_until(b"acknowledged")
            kill(signal.SIGTERM)
            assert b'"resultType":"complete"' in await client.ended()
            await s.task

    run(test(), seconds=10)
