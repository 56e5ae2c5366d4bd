"""Reloading with real clients: files change on disk, clients of both eras stay connected and hear of it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from inspector.development import SERVER, developing, rewrite
from redstart import Client
from redstart.inspector.modules import Project
from support import ERAS, run

SECOND = SERVER.replace("def add(", "def plus(")


def said(result: Any) -> str:
    content: str = result.content[0].text
    return content


@pytest.mark.parametrize("era", ERAS)
def test_an_http_client_stays_connected_and_hears_of_the_change(tmp_path: Path, era: str) -> None:
    async def main() -> None:
        async with developing(tmp_path) as dev, Client(dev.url, protocol=era) as client:
            assert (await client.call_tool("add", {"a": 1})).data == 3
            async with client.listen(tools=True) as changes:
                rewrite(tmp_path / "server.py", SECOND)
                async with asyncio.timeout(20):
                    assert (await anext(aiter(changes))).kind == "tools"
                assert [tool.name for tool in await client.list_tools()] == ["plus"]
                assert (await client.call_tool("plus", {"a": 2})).data == 4
            event = await dev.event("reload")
            assert (event["tools"]["added"], event["tools"]["removed"], event["error"]) == (["plus"], ["add"], None)
            assert event["files"] == ["server.py"]
            await dev.line(r"reloaded +server\.py.*\+tool plus, -tool add")

    run(main())


@pytest.mark.parametrize("era", ERAS)
def test_a_stdio_client_stays_connected_and_hears_of_the_change(tmp_path: Path, era: str) -> None:
    async def main() -> None:
        (tmp_path / "server.py").write_text(SERVER + "\nprint('this is not a message')\nserver.run()\n")
        command = [sys.executable, "-m", "redstart", "dev", "server.py", "--stdio", "--no-open", "--port", "0"]
        async with Client(command, protocol=era, cwd=tmp_path, stderr="capture") as client:
            assert (await client.call_tool("add", {"a": 1})).data == 3
            async with client.listen(tools=True) as changes:
                rewrite(tmp_path / "server.py", SECOND)
                async with asyncio.timeout(20):
                    assert (await anext(aiter(changes))).kind == "tools"
                assert (await client.call_tool("plus", {"a": 2})).data == 4

    run(main())


def test_a_file_that_is_gone_or_serves_nothing_is_told_without_our_frames(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path) as dev, Client(dev.url) as client:
            (tmp_path / "server.py").unlink()
            gone = await dev.event("reload")
            assert gone["error"]["text"].startswith(f"there is no file {tmp_path / 'server.py'}")
            assert (gone["error"]["frames"], gone["error"]["place"]) == ([], None)
            assert gone["error"]["traceback"] == gone["error"]["text"]
            rewrite(tmp_path / "server.py", "x = 1\n")
            empty = await dev.event("reload", since=gone["seq"])
            assert "server.py has no Server, and no public function that can be served" in empty["error"]["text"]
            assert empty["error"]["frames"] == []
            assert (await client.call_tool("add", {"a": 1})).data == 3
            rewrite(tmp_path / "server.py", SECOND)
            assert (await dev.event("reload", since=empty["seq"]))["error"] is None

    run(main())


def test_an_import_error_keeps_the_old_tools_and_shows_the_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path) as dev, Client(dev.url) as client:
            rewrite(tmp_path / "server.py", SECOND + "\nprint(undefined_name)\n")
            broken = await dev.event("reload")
            place = {"file": str(tmp_path / "server.py"), "line": 11, "shown": "server.py:11"}
            assert (broken["error"]["type"], broken["error"]["place"]) == ("NameError", place)
            assert broken["error"]["frames"][-1]["source"] == "print(undefined_name)"
            assert broken["error"]["frames"][-1]["own"] is True
            assert broken["error"]["frames"][-1]["function"] == "<module>"
            await dev.line(r"not reloaded +server\.py")
            await dev.line(r"server\.py, line 11\): NameError: name 'undefined_name' is not defined")
            assert (await dev.state())["reload"]["error"]["type"] == "NameError"
            assert (await client.call_tool("add", {"a": 1})).data == 3
            rewrite(tmp_path / "server.py", SECOND)
            mended = await dev.event("reload", since=broken["seq"])
            assert mended["error"] is None
            assert said(await client.call_tool("plus", {"a": 2})) == "4"
            assert (await dev.state())["reload"]["error"] is None
            rewrite(tmp_path / "server.py", "def add(a: int) -> int\n")
            unread = await dev.event("reload", since=mended["seq"])
            last = unread["error"]["frames"][-1]
            assert (last["line"], last["source"], last["function"]) == (1, "def add(a: int) -> int", "<module>")

    run(main())


def test_a_file_that_cannot_be_loaded_at_first_is_served_once_it_is_corrected(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path, "import missing_sibling\n" + SERVER) as dev, Client(dev.url) as client:
            await dev.line("waiting for a change of server.py")
            assert await client.list_tools() == []
            (tmp_path / "missing_sibling.py").write_text("")
            await dev.event("reload", lambda event: event["error"] is None)
            assert [tool.name for tool in await client.list_tools()] == ["add"]

    run(main())


def test_a_changed_module_and_its_importers_are_loaded_again_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "prices.py").write_text("PRICE = 1\n")
    (tmp_path / "shop" / "rules.py").write_text("from .prices import PRICE\nDOUBLE = 2 * PRICE\n")
    (tmp_path / "heavy.py").write_text("import os\nTOKEN = os.urandom(8).hex()\n")
    text = """
from redstart import Server
from shop import rules
import heavy
server = Server("shop")
@server.tool
def price() -> int:
    return rules.DOUBLE
@server.tool
def token() -> str:
    return heavy.TOKEN
"""

    async def main() -> None:
        async with developing(tmp_path, text) as dev, Client(dev.url) as client:
            token = said(await client.call_tool("token", {}))
            assert (await client.call_tool("price", {})).data == 2
            with (tmp_path / "shop" / "prices.py").open("r+") as file:  # in place, and never empty
                file.write("PRICE = 3\n")  # the same size, perhaps in the same second
            event = await dev.event("reload")
            assert event["files"] == ["shop/prices.py"]
            assert not any(event["tools"].values())  # the list is the same
            assert (await client.call_tool("price", {})).data == 6
            assert said(await client.call_tool("token", {})) == token

    run(main())


def test_a_call_in_flight_ends_on_the_old_server_whose_lifespan_ends_after_it(tmp_path: Path) -> None:
    text = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from redstart import Context, Server
VERSION = "one"
@asynccontextmanager
async def life(server):
    Path(f"opened-{VERSION}").touch()
    yield VERSION
    Path(f"closed-{VERSION}").touch()
server = Server("slow", lifespan=life)
@server.tool
async def version(ctx: Context[str], wait: str = "") -> str:
    while wait and not Path(wait).exists():
        await asyncio.sleep(0.01)
    return ctx.lifespan
"""

    async def main() -> None:
        async with developing(tmp_path, text) as dev, Client(dev.url) as client:
            slow = asyncio.create_task(client.call_tool("version", {"wait": "go"}))
            await dev.event("call", lambda event: event["name"] == "version" and event["state"] == "running")
            rewrite(tmp_path / "server.py", text.replace('"one"', '"two"'))
            await dev.event("reload")
            assert said(await client.call_tool("version", {})) == "two"
            assert not (tmp_path / "closed-one").exists()
            (tmp_path / "go").touch()
            assert said(await slow) == "one"
            async with asyncio.timeout(10):
                while not (tmp_path / "closed-one").exists():
                    await asyncio.sleep(0.01)  # another process makes the file
            assert not (tmp_path / "closed-two").exists()
        assert (tmp_path / "closed-two").exists()

    run(main())


def test_a_lifespan_that_fails_leaves_the_old_server_in_place(tmp_path: Path) -> None:
    text = """
from contextlib import asynccontextmanager
BROKEN = False
@asynccontextmanager
async def life(server):
    if BROKEN:
        raise OSError("no database")
    yield
""" + SERVER.replace('version="1.0"', "lifespan=life")

    async def main() -> None:
        async with developing(tmp_path, text) as dev, Client(dev.url) as client:
            rewrite(tmp_path / "server.py", text.replace("BROKEN = False", "BROKEN = True "))
            event = await dev.event("reload")
            assert (event["error"]["type"], event["error"]["text"]) == ("OSError", "no database")
            assert (await client.call_tool("add", {"a": 1})).data == 3

    run(main())


def test_a_reload_can_be_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path) as dev:
            answer = await dev.post("/_redstart/reload")
            assert answer.json()["kind"] == "reload"
            assert answer.json()["error"] is None

    run(main())


def test_without_reload_nothing_is_loaded_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path, SERVER, "--no-reload") as dev:
            assert (await dev.state())["canReload"] is False
            assert (await dev.post("/_redstart/reload")).status_code == 409

    run(main())


def test_every_call_has_a_line_without_colour_outside_of_a_terminal(tmp_path: Path) -> None:
    async def main() -> None:
        async with developing(tmp_path) as dev, Client(dev.url, client_info={"name": "e\x1b[31mvil"}) as client:
            await client.call_tool("add", {"a": 1})
            await client.call_tool("add", {"a": "x"})
            line = await dev.line(r"tools/call add +ok +[\d.]+ ms")
            assert re.match(r"\d\d:\d\d:\d\d  e\\x1b\[31mvil  ", line.string)
            await dev.line(r"tools/call add +tool_error")
            assert not any("\x1b" in line for line in dev.lines)

    run(main())


def test_a_reload_does_not_ask_where_all_modules_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of modules are loaded, and a project has a few: a reload has 300 ms."""
    project = Project({tmp_path})
    asked: list[object] = []
    project.modules()
    lstat = os.lstat

    def counted(path: Any, **more: Any) -> os.stat_result:
        asked.append(path)
        return lstat(path, **more)

    monkeypatch.setattr(os, "lstat", counted)
    project.modules()
    assert asked == []
