"""Under the ASGI servers of others, as real processes: a stop ends idle streams at once and lets calls finish."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import DEADLINE, HANDSHAKES, free_port, initialize, message
from transports.support import HERE, Child

APP = "hosted_server:app"
HOSTS: dict[str, Callable[[str], list[str]]] = {
    "uvicorn": lambda port: ["uvicorn", APP, "--port", port],
    "uvicorn, asyncio and h11": lambda port: ["uvicorn", APP, "--port", port, "--loop", "asyncio", "--http", "h11"],
    "uvicorn, FastAPI": lambda port: ["uvicorn", "--factory", "hosted_server:in_fastapi", "--port", port],
    "hypercorn": lambda port: ["hypercorn", APP, "--bind", f"127.0.0.1:{port}", "-w", "0", "--graceful-timeout", "20"],
    "granian": lambda port: ["granian", APP, "--interface", "asgi", "--port", port],
    "gunicorn": lambda port: ["gunicorn", APP, "--bind", f"127.0.0.1:{port}", "-k", "uvicorn.workers.UvicornWorker"],
}
NAMED = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@contextmanager
def all_ended(child: Child) -> Iterator[None]:
    """Workers live on when the process that has started them is killed: end its whole group."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


@contextmanager
def hosted(host: str, **env: str) -> Iterator[tuple[Child, str]]:
    """A server's process, when it accepts connections."""
    port = str(free_port())
    command = HOSTS[host](port)
    for package in (command[0], *(["fastapi"] if "FastAPI" in host else [])):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install --group interop")
    command = [sys.executable, "-m", *command]
    with Child(command=command, cwd=HERE, env=env, start_new_session=True) as child, all_ended(child):
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(port)), 1).close()
                break
            except OSError:
                assert child.process.poll() is None, child.rest("stderr")
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield child, port


class Caller:
    """Connections to a server, one for each request, closed at the end."""

    def __init__(self, port: str) -> None:
        self._port = int(port)
        self._open: list[http.client.HTTPConnection] = []
        self.session: dict[str, str] = {}

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *exc: object) -> None:
        for connection in self._open:
            connection.close()

    def send(self, method: str, body: bytes = b"", path: str = "/mcp") -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE)
        self._open.append(connection)
        connection.request(method, path, body or None, {**NAMED, **self.session})
        return connection

    def open_session(self) -> None:
        with self.send("POST", initialize()).getresponse() as response:
            assert response.status == 200, response.read()
            id = response.headers["mcp-session-id"]
        self.session = {"mcp-session-id": id, "mcp-protocol-version": HANDSHAKES[-1]}

    def start_call(self, child: Child, until: Path) -> http.client.HTTPConnection:
        call = message(7, "tools/call", {"name": "rest", "arguments": {"until": str(until)}})
        connection = self.send("POST", call)
        child.read_until(b"resting", "stderr")
        return connection


def answer(connection: http.client.HTTPConnection) -> str:
    """The last message of a response, plain or as events."""
    with connection.getresponse() as response:
        body = response.read().decode()
    lines = [line.removeprefix("data:").strip() for line in body.splitlines() if '"id":7' in line]
    found: str = json.dumps(json.loads(lines[-1]))
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_a_stop_ends_idle_streams_at_once_and_lets_calls_finish(host: str, tmp_path: Path) -> None:
    with hosted(host) as (child, port), Caller(port) as caller:
        caller.open_session()
        with caller.send("GET").getresponse() as stream:
            assert stream.status == 200
            calling = caller.start_call(child, tmp_path / "go")
            child.process.terminate()
            stream.read()  # it ends although the call goes on
        (tmp_path / "go").touch()
        assert "rested" in answer(calling)
        child.process.wait(DEADLINE)
        assert b"lifespan ends" in child.rest("stderr")


@pytest.mark.parametrize("host", HOSTS)
def test_a_call_that_is_not_done_at_the_deadline_is_told_so(host: str, tmp_path: Path) -> None:
    with hosted(host, DRAIN="0.5") as (child, port), Caller(port) as caller:
        caller.open_session()
        calling = caller.start_call(child, tmp_path / "never")
        child.process.terminate()
        assert "The server is stopping" in answer(calling)
        child.process.wait(DEADLINE)
        assert b"lifespan ends" in child.rest("stderr")


@pytest.mark.parametrize("host", [host for host in HOSTS if "FastAPI" not in host])
def test_probes_are_answered_without_a_session(host: str) -> None:
    with hosted(host) as (_, port), Caller(port) as caller:
        for path in ("/healthz", "/readyz"):
            with caller.send("GET", path=path).getresponse() as response:
                assert (response.status, json.loads(response.read())["ok"]) == (200, True)
