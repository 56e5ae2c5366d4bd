"""Inside of FastAPI, Starlette and Django: both spellings of the path, and the lifespan of the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redstart import Server

App = Callable[[Any, Any, Any], Awaitable[None]]

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = [
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"add"),
]


def make_server(seen: list[str] | None = None, fail: bool = False) -> Server:
    seen = [] if seen is None else seen

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[list[str]]:
        seen.append("started")
        if fail:
            raise ConnectionError("no database at postgres://ada:secret@db")
        yield seen
        seen.append("stopped")

    server = Server("mounted", lifespan=lifespan)

    @server.tool
    async def add(a: int, b: int = 2) -> int:
        return a + b

    return server


def in_fastapi(server: Server, **options: Any) -> App:
    from fastapi import FastAPI

    mcp = server.asgi()
    app = FastAPI(**options)
    app.add_route("/mcp", mcp)
    app.add_route("/mcp/", mcp)
    found: App = app
    return found


def in_starlette(server: Server, **options: Any) -> App:
    from starlette.applications import Starlette
    from starlette.routing import Route

    mcp = server.asgi()
    app: App = Starlette(routes=[Route("/mcp", mcp), Route("/mcp/", mcp)], **options)
    return app


def in_django(server: Server, **options: Any) -> App:
    """As the Django docs show for a second ASGI application: by the path, in asgi.py."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="tests only")
        django.setup()
    from django.core.asgi import get_asgi_application

    mcp, site = server.asgi(), get_asgi_application()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        mine = scope["type"] == "lifespan" or scope["path"] in ("/mcp", "/mcp/")
        await (mcp if mine else site)(scope, receive, send)

    return app


urlpatterns: list[Any] = []
WAYS = [in_fastapi, in_starlette, in_django]


@asynccontextmanager
async def running(app: App) -> AsyncIterator[MutableMapping[str, Any]]:
    """An ASGI server's lifespan protocol around a test; the answer to the startup."""
    to_app: asyncio.Queue[Any] = asyncio.Queue()
    to_server: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.ensure_future(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, to_app.get, to_server.put)
    )
    to_app.put_nowait({"type": "lifespan.startup"})
    answer = await asyncio.wait_for(to_server.get(), 10)
    yield answer
    if answer["type"] == "lifespan.startup.complete":
        to_app.put_nowait({"type": "lifespan.shutdown"})
        assert (await asyncio.wait_for(to_server.get(), 10))["type"] == "lifespan.shutdown.complete"
    await asyncio.wait([life])


async def post(app: App, path: str, host: bytes = b"localhost:8000") -> tuple[int, dict[bytes, bytes], bytes]:
    params = {"name": "add", "arguments": {"a": 40}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
        "headers": [(b"host", host), *HEADERS], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await asyncio.wait_for(app(scope, receive, send), 10)
    reply = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), reply


@pytest.mark.parametrize("mount", WAYS)
def test_both_spellings_are_served_without_a_redirect(mount: Callable[..., App]) -> None:
    seen: list[str] = []
    server = make_server(seen)
    app = mount(server)

    async def main() -> None:
        for path in ("/mcp", "/mcp/"):  # the lifespan starts with the first request, and once
            status, _, body = await post(app, path)
            assert status == 200, body
            assert json.loads(body)["result"]["content"][0]["text"] == "42"
        for path in ("/mcp/mcp", "/mcpx"):
            assert (await post(app, path))[0] == 404
        assert seen == ["started"]
        await server.runtime.stop()

    asyncio.run(main())


@pytest.mark.parametrize("mount", WAYS)
def test_the_lifespan_ends_with_the_application(mount: Callable[..., App], caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    server = make_server(seen)
    app = mount(server, lifespan=server.lifespan_context)

    async def main() -> None:
        async with running(app) as answer:
            assert answer["type"] == "lifespan.startup.complete"
            assert seen == ["started"]
            assert (await post(app, "/mcp"))[0] == 200
        assert seen == ["started", "stopped"]

    asyncio.run(main())
    assert caplog.records == []


def test_a_lifespan_that_nobody_ends_is_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server()
    app = in_starlette(server)

    async def main() -> None:
        for _ in range(2):
            assert (await post(app, "/mcp"))[0] == 200
        await server.runtime.stop()

    asyncio.run(main())
    assert [record.getMessage().count("server.lifespan_context") for record in caplog.records] == [1]


def test_a_lifespan_that_fails_is_a_503_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    app = in_starlette(make_server(fail=True))

    async def main() -> None:
        for _ in range(3):
            status, _, body = await post(app, "/mcp")
            assert status == 503
            assert "did not start" in json.loads(body)["error"]["message"]
            assert b"database" not in body

    asyncio.run(main())
    [record] = caplog.records
    assert "mounted did not start" in record.getMessage()
    assert "ConnectionError: no database" in record.getMessage()
    assert "secret" not in record.getMessage()


@pytest.mark.parametrize("mount", WAYS)
def test_a_lifespan_that_fails_keeps_the_application_from_starting(mount: Callable[..., App]) -> None:
    server = make_server(fail=True)
    app = mount(server, lifespan=server.lifespan_context)

    async def main() -> None:
        async with running(app) as answer:
            assert answer["type"] == "lifespan.startup.failed"
            assert "no database" in answer["message"]

    asyncio.run(main())


def test_at_the_root_both_spellings_are_served_without_redirect() -> None:
    from fastapi import FastAPI

    app = FastAPI()
    app.mount("/", make_server().asgi())

    async def main() -> None:
        for path in ("/mcp", "/mcp/"):
            status, _, _ = await post(app, path)
            assert status == 200

    asyncio.run(main())


def test_a_strange_host_is_told_how_to_be_allowed() -> None:
    app = make_server().asgi()

    async def main() -> None:
        status, _, body = await post(app, "/mcp", host=b"mcp.example.com")
        assert status == 421
        assert b"allowed_hosts" in body

    asyncio.run(main())
