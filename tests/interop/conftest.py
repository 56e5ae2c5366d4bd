"""Node packages for the tests that need them: installed once into `.node/`, by name, or the tests are skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import ROOT

SOURCE = ROOT / "tests" / "interop" / "node"


@pytest.fixture(scope="session")
def typescript() -> list[str]:
    """The command that runs the TypeScript client."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    folder = ROOT / ".node" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (SOURCE / "package.json").read_bytes()
    installed = folder / "installed.json"
    if not installed.exists() or installed.read_bytes() != wanted:
        (folder / "package.json").write_bytes(wanted)
        command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        installed.write_bytes(wanted)
    script = folder / "drive.mjs"
    script.write_bytes((SOURCE / "drive.mjs").read_bytes())
    return [node, str(Path(script))]
