"""Real servers for the client's tests: the SDK's, started once per kind, on free loopback ports."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from client.support import peer as command
from redstart.client.negotiate import forget_eras


@pytest.fixture(autouse=True)
def no_known_servers() -> None:
    """Each test meets its servers for the first time, as a new process does."""
    forget_eras()


@pytest.fixture(scope="session")
def start_http() -> Iterator[Callable[..., str]]:
    """Start `peers/<peer>_server.py http …`, once for each set of options, and say where it listens."""
    started: dict[tuple[str, ...], tuple[subprocess.Popen[str], str]] = {}

    def start(*options: str, peer: str = "mcp") -> str:
        key = (peer, *options)
        if key not in started:
            process = subprocess.Popen(command(peer, "http", *options), stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            port = int(process.stdout.readline())
            started[key] = process, f"http://127.0.0.1:{port}/{'sse' if 'sse' in options else 'mcp'}"
        return started[key][1]

    yield start
    for process, _ in started.values():
        process.terminate()
    for process, _ in started.values():
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
