"""docs/command-line.md: its reference is that of the program, and its examples print what it says."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

TEXT = (ROOT / "docs" / "command-line.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(*part.partition("\n")[::2], id=part.partition("\n")[0])
    for block in BLOCKS
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
]


def test_the_reference_is_current() -> None:
    spec = importlib.util.spec_from_file_location("command_line", ROOT / "scripts" / "command_line.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.page() == TEXT, "run: python scripts/command_line.py"


def test_every_variable_is_in_the_table() -> None:
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    used = set(re.findall(r"environ(?:\.get\(|\[)\"(REDSTART_\w+)", code)) | {"REDSTART_KEYS", "REDSTART_KEY_FILE"}
    internal = {name for name in used if "LISTENER" in name or "_FD" in name}
    assert {name for name in used - internal if name not in TEXT} == set()


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_an_example_prints_what_the_page_says(command: str, shown: str, tmp_path: Path) -> None:
    server = re.search(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert server is not None
    (tmp_path / "server.py").write_text(server[1])
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REDSTART_", "PYTHON"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=tmp_path,
        env={**clean, "PATH": path, "PYTHONUNBUFFERED": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        if " run " in command:  # it serves until it is told to stop
            heard = process.stdout.readline()
            os.killpg(process.pid, signal.SIGTERM)
        else:
            heard = process.communicate(timeout=50)[0]
    finally:
        process.stdout.close()
        process.wait(20)
    wanted = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", shown.rstrip("\n")))
    assert re.fullmatch(wanted, heard.rstrip("\n")), heard
