"""A server, and somebody who attacks it: both are processes of their own, and both are ended here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

ROOT = Path(__file__).parents[2]
SERVER = Path(__file__).parent / "server.py"
MAX_BYTES = 300 * 1024 * 1024
DEADLINE = 30


class Attacker:
    struck = 0


@contextmanager
def serving(file: Path = SERVER) -> Iterator[tuple[subprocess.Popen[bytes], int, BinaryIO]]:
    """The server, its port, and the file that it writes its log to."""
    command = [sys.executable, str(file), "0"]
    with TemporaryFile() as noise:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=noise)
        try:
            yield process, _port(process, noise), noise
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE)
            finally:
                process.kill()


def read(noise: BinaryIO) -> bytes:
    """What was logged so far."""
    return os.pread(noise.fileno(), 1 << 20, 0)


def _port(process: subprocess.Popen[bytes], noise: BinaryIO) -> int:
    until = time.monotonic() + DEADLINE
    while (found := re.search(rb"served at http://127.0.0.1:(\d+)/", read(noise))) is None:
        assert process.poll() is None, read(noise)
        assert time.monotonic() < until
        time.sleep(0.02)  # there is no event for "somebody wrote to a file"
    return int(found[1])


@contextmanager
def attacked(name: str, port: int, seconds: float) -> Iterator[Attacker]:
    """Attack a server meanwhile; afterwards it is known how often."""
    command = [sys.executable, "-m", "tests.faults.attacks", name, str(port), str(seconds)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    attacker = Attacker()
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"  # the start of a process takes a core, and is not the attack
        yield attacker
        out, _ = process.communicate(timeout=DEADLINE)
        attacker.struck = int(out or b"0")
    finally:
        process.kill()
        process.wait(DEADLINE)


def peak(process: subprocess.Popen[bytes]) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024
