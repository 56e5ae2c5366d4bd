"""The smaller examples, each used as its page says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, Image, ResourceLink, Server, User
from redstart.client.errors import RequestError
from redstart.testing import Answers
from store.engines import running
from support import ERAS, ROOT, run

EXAMPLES = ROOT / "examples"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Loads the file of an example as `redstart run` does, with its folder on the path."""
    before = set(sys.modules)

    def from_file(name: str, **environment: object) -> Any:
        for key, value in environment.items():
            monkeypatch.setenv(key, str(value))
        file = EXAMPLES / name
        monkeypatch.syspath_prepend(file.parent)
        spec = importlib.util.spec_from_file_location(f"example_{file.parent.name}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    yield from_file
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(EXAMPLES) in str(sys.modules[name].__file__):
            del sys.modules[name]


# ---------------------------------------------------------------- analyst


def test_the_analyst_answers_with_tables_plots_and_links(load: Any) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    server = load("analyst/server.py").server

    async def main() -> None:
        async with Client(server) as client:
            tables = (await client.call_tool("tables")).data
            assert tables["species"] == {"family": "VARCHAR", "length_cm": "BIGINT", "species": "VARCHAR"}
            few = await client.call_tool("query", {"sql": "SELECT species FROM species ORDER BY length_cm LIMIT 1"})
            assert few.text == "| species |\n| --- |\n| Eurasian Wren |"
            many = await client.call_tool("query", {"sql": "SELECT * FROM sightings"})
            (link,) = [block for block in many.content if isinstance(block, ResourceLink)]
            whole = (await client.read_resource(link.uri)).contents[0].text
            assert whole is not None
            assert len(whole.splitlines()) == 211
            sql = "SELECT site, sum(count) AS birds FROM sightings GROUP BY ALL"
            (image,) = (await client.call_tool("plot", {"sql": sql})).content
            assert isinstance(image, Image)
            wrong = await client.call_tool("query", {"sql": "SELECT specie FROM species"})
            assert wrong.is_error
            assert "species" in wrong.text

    run(main())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY species TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
)
def test_the_analyst_reaches_nothing_but_its_tables(load: Any, sql: str) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    server = load("analyst/server.py").server

    async def main() -> None:
        async with Client(server) as client:
            assert (await client.call_tool("query", {"sql": sql})).is_error

    run(main())


# ---------------------------------------------------------------- sqlite_explorer


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE goods (name TEXT PRIMARY KEY, price INTEGER)")
        connection.executemany("INSERT INTO goods VALUES (?, ?)", [("cup", 7), ("plate", 9)])
    connection.close()
    return path


@pytest.mark.parametrize("revision", ERAS)
def test_the_explorer_reads_and_asks_before_it_writes(load: Any, shop: Path, revision: str) -> None:
    server = load("sqlite_explorer/server.py", DATABASE=shop).server
    change = "UPDATE goods SET price = price + 1"

    async def main() -> None:
        answers = Answers(False, True)
        async with Client(server, protocol=revision, on_elicit=answers) as client:
            assert (await client.call_tool("schema")).data == {"goods": ["name TEXT PRIMARY KEY", "price INTEGER"]}
            assert (await client.read_resource("schema://tables")).contents[0].text == '["goods"]'
            text = (await client.read_resource("schema://table/goods")).contents[0].text
            assert text == "name TEXT PRIMARY KEY\nprice INTEGER"
            assert (await client.complete("schema://table/{name}", "name", "go")).values == ["goods"]
            assert (await client.call_tool("change", {"sql": change})).is_error
            assert (await client.call_tool("change", {"sql": change})).text == "2 rows changed"
            found = (await client.call_tool("query", {"sql": "SELECT price FROM goods ORDER BY 1"})).data
            assert found == {"columns": ["price"], "rows": [[8], [10]]}
        assert change in answers.asked[0].message

    run(main())


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM goods",
        "ATTACH 'other.db' AS other",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "SELECT nothing FROM goods",
    ],
)
def test_what_the_explorer_refuses(load: Any, shop: Path, sql: str) -> None:
    module = load("sqlite_explorer/server.py", DATABASE=shop)
    module.STEPS = 100_000

    async def main() -> None:
        async with Client(module.server) as client:
            refused = await client.call_tool("query", {"sql": sql})
            assert refused.is_error
            assert "SQLite says" in refused.text

    run(main())


def test_the_explorer_with_a_real_postgresql(load: Any) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with running("postgresql") as postgresql:
        with psycopg.connect(postgresql.at) as connection:
            connection.execute("CREATE TABLE goods (name text, price integer)")
        server = load("sqlite_explorer/server.py", DATABASE=postgresql.at).server

        async def main() -> None:
            async with Client(server, on_elicit=Answers(True)) as client:
                added = await client.call_tool("change", {"sql": "INSERT INTO goods VALUES ('cup', 7), ('50%', 1)"})
                assert added.text == "2 rows changed"
                assert (await client.call_tool("schema")).data == {"goods": ["name text", "price integer"]}
                found = (await client.call_tool("query", {"sql": "SELECT name FROM goods WHERE name LIKE '50%'"})).data
                assert found == {"columns": ["name"], "rows": [["50%"]]}
                refused = await client.call_tool("query", {"sql": "DELETE FROM goods"})
                assert "read-only transaction" in refused.text

        run(main())


# ---------------------------------------------------------------- notes


@pytest.mark.parametrize("revision", ERAS)
def test_notes_change_and_clients_learn_of_it(load: Any, tmp_path: Path, revision: str) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    server = load("notes/server.py", NOTES=tmp_path).server

    async def main() -> None:
        async with Client(server, protocol=revision) as client:
            assert (await client.call_tool("write", {"name": "todo", "text": "- buy seed\n"})).text == "todo is new"
            await client.call_tool("append", {"name": "todo", "line": "- look for redstarts"})
            hits = (await client.call_tool("search", {"words": "REDSTARTS look"})).data
            assert hits == [{"name": "todo", "line": 2, "text": "- look for redstarts"}]
            assert (await client.complete("notes://{name}", "name", "to")).values == ["todo"]
            async with client.listen(uris=["notes://todo"]) as events:
                (tmp_path / "todo.md").write_text("- done\n")  # as an editor does
                assert (await anext(aiter(events))).uri == "notes://todo"
            assert (await client.read_resource("notes://todo")).contents[0].text == "- done\n"
            assert "- done" in str((await client.get_prompt("review", {"name": "todo"})).messages)
            outside = await client.call_tool("write", {"name": "../x", "text": ""})
            assert outside.is_error
            with pytest.raises(RequestError):
                await client.read_resource("notes://nothing")

    run(main())


# ---------------------------------------------------------------- git_historian


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    environment = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    for name in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{name}_NAME": "Ada", f"GIT_{name}_EMAIL": "ada@example.com"}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=30)

    git("init", "--initial-branch=main")
    for text, message in (("one\n", "Begin"), ("one\ntwo\n", "Fix the count")):
        (tmp_path / "count.txt").write_text(text)
        git("add", ".")
        git("commit", "--message", message)
    return tmp_path


def test_the_historian_tells_who_and_why(load: Any, repository: Path) -> None:
    server = load("git_historian/server.py", REPOSITORY=repository).server

    async def main() -> None:
        async with Client(server) as client:
            commits = (await client.call_tool("history", {"path": "count.txt", "words": "fix"})).data
            assert [(commit["author"], commit["subject"]) for commit in commits] == [("Ada", "Fix the count")]
            lines = (await client.call_tool("blame", {"path": "count.txt", "last": 2})).data
            assert [(line["number"], line["text"], line["author"]) for line in lines] == [
                (1, "one", "Ada"),
                (2, "two", "Ada"),
            ]
            assert "+two" in (await client.call_tool("show", {"commit": commits[0]["id"]})).text
            assert (await client.call_tool("authors")).data == {"Ada": 2}

    run(main())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("history", {"path": "../elsewhere"}),
        ("history", {"path": "/etc"}),
        ("blame", {"path": ".git/config"}),
        ("show", {"commit": "--output=/tmp/x"}),
        ("show", {"commit": "no-such-branch"}),
        ("blame", {"path": "nothing.txt"}),
    ],
)
def test_what_the_historian_refuses(load: Any, repository: Path, tool: str, arguments: dict[str, Any]) -> None:
    server = load("git_historian/server.py", REPOSITORY=repository).server

    async def main() -> None:
        async with Client(server) as client:
            assert (await client.call_tool(tool, arguments)).is_error

    run(main())


# ---------------------------------------------------------------- wrap_anything


def test_code_that_knows_nothing_of_mcp(load: Any, tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="typer is not installed")
    server = load("wrap_anything/everything.py", TODO_FILE=tmp_path / "todo.json").server

    async def main() -> None:
        async with Client(server) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert set(tools) == {"circle_area", "triangle_area", "forward", "turn", "median", "add", "list", "done"}
            assert tools["add"].input_schema["required"] == ["text"]
            assert (await client.call_tool("triangle_area", {"a": 3, "b": 4, "c": 5})).data == 6
            wrong = await client.call_tool("triangle_area", {"a": 1, "b": 1, "c": 5})
            assert "do not make a triangle" in wrong.text
            await client.call_tool("turn", {"degrees": 90})
            assert (await client.call_tool("forward", {"distance": 2})).data == [0, 2]
            assert (await client.call_tool("median", {"data": [3, 1, 2]})).text == "2"
            assert (await client.call_tool("add", {"text": "buy seed"})).text == "1 items\n"
            assert (await client.call_tool("add", {"text": "--first", "first": True})).text == "2 items\n"
            assert (await client.call_tool("list", {"limit": 1})).text == "1. --first\n"
            gone = await client.call_tool("done", {"number": 9})
            assert (gone.is_error, gone.text) == (True, "there is no item 9")

    run(main())


# ---------------------------------------------------------------- team_api


def test_the_team_sees_what_its_scopes_allow_and_only_its_own_tickets(load: Any) -> None:
    server: Server = load("team_api/server.py").server

    async def main() -> None:
        async with Client(server, token="bob-s-token") as bob, Client(server, token="eve-s-token") as eve:
            assert [tool.name for tool in await eve.list_tools()] == ["tickets"]
            assert (await bob.call_tool("open_ticket", {"title": "cold coffee"})).data["number"] == 1
            assert (await bob.call_tool("open_ticket", {"title": " "})).text == "a ticket needs a title"
            assert (await bob.call_tool("close_ticket", {"number": 1})).data["open"] is False
            assert "your tickets: [1]" in (await bob.call_tool("close_ticket", {"number": 2})).text
            assert (await eve.call_tool("tickets", {"open_only": False})).data == []
            with pytest.raises(RequestError, match="tickets:write"):
                await eve.call_tool("open_ticket", {"title": "x"})
        async with Client(server, token="ada-s-token") as ada:
            assert (await ada.call_tool("whoami")).data["name"] == "ada"
        async with Client(server, user=User("nobody")) as nobody:
            assert await nobody.list_tools() == []

    run(main())
