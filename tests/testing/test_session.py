"""Sessions that are recorded and played again, in both eras."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart import Client, Context, Server
from redstart.client.errors import ClientError, RequestError
from redstart.testing import replay
from support import ERAS, run


def shop(price: int = 7) -> Server:
    server = Server("shop")

    @server.tool
    def cost(count: int) -> int:
        return price * count

    @server.tool
    async def greet(ctx: Context) -> str:
        return f"Hello {await ctx.ask('Your name?', str)}"

    @server.resource("shop://{name}")
    def goods(name: str) -> str:
        return f"{name}: {price}"

    @server.prompt
    def sell(item: str) -> str:
        return f"Sell {item}"

    return server


async def session(server: Server, path: Path, revision: str) -> None:
    async with Client(server, protocol=revision, record=path, on_elicit=lambda request: {"answer": "Ada"}) as client:
        await client.list_tools()
        await client.call_tool("cost", {"count": 2})
        await client.call_tool("cost", {"count": "many"})
        await client.call_tool("greet")
        await client.read_resource("shop://cup")
        await client.get_prompt("sell", {"item": "cup"})
        with pytest.raises(RequestError):
            await client.call_tool("nothing")


@pytest.mark.parametrize("recorded", ERAS)
@pytest.mark.parametrize("played", ERAS)
def test_a_session_is_played_again_in_either_era(recorded: str, played: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    async def main() -> None:
        await session(shop(), path, recorded)
        assert await replay(path, shop(), protocol=recorded) == []
        if recorded != played:
            again = await replay(path, shop(), protocol=played)
            # Lists have fields that only one of the revisions has, and errors have other codes.
            assert {found.method for found in again} <= {"tools/list", "tools/call"}
            assert not [found for found in again if found.params.get("name") in ("cost", "greet")]

    run(main())


@pytest.mark.parametrize("revision", ERAS)
def test_another_result_is_a_difference(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    async def main() -> list[Any]:
        await session(shop(), path, revision)
        return await replay(path, shop(price=8), protocol=revision)

    cost, goods = run(main())
    assert (cost.method, cost.params) == ("tools/call", {"name": "cost", "arguments": {"count": 2}})
    assert cost.expected["result"]["structuredContent"] == {"result": 14}
    assert cost.got["result"]["structuredContent"] == {"result": 16}
    assert str(cost).startswith('tools/call {"name": "cost", "arguments": {"count": 2}}\n    recorded: ')
    assert goods.method == "resources/read"


def test_fields_that_differ_each_time_are_ignored_by_name(tmp_path: Path) -> None:
    path, now = tmp_path / "session.jsonl", iter(range(10))
    server = Server("clock")

    @server.tool
    def time() -> dict[str, int]:
        return {"now": next(now), "zone": 0}

    async def main() -> None:
        async with Client(server, record=path) as client:
            await client.call_tool("time")
        assert len(await replay(path, server, ignore=["content"])) == 1
        assert await replay(path, server, ignore=["now", "content"]) == []

    run(main())


def test_the_file_has_both_directions_and_no_headers(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    async def main() -> None:
        server = Server("s", auth=lambda token: "ada" if token == "s3cret" else None)
        served = server.serve_background(port=0)
        try:
            async with Client(served.url, token="s3cret", record=path) as client:
                await client.list_tools()
        finally:
            served.stop()

    run(main())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["to"] for line in lines} == {"server", "client"}
    assert any(line["message"].get("method") == "tools/list" for line in lines)
    assert "s3cret" not in path.read_text()
    assert sys.platform == "win32" or path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ClientError, match=r"record='.*nowhere/x\.jsonl': No such file"):
            async with Client(Server("s"), record=tmp_path / "nowhere" / "x.jsonl"):
                pass
        (tmp_path / "x.jsonl").write_text('{"to": "server", "message": {}}\nhello\n')
        with pytest.raises(ValueError, match=r"x\.jsonl:2: not a message of a recorded session"):
            await replay(tmp_path / "x.jsonl", Server("s"))

    run(main())
