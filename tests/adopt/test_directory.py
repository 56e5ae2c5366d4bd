"""A directory as a server: what is found in it, what is wrong with it, and what changes while it is served."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from adopt.folders import ADD, NOTE, REVIEW, names, text, write
from redstart import Client, Server
from redstart.adopt.directory import find
from support import ERAS, use


@pytest.mark.requirement("109", "T110")
@pytest.mark.parametrize("era", ERAS)
def test_all_three_kinds_are_found_at_any_depth(era: str, tmp_path: Path) -> None:
    write(tmp_path, tools__add=ADD, tools__deep__er__hi=ADD.replace("add", "hi"), prompts__r=REVIEW, resources__n=NOTE)
    server = Server("found", directory=tmp_path)

    async def script(c: Client) -> None:
        assert sorted(entry.name for entry in await c.list_tools()) == ["add", "hi"]
        assert await text(c, "add", a=1) == "3"
        (listed,) = await c.list_prompts()
        assert listed.title == "Review"
        assert (await c.get_prompt("review", {"code": "x"})).messages[0].content.text == "Review x"
        assert [one.uri for one in await c.list_resources()] == ["notes://today"]
        assert (await c.read_resource("notes://b")).contents[0].text == "b"

    use(server, era, script)


@pytest.mark.requirement("110", "T110")
def test_every_component_of_every_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        tools__many=ADD
        + "from redstart import Parameter, Prompt, Tool, predicate\n"
        + "shout = Tool('shout', handler=lambda args: args['t'].upper(), parameters=[Parameter('t')])\n"
        + "same = shout\n"
        + "ask = Prompt('ask', messages='Ask.')\n"
        + "@predicate(mode='yes')\ndef yes() -> bool: return True\n"
        + "def helper() -> int: return 1\n",
    )
    server = Server("many", directory=str(tmp_path))
    assert names(server) == ["add", "shout", "yes"]
    assert [one.name for one in server.prompts] == ["ask"]


@pytest.mark.requirement("T110")
def test_a_broken_file_is_reported_and_the_others_load(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(
        tmp_path,
        tools__a_syntax="x = 1\ndef broken(:\n",
        tools__b_raises="import math\n\nmath.sqrt(-1)\n",
        tools__c_exits="raise SystemExit(3)\n",
        tools__d_import="import no_such_module_anywhere\n",
        tools__e_half=ADD + "@tool\ndef bad(**options: int) -> int: return 1\n",
        tools__f_good=ADD.replace("add", "good"),
    )
    server = Server("broken", directory=tmp_path)
    assert names(server) == ["add", "good"]
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    expected = [
        ("a_syntax.py:2: SyntaxError", "it is skipped"),
        ("b_raises.py:3: ValueError: math domain error", "it is skipped"),
        ("c_exits.py:1: SystemExit: 3", "it is skipped"),
        ("d_import.py:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'", "it is skipped"),
        ("'bad' at", "**options has no place"),
    ]
    assert len(told) == len(expected)
    for message, (start, end) in zip(told, expected, strict=True):
        assert start in message
        assert end in message


@pytest.mark.requirement("T110")
def test_a_file_without_a_component_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, tools__empty="def add(a: int) -> int: return a\n", tools___helper="x = 1\n")
    assert names(Server("empty", directory=tmp_path)) == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "empty.py has nothing to serve" in record.getMessage()


@pytest.mark.requirement("T110")
@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_or_missing_directory_is_no_error(
    exists: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "my_server"
    if exists:
        root.mkdir()
    assert names(Server("nothing", directory=root)) == []
    assert f"{root} has no folder tools, prompts or resources yet" in caplog.text


def test_modules_are_isolated(tmp_path: Path) -> None:
    for number in (1, 2):
        write(
            tmp_path / f"s{number}",
            tools__json=f"from redstart import tool\nfrom ._shared import VALUE\n@tool\ndef it() -> int: return VALUE\n"
            f"from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: 'int' = {number}\n",
            tools___shared=f"VALUE = {number}\n",
        )
    import json

    servers = [Server(f"s{number}", directory=tmp_path / f"s{number}") for number in (1, 2)]
    assert sys.modules["json"] is json
    values = [server.tools["it"].handler() for server in servers]
    assert values == [1, 2]
    assert "_shared" not in sys.modules


def test_what_is_imported_from_another_file_is_served_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(
        tmp_path,
        tools__a="from .z import add, shout\nfrom redstart import tool\n@tool\ndef own() -> int: return add(1)\n",
        tools__z=ADD + "from redstart import Tool\ndef _up(t: str) -> str: return t.upper()\n"
        "shout = Tool('shout', handler=_up)\n",
    )
    assert names(Server("shared", directory=tmp_path)) == ["own", "add", "shout"]
    assert caplog.text == ""


def test_one_name_in_two_files_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, tools__a=ADD, tools__b=ADD.replace("a + b", "a - b"))
    server = Server("twice", directory=tmp_path)
    assert server.tools["add"].handler(5) == 3
    (record,) = caplog.records
    assert "a.py:4" in record.getMessage()
    assert "b.py:4" in record.getMessage()


def test_where_a_relative_path_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside" / "my_server").mkdir(parents=True)
    (tmp_path / "here" / "my_server").mkdir(parents=True)
    (tmp_path / "here" / "other").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    caller = str(tmp_path / "beside" / "server.py")
    assert find("my_server", caller) == tmp_path / "beside" / "my_server"
    assert find("other", caller) == tmp_path / "here" / "other"
    assert find("my_server", None) == tmp_path / "here" / "my_server"
    write(Path("my_server"), tools__add=ADD)
    assert names(Server("relative", directory="my_server")) == ["add"]
