"""A directory server while its files change, and what else changes on a running server."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adopt.folders import ADD, NOTE, REVIEW, text, write
from redstart import Client, Server
from redstart.adopt import watching
from support import ERAS, SECONDS, use


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
