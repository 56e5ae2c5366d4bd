"""What several test packages share: servers as real processes on free loopback ports."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEADLINE = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(command: Sequence[str], port: int) -> Iterator[str]:
    """Run a server that listens on `port`; gives its URL once it answers, and ends it by its id."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
    try:
        await_port(process, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE)
        sys.stderr.write(errors.decode(errors="replace"))


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until somebody listens; a server that died says why."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}: {process.communicate()[1]!r}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)  # there is no event for "somebody listens now"
    raise AssertionError(f"nobody listens on port {port} after {DEADLINE} s")
