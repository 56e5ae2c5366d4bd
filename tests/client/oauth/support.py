"""An MCP server that needs a token, and an authorization server, on one address; what they are asked is recorded."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2

from client.support import DISCOVERED, INITIALIZED, Request, http_server
from redstart.client import Client, OAuth
from support import DEADLINE


class Site:
    """Both servers. The attributes say how they behave, and what has happened."""

    def __init__(self, **settings: Any) -> None:
        self.url = ""
        self.scopes: dict[str, str] = {}
        """The scope that a method needs."""
        self.metadata: dict[str, Any] = {}
        """Members of the metadata of the authorization server that are different."""
        self.resource: dict[str, Any] = {}
        self.answer: dict[str, str] = {}
        """Parameters of the answer to a sign-in that are different."""
        self.token: dict[str, Any] = {}
        self.refuses: dict[str, str] = {}
        self.refuses_with = 400
        """The error for a grant type."""
        self.grants: set[str] | None = None
        """The only scopes that a person agrees to."""
        self.never = False
        self.result: dict[str, Any] = {"resultType": "complete"}
        self.valid: dict[str, set[str]] = {}
        self.signed_in: list[dict[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self.registered: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str]] = []
        for name, value in settings.items():
            setattr(self, name, value)

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    async def handle(self, request: Request) -> None:
        path = urlsplit(request.path).path
        documents = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": self.url, "authorization_servers": [self.origin], **self.resource,
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": self.origin,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "registration_endpoint": f"{self.origin}/register",
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                **self.metadata,
            },
        }  # fmt: skip
        if path in documents:
            found = {name: value for name, value in documents[path].items() if value is not None}
            await request.answer(200, found)
        elif path == "/authorize":
            await self._authorize(request)
        elif path == "/token":
            await self._token(request)
        elif path == "/register":
            self.registered.append(request.message)
            await request.answer(201, {**request.message, "client_id": f"client-{len(self.registered)}"})
        elif path == "/mcp":
            await self._mcp(request)
        else:
            await request.answer(404)

    async def _authorize(self, request: Request) -> None:
        asked = dict(parse_qsl(urlsplit(request.path).query))
        self.signed_in.append(asked)
        answer = {"code": f"code-{len(self.signed_in)}", "state": asked["state"], "iss": self.origin, **self.answer}
        answer = {name: value for name, value in answer.items() if value}
        await request.answer(302, Location=f"{asked['redirect_uri']}?{urlencode(answer)}")

    async def _token(self, request: Request) -> None:
        form = dict(parse_qsl(request.body.decode()))
        self.forms.append({**form, "authorization": request.headers.get("authorization", "")})
        kind = form["grant_type"]
        if kind in self.refuses:
            await request.answer(self.refuses_with, {"error": self.refuses[kind], "error_description": "Not today"})
            return
        scope = form.get("scope", "")
        if kind == "authorization_code":
            asked = self.signed_in[-1]
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert asked["code_challenge"] == urlsafe_b64encode(digest).rstrip(b"=").decode()
            assert (form["code"], form["redirect_uri"]) == (f"code-{len(self.signed_in)}", asked["redirect_uri"])
            scope = asked.get("scope", "")
        token = f"token-{len(self.forms)}"
        self.valid[token] = set(scope.split()) & (self.grants or set(scope.split()))
        made = {"access_token": token, "token_type": "Bearer", "refresh_token": f"refresh-{len(self.forms)}"}
        await request.answer(200, {**made, "expires_in": 3600, **self.token})

    async def _mcp(self, request: Request) -> None:
        method = request.message["method"] if request.message else request.method
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        self.calls.append((method, token))
        where = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if scheme != "Bearer" or token not in self.valid or self.never:
            await request.answer(401, WWW_Authenticate=f"Bearer {where}")
        elif self.scopes.get(method, "") not in (*self.valid[token], ""):
            challenge = f'Bearer error="insufficient_scope", scope="{self.scopes[method]}", {where}'
            await request.answer(403, WWW_Authenticate=challenge)
        elif method == "server/discover":
            await request.result(DISCOVERED)
        elif method == "initialize":
            await request.result(INITIALIZED, Mcp_Session_Id="s")
        elif method in ("notifications/initialized", "GET", "DELETE"):
            await request.answer(202 if method.startswith("n") else 405)
        else:
            await request.result(self.result)


async def agree(url: str) -> None:
    """A person who agrees: the browser follows the redirect to the client's page."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False, timeout=DEADLINE) as http:
        (await http.get(url)).raise_for_status()


@asynccontextmanager
async def guarded_site(site: Site) -> AsyncIterator[str]:
    async with http_server(site.handle) as url:
        site.url = url
        yield url


@asynccontextmanager
async def signed_in(site: Site, client_options: dict[str, Any] | None = None, **oauth: Any) -> AsyncIterator[Client]:
    """A client of `site` with `OAuth(**oauth)`."""
    async with guarded_site(site) as url:
        auth = OAuth(**{"browser": agree, **oauth})
        async with Client(url, auth=auth, protocol="2026-07-28", **(client_options or {})) as c:
            yield c
