"""The HTTP+SSE endpoints of the first revision: what holds for a pipe holds for their stream."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redstart import Context, Server
from redstart.features import subscriptions
from redstart.transports.legacy_sse import MAX_PEERS, SHARE
from support import initialize, message, run
from transports.support import Http, Response


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[tuple[Response, Callable[[bytes], Awaitable[Response]]]]:
    """The stream of one client, and how it says something."""
    http = Http(server.asgi(legacy_sse=True))
    stream = http.start(method="GET", path="/sse")
    await stream.until(lambda r: r.events())
    path, _, query = stream.events()[0]["data"].partition("?")
    try:
        yield stream, lambda body: http.send(body, path=path, query=query.encode())
    finally:
        stream.disconnect()
        await asyncio.wait([stream.task])
        await server.runtime.stop()


def answers(stream: Response) -> list[Any]:
    """The ids of what was answered so far; the first event only names the path."""
    return [found["id"] for found in map(json_of, stream.events()[1:]) if "method" not in found]


def json_of(event: dict[str, str]) -> Any:
    return json.loads(event["data"])


def waiting() -> tuple[Server, asyncio.Event, asyncio.Event]:
    """A server with a tool that waits for ever, and the events that its call has begun and has ended."""
    server = Server("legacy")
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    return server, begun, ended


def test_a_new_initialize_on_one_stream_begins_another_session() -> None:
    server, begun, ended = waiting()

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2024-11-05", id=0))
            await say(message(None, "notifications/initialized"))
            await say(message(1, "tools/call", {"name": "wait"}))
            await begun.wait()
            await say(initialize("2024-11-05", id=1))
            await ended.wait()
            await say(message(2, "ping"))
            await stream.until(lambda r: 2 in answers(r))
            assert answers(stream) == [0, 1, 2]

    run(test())


def test_a_handler_sees_the_headers_of_its_request() -> None:
    server = Server("old")

    @server.tool
    async def host(ctx: Context) -> str:
        return ctx.headers.get("host", "nowhere")

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2024-11-05", id=0))
            await say(message(1, "tools/call", {"name": "host"}))
            await stream.until(lambda r: 1 in answers(r))
            result = json_of(stream.events()[-1])["result"]
            assert result["content"][0]["text"] == "localhost:8000"

    run(test())


def test_a_client_that_cannot_read_a_stream_is_told_at_once() -> None:
    async def test() -> None:
        http = Http(Server("old").asgi(legacy_sse=True))
        response = await http.send(method="GET", path="/sse", headers={"accept": "application/json"})
        assert response.status == 406
        assert "text/event-stream" in response.json()["error"]["message"]

    run(test())


def test_a_question_waits_until_the_client_is_initialized() -> None:
    server = Server("legacy")
    begun = asyncio.Event()

    @server.tool
    async def roots(ctx: Context) -> int:
        begun.set()
        return len(await ctx.roots())

    def methods(stream: Response) -> list[Any]:
        return [json_of(event).get("method") for event in stream.events()[1:]]

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2024-11-05", id=0, roots={}))
            await say(message(1, "tools/call", {"name": "roots"}))
            await begun.wait()
            await say(message(2, "ping"))
            await stream.until(lambda r: 2 in answers(r))
            assert methods(stream) == [None, None]
            await say(message(None, "notifications/initialized"))
            await stream.until(lambda r: "roots/list" in methods(r))
            await say(b'{"jsonrpc": "2.0", "id": "ask-1", "result": {"roots": []}}')
            await stream.until(lambda r: 1 in answers(r))
            assert json_of(stream.events()[-1])["result"]["content"][0]["text"] == "0"

    run(test())


def test_a_client_that_is_never_initialized_is_not_waited_for_without_end() -> None:
    server = Server("legacy", ask_timeout=0.05)

    @server.tool
    async def name(ctx: Context) -> str:
        return type(await ctx.elicit("Name?")).__name__

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2025-06-18", id=0, elicitation={}))
            await say(message(1, "tools/call", {"name": "name"}))
            await stream.until(lambda r: 1 in answers(r))
            assert json_of(stream.events()[-1])["result"]["content"][0]["text"] == "Cancelled"
            assert len(stream.events()) == 3

    run(test())


def test_one_caller_leaves_streams_for_others() -> None:
    async def test() -> None:
        server = Server("legacy")
        http = Http(server.asgi(legacy_sse=True))
        streams = [http.start(method="GET", path="/sse", client="10.0.0.1") for _ in range(150)]
        for stream in streams:
            await stream.started.wait()
        assert [stream.status for stream in streams].count(200) == MAX_PEERS // SHARE
        refused = next(stream for stream in streams if stream.status == 503)
        assert f"at most {MAX_PEERS} streams" in refused.json()["error"]["message"]
        other = http.start(method="GET", path="/sse", client="10.0.0.2")
        await other.started.wait()
        assert other.status == 200
        for stream in (*streams, other):
            stream.disconnect()
        await asyncio.wait([stream.task for stream in (*streams, other)])
        await server.runtime.stop()

    run(test())


def test_calls_that_run_have_a_number_and_a_size() -> None:
    server = Server("legacy")
    begun, go = [], asyncio.Event()

    @server.tool
    async def wait(text: str = "") -> str:
        begun.append(len(text))
        await go.wait()
        return "done"

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2024-11-05", id="first"))
            await say(message(None, "notifications/initialized"))
            for id in range(20):
                await say(message(id, "tools/call", {"name": "wait", "arguments": {"text": "x" * 500_000}}))
            for id in range(20, 800):
                await say(message(id, "tools/call", {"name": "wait"}))
            refused = [found for found in map(json_of, stream.events()[2:]) if "error" in found]
            assert 5 < len([size for size in begun if size]) < 10
            assert 400 < len(begun) == 800 - len(refused) < 600
            assert {"wait for answers" in found["error"]["message"] for found in refused} == {True}
            go.set()
            await stream.until(lambda r: len(answers(r)) == 801)
            await say(message(900, "tools/call", {"name": "wait", "arguments": {"text": "x" * 500_000}}))
            await stream.until(lambda r: 900 in answers(r))

    run(test())


def test_a_session_belongs_to_the_user_who_opened_its_stream() -> None:
    async def test() -> None:
        server = Server("legacy", auth=lambda token: token)
        http = Http(server.asgi(legacy_sse=True))
        ada, eve = ({"authorization": f"Bearer {name}"} for name in ("ada", "eve"))
        stream = http.start(method="GET", path="/sse", headers=ada)
        await stream.until(lambda r: r.events())
        path, _, query = stream.events()[0]["data"].partition("?")
        post = {"path": path, "query": query.encode()}
        body = initialize("2024-11-05", id=0)
        assert (await http.send(body, headers=eve, **post)).status == 404
        assert (await http.send(body, headers=ada, path=path, query=b"session_id=unknown")).status == 404
        assert (await http.send(body, headers=ada, **post)).status == 202
        await stream.until(lambda r: answers(r) == [0])
        stream.disconnect()
        await asyncio.wait([stream.task])
        assert (await http.send(body, headers=ada, **post)).status == 404  # it has ended with its stream
        await server.runtime.stop()

    run(test())


def test_each_endpoint_has_one_method() -> None:
    async def test() -> None:
        server = Server("legacy")
        http = Http(server.asgi(legacy_sse=True))
        for path, wrong, right in (("/sse", "POST", "GET"), ("/messages", "GET", "POST")):
            refused = await http.send(b"{}", method=wrong, path=path)
            assert (refused.status, refused.headers["allow"]) == (405, right)
        await server.runtime.stop()

    run(test())


def test_a_client_that_goes_takes_its_calls_with_it_and_hears_of_changes_before() -> None:
    server, begun, ended = waiting()

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2024-11-05", id=0))
            await say(message(None, "notifications/initialized"))
            server.notify_changed("tools")
            await stream.until(lambda r: "list_changed" in r.events()[-1]["data"])
            await say(message(1, "tools/call", {"name": "wait"}))
            await begun.wait()
            stream.disconnect()
            await ended.wait()

    run(test())


def test_what_a_client_sends_while_it_goes_does_not_run() -> None:
    server, begun, _ = waiting()

    async def test() -> None:
        http = Http(server.asgi(legacy_sse=True))
        stream = http.start(method="GET", path="/sse")
        await stream.until(lambda r: r.events())
        path, _, query = stream.events()[0]["data"].partition("?")
        await http.send(initialize("2024-11-05", id=0), path=path, query=query.encode())
        call = http.start(message(1, "tools/call", {"name": "wait"}), path=path, query=query.encode())
        call.may_send.clear()  # its response is held up
        await asyncio.sleep(0)
        stream.disconnect()
        await asyncio.wait([stream.task])
        call.may_send.set()
        await call.done()
        await asyncio.sleep(0)
        assert not begun.is_set()
        await server.runtime.stop()

    run(test())


def test_calls_are_answered_when_the_server_stops(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("legacy")
    begun = asyncio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def test() -> None:
        app = server.asgi(legacy_sse=True)
        http = Http(app)
        busy, idle = (http.start(method="GET", path="/sse") for _ in range(2))
        for stream in (busy, idle):
            await stream.until(lambda r: r.events())
        path, _, query = busy.events()[0]["data"].partition("?")
        for body in (initialize("2024-11-05", id=0), message(1, "tools/call", {"name": "wait"})):
            await http.send(body, path=path, query=query.encode())
        await begun.wait()
        with caplog.at_level(logging.WARNING, "redstart"):
            assert app.end_calls()
        assert "1 call is not done" in caplog.text
        await asyncio.wait([busy.task, idle.task])  # nothing more is to be said on either
        assert answers(busy) == [0, 1]
        assert "stopping" in json_of(busy.events()[-1])["error"]["message"]
        await server.runtime.stop()

    run(test())


@pytest.mark.parametrize("root", ["/api", "/api/"])
def test_under_the_path_of_another_application(root: str) -> None:
    server = Server("mounted")

    async def test() -> None:
        http = Http(server.asgi(legacy_sse=True), root_path=root)
        stream = http.start(method="GET", path="/api/sse")
        await stream.until(lambda r: r.events())
        path, _, query = stream.events()[0]["data"].partition("?")
        assert path == "/api/messages"
        assert (await http.send(initialize("2024-11-05", id=0), path=path, query=query.encode())).status == 202
        await stream.until(lambda r: answers(r) == [0])
        assert (await http.send(method="GET", path="/apix/sse")).status == 404
        stream.disconnect()
        await asyncio.wait([stream.task])
        await server.runtime.stop()

    run(test())


def test_a_path_that_the_client_has_written_makes_no_event_of_its_own() -> None:
    server = Server("mounted")

    async def test() -> None:
        http = Http(server.asgi(legacy_sse=True), root_path="/a\n\ndata: b")
        stream = http.start(method="GET", path="/a\n\ndata: b/sse")
        await stream.until(lambda r: r.events())
        (event,) = stream.events()
        assert event["data"].startswith("/a%0A%0Adata:%20b/messages?session_id=")
        stream.disconnect()
        await asyncio.wait([stream.task])
        await server.runtime.stop()

    run(test())


def test_a_client_that_goes_makes_room_for_the_subscriptions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIBED_BY_ALL", 2000)
    server = Server("legacy")

    @server.resource("docs://{name}")
    def docs(name: str) -> str:
        return name

    async def test() -> None:
        http = Http(server.asgi(legacy_sse=True))
        for _ in range(3):
            stream = http.start(method="GET", path="/sse")
            await stream.until(lambda r: r.events())
            path, _, query = stream.events()[0]["data"].partition("?")
            await http.send(initialize("2024-11-05", id=0), path=path, query=query.encode())
            body = message(1, "resources/subscribe", {"uri": "docs://" + "x" * 1000})
            await http.send(body, path=path, query=query.encode())
            await stream.until(lambda r: answers(r) == [0, 1])
            assert "result" in json_of(stream.events()[-1])
            stream.disconnect()
            await asyncio.wait([stream.task])
        await server.runtime.stop()

    run(test())


def test_a_tool_is_held_back_while_its_client_does_not_read() -> None:
    server, sent, go = Server("legacy"), 0, asyncio.Event()

    @server.tool
    async def count(ctx: Context) -> str:
        nonlocal sent
        for sent in range(1, 501):
            await ctx.progress(sent)
            await go.wait()
        return "counted"

    async def test() -> None:
        async with connected(server) as (stream, say):
            await say(initialize("2024-11-05", id=0))
            await say(message(1, "tools/call", {"name": "count", "_meta": {"progressToken": "t"}}))
            await stream.until(lambda r: b"progress" in r.body)
            stream.may_send.clear()
            go.set()
            last = -1
            while sent != last:
                last = sent
                for _ in range(10):
                    await asyncio.sleep(0)
            assert sent < 100
            stream.may_send.set()
            await stream.until(lambda r: 1 in answers(r))
            assert sent == 500

    run(test())
