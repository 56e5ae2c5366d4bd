"""A client of a server that a configuration names: a dict, or the file that other clients read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from client.support import Request, http_server, modern
from redstart.client import Client
from support import run

SERVER = """
import os
from redstart import Server

server = Server("configured")

@server.tool
def seen(name: str) -> str:
    return os.environ.get(name, "nothing")

@server.tool
def place() -> str:
    return os.getcwd()

server.run()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return str(path)


def test_a_command_with_its_environment_and_folder(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDSTART_TEST_SECRET", "s3cret")
    entry = {
        "command": sys.executable,
        "args": [script],
        "env": {"KEY": "${REDSTART_TEST_SECRET}", "OTHER": "${REDSTART_TEST_UNSET:-else}", "PORT": 80},
        "cwd": str(tmp_path),
    }
    file = tmp_path / "mcp.json"
    file.write_text("\ufeff" + json.dumps({"mcpServers": {"one": entry, "two": {"command": "not-there"}}}))

    async def main() -> list[Any]:
        async with Client(file, server="one", env={"MINE": "x"}) as c:
            names = ("KEY", "OTHER", "PORT", "MINE")
            return [
                *[(await c.call_tool("seen", {"name": name})).text for name in names],
                (await c.call_tool("place")).text,
            ]

    assert run(main()) == ["s3cret", "else", "80", "x", str(tmp_path)]


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_a_url_with_its_headers(key: str) -> None:
    seen: list[tuple[str, str]] = []

    async def handler(request: Request) -> None:
        seen.append((request.headers["x-team"], request.headers["x-own"]))
        await request.result({"resultType": "complete"})

    async def main() -> None:
        async with http_server(modern(handler)) as url:
            config = {"servers": {"api": {"type": "http", key: url, "headers": {"X-Team": "a", "X-Own": "b"}}}}
            async with Client(config, headers={"X-Own": "c"}) as c:
                await c.request("x/y")

    run(main())
    assert seen == [("a", "c")]


ENTRY = {"command": "x"}


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        ({"mcpServers": {"a": ENTRY, "b": ENTRY}}, {}, "name one with server=: a, b"),
        ({"mcpServers": {"notes": ENTRY}}, {"server": "note"}, "has no server 'note'. Did you mean \"notes\""),
        ({"mcpServers": {}}, {}, "has no servers"),
        ({"mcpServers": {}}, {"server": "a"}, "it has: none"),
        ({"command": "x"}, {}, 'has no "mcpServers"'),
        ({"mcpServers": {"a": "uvx notes"}}, {}, "must be an object"),
        ({"mcpServers": {"a": {}}}, {}, 'must have a "command"'),
        ({"mcpServers": {"a": {"command": "x", "args": [1]}}}, {}, "which are texts"),
        ({"mcpServers": {"a": {"url": "ftp://x"}}}, {}, "http:// or https://"),
        ({"mcpServers": {"a": {**ENTRY, "env": {"A": ["s3cret"]}}}}, {}, '"env" must be an object whose values are'),
        ({"mcpServers": {"a": {**ENTRY, "env": {"A": "${REDSTART_TEST_UNSET}"}}}}, {}, "REDSTART_TEST_UNSET, which is"),
        (["x"], {"server": "a"}, "server= names an entry of a configuration"),
    ],
)
def test_what_is_wrong_is_said_at_once(config: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("{", r"\{").replace("$", r"\$")) as caught:
        Client(config, **options)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not JSON"), ("[]", "must be a JSON object"), (None, "cannot be read")]
)
def test_a_file_that_is_not_a_configuration(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=said):
        Client(file)
