"""Hearing of changes: by subscription in the modern era, by notifications and `resources/subscribe` before it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from client.support import DISCOVERED, INITIALIZED, Request, Start, http_server, peer, reply, scripted
from redstart.client import Client, ClientError, ConnectionClosed, Event, Events, RequestError, SessionExpired, listen
from support import MODERN, LeapingLoop, leap, run

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def notification(method: str, id: str = "$id", **params: Any) -> str:
    """A line that belongs to the subscription `id`."""
    body = json.dumps({**params, "_meta": {SUBSCRIPTION: "ID"}}).replace('"ID"', id)
    return f'{{"jsonrpc":"2.0","method":"notifications/{method}","params":{body}}}'


ACK = notification("subscriptions/acknowledged", notifications={"toolsListChanged": True})


def server(*lines: str) -> list[str]:
    """A modern server that answers `subscriptions/listen` with these lines."""
    return scripted(server__discover=[reply(DISCOVERED)], subscriptions__listen=list(lines))


@pytest.mark.parametrize("way", ["stdio", "http", "json"])
@pytest.mark.parametrize("protocol", ["2025-11-25", MODERN])
def test_changes_of_the_sdk_server(way: str, protocol: str, start_http: Start) -> None:
    target = peer("mcp") if way == "stdio" else start_http(*(["json"] if way == "json" else []))

    async def main() -> None:
        async with (
            Client(target, protocol=protocol, stderr="capture") as c,
            c.listen(tools=True) as events,
            c.listen(tools=True) as more,
        ):
            await c.call_tool("change")
            assert await anext(events) == Event("tools")
            assert await anext(more) == Event("tools")

    run(main())


def test_a_resource_of_the_sdk_server(start_http: Start) -> None:
    async def main() -> None:
        async with Client(start_http()) as c, c.listen(uris=["notes://a"]) as events:
            assert events.acknowledged is not None
            await c.call_tool("change")
            assert await anext(events) == Event("resource", "notes://a")

    run(main())


def test_only_what_was_asked_for_until_the_server_ends_it() -> None:
    lines = [
        ACK,
        notification("tools/list_changed"),
        notification("prompts/list_changed"),
        notification("tools/list_changed", id='"$id"'),
        '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":[1]}}',
        notification("resources/updated", uri="a://b/c"),
        notification("resources/updated", uri="a://bc"),
        reply({"resultType": "complete"}),
    ]

    async def main() -> None:
        async with (
            Client(server(*lines), stderr="capture") as c,
            c.listen(tools=True, uris=["a://b"]) as events,
        ):
            assert events.acknowledged == {"toolsListChanged": True}
            assert [event async for event in events] == [Event("tools"), Event("resource", "a://b/c")]

    run(main())


def test_a_cancellation_by_the_server_is_an_end() -> None:
    cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$id}}'

    async def main() -> None:
        async with Client(server(ACK, cancelled), stderr="capture") as c, c.listen(tools=True) as events:
            assert [event async for event in events] == []

    run(main())


def test_a_refusal_and_a_server_that_never_acknowledges() -> None:
    async def refused() -> None:
        async with Client(scripted(server__discover=[reply(DISCOVERED)]), stderr="capture") as c, c.listen(tools=True):
            pass

    async def silent() -> None:
        async def handler(request: Request) -> None:
            if request.message["method"] == "server/discover":
                await request.result(DISCOVERED)
                return
            await request.hold(f"data: {notification('x')}\n\n".replace("$id", str(request.message["id"])).encode())
            await leap(12)
            await request.gone()

        async with http_server(handler) as url, Client(url, timeout=10) as c, c.listen(tools=True):
            pass

    with pytest.raises(RequestError, match="-32601"):
        run(refused())
    with pytest.raises(TimeoutError, match="subscriptions/listen"):
        run(silent(), loop=LeapingLoop)


def test_a_break_is_an_error_after_what_came_before_it() -> None:
    async def main() -> None:
        async def handler(request: Request) -> None:
            if request.message["method"] == "server/discover":
                await request.result(DISCOVERED)
                return
            lines = [ACK, notification("tools/list_changed")]
            text = "".join(f"data: {line}\n\n" for line in lines).replace("$id", str(request.message["id"]))
            await request.stream(text.encode())

        async with http_server(handler) as url, Client(url) as c, c.listen(tools=True) as events:
            assert await anext(events) == Event("tools")
            with pytest.raises(ConnectionClosed, match="ended the answer to subscriptions/listen early"):
                await anext(events)

    run(main())


def test_leaving_the_block_ends_the_subscription() -> None:
    async def main() -> None:
        left = asyncio.Event()

        async def handler(request: Request) -> None:
            if request.message["method"] == "server/discover":
                await request.result(DISCOVERED)
                return
            assert request.message["params"]["notifications"] == {
                "promptsListChanged": True,
                "resourcesListChanged": True,
                "resourceSubscriptions": ["a:b"],
            }
            await request.hold(f"data: {ACK}\n\n".replace("$id", str(request.message["id"])).encode())
            await request.gone()
            left.set()

        async with http_server(handler) as url, Client(url) as c:
            async with c.listen(prompts=True, resources=True, uris=["a:b"]):
                pass
            await left.wait()

    run(main())


def test_closing_the_client_ends_the_iteration() -> None:
    async def main() -> None:
        async with Client(server(ACK), stderr="capture") as c, c.listen(tools=True) as events:
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            await c.__aexit__(None, None, None)
            with pytest.raises(ConnectionClosed, match="the client was closed"):
                await waiting

    run(main())


def test_subscriptions_of_a_session_are_shared_and_renewed() -> None:
    sent: list[tuple[str, str]] = []
    sessions: list[str] = []

    async def handler(request: Request) -> None:
        method = request.message and request.message.get("method")
        if method == "initialize":
            sessions.append(f"s{len(sessions) + 1}")
            await request.result(INITIALIZED, Mcp_Session_Id=sessions[-1])
        elif request.method != "POST":
            await request.answer(405)
        elif method == "notifications/initialized":
            await request.answer(202)
        elif method == "ping" and request.headers["mcp-session-id"] == "s1":
            await request.answer(404)
        else:
            if method != "ping":
                sent.append((method.removeprefix("resources/"), request.message["params"]["uri"]))
            await request.result({})

    async def main() -> None:
        async with http_server(handler) as url, Client(url, protocol="2025-11-25") as c:
            await c.subscribe("a:1")
            async with c.listen(uris=["a:1", "a:2"]), c.listen(uris=["a:2"]):
                assert sent == [("subscribe", "a:1"), ("subscribe", "a:2")]
                await c.ping()
                assert sorted(sent[2:]) == [("subscribe", "a:1"), ("subscribe", "a:2")]
                await c.unsubscribe("a:1")
                assert len(sent) == 4  # a listener still wants it
            assert sorted(sent[4:]) == [("unsubscribe", "a:1"), ("unsubscribe", "a:2")]

    run(main())


def test_a_session_that_is_forgotten_twice_is_an_error() -> None:
    async def handler(request: Request) -> None:
        method = request.message and request.message.get("method")
        if method == "initialize":
            await request.result(INITIALIZED, Mcp_Session_Id="s")
        elif method == "notifications/initialized":
            await request.answer(202)
        elif method == "resources/subscribe" and not subscribed:
            subscribed.append("a:1")
            await request.result({})
        else:
            await request.answer(404)

    subscribed: list[str] = []

    async def main() -> None:
        async with http_server(handler) as url, Client(url, protocol="2025-11-25") as c:
            await c.subscribe("a:1")
            with pytest.raises(SessionExpired):
                await c.ping()

    run(main(), seconds=5)


def test_a_slow_listener_loses_nothing_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "BACKLOG", 3)

    async def main() -> None:
        events = Events({"tools"}, ["a:"], None)
        for _ in range(9):
            events.notified("notifications/tools/list_changed", {})
        for _ in range(3):
            assert await anext(events) == Event("tools")
        for n in range(4):
            events.notified("notifications/resources/updated", {"uri": f"a:/{n}"})
        assert [await anext(events) for _ in range(3)] == [Event("resource", f"a:/{n}") for n in range(3)]
        with pytest.raises(ClientError, match="listen again"):
            await anext(events)

    run(main())


def test_uris_is_a_list() -> None:
    async def main() -> None:
        async with Client(server(ACK), stderr="capture") as c:
            with pytest.raises(TypeError, match="list of URIs"):
                c.listen(uris="notes://a")

    run(main())
