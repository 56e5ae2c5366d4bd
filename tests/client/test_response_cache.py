"""Results that a server allows to keep: for how long, and what makes them old."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from client.support import DISCOVERED, Request, http_server
from redstart import Cache, Server
from redstart.client import Client, RequestError
from redstart.client.response_cache import MAX_CACHED_BYTES, MAX_RESULTS, ResponseCache
from support import MODERN, NOVEMBER, run

TTL = {"ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"}


def asked_of(answers: dict[str, Any], script: Any, **options: Any) -> list[str]:
    """The requests that reach a server with these results while `script` runs."""
    seen: list[str] = []

    async def handler(request: Request) -> None:
        method = request.message["method"]
        if method == "server/discover":
            await request.result(DISCOVERED)
            return
        seen.append(method)
        answer = answers[method]
        answer = answer(request.message["params"]) if callable(answer) else answer
        if isinstance(answer, int):
            await request.error(200, answer, id=request.message["id"])
        else:
            await request.result(answer)

    async def main() -> None:
        async with http_server(handler) as url, Client(url, **options) as c:
            await script(c)

    run(main())
    return seen


async def twice(c: Client) -> None:
    for _ in range(2):
        await c.list_tools()
        await c.list_prompts()
        await c.read_resource("a://b")


@pytest.mark.parametrize(
    ("hints", "options", "times"),
    [
        (TTL, {}, 1),
        ({**TTL, "cacheScope": "public"}, {}, 1),
        (TTL, {"cache": False}, 2),
        ({**TTL, "ttlMs": 0}, {}, 2),
        ({**TTL, "ttlMs": -5}, {}, 2),
        ({"resultType": "complete"}, {}, 2),
    ],
)
def test_a_result_is_kept_for_as_long_as_it_says(hints: dict[str, Any], options: dict[str, Any], times: int) -> None:
    answers: dict[str, Any] = {
        "tools/list": {"tools": []},
        "prompts/list": {"prompts": []},
        "resources/read": {"contents": []},
    }
    seen = asked_of({method: {**result, **hints} for method, result in answers.items()}, twice, **options)
    assert [seen.count(method) for method in answers] == [times] * 3


def test_a_result_that_is_too_old_is_forgotten() -> None:
    now = [0.0]
    cache = ResponseCache(lambda: now[0])
    cache.put("tools/list", {}, Raw(b'{"ttlMs": 60000}'))
    cache.put("prompts/list", {}, Raw(b'{"ttlMs": 1e15}'))
    found = []
    for now[0] in (59.9, 60.0, 23 * 3600.0, 24 * 3600.0):
        found.append((cache.get("tools/list", {}) is not None, cache.get("prompts/list", {}) is not None))
    assert found == [(True, True), (False, True), (False, True), (False, False)]


def test_every_page_and_every_resource_is_kept_by_itself() -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [], **TTL, **({} if params.get("cursor") else {"nextCursor": "2"})}

    async def script(c: Client) -> None:
        for _ in range(2):
            await c.list_tools()
        for uri in ("a://1", "a://2", "a://1"):
            await c.read_resource(uri)

    seen = asked_of({"tools/list": page, "resources/read": {"contents": [], **TTL}}, script)
    assert seen == ["tools/list"] * 2 + ["resources/read"] * 2


def test_a_cursor_of_a_kept_page_that_is_refused_drops_all_pages() -> None:
    good = True

    def page(params: dict[str, Any]) -> Any:
        if "cursor" not in params:
            return {"tools": [], **TTL, "nextCursor": "2"}
        return {"tools": [], "resultType": "complete"} if good else -32602

    async def script(c: Client) -> None:
        nonlocal good
        await c.list_tools()
        good = False
        with pytest.raises(RequestError):
            await c.list_tools()
        good = True
        await c.list_tools()

    assert asked_of({"tools/list": page}, script) == ["tools/list"] * 5


def test_clear_cache_asks_again() -> None:
    async def script(c: Client) -> None:
        await c.list_tools()
        c.clear_cache()
        await c.list_tools()

    assert asked_of({"tools/list": {"tools": [], **TTL}}, script) == ["tools/list"] * 2


def test_what_came_after_questions_is_not_kept() -> None:
    def read(params: dict[str, Any]) -> dict[str, Any]:
        if "requestState" in params:
            return {"contents": [], **TTL}
        return {"resultType": "input_required", "requestState": "s"}

    async def script(c: Client) -> None:
        await c.read_resource("a://1")
        await c.read_resource("a://1")

    assert asked_of({"resources/read": read}, script) == ["resources/read"] * 4


def test_a_change_that_the_server_tells_ends_it() -> None:
    server = Server("changing", cache=Cache(ttl=60))
    reads = 0

    @server.resource("notes://a", cache=Cache(ttl=60))
    def note() -> str:
        nonlocal reads
        reads += 1
        return str(reads)

    @server.tool
    def first() -> None: ...

    def second() -> None: ...

    async def main() -> None:
        async with Client(server, protocol=MODERN) as c, c.listen(tools=True, uris=["notes://a"]) as events:
            assert [(await c.read_resource("notes://a")).contents[0].text for _ in range(2)] == ["1", "1"]
            assert len(await c.list_tools()) == 1
            server.notify("notes://a")
            assert (await anext(events)).uri == "notes://a"
            assert (await c.read_resource("notes://a")).contents[0].text == "2"
            server.tool(second)
            assert (await anext(events)).kind == "tools"
            assert len(await c.list_tools()) == 2

    run(main(), server)


def test_the_handshake_era_has_no_hints() -> None:
    server = Server("handshake", cache=Cache(ttl=60))

    def added() -> None: ...

    async def main() -> None:
        async with Client(server, protocol=NOVEMBER) as c:
            assert await c.list_tools() == []
            server.tool(added)
            assert len(await c.list_tools()) == 1

    run(main(), server)


def test_the_cache_is_bounded() -> None:
    cache = ResponseCache()
    for number in range(MAX_RESULTS + 5):
        cache.put("resources/read", {"uri": f"a://{number}"}, Raw(b'{"ttlMs": 1000}'))
    kept = [number for number in range(MAX_RESULTS + 5) if cache.get("resources/read", {"uri": f"a://{number}"})]
    assert kept == list(range(5, MAX_RESULTS + 5))
    large = Raw(b'{"ttlMs": 1000, "x": "' + b"x" * (MAX_CACHED_BYTES // 2) + b'"}')
    for uri in ("b", "c"):
        cache.put("resources/read", {"uri": uri}, large)
    assert cache.get("resources/read", {"uri": "b"}) is None
    assert cache.get("resources/read", {"uri": "c"}) is large
    cache.put("resources/read", {"uri": "d"}, Raw(bytes(large) + b" " * MAX_CACHED_BYTES))
    assert cache.get("resources/read", {"uri": "d"}) is None


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ("a://x", ["a://y", "a://xy"]),
        ("a://x/1", ["a://y", "a://xy"]),
        ("a://", []),
        ("b://", ["a://x", "a://y", "a://xy"]),
    ],
)
def test_a_change_of_a_part_is_a_change_of_the_whole(changed: str, left: list[str]) -> None:
    cache = ResponseCache()
    for uri in ("a://x", "a://y", "a://xy"):
        cache.put("resources/read", {"uri": uri}, Raw(b'{"ttlMs": 1000}'))
    cache.notified("notifications/resources/updated", {"uri": changed})
    assert [uri for uri in ("a://x", "a://y", "a://xy") if cache.get("resources/read", {"uri": uri})] == left
