"""Mounted in FastAPI, Starlette and Django, with no lifespan wiring."""

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


def make_server() -> Server:
    started: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[list[str]]:
        started.append("started")
        yield started

    server = Server("mounted", lifespan=lifespan)

    @server.tool
    async def add(a: int, b: int = 2) -> int:
        return a + b

    return server


def in_fastapi(mcp: Any) -> App:
    from fastapi import FastAPI

    app: App = FastAPI()
    app.mount("/mcp", mcp)  # type: ignore[attr-defined]
    return app


def in_starlette(mcp: Any) -> App:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app: App = Starlette(routes=[Mount("/mcp", app=mcp)])
    return app


def in_django(mcp: Any) -> App:
    """As the Django docs show for a second ASGI application: by the path, in asgi.py."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="tests only")
        django.setup()
    from django.core.asgi import get_asgi_application

    site = get_asgi_application()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        mine = scope["type"] == "http" and scope["path"].startswith("/mcp")
        await (mcp if mine else site)(scope, receive, send)

    return app


urlpatterns: list[Any] = []


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


@pytest.mark.parametrize("mount", [in_fastapi, in_starlette, in_django])
def test_mounted_without_lifespan_wiring(mount: Callable[[Any], App]) -> None:
    server = make_server()
    app = mount(server.asgi())

    async def main() -> None:
        for _ in range(2):  # the lifespan starts with the first request, and once
            status, _, body = await post(app, "/mcp/")
            assert status == 200, body
            assert json.loads(body)["result"]["structuredContent"] == 42
        status, _, _ = await post(app, "/mcp/mcp")
        assert status == 404
        assert server.host.lifespan_state == ["started"]
        await server.host.stop()

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
