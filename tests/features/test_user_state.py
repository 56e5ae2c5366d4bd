"""`ctx.state`: whose it is, how long it lasts, what it holds, and where it is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from redstart import Context, Prompt, Server, SyncContext
from redstart.store.memory import MemoryStore
from support import ERAS, MODERN, ask, initialize, message, run
from transports.support import Http, Response


def counting(**options: Any) -> Server:
    server = Server("counting", **options)

    @server.tool
    async def count(ctx: Context, by: int = 1) -> int:
        seen: int = await ctx.state.get("seen", 0) + by
        await ctx.state.set("seen", seen)
        return seen

    @server.tool
    def count_in_thread(ctx: SyncContext, by: int = 1) -> int:
        seen: int = ctx.state.get("seen", 0) + by
        ctx.state.set("seen", seen)
        return seen

    @server.tool
    async def forget(ctx: Context) -> bool:
        await ctx.state.delete("seen")
        await ctx.state.delete("seen")
        return await ctx.state.get("seen") is None

    @server.tool
    def forget_in_thread(ctx: SyncContext) -> bool:
        ctx.state.delete("seen")
        return ctx.state.get("seen") is None

    return server


def counted(server: Server, tool: str, user: Any = None, era: str = MODERN) -> Any:
    return json.loads(ask(server, era, "tools/call", user, name=tool, arguments={})["content"][0]["text"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("suffix", ["", "_in_thread"])
def test_what_is_set_is_there_in_the_next_call(era: str, suffix: str) -> None:
    server = counting()
    assert [counted(server, "count" + suffix, era=era) for _ in range(3)] == [1, 2, 3]
    assert counted(server, "forget" + suffix, era=era) is True
    assert counted(server, "count" + suffix, era=era) == 1


def test_each_user_has_a_state_of_their_own() -> None:
    server = counting()
    ada, bob = {"sub": "ada"}, {"sub": "bob"}
    found = [counted(server, "count", user) for user in (ada, bob, ada, None, "ada", {"sub": "ada/5:state"})]
    assert found == [1, 1, 2, 1, 3, 1]


def test_two_servers_on_one_store_do_not_meet() -> None:
    store = MemoryStore()
    first, second = counting(store=store), Server("other", store=store)

    @second.tool
    async def look(ctx: Context) -> Any:
        return await ctx.state.get("seen", 0)

    assert counted(first, "count") == 1
    assert counted(second, "look") == 0


def test_a_value_lasts_as_long_as_was_said() -> None:
    now = 1000.0
    server = Server("s", store=MemoryStore(lambda: now))

    @server.tool
    async def keep(ctx: Context) -> None:
        await ctx.state.set("code", {"n": [1, None]}, ttl=60)

    @server.tool
    async def look(ctx: Context) -> Any:
        return await ctx.state.get("code", "gone")

    counted_keep = ask(server, MODERN, "tools/call", name="keep")
    assert "isError" not in counted_keep
    now = 1059.0
    assert counted(server, "look") == {"n": [1, None]}
    now = 1061.0
    assert ask(server, MODERN, "tools/call", name="look")["content"][0]["text"] == "gone"


@pytest.mark.parametrize(
    ("value", "ttl", "words"),
    [("x", 0, "ttl must be"), ("x", -1, "ttl must be"), ("x", float("nan"), "ttl must be"), (object(), None, "object")],
)
def test_what_cannot_be_kept_is_said(value: Any, ttl: Any, words: str) -> None:
    server = Server("s", expose_errors=True)

    @server.tool
    async def keep(ctx: Context) -> None:
        await ctx.state.set("x", value, ttl)

    result = ask(server, MODERN, "tools/call", name="keep")
    assert result["isError"] is True
    assert words in result["content"][0]["text"]


def test_a_null_is_a_value() -> None:
    server = Server("s")

    @server.tool
    async def keep(ctx: Context) -> str:
        await ctx.state.set("x", None)
        return str(await ctx.state.get("x", "absent"))

    assert ask(server, MODERN, "tools/call", name="keep")["content"][0]["text"] == "None"


# ---------------------------------------------------------------- over HTTP


def users(token: str) -> dict[str, str] | None:
    return {"sub": token} if token in ("ada", "bob") else None


def test_over_http_a_stranger_has_no_state_and_is_told_why() -> None:
    async def test() -> None:
        server = counting(prompts=[Prompt("p", handler=remembered)])
        http = Http(server.asgi())
        for tool in ("count", "count_in_thread"):
            answer = (await http.modern(1, "tools/call", {"name": tool, "arguments": {}})).json()["result"]
            assert answer["isError"] is True
            assert "auth=" in answer["content"][0]["text"]
        refusal = (await http.modern(1, "prompts/get", {"name": "p"})).json()["error"]
        assert "auth=" in refusal["message"]
        assert len(server.runtime.store) == 0  # type: ignore[arg-type]
        await server.runtime.stop()

    run(test())


async def remembered(ctx: Context) -> str:
    return str(await ctx.state.get("x"))


def test_over_http_each_user_has_a_state_of_their_own_whatever_the_session() -> None:
    async def test() -> None:
        server = counting(auth=users)
        http = Http(server.asgi())
        found = []
        for user in ("ada", "bob", "ada"):
            sent = {"authorization": f"Bearer {user}"}
            answer = await http.modern(1, "tools/call", {"name": "count", "arguments": {}}, headers=sent)
            found.append(answer.json()["result"]["content"][0]["text"])
            session = await http.open(headers=sent)
            body = message(2, "tools/call", {"name": "count_in_thread", "arguments": {}})
            found.append((await http.send(body, headers={**sent, **session})).json()["result"]["content"][0]["text"])
        assert found == ["1", "2", "1", "2", "3", "4"]
        await server.runtime.stop()

    run(test())


def test_the_old_sse_endpoints_are_no_back_door() -> None:
    async def test() -> None:
        server = counting()
        http = Http(server.asgi(legacy_sse=True))
        stream = http.start(method="GET", path="/sse")
        await stream.until(lambda r: r.events())
        where = stream.events()[0]["data"]

        async def say(body: bytes) -> Response:
            scope_path, _, query = where.partition("?")
            return await http.send(body, path=scope_path, query=query.encode())

        await say(initialize("2024-11-05"))
        await stream.until(lambda r: len(r.events()) >= 2)
        await say(message(2, "tools/call", {"name": "count", "arguments": {}}))
        await stream.until(lambda r: len(r.events()) >= 3)
        result = json.loads(stream.events()[2]["data"])["result"]
        assert result["isError"] is True
        assert "auth=" in result["content"][0]["text"]
        stream.disconnect()
        await asyncio.wait([stream.task])
        await server.runtime.stop()

    run(test())
