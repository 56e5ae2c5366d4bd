"""The jobs example: its server is killed in the middle and started again, and its client is the one of its page."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import DEADLINE, ROOT, free_port, launch

JOBS = ROOT / "examples" / "jobs"


class Place:
    """A folder with the tasks, a port, and the server on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "redstart", "run", str(JOBS / "server.py"), "--http", "--port", str(self.port)]
        self.process = launch(command, self.port, cwd=self.folder, env=os.environ | {"SECONDS_PER_PHOTO": "0.05"})

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)

    def client(self, *words: str) -> str:
        environment = os.environ | {"JOBS_URL": f"http://127.0.0.1:{self.port}/mcp"}
        command = [sys.executable, str(JOBS / "try.py"), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True).stdout

    def begin(self, *words: str) -> str:
        return self.client("start", *words).split()[0]

    def until(self, task: str, text: str) -> str:
        """What the client shows of a task, once this stands in it."""
        deadline = time.monotonic() + DEADLINE
        while text not in (shown := self.client("show", task)):
            assert time.monotonic() < deadline, shown
        return shown


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    here = Place(tmp_path)
    yield here
    here.kill()


def test_an_album_survives_its_server(place: Place) -> None:
    task = place.begin("make_album", "photos=40")
    place.until(task, "of 40 photos are developed")
    place.kill()
    place.start()
    shown = place.until(task, "input_required")
    assert "20 of 40 photos are developed" in shown
    assert "What is the title of the album?" in shown
    place.kill()  # nobody works on it: it only waits
    place.start()
    place.client("answer", task, "Summer")
    assert "Summer: 40 photos, attempt 2" in place.until(task, "completed")


def test_a_task_is_cancelled(place: Place) -> None:
    task = place.begin("print_album", "copies=100000")
    place.until(task, "copies are printed")
    assert "cancelled" in place.client("cancel", task)


@pytest.mark.slow("it waits for the lease of a worker; the album is the quick one")
def test_paper_is_not_printed_twice(place: Place) -> None:
    task = place.begin("print_album", "copies=100000")
    place.until(task, "copies are printed")
    place.kill()
    place.start()
    assert "The worker was lost." in place.until(task, "failed")
