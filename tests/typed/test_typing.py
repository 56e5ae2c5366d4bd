"""The types of the public API, as the checkers see them that people use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT, node_packages

SAMPLES = Path(__file__).parent / "samples"
Found = set[tuple[str, int]]


def mypy() -> tuple[Found, str]:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run([*command, *map(str, SAMPLES.glob("*.py"))], cwd=ROOT, capture_output=True, timeout=300)
    text = done.stdout.decode()
    assert done.returncode in (0, 1), text + done.stderr.decode()
    found = re.findall(r"^(\S+?):(\d+): error", text, re.M)
    return {(Path(file).name, int(line)) for file, line in found}, text


def pyright() -> tuple[Found, str]:
    node, folder = node_packages("typed", SAMPLES.parent)
    program = folder / "node_modules" / "pyright" / "index.js"
    command = [node, str(program), "--outputjson", "--pythonpath", sys.executable, *map(str, SAMPLES.glob("*.py"))]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300)
    text = done.stdout.decode()
    assert done.returncode in (0, 1), text + done.stderr.decode()
    errors = [item for item in json.loads(text)["generalDiagnostics"] if item["severity"] == "error"]
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in errors}, text


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "checker", [mypy, pytest.param(pyright, marks=pytest.mark.slow("npm installs it, and it reads everything anew"))]
)
def test_checkers_know_the_types_and_find_the_mistakes(checker: object) -> None:
    assert callable(checker)
    found, text = checker()
    lines = (SAMPLES / "wrong.py").read_text().splitlines()
    expected = {("wrong.py", number) for number, line in enumerate(lines, 1) if line.endswith("# WRONG")}
    assert found == expected, text
