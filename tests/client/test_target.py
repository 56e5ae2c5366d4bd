"""What a client can be connected to, and who it can be there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from client.support import Request, guarded, http_server, modern
from redstart import Server
from redstart.client import Client, ClientError
from support import run


@pytest.mark.parametrize("target", ["server", "ftp://x/y", b"x", 7, None, {"command": "x"}, [], Path("server.txt")])
def test_what_is_no_target_fails_at_once(target: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Client(target)


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (guarded, {"user": "ada", "token": "t-ada"}, "either user= or token="),
        (guarded, {"user": True}, "bool True is not a user"),
        (guarded, {"user": ""}, "is not a user"),
        (guarded, {"token": ""}, "token= must be a non-empty str"),
        (guarded, {"token": 5}, "token must be a text"),
        (lambda: Server("open"), {"token": "t-ada"}, "has no auth="),
        (lambda: "http://127.0.0.1:1/mcp", {"user": "ada"}, "user= needs a Server object"),
        (lambda: "http://127.0.0.1:1/mcp", {"token": "x", "headers": {"authorization": "Bearer y"}}, "either token="),
        (lambda: ["python", "server.py"], {"token": "x"}, "a command has no users"),
        (lambda: "server.py", {"user": "ada"}, "a command has no users"),
    ],
)
def test_what_cannot_say_who_the_client_is_is_refused(target: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Client(target(), **options)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"token": text}, "Authorization") for text in ("s3cret\n", "s3cret ", "s3cret\x00", "s3cret\u2026")]
    + [({"headers": {"X-Api-Key": "s3cret\r\nX-Other: y"}}, "X-Api-Key")],
)
def test_a_secret_that_no_header_can_have_is_not_in_the_error(options: dict[str, Any], name: str) -> None:
    """Mostly it was read from a file, with the end of its line."""

    async def main() -> None:
        async with http_server(modern(lambda request: request.result({}))) as url, Client(url, **options):
            pass

    with pytest.raises(ValueError, match=f"the header {name} ") as caught:
        run(main())
    assert "s3cret" not in str(caught.value)


def test_without_httpx2_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    for module in ("http", "http_endpoint", "http_sse"):
        monkeypatch.delitem(sys.modules, f"redstart.client.{module}", raising=False)
    with pytest.raises(ClientError, match=r'pip install "redstart\[client\]"'):
        Client("http://127.0.0.1:1/mcp")


def test_a_token_is_a_header() -> None:
    seen: list[str] = []

    async def handler(request: Request) -> None:
        seen.append(request.headers["authorization"])
        await request.result({"resultType": "complete"})

    async def main() -> None:
        async with http_server(modern(handler)) as url, Client(url, token="s3cret") as c:
            await c.request("x/y")

    run(main())
    assert seen == ["Bearer s3cret"]
