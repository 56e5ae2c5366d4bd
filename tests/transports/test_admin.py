"""The admin port: what Prometheus reads there, who may ask, and the sum of several processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, ProtocolError, Server, ToolError
from redstart.inspector.host import Host
from redstart.observe.metrics import CallMetrics
from support import DEADLINE, MODERN, NOVEMBER, Peer, free_port, modern, play, refused, run
from tasks.clients import EXTENSION, started, until
from tasks.processes import Http
from transports.support import Child


def counted() -> Server:
    server = Server("counted")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fails() -> str:
        raise ToolError("no")

    @server.tool
    async def breaks() -> str:
        raise ProtocolError(-32050, "broken")

    @server.tool
    async def pid() -> int:
        return os.getpid()

    return server


async def get(port: int, request: bytes = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n") -> tuple[int, str]:
    """The status and the body of an answer of the admin port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head, _, body = (await asyncio.wait_for(reader.read(), DEADLINE)).partition(b"\r\n\r\n")
    writer.close()
    return (int(head.split()[1]) if head else 0), body.decode()


def value(text: str, sample: str) -> float | None:
    found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def served(script: Callable[[int, int], Awaitable[None]], server: Server, **options: Any) -> None:
    """Run `script` with the port of a server and its admin port."""

    async def main() -> None:
        port, admin = free_port(), free_port()
        serving = asyncio.create_task(server.run_async("http", port=port, admin_port=admin, **options))
        while True:
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
        try:
            await script(port, admin)
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    run(main())


def test_calls_are_counted_by_method_name_and_outcome() -> None:
    async def script(port: int, admin: int) -> None:
        async with Http(port) as client:
            await client.tool("add", a=1, b=2)
            await client.tool("add", a=1, b=2)
            await client.tool("fails")
            await client.request("tools/call", name="breaks")
            await client.request("tools/call", name="nobody")
            await client.request("tools/call", name="nothing")
            await client.result("tools/list")
        status, text = await get(admin)
        assert status == 200
        calls = 'redstart_calls_total{method="tools/call",name="%s",outcome="%s"}'
        assert value(text, calls % ("add", "ok")) == 2
        assert value(text, calls % ("fails", "tool_error")) == 1
        assert value(text, calls % ("breaks", "error")) == 1
        assert value(text, calls % ("_other", "error")) == 2  # names that do not exist are not labels
        assert value(text, 'redstart_calls_total{method="tools/list",outcome="ok"}') == 1
        durations = 'redstart_call_duration_seconds_%s{method="tools/call",name="add"%s}'
        assert value(text, durations % ("count", "")) == 2
        assert value(text, durations % ("bucket", ',le="+Inf"')) == 2
        assert 0 < (value(text, durations % ("sum", "")) or 0) < 10
        assert value(text, "redstart_calls_running") == 0
        assert value(text, "redstart_store_away") == 0

    served(script, counted())


def test_sessions_streams_and_running_calls_are_gauges() -> None:
    began, go = asyncio.Event(), asyncio.Event()
    server = counted()

    @server.tool
    async def waits() -> None:
        began.set()
        await go.wait()

    async def script(port: int, admin: int) -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp", protocol=NOVEMBER) as client:
            running = asyncio.create_task(client.call_tool("waits"))
            await began.wait()
            text = (await get(admin))[1]
            assert value(text, "redstart_calls_running") == 1
            assert value(text, "redstart_sessions") == 1
            go.set()
            await running
            assert value((await get(admin))[1], "redstart_calls_running") == 0

    served(script, server)


def test_open_streams_are_a_gauge() -> None:
    async def script(port: int, admin: int) -> None:
        assert value((await get(admin))[1], "redstart_streams") == 0
        body = modern(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        fields = {
            "host": "localhost",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "subscriptions/listen",
            "content-length": str(len(body)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        await reader.readuntil(b"acknowledged")
        assert value((await get(admin))[1], "redstart_streams") == 1
        writer.close()

    served(script, counted())


def test_a_parser_of_prometheus_reads_it() -> None:
    parser = pytest.importorskip("prometheus_client.parser")

    async def script(port: int, admin: int) -> None:
        async with Http(port) as client:
            await client.tool("add", a=1, b=2)
        families = {family.name: family for family in parser.text_string_to_metric_families((await get(admin))[1])}
        assert families["redstart_calls"].type == "counter"
        assert families["redstart_call_duration_seconds"].type == "histogram"
        assert families["redstart_sessions"].type == "gauge"

    served(script, counted())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nhost: localhost\r\norigin: https://evil.example\r\n\r\n", 403),
        (b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:9\r\n\r\n", 200),
        (b"nonsense\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nx: " + b"x" * 100_000 + b"\r\n\r\n", 0),
    ],
    ids=["host", "origin", "path", "method", "address", "nonsense", "long"],
)
def test_what_else_is_asked_there(request_: bytes, status: int) -> None:
    async def script(port: int, admin: int) -> None:
        try:
            found = (await get(admin, request_))[0]
        except ConnectionError:  # it was closed before all was read
            found = 0
        assert found == status

    served(script, counted())


def test_a_refusal_there_names_the_option_of_that_port() -> None:
    """The options that let clients come under another name do nothing here."""

    async def script(port: int, admin: int) -> None:
        status, text = await get(admin, b"GET /metrics HTTP/1.1\r\nhost: node.internal:9090\r\n\r\n")
        assert status == 421
        assert "--admin-host (admin_host=)" in text
        assert "public" not in text

    served(script, counted())


def test_the_clients_port_has_no_metrics() -> None:
    async def script(port: int, admin: int) -> None:
        request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        assert (await get(port, request))[0] == 404

    served(script, counted())


def test_a_server_whose_tools_change_has_a_bounded_number_of_series() -> None:
    server = Server("changes")
    metrics = CallMetrics(server.runtime.known_name)
    server.runtime.observe(metrics.begin)

    async def tool() -> int:
        return 1

    async def script(peer: Peer) -> None:
        for number in range(1100):
            server.tool(tool, name=f"tool{number}")
            await peer.tool(f"tool{number}")
            server.remove(f"tool{number}")

    play(server, script)
    names = [sample for sample in metrics.figures() if sample.startswith("redstart_calls_total")]
    assert len(names) == 1001
    assert metrics.figures()['redstart_calls_total{method="tools/call",name="_other",outcome="ok"}'] == 100


@pytest.mark.parametrize("inspected", [False, True])
def test_the_runs_of_tasks_are_counted_apart(inspected: bool) -> None:
    server = Server("jobs")

    @server.tool(task="optional")
    async def work() -> int:
        return 1

    hosted: Any = Host(server) if inspected else server
    metrics = CallMetrics(hosted.runtime.known_name)
    hosted.runtime.observe(metrics.begin)

    async def script() -> None:
        peer = await Peer(hosted, MODERN, capabilities=EXTENSION).open()
        await until(peer, (await started(peer, "work"))["taskId"])
        await peer.close()

    run(script(), hosted)
    figures = metrics.figures()
    assert figures['redstart_calls_total{method="tools/call",name="work",outcome="ok"}'] == 1
    assert figures['redstart_task_runs_total{name="work",outcome="ok"}'] == 1


def test_a_label_is_escaped() -> None:
    server = Server("quotes")
    metrics = CallMetrics(lambda call: 'a"b\\c')
    server.runtime.observe(metrics.begin)
    refused(server, MODERN, "tools/call", name="x")
    assert any('name="a\\"b\\\\c"' in sample for sample in metrics.figures())


# ---------------------------------------------------------------- several processes

APP = """
import os
from redstart import Server

server = Server("counted")

@server.tool
async def pid() -> int:
    return os.getpid()
"""
PIDS = 'redstart_calls_total{method="tools/call",name="pid",outcome="ok"}'


@pytest.mark.skipif(sys.platform == "win32", reason="--workers is for Linux and macOS")
def test_one_admin_port_has_the_sum_of_all_processes(tmp_path: Path) -> None:
    file = tmp_path / "counted.py"
    file.write_text(APP)
    port, admin = free_port(), free_port()
    options = ["--http", "--port", str(port), "--workers", "2", "--store", f"sqlite:///{tmp_path}/x.db"]
    command = [sys.executable, "-m", "redstart", "run", str(file), *options, "--admin-port", str(admin)]

    async def calls(count: int, workers: int) -> set[int]:
        """The processes that have answered so many calls, and more until so many of them are known."""
        seen: list[int] = []
        while len(seen) < count or len(set(seen)) < workers:
            async with Http(port) as client:
                seen.append((await client.tool("pid"))["structuredContent"]["result"])
        made.extend(seen)
        return set(seen)

    async def text() -> str:
        return (await get(admin))[1]

    made: list[int] = []
    with Child(command=command) as child:
        child.read_until(f"metrics are served at http://127.0.0.1:{admin}/metrics".encode(), "stderr")
        for _ in range(2):
            child.read_until(b"is served at", "stderr")
        before = run(calls(10, 2))
        assert value(run(text()), PIDS) == len(made)
        assert value(run(text()), "redstart_workers") == 2
        os.kill(min(before), signal.SIGKILL)
        child.read_until(b"ended with -9", "stderr")
        assert value(run(text()), PIDS) == len(made)  # what it has counted stays counted
        child.read_until(b"is served at", "stderr")
        run(calls(10, 2))
        assert value(run(text()), PIDS) == len(made)
        child.process.terminate()
        assert child.process.wait(DEADLINE) == 0
