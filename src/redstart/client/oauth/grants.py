"""The ways to a token: a person who signs in, a program with a secret or a key, a program with an assertion.

Each says how a token is asked for. When it is asked for, and where, is the work of `authorization.py`.
Spec: /specification/2026-07-28/basic/authorization, RFC 7636 (PKCE), RFC 9207 (`iss`), RFC 7523, RFC 8693.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from redstart.client.errors import SignInError
from redstart.client.oauth.discovery import IssuerMetadata
from redstart.client.oauth.receiver import LoopbackReceiver, open_browser
from redstart.client.oauth.signing import base64url, need_joserfc
from redstart.client.oauth.store import FileTokens, MemoryTokens, TokenStore
from redstart.client.oauth.tokens import Registration, TokenEndpoint, TokenSet, refusal
from redstart.client.oauth.web import OAuthWeb, checked_url
from redstart.wire.jsonrpc import encode

SIGN_IN_SECONDS: Final = 300.0
"""How long a person may take to sign in."""
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"

Browser: TypeAlias = Callable[[str], object]
Store: TypeAlias = TokenStore | str | os.PathLike[str]


class Attempt(Struct, frozen=True):
    """One attempt to get a token: from whom, for what."""

    web: OAuthWeb
    server: IssuerMetadata
    endpoint: TokenEndpoint
    resource: str
    scope: str

    async def tokens(self, form: dict[str, str], client: Registration) -> TokenSet:
        """Ask for tokens for the resource."""
        return await self.endpoint.request({**form, "resource": self.resource}, client, self.scope)


class TokenGrant(ABC):
    """One way to a token, and where tokens are kept."""

    interactive = False

    def __init__(
        self,
        client_id: str | None,
        client_secret: str | None,
        scopes: Iterable[str],
        store: Store | None,
        private_key: str | None = None,
        algorithm: str = "ES256",
        dpop: bool = False,
        issuer: str | None = None,
    ) -> None:
        if isinstance(scopes, str):
            raise TypeError('scopes is a list of scopes, such as ["read", "write"], not one text')
        if private_key is not None and client_secret is not None:
            raise ValueError("give either client_secret= or private_key=")
        if private_key is not None or dpop:
            need_joserfc()
        self.issuer = issuer
        """The only authorization server that may see the credentials; None: the one that the MCP server names."""
        self.client_id = client_id
        self.client_secret = client_secret
        self.scopes = tuple(scopes)
        self.store: TokenStore = FileTokens(store) if isinstance(store, str | os.PathLike) else store or MemoryTokens()
        self.signing = None if private_key is None else (private_key, algorithm)
        self.dpop = dpop

    @abstractmethod
    async def obtain(self, attempt: Attempt) -> TokenSet:
        """Get tokens, or raise SignInError."""

    def known_client(self) -> Registration | None:
        """The client that was registered by hand."""
        return None if self.client_id is None else Registration(self.client_id, self.client_secret)


class OAuth(TokenGrant):
    """A person signs in, in the browser.

    >>> OAuth(scopes=["notes:read"], store="~/.local/state/my-app/tokens.json").scopes
    ('notes:read',)

    Without `client_id` the client registers itself: by the document at `client_metadata_url`, if the authorization
    server reads such documents, else by asking for a registration. `store` keeps tokens: a path, or an object with
    `load` and `save`; without it they end with the process. `browser` is called with the URL of the sign-in page; the
    answer comes to a page on the loopback address. `dpop=True` asks for tokens that only this client can use. `issuer`
    is the only authorization server that may see the credentials; without it the MCP server names one.
    """

    interactive = True

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "redstart",
        scopes: Iterable[str] = (),
        store: Store | None = None,
        browser: Browser = open_browser,
        redirect_port: int = 0,
        dpop: bool = False,
        issuer: str | None = None,
        timeout: float = SIGN_IN_SECONDS,
    ) -> None:
        super().__init__(client_id, client_secret, scopes, store, dpop=dpop, issuer=issuer)
        if client_metadata_url is not None:
            parts = urlsplit(client_metadata_url)
            if parts.scheme != "https" or parts.path in ("", "/"):
                raise ValueError("client_metadata_url must be an https:// URL with a path")
        self._document = client_metadata_url
        self._name = client_name
        self._browser = browser
        self._port = redirect_port
        self._timeout = timeout

    async def obtain(self, attempt: Attempt) -> TokenSet:
        server = attempt.server
        if server.authorization_endpoint is None:
            raise SignInError(f"the authorization server {server.issuer} has no page to sign in")
        if "S256" not in server.code_challenge_methods_supported:
            raise SignInError(f"the authorization server {server.issuer} does not say that it knows PKCE with S256")
        page = "the page to sign in"
        await attempt.web.admit(checked_url(server.authorization_endpoint, page), page)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        receiver = LoopbackReceiver(state)
        async with receiver.listening(self._port or self._port_before(server)):
            client = await self._client(attempt, receiver.uri)
            asked = {
                "response_type": "code",
                "client_id": client.client_id,
                "redirect_uri": receiver.uri,
                "state": state,
                "code_challenge": base64url(hashlib.sha256(verifier.encode()).digest()),
                "code_challenge_method": "S256",
                "resource": attempt.resource,
                **({"scope": attempt.scope} if attempt.scope else {}),
                **({"prompt": "consent"} if "offline_access" in attempt.scope.split() else {}),
            }
            separator = "&" if urlsplit(server.authorization_endpoint).query else "?"
            opened = self._browser(server.authorization_endpoint + separator + urlencode(asked))
            if inspect.isawaitable(opened):
                await opened
            answer = await receiver.answer(self._timeout)
        form = {
            "grant_type": "authorization_code",
            "code": _code(answer, server),
            "redirect_uri": receiver.uri,
            "code_verifier": verifier,
        }
        return await attempt.tokens(form, client)

    # ---------------------------------------------------------------- who the client is

    async def _client(self, attempt: Attempt, redirect_uri: str) -> Registration:
        """The client as this authorization server knows it; registrations are kept by issuer."""
        server = attempt.server
        if (known := self.known_client()) is not None:
            return known
        if self._document is not None and server.client_id_metadata_document_supported:
            return Registration(self._document, token_endpoint_auth_method="none")
        stored = self._stored(server)
        scopes = set(attempt.scope.split())
        if stored is not None and redirect_uri in stored.redirect_uris and scopes <= set((stored.scope or "").split()):
            return stored
        return await self._register(attempt, redirect_uri)

    def _stored(self, server: IssuerMetadata) -> Registration | None:
        try:
            return msgspec.convert(self.store.load(client_key(server.issuer)), Registration)
        except msgspec.ValidationError:
            return None

    def _port_before(self, server: IssuerMetadata) -> int:
        """The port of an earlier registration, whose redirect URI must be the same again."""
        stored = None if self.client_id is not None else self._stored(server)
        return next((urlsplit(uri).port or 0 for uri in stored.redirect_uris), 0) if stored is not None else 0

    async def _register(self, attempt: Attempt, redirect_uri: str) -> Registration:
        server = attempt.server
        if server.registration_endpoint is None:
            text = f"the authorization server {server.issuer} registers no clients by itself"
            raise SignInError(f"{text}: register one there, and give OAuth(client_id=…)")
        methods = server.token_endpoint_auth_methods_supported or ["none"]
        method = next((one for one in ("none", "client_secret_basic", "client_secret_post") if one in methods), "none")
        wanted = {
            "client_name": self._name,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": "native",
            **({"scope": attempt.scope} if attempt.scope else {}),
        }
        headers, what = {"Content-Type": "application/json"}, "the registration of clients"
        answer = await attempt.web.post(server.registration_endpoint, what, headers, encode(wanted))
        if answer.status not in (200, 201):
            raise refusal(what, server.registration_endpoint, answer)
        try:
            client = msgspec.convert({**answer.body, "redirect_uris": [redirect_uri]}, Registration)
        except msgspec.ValidationError as error:
            raise SignInError(f"{what} {server.registration_endpoint} answers with something else: {error}") from None
        client.scope = attempt.scope
        self.store.save(client_key(server.issuer), msgspec.to_builtins(client))
        return client


def client_key(issuer: str) -> str:
    """Where the registration at an authorization server is kept."""
    return f"client {issuer}"


def _code(answer: dict[str, str], server: IssuerMetadata) -> str:
    """The code of a sign-in. Who answers is checked first: the error of somebody else is not shown."""
    issuer = answer.get("iss")
    expected = server.authorization_response_iss_parameter_supported
    if issuer != server.issuer and (issuer is not None or expected):  # exactly: RFC 9207
        raise SignInError(f"the answer to the sign-in does not come from {server.issuer}")
    if "error" in answer:
        parts = (answer.get(name, "") for name in ("error", "error_description"))
        said = ": ".join(part[:300] for part in parts if part and part.isprintable())
        raise SignInError(f"the sign-in did not succeed: {said}", code=answer["error"])
    if not answer.get("code"):
        raise SignInError("the answer to the sign-in has no code")
    return answer["code"]


class ClientCredentials(TokenGrant):
    """A program signs in as itself, with a secret or with a private key (PEM; needs the extra `auth`).

    >>> ClientCredentials("nightly-job", "s3cret", scopes=["reports:read"]).client_id
    'nightly-job'
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | None = None,
        algorithm: str = "ES256",
        scopes: Iterable[str] = (),
        store: Store | None = None,
        dpop: bool = False,
        issuer: str | None = None,
    ) -> None:
        if client_secret is None and private_key is None:
            raise ValueError("ClientCredentials needs client_secret or private_key=")
        super().__init__(client_id, client_secret, scopes, store, private_key, algorithm, dpop, issuer)

    async def obtain(self, attempt: Attempt) -> TokenSet:
        return await attempt.tokens(_scoped(attempt, {"grant_type": "client_credentials"}), _own(self))


class IdentityAssertion(Struct, frozen=True, kw_only=True):
    """An assertion that the identity provider of a company gives for the ID token of a person (RFC 8693).

    >>> IdentityAssertion(id_token="eyJ…", token_endpoint="https://id.example/token", client_id="app").client_id
    'app'
    """

    id_token: str
    token_endpoint: str
    client_id: str

    async def __call__(self, attempt: Attempt) -> str:
        form = {
            "grant_type": _EXCHANGE,
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "audience": attempt.server.issuer,
            "resource": attempt.resource,
            "subject_token": self.id_token,
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": self.client_id,
            **({"scope": attempt.scope} if attempt.scope else {}),
        }
        headers, what = {"Content-Type": "application/x-www-form-urlencoded"}, "the identity provider"
        web = OAuthWeb(self.token_endpoint)  # the user has given this URL, and not the MCP server
        answer = await web.post(self.token_endpoint, what, headers, urlencode(form).encode())
        found = answer.body.get("access_token")
        if answer.status != 200 or not isinstance(found, str):
            raise refusal(what, self.token_endpoint, answer)
        return found


Assertion: TypeAlias = str | Callable[[Attempt], str | Awaitable[str]]


class JwtBearer(TokenGrant):
    """A program signs in with an assertion of somebody whom the authorization server trusts (RFC 7523).

    >>> JwtBearer("workload", assertion=lambda attempt: open("/var/run/token").read()).client_id
    'workload'

    `assertion` is a text, or a function that gives a new one, such as `IdentityAssertion(…)`.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        assertion: Assertion,
        scopes: Iterable[str] = (),
        store: Store | None = None,
        dpop: bool = False,
        issuer: str | None = None,
    ) -> None:
        super().__init__(client_id, client_secret, scopes, store, dpop=dpop, issuer=issuer)
        self._assertion = assertion

    async def obtain(self, attempt: Attempt) -> TokenSet:
        made = self._assertion if isinstance(self._assertion, str) else self._assertion(attempt)
        assertion = await made if inspect.isawaitable(made) else made
        return await attempt.tokens(_scoped(attempt, {"grant_type": JWT_BEARER, "assertion": assertion}), _own(self))


def _scoped(attempt: Attempt, form: dict[str, str]) -> dict[str, str]:
    return {**form, "scope": attempt.scope} if attempt.scope else form


def _own(grant: TokenGrant) -> Registration:
    client = grant.known_client()
    assert client is not None, "these grants have a client_id"
    return client
