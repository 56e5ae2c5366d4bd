"""`redstart install` prints what a client needs, and what it prints starts the server from anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart.cli import main
from support import initialize
from transports.support import Child

SOURCE = """
from redstart import Server
print("noise")
server = Server("hats")
"""


def installed(where: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "redstart", "install", *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, timeout=20, check=True)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def served_name(entry: dict[str, Any]) -> str:
    """The name of the server that an entry starts, from a folder that has nothing to do with it."""
    with Child(command=[entry["command"], *entry["args"]], env=entry.get("env", {}), cwd="/") as child:
        name: str = child.ask(initialize())["result"]["serverInfo"]["name"]
        return name


@pytest.mark.requirement("10", "11")
@pytest.mark.parametrize("client", ["claude", "cursor", "vscode"])
@pytest.mark.parametrize("suffix", ["", ":server"])
def test_what_is_printed_starts_the_server(tmp_path: Path, client: str, suffix: str) -> None:
    (tmp_path / "shop.py").write_text(SOURCE)
    printed = installed(tmp_path, f"shop.py{suffix}", "--client", client, "--env", "CITY=Oslo", "--env", "A=b=c")
    (entry,) = printed["servers" if client == "vscode" else "mcpServers"].values()
    assert entry["env"] == {"CITY": "Oslo", "A": "b=c"}
    assert served_name(entry) == "hats"


@pytest.mark.requirement("10", "11")
def test_a_module_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "boutique.py").write_text(SOURCE)
    assert served_name(installed(tmp_path, "boutique", "--name", "mine")["mcpServers"]["mine"]) == "hats"


@pytest.mark.parametrize("arguments", [["none.py"], ["none.py", "--env", "CITY"]])
def test_what_cannot_be_installed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", *arguments]) == 2
    assert capsys.readouterr().out == ""
