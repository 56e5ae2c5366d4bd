"""Full OAuth round trips: the `mcp` client with its own OAuth provider, `redstart run --http` with `auth=JWT(…)`, and
an authorization server that we did not write. The client is told the URL of the MCP endpoint and nothing else.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from auth.provider import Provider, oidc_provider, sign_in
from support import free_port, run, serving

pytestmark = pytest.mark.timeout(400)
CALLBACK = "http://127.0.0.1:1/callback"
LATER = 601
"""Seconds by which all clocks are set ahead, so that access tokens of 600 seconds have expired."""
PATIENCE = 120.0
KNOWN = {
    "client_id": "known",
    "token_endpoint_auth_method": "none",
    "grant_types": ["authorization_code", "refresh_token"],
}
SERVER = """
import time

from redstart import Context, Server
from redstart.auth import JWT, fetch, keys

keys.PAUSE = 0.0  # a new key is looked for at once, not after half a minute
fetch.SECONDS = 20.0  # a machine that runs tests may be slow
auth = JWT(issuer={issuer!r}, audience="http://127.0.0.1:{port}/mcp", scopes="mcp", leeway=0)
server = Server("notes", auth=auth)


@server.tool
async def whoami(ctx: Context) -> str:
    return ctx.user.subject


@server.tool(scopes="admin", visible=lambda user: True)
async def reset(ctx: Context) -> str:
    return " ".join(sorted(ctx.user.scopes))


@server.route("/later", methods=["POST"])
async def later(request) -> None:
    now, seconds = time.time, float(request.query["seconds"])
    time.time = lambda: now() + seconds
"""


class Person:
    """Who sits at the browser, and what the client keeps for them (`mcp.client.auth.TokenStorage`)."""

    def __init__(self, provider: Provider, name: str, client: Any = None) -> None:
        self.provider = provider
        self.name = name
        self.asked: list[dict[str, str]] = []
        """The query of each authorization request."""
        self.sent: list[httpx2.Request] = []
        """The requests of the client."""
        self.tokens: Any = None
        self.client: Any = client
        self._landed = ""

    async def go_to(self, url: str) -> None:
        self.asked.append({name: values[0] for name, values in parse_qs(urlsplit(url).query).items()})
        async with httpx2.AsyncClient(timeout=PATIENCE) as browser:
            self._landed = await sign_in(browser, url, self.provider, self.name)

    async def come_back(self) -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        said = {name: values[0] for name, values in parse_qs(urlsplit(self._landed).query).items()}
        assert "code" in said, said
        return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info

    def paths(self) -> list[str]:
        """Where the client has been, other than at the endpoint."""
        return [request.url.path for request in self.sent if request.url.path != "/mcp"]

    async def note(self, request: httpx2.Request) -> None:
        self.sent.append(request)

    @asynccontextmanager
    async def connected(self, url: str, mode: str = "2026-07-28") -> AsyncIterator[Any]:
        from mcp.client.auth import OAuthClientProvider
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared.auth import OAuthClientMetadata

        metadata = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="A client of the tests")
        login = OAuthClientProvider(url, metadata, self, self.go_to, self.come_back)
        hooks = {"request": [self.note]}
        async with (
            httpx2.AsyncClient(auth=login, event_hooks=hooks, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            yield client


async def call(client: Any, tool: str = "whoami") -> str:
    result = await client.call_tool(tool, {})
    assert not result.is_error, result
    return str(result.content[0].text)


@contextmanager
def served(folder: Path, provider: Provider) -> Iterator[str]:
    port, script = free_port(), folder / "notes.py"
    script.write_text(SERVER.format(issuer=provider.url, port=port))
    with serving([sys.executable, "-m", "redstart", "run", str(script), "--http", "--port", str(port)], port) as url:
        yield url


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    known = {**KNOWN, "redirect_uris": [CALLBACK], "application_type": "native"}
    with oidc_provider(scopes=["mcp", "admin"], registration=True, clients=[known]) as found:
        yield found


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_from_the_url_to_a_call(provider: Provider, tmp_path: Path, mode: str) -> None:
    async def main(url: str) -> None:
        ada, bob = Person(provider, "ada"), Person(provider, "bob")
        async with ada.connected(url, mode) as client:
            assert await call(client) == "ada"
            # Our 401 names our metadata, which names the issuer, whose metadata names where to register.
            assert ada.paths()[0] == "/.well-known/oauth-protected-resource/mcp"
            assert [path for path in ada.paths() if path in ("/reg", "/token")] == ["/reg", "/token"]
            (asked,) = ada.asked
            assert (asked["code_challenge_method"], asked["resource"]) == ("S256", url)
            assert set(asked["scope"].split()) - {"offline_access"} == {"mcp"}  # which the client adds
            async with bob.connected(url, mode) as other:
                assert [await call(one) for one in (client, other, client)] == ["ada", "bob", "ada"]
        assert (len(ada.asked), len(bob.asked)) == (1, 1)

    with served(tmp_path, provider) as url:
        run(main(url), seconds=PATIENCE)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_call_that_needs_more_scopes(provider: Provider, tmp_path: Path, mode: str) -> None:
    """With a client that is registered before: one that registers itself is registered for the first scopes only."""

    async def main(url: str) -> None:
        from mcp.shared.auth import OAuthClientInformationFull

        ada = Person(provider, "ada", OAuthClientInformationFull(redirect_uris=[CALLBACK], **KNOWN))
        async with ada.connected(url, mode) as client:
            assert await call(client) == "ada"
            assert await call(client, "reset") == "admin mcp"
            assert "/reg" not in ada.paths()
            wanted = [set(one["scope"].split()) - {"offline_access"} for one in ada.asked]
            assert wanted == [{"mcp"}, {"mcp", "admin"}]  # our 403 names all scopes that the call needs
            assert [await call(client), await call(client, "reset")] == ["ada", "admin mcp"]
            assert len(ada.asked) == 2

    with served(tmp_path, provider) as url:
        run(main(url), seconds=PATIENCE)


def test_a_token_for_another_resource_of_the_same_issuer_is_refused(provider: Provider, tmp_path: Path) -> None:
    async def main(url: str, other: str) -> None:
        ada = Person(provider, "ada")
        async with ada.connected(other) as client:
            assert await call(client) == "ada"
        bearer = {"authorization": f"Bearer {ada.tokens.access_token}"}
        async with httpx2.AsyncClient(headers=bearer, timeout=PATIENCE) as http:
            sent = {"accept": "application/json, text/event-stream"}
            there, here = [await http.post(to, json={"jsonrpc": "2.0"}, headers=sent) for to in (other, url)]
        assert (there.status_code, here.status_code) == (400, 401)
        assert 'error="invalid_token"' in here.headers["www-authenticate"]

    (tmp_path / "other").mkdir()
    with served(tmp_path, provider) as url, served(tmp_path / "other", provider) as other:
        run(main(url, other), seconds=PATIENCE)


def test_a_key_that_is_withdrawn_ends_its_tokens_and_clients_sign_in_again(provider: Provider, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        ada, bob = Person(provider, "ada"), Person(provider, "bob")
        async with ada.connected(url) as client:
            assert await call(client) == "ada"
            old = ada.tokens.access_token
            provider.rotate_key()
            async with bob.connected(url) as other:  # its token has a new key, so the keys are read again
                assert await call(other) == "bob"
            assert await call(client) == "ada"
            assert ada.tokens.access_token != old
            assert len(ada.asked) == 2
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            answer = await http.post(url, json={}, headers={"authorization": f"Bearer {old}"})
            assert answer.status_code == 401

    with served(tmp_path, provider) as url:
        run(main(url), seconds=PATIENCE)


@pytest.mark.parametrize("known", [True, False], ids=["the client knows", "the server says so"])
def test_a_token_that_has_expired(tmp_path: Path, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows it refreshes its token; one whose clock is behind is told by a 401, and signs in again."""

    async def main(provider: Provider, url: str) -> None:
        ada = Person(provider, "ada")
        async with ada.connected(url) as client:
            assert await call(client) == "ada"
            first = ada.tokens
            assert first.refresh_token
            provider.set_clock_ahead(LATER)
            async with httpx2.AsyncClient(timeout=PATIENCE) as http:
                assert (await http.post(f"{url.removesuffix('mcp')}later?seconds={LATER}")).status_code == 204
                answer = await http.post(url, json={}, headers={"authorization": f"Bearer {first.access_token}"})
                assert answer.status_code == 401
            if known:
                now = time.time
                monkeypatch.setattr(time, "time", lambda: now() + LATER)
            assert await call(client) == "ada"
            assert ada.tokens.access_token != first.access_token
            assert len(ada.asked) == (1 if known else 2)

    with oidc_provider(scopes=["mcp", "admin"], registration=True) as provider, served(tmp_path, provider) as url:
        run(main(provider, url), seconds=PATIENCE)
