"""A directory as a server: what is found in it, what is wrong with it, and what changes while it is served."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, Server
from redstart.server import watching
from redstart.server.directory import find

ERAS = ("2025-11-25", "2026-07-28")
SECONDS = 30

ADD = '''
from redstart import tool

@tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b
'''
REVIEW = """
from redstart import prompt

@prompt(title="Review")
def review(code: str) -> str:
    return f"Review {code}"
"""
NOTE = """
from redstart import resource

@resource("notes://today")
def today() -> str:
    return "Rain"

@resource("notes://{name}")
def note(name: str) -> str:
    return name
"""


def write(root: Path, **files: str) -> None:
    """Write files; `tools__add` is `tools/add.py`."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(server: Server) -> list[str]:
    return [one.name for one in server.tools]


def use(server: Server, era: str, script: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(SECONDS), Client(server, protocol=era) as c:
            try:
                return await script(c)
            finally:
                await server.host.stop()

    return asyncio.run(main())


async def text(c: Client, name: str, **arguments: Any) -> str:
    return (await c.call_tool(name, arguments)).text


# ---------------------------------------------------------------- finding


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
    values = [server.tools.items["it"].handler() for server in servers]
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
    assert server.tools.items["add"].handler(5) == 3
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


# ---------------------------------------------------------------- changing


@pytest.fixture(params=["watchfiles", "poll"])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without watchfiles."""
    if request.param == "poll":
        monkeypatch.setitem(sys.modules, "watchfiles", None)
        monkeypatch.setattr(watching, "POLL", 0.02)
    else:
        pytest.importorskip("watchfiles")
    how: str = request.param
    return how


async def next_list(c: Client, events: Any, done: Callable[[list[str]], bool]) -> list[str]:
    """The names of the tools when a change has made `done` true; every look waits for a notification."""
    while True:
        event = await anext(events)
        assert event.kind in ("tools", "prompts", "resources")
        found = [entry.name for entry in await c.list_tools()]
        if done(found):
            return found


@pytest.mark.requirement("108", "T110")
@pytest.mark.parametrize("era", ERAS)
def test_adding_changing_and_removing_reaches_clients(era: str, tmp_path: Path, watched: str) -> None:
    write(tmp_path, tools__add=ADD, tools__stay=ADD.replace("add", "stay"))
    server = Server("live", directory=tmp_path)

    async def script(c: Client) -> None:
        async with c.listen(tools=True) as events:
            write(tmp_path, tools__new=ADD.replace("def add", "def new"))
            assert await next_list(c, events, lambda found: "new" in found) == ["add", "stay", "new"]
            write(tmp_path, tools__add=ADD.replace("a + b", "a * b * 100"))
            await anext(events)
            assert await text(c, "add", a=3) == "600"
            assert [entry.name for entry in await c.list_tools()] == ["add", "stay", "new"]
            (tmp_path / "tools" / "add.py").unlink()
            assert await next_list(c, events, lambda found: "add" not in found) == ["stay", "new"]
            assert await text(c, "new", a=1) == "3"

    use(server, era, script)


@pytest.mark.requirement("T110")
@pytest.mark.parametrize("era", ERAS)
def test_prompts_and_resources_come_too(era: str, tmp_path: Path, watched: str) -> None:
    """Even where there was no such folder, and no folder at all, when the client came."""
    server = Server("late", directory=tmp_path / "later")

    async def script(c: Client) -> None:
        assert {"tools", "prompts", "resources"} <= set(c.server_capabilities)
        async with c.listen(prompts=True, resources=True) as events:
            write(tmp_path / "later", prompts__r=REVIEW)
            assert (await anext(events)).kind == "prompts"
            assert [one.name for one in await c.list_prompts()] == ["review"]
            write(tmp_path / "later", resources__n=NOTE)
            assert (await anext(events)).kind == "resources"
            assert [one.name for one in await c.list_resource_templates()] == ["note"]

    use(server, era, script)


def test_a_change_that_breaks_a_file_leaves_the_last_good_version(
    tmp_path: Path, watched: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, tools__add=ADD, tools__emptied=ADD.replace("add", "emptied"))
    server = Server("kept", directory=tmp_path)

    async def script(c: Client) -> None:
        async with c.listen(tools=True) as events:
            write(tmp_path, tools__add="def add(:\n", tools__emptied="", tools__mark=ADD.replace("add", "mark"))
            await next_list(c, events, lambda found: "mark" in found)
            assert await text(c, "add", a=1) == "3"
            assert await text(c, "emptied", a=1) == "3"
            write(tmp_path, tools__add=ADD.replace("a + b", "a - b"))
            await anext(events)
            assert await text(c, "add", a=1) == "-1"

    use(server, ERAS[1], script)
    assert "add.py:1: SyntaxError" in caplog.text
    assert "its last good version is still served" in caplog.text


def test_a_helper_that_changes_reloads_those_that_use_it(tmp_path: Path, watched: str) -> None:
    using = "from redstart import tool\nfrom ._value import VALUE\n@tool\ndef it() -> int: return VALUE\n"
    write(tmp_path, tools__it=using, tools___value="VALUE = 1\n")
    server = Server("helped", directory=tmp_path)

    async def script(c: Client) -> None:
        assert await text(c, "it") == "1"
        async with c.listen(tools=True) as events:
            write(tmp_path, tools___value="VALUE = 2\n")  # as long, and in the same second
            await anext(events)
            assert await text(c, "it") == "2"

    use(server, ERAS[1], script)


def test_the_first_of_two_files_serves_again_when_the_second_goes(tmp_path: Path, watched: str) -> None:
    write(tmp_path, tools__a=ADD, tools__b=ADD.replace("a + b", "a - b"))
    server = Server("twice", directory=tmp_path)

    async def script(c: Client) -> None:
        async with c.listen(tools=True) as events:
            assert await text(c, "add", a=5) == "3"
            (tmp_path / "tools" / "b.py").unlink()
            await anext(events)
            assert await text(c, "add", a=5) == "7"

    use(server, ERAS[1], script)


def test_a_folder_that_is_replaced_is_still_watched(tmp_path: Path, watched: str) -> None:
    write(tmp_path, tools__add=ADD)
    server = Server("moved", directory=tmp_path)

    async def script(c: Client) -> None:
        async with c.listen(tools=True) as events:
            (tmp_path / "tools").rename(tmp_path / "old")
            await next_list(c, events, lambda found: found == [])
            write(tmp_path, tools__one=ADD.replace("add", "one"))
            await next_list(c, events, lambda found: found == ["one"])
            write(tmp_path, tools__two=ADD.replace("add", "two"))
            await next_list(c, events, lambda found: found == ["one", "two"])

    use(server, ERAS[1], script)


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "redstart-watching"]


def test_the_watch_lives_as_long_as_the_host(tmp_path: Path, watched: str) -> None:
    write(tmp_path, tools__add=ADD)
    for other in watchers():
        other.join(SECONDS)
    server, plain = Server("watched", directory=tmp_path), Server("plain")

    async def script(c: Client) -> int:
        await c.list_tools()
        return len(watchers())

    assert use(plain, ERAS[1], script) == 0
    for _ in range(2):  # a host that was stopped can start again
        assert use(server, ERAS[1], script) == 1
        for thread in watchers():
            thread.join(SECONDS)
            assert not thread.is_alive()


@pytest.mark.requirement("107", "108", "T39")
@pytest.mark.parametrize("era", ERAS)
def test_register_and_remove_while_running(era: str) -> None:
    def one() -> int:
        return 1

    def other() -> int:
        return 2

    server = Server("running", tools=[one])

    async def script(c: Client) -> None:
        async with c.listen(tools=True) as events:
            server.register(other)
            assert (await anext(events)).kind == "tools"
            assert [entry.name for entry in await c.list_tools()] == ["one", "other"]
            server.remove(one)
            assert (await anext(events)).kind == "tools"
            assert [entry.name for entry in await c.list_tools()] == ["other"]

    use(server, era, script)


@pytest.mark.parametrize("era", ERAS)
def test_a_change_while_another_is_about_to_be_told_is_told_too(era: str) -> None:
    server = Server("busy", capabilities=["prompts"])

    async def script(c: Client) -> None:
        async with c.listen(tools=True, prompts=True) as events:
            server.prompt(lambda_named("ask", 1))
            # Between the note of the first change and its telling.
            asyncio.get_running_loop().call_soon(server.register, lambda_named("add", 1))
            assert {(await anext(events)).kind, (await anext(events)).kind} == {"tools", "prompts"}

    use(server, era, script)


@pytest.mark.requirement("T39")
def test_replacing_is_no_duplicate(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("strict", on_duplicate="error")
    server.register(lambda_named("add", 1))
    server.register(lambda_named("add", 2), replace=True)
    assert [one.handler() for one in server.tools] == [2]
    assert caplog.text == ""


def lambda_named(name: str, value: int) -> Callable[[], int]:
    def fn() -> int:
        return value

    fn.__name__ = name
    return fn
