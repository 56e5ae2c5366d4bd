"""What several test packages share: servers as real processes on free loopback ports."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DEADLINE = 20.0


_held: list[socket.socket] = []


def free_port() -> int:
    """A port for a server of this test run alone, also between the end of one server and the start of the next.

    On Linux a socket that is bound but does not listen keeps others from getting the same number, as a port or as the
    near end of a connection, and lets a server have it that sets SO_REUSEADDR, as all do. It is held until the end.
    """
    probe = socket.socket()
    if sys.platform == "linux":
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port: int = probe.getsockname()[1]
    if sys.platform == "linux":
        _held.append(probe)
    else:
        probe.close()
    return port


@atexit.register
def _let_go() -> None:
    for probe in _held:
        probe.close()


def launch(command: Sequence[str], port: int, **options: Any) -> subprocess.Popen[bytes]:
    """Start a server and wait until it listens. It writes to our stderr: pytest shows that, and no pipe fills up."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        await_port(process, port)
    except BaseException:
        process.kill()
        process.wait(DEADLINE)
        raise
    return process


@contextmanager
def serving(command: Sequence[str], port: int) -> Iterator[str]:
    """Run a server that listens on `port`; gives its URL once it answers, and ends it by its id."""
    process = launch(command, port, cwd=ROOT)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(DEADLINE)


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until somebody listens; a server that died has said why on stderr."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)  # there is no event for "somebody listens now"
    raise AssertionError(f"nobody listens on port {port} after {DEADLINE} s")


def node_packages(name: str, source: Path) -> tuple[str, Path]:
    """Node's own path, and the folder in which the packages of `source/package.json` are installed, once per pin."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    folder = ROOT / ".node" / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (source / "package.json").read_bytes()
    installed = folder / "installed.json"
    if not installed.exists() or installed.read_bytes() != wanted:
        (folder / "package.json").write_bytes(wanted)
        command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        installed.write_bytes(wanted)
    return node, folder
