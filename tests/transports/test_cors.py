"""CORS: pages of the sites in `allowed_origins=` can use the server from a browser, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redstart import Context, Server
from support import HANDSHAKES, LeapingLoop, initialize, leap, message, run
from transports.support import Http, Response

SITE = "https://app.example.com"
PREFLIGHT = {
    "origin": SITE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,last-event-id,mcp-param-region,mcp-session-id",
}


def serving(**options: Any) -> Http:
    server = Server("pages", auth=lambda token: token if token == "good" else None)

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.progress(1)
        return "counted"

    @server.route("/hook", methods=["PUT"])
    def hook() -> str:
        return "hooked"

    return Http(server.asgi(**{"allowed_origins": [SITE], "legacy_sse": True, **options}))


def may_read(response: Response) -> bool:
    """Whether a browser would let the page see it; what must never be there is not there."""
    assert "access-control-allow-credentials" not in response.headers
    allowed = response.headers.get("access-control-allow-origin")
    assert allowed != "*"
    if allowed is None:
        assert not any(name.startswith("access-control") for name in response.headers)
        return False
    assert response.headers["vary"] == "Origin"
    exposed = response.headers["access-control-expose-headers"].lower()
    assert exposed == "mcp-session-id, www-authenticate"
    return allowed == SITE


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/sse", "/messages", "/hook"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT"])
def test_a_preflight_is_answered_without_a_token(method: str, path: str) -> None:
    async def test() -> None:
        asked = {**PREFLIGHT, "access-control-request-method": method}
        response = await serving().send(method="OPTIONS", path=path, headers=asked)
        assert response.status == 200
        assert may_read(response)
        assert response.headers["access-control-allow-methods"] == method
        assert response.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
        assert int(response.headers["access-control-max-age"]) > 0

    run(test())


@pytest.mark.parametrize("names", ["", "a\x01b", "é", "x" * 5000, "a:b", "a;b"])
def test_odd_names_are_not_repeated(names: str) -> None:
    async def test() -> None:
        asked = {**PREFLIGHT, "access-control-request-headers": names}
        response = await serving().send(method="OPTIONS", headers=asked)
        assert response.status == 200
        assert "access-control-allow-headers" not in response.headers

    run(test())


def test_a_whole_session_of_a_page() -> None:
    async def test() -> None:
        http = serving(keep_alive=0.05)
        page = {"origin": SITE, "authorization": "Bearer good"}
        opened = await http.send(initialize(), headers=page)
        assert may_read(opened)
        session = {
            **page,
            "mcp-session-id": opened.headers["mcp-session-id"],
            "mcp-protocol-version": HANDSHAKES[-1],
        }
        assert may_read(await http.send(message(None, "notifications/initialized"), headers=session))
        called = message(1, "tools/call", {"name": "count", "arguments": {}, "_meta": {"progressToken": 1}})
        streamed = await http.send(called, headers=session)
        assert streamed.is_sse
        assert may_read(streamed)
        pushed = http.start(method="GET", headers=session)
        await pushed.started.wait()
        assert may_read(pushed)
        ended = await http.send(method="DELETE", headers=session)
        assert ended.status == 200
        assert may_read(ended)
        await pushed.done()
        assert may_read(await http.send(method="PUT", path="/hook", headers=page))

    run(test())


@pytest.mark.parametrize(
    ("headers", "options", "status"),
    [
        ({}, {}, 401),
        ({"authorization": "Bearer good", "accept": "image/png"}, {}, 406),
        ({"authorization": "Bearer good", "content-type": "text/plain"}, {}, 415),
        ({"authorization": "Bearer good", "content-length": "999999999"}, {}, 413),
        ({"authorization": "Bearer good"}, {"path": "/other"}, 404),
    ],
)
def test_a_page_can_read_errors(headers: dict[str, str], options: dict[str, Any], status: int) -> None:
    async def test() -> None:
        response = await serving(**options).send(initialize(), headers={"origin": SITE, **headers})
        assert response.status == status
        assert may_read(response)

    run(test())


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://evil.example.com", 403), ("http://localhost:3000", 403), ("null", 403), (f"{SITE}.evil.com", 403)],
)
def test_nothing_is_said_to_pages_of_other_sites(origin: str, status: int) -> None:
    """Those of this machine are no exception: a page of another local server may only send what needs no preflight."""

    async def test() -> None:
        http = serving()
        response = await http.send(method="OPTIONS", headers={**PREFLIGHT, "origin": origin})
        assert response.status == status
        assert not may_read(response)
        assert "allowed_origins" in response.json()["error"]["message"]
        plain = {"origin": origin, "authorization": "Bearer good"}
        assert not may_read(await http.send(initialize(), headers=plain))
        assert not may_read(await http.send(method="PUT", path="/hook", headers=plain))

    run(test())


def test_the_call_of_a_page_that_has_gone_is_cancelled() -> None:
    async def test() -> None:
        server, began, ended = Server("pages"), asyncio.Event(), asyncio.Event()

        @server.tool
        async def wait() -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        http = Http(server.asgi(allowed_origins=[SITE]))
        response = http.start_modern(1, "tools/call", {"name": "wait", "arguments": {}}, headers={"origin": SITE})
        await began.wait()
        response.disconnect()
        await ended.wait()

    run(test())


def patient(**options: Any) -> Http:
    server = Server("pages")

    @server.tool
    async def pause() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "paused"

    return Http(server.asgi(allowed_origins=[SITE], **options))


@pytest.mark.parametrize("origin", [None, SITE])
def test_nothing_of_a_call_is_left_when_it_is_answered(origin: str | None) -> None:
    async def test() -> None:
        http = patient()
        response = await http.modern(1, "tools/call", {"name": "pause"}, headers={"origin": origin})
        assert response.status == 200
        await http.app.runtime.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(test())


@pytest.mark.parametrize("origin", [None, SITE])
def test_nothing_of_a_stream_is_left_when_its_session_has_ended(origin: str | None) -> None:
    async def test() -> None:
        http = patient()
        session = await http.open(headers={"origin": origin})
        stream = http.start(method="GET", headers=session)
        await stream.started.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (await http.send(method="DELETE", headers=session)).status == 200
        await stream.done()
        await http.app.runtime.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(test())


def test_a_listener_that_reads_again_in_time_goes_on() -> None:
    async def test() -> None:
        http = patient(write_deadline=200, keep_alive=20)
        wanted = {"notifications": {"toolsListChanged": True}}
        listening = http.start_modern(1, "subscriptions/listen", wanted)
        await listening.started.wait()
        listening.may_send.clear()
        for _ in range(4):
            await leap(30)
        listening.may_send.set()
        for _ in range(3):
            await leap(30)
        await listening.until(lambda r: r.body.count(b": keep-alive") >= 3)
        listening.disconnect()
        await listening.done()

    run(test(), loop=LeapingLoop, seconds=600)


@pytest.mark.parametrize("origin", [None, SITE])
def test_a_listener_that_does_not_read_is_hung_up_on(origin: str | None) -> None:
    async def test() -> None:
        http = patient(write_deadline=0.1, keep_alive=0.02)
        listening = http.start_modern(
            1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, headers={"origin": origin}
        )
        await listening.started.wait()
        listening.may_send.clear()
        with pytest.raises(ConnectionAbortedError):
            await listening.task

    run(test())


def test_a_server_for_every_site_names_the_site() -> None:
    async def test() -> None:
        http = serving(allowed_origins=["*"])
        assert may_read(await http.send(initialize(), headers={"origin": SITE, "authorization": "Bearer good"}))

    run(test())


def test_only_options_asks_for_permission() -> None:
    async def test() -> None:
        answer = await serving().send(initialize(), headers={**PREFLIGHT, "authorization": "Bearer good"})
        assert "result" in answer.json()
        plain = {"origin": SITE, "authorization": "Bearer good"}
        assert (await serving().send(method="OPTIONS", headers=plain)).status == 405

    run(test())


def test_who_is_not_a_page_gets_no_such_headers() -> None:
    async def test() -> None:
        assert not may_read(await serving().send(initialize(), headers={"authorization": "Bearer good"}))

    run(test())
