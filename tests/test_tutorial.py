"""The tutorial is followed to the letter: its files are written, its commands run, and they print what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r'^```(python title="(?P<file>[\w.]+)"|console)\n(?P<body>.*?)^```', re.MULTILINE | re.DOTALL)
SERVES = (" dev ", " --http ")


class Step(NamedTuple):
    """A file to write, or a command and what it prints."""

    file: str
    text: str
    prints: str


def steps() -> Iterator[Step]:
    for block in BLOCK.finditer(PAGE.read_text()):
        if block["file"]:
            yield Step(block["file"], block["body"], "")
            continue
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, _, prints = part.partition("\n")
            yield Step("", command, prints)


def pattern(prints: str) -> str:
    """What is printed, where … stands for anything."""
    return ".*?".join(re.escape(part) for part in prints.strip().split("…"))


class Follower:
    """A folder in which the steps are done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serving: list[subprocess.Popen[str]] = []
        binaries = str(Path(sys.executable).parent)
        self.environment = {
            "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
            "HOME": str(folder / "home"),
            "NO_COLOR": "1",
            "COLUMNS": "80",
            "PYTEST_ADDOPTS": "-p no:asyncio",  # whose warnings are not ours
        }

    def do(self, step: Step) -> None:
        if step.file:
            (self.folder / step.file).write_text(step.text)
        elif any(word in f"{step.text} " for word in SERVES) and "http://" not in step.text:
            self._serve(step)
        else:
            self._run(step)

    def _run(self, step: Step) -> None:
        done = subprocess.run(
            shlex.split(step.text),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=50,
        )
        said = "\n".join(line for line in done.stdout.splitlines() if not re.match(r"\w+ [\d.]+, protocol ", line))
        assert re.fullmatch(pattern(step.prints), said.strip(), re.DOTALL), f"$ {step.text}\n{done.stdout}"

    def _serve(self, step: Step) -> None:
        """Start a server that goes on, and wait until it has said what the page says."""
        log = self.folder / f"log{len(self.serving)}"
        with log.open("w") as output:
            process = subprocess.Popen(
                shlex.split(step.text), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        self.serving.append(process)
        deadline = time.monotonic() + 40
        while not re.search(pattern(step.prints), log.read_text(), re.DOTALL):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)  # another process writes the file: there is no event for it

    def end(self) -> None:
        for process in self.serving:
            process.terminate()
        for process in self.serving:
            process.wait(30)


@pytest.mark.timeout(180)
def test_every_command_prints_what_the_tutorial_says(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    try:
        for step in steps():
            follower.do(step)
    finally:
        follower.end()
    assert len(list(steps())) > 15
