"""Every code block of the README and the docs runs, and so does every example in a docstring."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import redstart
from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(page, block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()), 1)
]
NAMES = sorted(module.name for module in pkgutil.walk_packages(redstart.__path__, "redstart."))
MODULES = [name for name in NAMES if not name.endswith("__main__")]  # running those is what they do


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_block(page: Path, block: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(block)
    # An empty stdin: a block that ends in server.run() serves until the end of its input.
    done = subprocess.run(
        [sys.executable, "-W", "error", script], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
