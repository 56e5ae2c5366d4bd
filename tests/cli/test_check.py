"""`redstart check`: anybody's server, seen by clients of every revision."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from redstart import ProtocolError, Server
from redstart.cli import main
from redstart.testing.suite import problems
from support import ROOT


@pytest.mark.requirement("13")
def test_a_good_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "examples" / "birds" / "server.py")]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing wrong" in said.err


@pytest.mark.requirement("13")
def test_what_is_wrong_is_said_for_each_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
from redstart import Server, ToolResult
server = Server("odd")

@server.add_middleware
async def yes(call, next):
    return ToolResult(content=[]) if call.method.name == "tools/call" else await next(call)
"""
    (tmp_path / "odd.py").write_text(source)
    assert main(["check", str(tmp_path / "odd.py")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[-1] == "2026-07-28: tools/call of something that does not exist succeeds"
    assert main(["check", str(tmp_path / "none.py")]) == 2


@pytest.mark.requirement("13")
def test_a_server_that_fails_to_list_is_reported_and_the_others_go_on() -> None:
    server = Server("broken")

    @server.add_middleware
    async def broken(call: Any, next: Any) -> Any:
        if call.method.name == "tools/list" and not call.dialect.modern:
            raise ProtocolError(-32603, "the list is broken")
        return await next(call)

    found = asyncio.run(problems(server))
    assert len(found) == 4
    assert all("the list is broken" in problem for problem in found)
