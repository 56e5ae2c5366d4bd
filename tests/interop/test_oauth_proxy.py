"""OAuthProxy with the clients of others: the `mcp` package and its OAuth provider, and the TypeScript client.

They find out by themselves where to get tokens, register or show their document, and refresh. The identity provider is
npm's oidc-provider, and the test is the person at the browser.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from auth.provider import Provider, oidc_provider, sign_in
from auth.proxied import Browser, application, proxied
from support import free_port, make_certificate

CALLBACK = "http://127.0.0.1:7777/callback"
PORTS = [free_port() for _ in range(2)]
OPTIONS: dict[str, Any] = {"scopes": "mcp", "optional_scopes": "admin"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with oidc_provider(clients=[application(*PORTS)]) as running:
        yield running


@pytest.fixture(scope="module")
def url(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with proxied(tmp_path_factory.mktemp("proxy"), provider, PORTS[0], **OPTIONS) as running:
        yield running


async def person(url: str, provider: Provider, authorize: str) -> dict[str, str]:
    """What the client gets at its redirect URI, after a person has opened this URL, agreed and signed in."""
    async with Browser(url, provider) as browser:
        page = await browser.http.get(authorize)
        assert page.status_code == 200, page.text
        assert "<h1>Allow Interop" in page.text
        sent = await browser.agree(page)
        callback = await sign_in(browser.http, sent.headers["location"], provider)
        answer = await browser.http.get(callback)
        assert answer.status_code == 303, answer.text
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        return {name: values[0] for name, values in query.items()}


# ---------------------------------------------------------------- the `mcp` package


class Storage:
    """What the client keeps."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class McpClient:
    """The client of the `mcp` package, with its OAuth provider."""

    def __init__(self, url: str, provider: Provider, document: str | None = None) -> None:
        self.url = url
        self.provider = provider
        self.document = document
        self.storage = Storage()
        self.asked: list[str] = []

    async def call(self, *tools: str, mode: str = "2026-07-28", pause: float = 0) -> list[str]:
        import httpx2
        from mcp.client.auth import OAuthClientProvider
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

        async def redirect(to: str) -> None:
            self.asked.append(to)

        async def answer() -> AuthorizationCodeResult:
            return AuthorizationCodeResult(**await person(self.url, self.provider, self.asked[-1]))

        itself = OAuthClientMetadata(client_name="Interop", redirect_uris=[CALLBACK], token_endpoint_auth_method="none")
        auth = OAuthClientProvider(self.url, itself, self.storage, redirect, answer, self.document)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=30) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
        ):
            said: list[str] = []
            for tool in tools:
                await asyncio.sleep(pause if said else 0)
                said.append(str((await client.call_tool(tool, {})).content[0].text))
            return said

    @property
    def scopes(self) -> list[str]:
        """What each sign-in has asked for."""
        return [parse_qs(urlsplit(url).query).get("scope", [""])[0] for url in self.asked]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_mcp_client_registers_signs_in_and_steps_up(url: str, provider: Provider, mode: str) -> None:
    client = McpClient(url, provider)
    assert asyncio.run(client.call("whoami", "reset", "whoami", mode=mode)) == ["ada", "reset", "ada"]
    assert client.scopes[0] == "mcp"
    assert sorted(client.scopes[1].split()) == ["admin", "mcp"]
    assert len(client.asked) == 2
    query = parse_qs(urlsplit(client.asked[0]).query)
    assert query["resource"] == [url]
    assert query["code_challenge_method"] == ["S256"]
    # A second run has the tokens, and asks nobody.
    assert asyncio.run(client.call("whoami", mode=mode)) == ["ada"]
    assert len(client.asked) == 2


def test_mcp_client_refreshes(provider: Provider, tmp_path: Path) -> None:
    with proxied(tmp_path, provider, PORTS[1], token_seconds=3, **OPTIONS) as url:
        client = McpClient(url, provider)
        # The time that a token lives is what is tested. It must be enough for the first call, on a busy machine too.
        assert asyncio.run(client.call("whoami", "whoami", pause=3.1)) == ["ada", "ada"]
        assert len(client.asked) == 1


# ---------------------------------------------------------------- keys that are withdrawn


AT_ONCE = (0.0, 0.0)
"""The keys of the provider are read again at once."""


def test_a_key_of_the_provider_that_is_replaced_is_read(tmp_path: Path) -> None:
    """Who is signed in stays so: our tokens are not signed by the provider."""

    async def main() -> None:
        ada = McpClient(url, own)
        assert await ada.call("whoami") == ["ada"]
        own.rotate_key()
        other = McpClient(url, own)
        assert await other.call("whoami") == ["ada"]
        assert await ada.call("whoami") == ["ada"]
        assert len(ada.asked) == len(other.asked) == 1

    with (
        oidc_provider(clients=[application(PORTS[1])]) as own,
        proxied(tmp_path, own, PORTS[1], key_seconds=AT_ONCE, **OPTIONS) as url,
    ):
        asyncio.run(main())


def test_a_key_of_the_provider_that_is_withdrawn_lets_nobody_in(tmp_path: Path) -> None:
    """Neither who signs in, nor who is signed in already, as soon as the provider is asked again about them.

    The sign-in itself stays: an ID token that is not valid says nothing about the person.
    """

    async def main() -> None:
        ada = McpClient(url, own)
        assert await ada.call("whoami") == ["ada"]
        own.withdraw_key()
        async with Browser(url, own) as browser:
            await browser.register(client_name="Interop")
            found = await browser.authorize()
            while "error" not in found:  # ID tokens are checked with the keys that are known, until others were read
                found = await browser.authorize()
            assert found["error"] == "access_denied"
            assert "did not say who" in found["error_description"]
            browser.client_id = ada.storage.client.client_id
            refused = await browser.refresh(ada.storage.tokens.refresh_token)
            assert (refused.status_code, refused.json()["error"]) == (503, "temporarily_unavailable")

    with (
        # The tokens of the provider are always about to expire, so a refresh of ours is one there, with an ID token.
        oidc_provider(clients=[application(PORTS[1])], seconds=30) as own,
        proxied(tmp_path, own, PORTS[1], key_seconds=AT_ONCE, **OPTIONS) as url,
    ):
        asyncio.run(main())


def test_a_key_of_ours_that_is_withdrawn_ends_what_was_made_with_it(tmp_path: Path) -> None:
    """A new key in front changes nothing for clients. Without the old one its tokens are refused, and only those."""
    old, new = "the old key, long enough", "the new key, long enough"
    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'kept.db'}", **OPTIONS}

    async def refused(url: str, tokens: Any) -> None:
        async with Browser(url, own) as browser:
            assert (await browser.call(tokens.access_token)).status_code == 401
            browser.client_id = client.storage.client.client_id
            answer = await browser.refresh(tokens.refresh_token)
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")

    with oidc_provider(clients=[application(PORTS[1])]) as own:
        client = McpClient(f"http://127.0.0.1:{PORTS[1]}/mcp", own)
        with proxied(tmp_path, own, PORTS[1], keys=[old], **options):
            assert asyncio.run(client.call("whoami")) == ["ada"]
            first = client.storage.tokens
        with proxied(tmp_path, own, PORTS[1], keys=[new, old], **options):
            assert asyncio.run(client.call("whoami")) == ["ada"]
            assert (client.storage.tokens, len(client.asked)) == (first, 1)
            assert asyncio.run(client.call("reset")) == ["reset"]  # a step-up: another sign-in, with the new key
            assert len(client.asked) == 2
        with proxied(tmp_path, own, PORTS[1], keys=[new], **options) as url:
            asyncio.run(refused(url, first))
            assert asyncio.run(client.call("whoami", "reset")) == ["ada", "reset"]
            assert len(client.asked) == 2


# ---------------------------------------------------------------- client ID metadata documents


@contextmanager
def https_document(folder: Path, path: str, document: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """A document at an https URL of this machine, whose `client_id` is that URL; and the certificate to trust."""
    certificate, key = make_certificate(folder, "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({**document, "client_id": url}).encode()
            self.send_response(200 if self.path == path else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = f"https://127.0.0.1:{server.server_port}{path}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield url, certificate
        finally:
            server.shutdown()
            thread.join()


def test_mcp_client_with_a_metadata_document(provider: Provider, tmp_path: Path) -> None:
    document = {"client_name": "Interop", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    with (
        https_document(tmp_path, "/client.json", document) as (id, certificate),
        proxied(tmp_path, provider, PORTS[1], trust=certificate, trusted_clients=[id], **OPTIONS) as url,
    ):
        client = McpClient(url, provider, document=id)
        assert asyncio.run(client.call("whoami")) == ["ada"]
        assert parse_qs(urlsplit(client.asked[0]).query)["client_id"] == [id]


# ---------------------------------------------------------------- the TypeScript client


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_typescript_client(url: str, provider: Provider, typescript: list[str], mode: str) -> None:
    script = Path(typescript[1]).with_name("oauth.mjs")

    async def main() -> list[dict[str, Any]]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(typescript[0], script, mode, url, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        try:
            async with asyncio.timeout(60):
                while line := await process.stdout.readline():
                    seen.append(json.loads(line))
                    if "authorize" in seen[-1]:
                        answer = await person(url, provider, seen[-1]["authorize"])
                        process.stdin.write(json.dumps(answer).encode() + b"\n")
                        await process.stdin.drain()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return seen

    seen = asyncio.run(main())
    asked = [parse_qs(urlsplit(one["authorize"]).query) for one in seen if "authorize" in one]
    assert [sorted(one["scope"][0].split()) for one in asked] == [["mcp"], ["admin", "mcp"]]
    assert all(one["resource"] == [url] for one in asked)
    said = [one for one in seen if "authorize" not in one]
    assert said == [{"whoami": "ada"}, {"reset": "reset"}, {"refreshed": True, "whoami": "ada"}]
