"""A server with OAuthProxy as a process, in front of npm's oidc-provider; and a client and a person who use it."""

from __future__ import annotations

import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from auth.provider import Provider, sign_in
from redstart.auth.keys import MAX_AGE, PAUSE
from support import modern, serving

KEYS = ("a key that is long enough",)
CALLBACK = "http://127.0.0.1:7777/callback"
VERIFIER = "v" * 64
CHALLENGE = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
_FIELD = re.compile(r'name="asked" value="([^"]+)"')

SCRIPT = """
from redstart import Context, Server
from redstart.auth import OAuthProxy, OpenID, fetch, keys

fetch.SECONDS = 20.0  # a machine that runs tests may be slow
keys.PAUSE = {pause!r}
keys.MAX_AGE = {max_age!r}

provider = OpenID(issuer={issuer!r}, client_id="web", client_secret="s3cret", name="The Provider")
auth = OAuthProxy(provider, **{options})
server = Server("notes", auth=auth, keys={keys!r}, store={store!r})


@server.tool
async def whoami(ctx: Context) -> str:
    return ctx.user.subject


@server.tool(scopes="admin", visible=lambda user: True)
async def reset() -> str:
    return "reset"


@server.tool
async def upstream(ctx: Context) -> str:
    return str(len(await auth.upstream_token(ctx.user)))
"""


TRUSTING = """
import ssl

from redstart.auth import fetch

fetch._tls = lambda: ssl.create_default_context(cafile={certificate!r})
"""


def application(*ports: int) -> dict[str, Any]:
    """What is registered at the provider, for servers on these ports."""
    return {
        "client_id": "web",
        "client_secret": "s3cret",
        "redirect_uris": [f"http://127.0.0.1:{port}/mcp/oauth/callback" for port in ports],
        "grant_types": ["authorization_code", "refresh_token"],
    }


@contextmanager
def proxied(
    folder: Path,
    provider: Provider,
    port: int,
    store: str | None = None,
    trust: Path | None = None,
    arguments: Sequence[str] = (),
    keys: Sequence[str] = KEYS,
    key_seconds: tuple[float, float] = (PAUSE, MAX_AGE),
    **options: Any,
) -> Iterator[str]:
    """The URL of a server; `options` are those of OAuthProxy, as Python can write them.

    The certificate `trust` is trusted by the one fetcher instead of those of the public. `key_seconds` are the times
    for the keys of the provider: between two attempts to read them, and after which they are read again.
    """
    script = folder / f"server{port}.py"
    trusting = "" if trust is None else TRUSTING.format(certificate=str(trust))
    pause, max_age = key_seconds
    given = {"issuer": provider.url, "options": options, "store": store, "keys": list(keys)}
    script.write_text(trusting + SCRIPT.format(**given, pause=pause, max_age=max_age))
    command = [sys.executable, "-m", "redstart", "run", str(script), "--http", "--port", str(port), *arguments]
    with serving(command, port) as url:
        yield url


class _Inside(httpx2.AsyncBaseTransport):  # type: ignore[misc]  # httpx2 has no types here
    """Requests to the application that a browser uses now."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        browser = self._browser
        inner = httpx2.ASGITransport(app=browser.app, client=(browser.address, 50000))
        return await inner.handle_async_request(request)


class Browser:
    """A person with a browser, and a client of the person's, at the level of HTTP."""

    def __init__(self, url: str, provider: Provider, app: Any = None, address: str = "127.0.0.1") -> None:
        """With `app` the server is that application, in this process, whatever the URL is."""
        self.url = url
        self.provider = provider
        self.app = app
        self.address = address
        inside = {} if app is None else {self.site: _Inside(self)}
        self.http = httpx2.AsyncClient(timeout=20, mounts=inside)
        self.client_id = ""
        self.client: dict[str, Any] = {}

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.aclose()

    async def register(self, **more: Any) -> httpx2.Response:
        said = {"client_name": "Test client", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", **more}
        response = await self.http.post(f"{self.url}/oauth/register", json=said)
        if response.status_code == 201:
            self.client = response.json()
            self.client_id = self.client["client_id"]
        return response

    def authorize_url(self, **more: str) -> str:
        said = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "state": "the state",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **more,
        }
        return f"{self.url}/oauth/authorize?{urlencode({name: text for name, text in said.items() if text})}"

    async def page(self, **more: str) -> httpx2.Response:
        return await self.http.get(self.authorize_url(**more))

    async def agree(self, page: httpx2.Response, answer: str = "allow") -> httpx2.Response:
        form = _FIELD.search(page.text)
        assert form is not None, page.text
        said = {"asked": unescape(form[1]), "answer": answer}
        return await self.http.post(f"{self.url}/oauth/consent", data=said, headers={"origin": self.site})

    @property
    def site(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    async def to_callback(self, user: str = "ada", **more: str) -> str:
        """Agree and sign in; the URL of our callback, which is not opened yet."""
        response = await self.agree(await self.page(**more))
        assert response.status_code == 303, response.text
        return await sign_in(self.http, response.headers["location"], self.provider, user)

    async def authorize(self, user: str = "ada", **more: str) -> dict[str, str]:
        """The whole sign-in; what the client gets at its redirect URI."""
        return await self.finish(await self.to_callback(user, **more))

    async def finish(self, callback: str) -> dict[str, str]:
        response = await self.http.get(callback)
        assert response.status_code == 303, response.text
        return answered(response)

    async def token(self, *, auth: tuple[str, str] | None = None, **form: str) -> httpx2.Response:
        named = {} if auth else {"client_id": self.client_id}
        return await self.http.post(f"{self.url}/oauth/token", data={**named, **form}, auth=auth)

    async def redeem(self, code: str, **more: Any) -> httpx2.Response:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        return await self.token(**{**form, **more})

    async def refresh(self, token: str, **more: Any) -> httpx2.Response:
        return await self.token(grant_type="refresh_token", refresh_token=token, **more)

    async def tokens(self, user: str = "ada", **more: str) -> dict[str, Any]:
        """Register, sign in and redeem the code."""
        if not self.client_id:
            await self.register()
        response = await self.redeem((await self.authorize(user, **more))["code"])
        assert response.status_code == 200, response.text
        return dict(response.json())

    async def call(self, token: str, tool: str = "whoami") -> httpx2.Response:
        headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        return await self.http.post(self.url, content=modern(1, "tools/call", {"name": tool}), headers=headers)


def answered(response: httpx2.Response) -> dict[str, str]:
    """The parameters of a redirect to the client."""
    location = str(response.headers["location"])
    assert location.startswith(CALLBACK), location
    found = parse_qs(urlsplit(location).query)
    assert all(len(values) == 1 for values in found.values())
    return {name: values[0] for name, values in found.items()}
