"""Every code block of the README and the docs runs, and so does every example in a docstring."""

from __future__ import annotations

import configparser
import doctest
import http.client
import importlib
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

import redstart
from redstart.cli import parsers
from support import ROOT, free_port, serving
from warm import command

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIRST = Path(__file__).with_name("docs_first.py")  # what nearly every block imports
BLOCKS = [
    pytest.param(page, block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()), 1)
]
NAMES = sorted(module.name for module in pkgutil.walk_packages(redstart.__path__, "redstart."))
MODULES = [name for name in NAMES if not name.endswith("__main__")]  # running those is what they do


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_block(page: Path, block: str, tmp_path: Path) -> None:
    for host in ("fastapi", "starlette", "django", "celery", "opentelemetry.sdk"):  # some environments lack them
        if re.search(rf"^(from|import) {host}\b", block, re.MULTILINE) and find_spec(host) is None:
            pytest.skip(f"{host} is not installed")
    script = tmp_path / "block.py"
    script.write_text(block)
    # An empty stdin: a block that ends in server.run() serves until the end of its input.
    start = command(script, after=FIRST, flags=("-W", "error"))
    done = subprocess.run(start, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_the_curl_command_of_the_readme() -> None:
    """Its words are sent by Python, so that curl need not be there; then the answer that is described below it."""
    text = (ROOT / "README.md").read_text()
    command = re.search(r"^\$ (curl .*?^    .*?'\n)\{", text, re.MULTILINE | re.DOTALL)
    response = re.search(r'`"inputResponses": (\{.*?\})` beside', text)
    assert command
    assert response
    words = shlex.split(command[1].replace("\\\n", " "))
    headers = dict(word.split(": ", 1) for flag, word in pairwise(words) if flag == "-H")
    request = json.loads(words[words.index("-d") + 1])
    port = free_port()
    serve = [sys.executable, "-m", "redstart", "run", "examples/birds/server.py", "--http", "--port", str(port)]

    def post() -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("POST", "/mcp", json.dumps(request), headers)
        result: dict[str, Any] = json.loads(connection.getresponse().read())["result"]
        connection.close()
        return result

    with serving(serve, port):
        first = post()
        assert list(first["inputRequests"]) == ["bill"]
        request["params"] |= {"requestState": first["requestState"], "inputResponses": json.loads(response[1])}
        second = post()
    assert second["resultType"] == "input_required"
    assert "bill" not in second["inputRequests"]


COMMANDS = [
    pytest.param(command, words, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, (command, words) in enumerate(re.findall(r"redstart (run|worker) (.*)", page.read_text()))
    if "…" not in words and "`" not in words
]


@pytest.mark.parametrize(("command", "words"), COMMANDS)
def test_the_options_of_a_command_exist(command: str, words: str) -> None:
    parser = parsers(command)[1][command]
    parser.parse_args(shlex.split(words.partition(" -- ")[0], comments=True))


def test_the_compose_file_and_the_unit() -> None:
    text = (ROOT / "docs" / "tasks.md").read_text()
    compose = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1])  # type: ignore[index]
    assert compose["services"]["worker"]["environment"] == compose["services"]["server"]["environment"]
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(re.search(r"^```ini\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1])  # type: ignore[index]
    assert unit["Service"]["KillMode"] == "mixed"


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
