"""The npm package @modelcontextprotocol/client, both eras, both transports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from support import ROOT, free_port, serving

SERVER = str(ROOT / "tests" / "interop" / "server.py")
EXPECTED = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("transport", "mode"),
    [
        ("stdio", "legacy"),
        ("http", "2026-07-28"),
        *(
            pytest.param(*case, marks=pytest.mark.slow("each starts Node and a server; two show both"))
            for case in [("stdio", "auto"), ("stdio", "2026-07-28"), ("http", "legacy"), ("http", "auto")]
        ),
    ],
)
def test_typescript_client(mode: str, transport: str, typescript: list[str]) -> None:
    if transport == "stdio":
        seen = _drive([*typescript, mode, "stdio", sys.executable, SERVER])
    else:
        port = free_port()
        with serving([sys.executable, SERVER, str(port)], port) as url:
            seen = _drive([*typescript, mode, "http", url])
    assert seen["version"] == EXPECTED[mode]
    assert seen["server"] == {"name": "twelve", "version": "1.2.3"}
    assert seen["tools"] == ["add"]
    assert seen["good"]["content"] == [{"type": "text", "text": "42"}]
    assert seen["good"]["structuredContent"] == {"result": 42}
    assert seen["bad"]["isError"] is True


def _drive(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
