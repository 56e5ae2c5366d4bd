"""Where a peer may lead a client, and how much it may send."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from client.support import Request, http_server
from redstart.client import Client, SignInError
from redstart.client.oauth.web import MAX_ANSWER, OAuthWeb
from support import run

HERE = "http://127.0.0.1/mcp"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/x",
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "https://user@as.example/x",
        "https:///x",
        "https://[::1/x",
        "https://as.example/\x1b]0;title\x07",
        "https://\u0430s.example/x",
        "x",
        "",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(SignInError, match="must begin with https://"):
        run(OAuthWeb(HERE).get(url, "the document"))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "https://10.0.0.1/x", "https://[::1]/x", "https://169.254.169.254/"]
)
def test_a_server_on_the_internet_does_not_lead_to_private_addresses(url: str) -> None:
    with pytest.raises(SignInError, match="has a private address"):
        run(OAuthWeb("https://93.184.215.14/mcp").get(url, "the document"))


def test_a_large_answer_is_not_read_to_its_end() -> None:
    async def handler(request: Request) -> None:
        await request.answer(200, b'"' + b"x" * MAX_ANSWER + b'"')

    async def main() -> None:
        async with http_server(handler) as url:
            await OAuthWeb(url).get(url, "the document")

    with pytest.raises(SignInError, match="more than 262144 bytes"):
        run(main())


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff"])
def test_what_is_not_an_object_is_empty(body: bytes) -> None:
    async def handler(request: Request) -> None:
        await request.answer(200, body)

    async def main() -> object:
        async with http_server(handler) as url:
            return (await OAuthWeb(url).get(url, "the document")).body

    assert run(main()) == {}


def test_redirects_stay_within_their_origin_and_forms_are_never_redirected() -> None:
    seen: list[str] = []

    async def elsewhere(request: Request) -> None:
        seen.append("elsewhere")
        await request.answer(200, {})

    async def main() -> None:
        async with http_server(elsewhere) as other:

            async def handler(request: Request) -> None:
                seen.append(request.path)
                targets = {"/mcp": "/moved", "/away": other, "/round": "/round", "/broken": "https://["}
                if request.path in targets:
                    await request.answer(307, Location=targets[request.path])
                else:
                    await request.answer(200, {"found": True})

            async with http_server(handler) as url:
                web, origin = OAuthWeb(url), url.removesuffix("/mcp")
                assert (await web.get(url, "the document")).body == {"found": True}
                assert (await web.get(f"{origin}/away", "the document")).status == 307
                assert (await web.get(f"{origin}/broken", "the document")).status == 307
                assert (await web.post(url, "the form", {}, b"")).status == 307
                with pytest.raises(SignInError, match="redirects too often"):
                    await web.get(f"{origin}/round", "the document")

    run(main())
    assert "elsewhere" not in seen


# ---------------------------------------------------------------- names that mean something else the next time


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names mean: the first of the addresses at first, and so on. 127.0.0.2 is on the internet."""
    known: dict[str, list[str]] = {}

    def resolve(host: str | bytes, port: int, *args: Any, **options: Any) -> Any:
        named = host.decode() if isinstance(host, bytes) else host
        answers = known.get(named, [named])
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("redstart.client.oauth.web.is_public", lambda address: str(address) == "127.0.0.2")
    return known


@asynccontextmanager
async def listening(address: str, port: int = 0, answer: bytes = OK) -> AsyncIterator[tuple[int, list[str]]]:
    """A server at an address that answers always the same; its port, and what it was asked."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, address, port)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


def test_the_address_that_was_checked_is_the_one_that_is_asked(names: dict[str, list[str]]) -> None:
    """A name that is public when it is checked, and private when the connection is made (DNS rebinding)."""
    names.update({"localhost": ["127.0.0.2", "127.0.0.1"], "mcp.example": ["127.0.0.2"]})

    async def main() -> None:
        async with listening("127.0.0.1") as (port, private), listening("127.0.0.2", port) as (_, public):
            await OAuthWeb("https://mcp.example/mcp").get(f"http://localhost:{port}/x", "the document")
            assert len(public) == 1
            assert f"host: localhost:{port}\r\n" in public[0].lower()
            assert private == []

    run(main())


def test_a_name_that_becomes_private_is_refused(names: dict[str, list[str]]) -> None:
    """Also the name of the MCP server itself, and whatever that name means later."""
    names["localhost"] = ["127.0.0.2", "127.0.0.1"]

    async def main() -> None:
        async with listening("127.0.0.1") as (port, private), listening("127.0.0.2", port):
            url = f"http://localhost:{port}/mcp"
            web = OAuthWeb(url)
            web.met("127.0.0.2")
            await web.get(url, "the document")
            with pytest.raises(SignInError, match="has a private address"):
                await web.get(url, "the document")
            assert private == []

    run(main())


def test_where_the_server_has_answered_from_decides_and_not_what_its_name_means(names: dict[str, list[str]]) -> None:
    names.update({"mcp.example": ["127.0.0.1"], "as.example": ["127.0.0.1"]})
    web = OAuthWeb("https://mcp.example/mcp")
    web.met("127.0.0.2")
    with pytest.raises(SignInError, match="has a private address"):
        run(web.get("https://as.example/x", "the document"))


def test_a_server_that_moves_after_its_refusal_is_still_on_the_internet(names: dict[str, list[str]]) -> None:
    """It answers from a public address, and its name is private when the client looks whether it may lead there."""
    names["localhost"] = ["127.0.0.2", "127.0.0.1"]

    async def main() -> None:
        async with listening("127.0.0.1") as (port, private):
            told = f'WWW-Authenticate: Bearer resource_metadata="http://127.0.0.1:{port}/delete?all=1"'
            refusal = f"HTTP/1.1 401 Unauthorized\r\n{told}\r\nContent-Length: 0\r\n\r\n".encode()
            async with listening("127.0.0.2", answer=refusal) as (here, _):
                with pytest.raises(SignInError, match="has a private address"):
                    async with Client(f"http://localhost:{here}/mcp", auth="oauth"):
                        pass
            assert private == []

    run(main())


def test_every_address_is_tried(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """localhost is often ::1 first, and the server listens on 127.0.0.1 only."""

    def resolve(host: str, port: int, *args: Any, **options: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in ("127.0.0.3", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def main() -> int:
        async with listening("127.0.0.1") as (port, _):
            url = f"http://localhost:{port}/mcp"
            return (await OAuthWeb(url).get(url, "the document")).status

    assert run(main()) == 200


def test_a_url_that_the_user_has_given_may_be_private(names: dict[str, list[str]]) -> None:
    names["mcp.example"] = ["127.0.0.2"]

    async def main() -> int:
        async with listening("127.0.0.1") as (port, _):
            issuer = f"http://127.0.0.1:{port}"
            return (await OAuthWeb("https://mcp.example/mcp", [issuer]).get(f"{issuer}/x", "the document")).status

    assert run(main()) == 200


def test_a_proxy_finds_the_addresses_itself(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are not resolved here, and a server behind a proxy does not lead to this machine."""
    names.update({"as.example": ["127.0.0.1"], "mcp.example": ["127.0.0.1"]})
    monkeypatch.setenv("no_proxy", "")

    async def main() -> None:
        async with listening("127.0.0.1") as (port, asked):
            monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
            web = OAuthWeb("https://mcp.example/mcp")
            with pytest.raises(SignInError, match="cannot be reached"):  # this proxy does not speak TLS
                await web.get("https://as.example/x", "the document")
            assert asked[0].startswith("CONNECT as.example:443 HTTP/1.1")
            with pytest.raises(SignInError, match="has a private address"):
                await web.get(f"http://127.0.0.1:{port}/x", "the document")
            assert len(asked) == 1

    run(main())
