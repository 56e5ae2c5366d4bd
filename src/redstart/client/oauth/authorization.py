"""The tokens of one client for one MCP server: sent with every request, got when one is refused, renewed in time.

Spec: /specification/2026-07-28/basic/authorization (scope selection, step-up, refresh).
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from redstart.client.challenge import Challenge, Sent
from redstart.client.errors import SignInError
from redstart.client.oauth.discovery import ResourceMetadata, discover
from redstart.client.oauth.grants import Attempt, TokenGrant, client_key
from redstart.client.oauth.signing import DpopKey
from redstart.client.oauth.tokens import TokenEndpoint, TokenSet, joined, kept
from redstart.client.oauth.web import OAuthWeb, checked_url
from redstart.transports.outgoing import shown

OFFLINE: Final = "offline_access"
NONCE: Final = "use_dpop_nonce"


class Authorization:
    """Adds tokens to the requests of one client."""

    def __init__(self, grant: TokenGrant, url: str) -> None:
        checked_url(url, "a server that needs a sign-in")
        self._grant = grant
        self._url = url
        self._web = OAuthWeb(url, () if grant.issuer is None else [grant.issuer])
        self._key = f"token {canonical(url)} {grant.client_id or ''}".rstrip()
        self._lock = asyncio.Lock()
        self._dpop: DpopKey | None = None
        self._untried: str | None = None
        """A token that no server has accepted yet."""
        self._asked: set[str] = set()
        """The scopes that were asked for, so that nobody is asked twice for the same."""
        self.sign_ins = 0
        """How often there was a token that no refresh of ours has given: here, or in another process."""
        self._current: str | None = None

    # ---------------------------------------------------------------- with every request

    async def sent(self, method: str, url: str) -> Sent:
        """What to send a request with; nothing, as long as there is no token."""
        tokens = self._tokens()
        if tokens is not None and tokens.expired:
            async with self._lock:
                tokens = self._tokens()  # another task may have renewed it
                if tokens is not None and tokens.expired:
                    tokens = await self._refreshed(tokens) or tokens  # it may be good for a moment yet
        if tokens is None:
            return Sent()
        if tokens.access_token != self._current:
            self.sign_ins, self._current = self.sign_ins + 1, tokens.access_token
        headers = {"Authorization": f"{tokens.token_type} {tokens.access_token}"}
        if tokens.dpop_key is not None:
            headers["DPoP"] = self._dpop_key(tokens).proof(method, url, tokens.access_token)
        return Sent(headers, tokens.access_token)

    def accepted(self, sent: Sent) -> None:
        """A server has accepted what was sent."""
        if sent.token == self._untried:
            self._untried = None

    def wants_another(self, challenge: Challenge) -> bool:
        """Whether another token could help against a refusal."""
        return challenge.status == 401 or (challenge.status == 403 and challenge.error == "insufficient_scope")

    async def renew(self, challenge: Challenge, sent: Sent, url: str, nonce: str | None) -> None:
        """Get a token that is not refused as `sent` was; afterwards the request may be sent once more."""
        async with self._lock:
            tokens = self._tokens()
            if tokens is not None and tokens.access_token != sent.token:
                return  # another request has got a new one meanwhile
            if challenge.error == NONCE and nonce and tokens is not None and tokens.dpop_key is not None:
                self._dpop_key(tokens).learn(url, nonce)
                return
            if challenge.status == 401 and sent.token is not None and sent.token == self._untried:
                raise SignInError(f"{canonical(self._url)} refuses a token that was issued for it just now")
            await self._authorize(challenge, tokens)

    # ---------------------------------------------------------------- a new token

    async def _authorize(self, challenge: Challenge, before: TokenSet | None) -> None:
        self._web.met(challenge.peer)
        resource, server = await discover(self._web, self._url, challenge)
        if self._grant.issuer not in (None, server.issuer):
            wanted = f"{shown(self._grant.issuer or '')}, as issuer= says"
            raise SignInError(
                f"{canonical(self._url)} names the authorization server {server.issuer}, and not {wanted}"
            )
        if before is not None and before.issuer != server.issuer:
            if self._grant.client_id is not None and self._grant.issuer is None:
                raise SignInError(
                    f"{canonical(self._url)} names the authorization server {server.issuer} now, and client_id= is "
                    f"known to {before.issuer}. If it is known to the new one too, give issuer={server.issuer!r}"
                )
            before = None  # the tokens of another authorization server, which must not see this one's, and vice versa
        if challenge.status == 401 and before is not None and await self._refreshed(before) is not None:
            return
        scopes = self._scopes(challenge, resource, before)
        if challenge.status == 403 and set(scopes) <= self._asked:
            raise SignInError(f"{canonical(self._url)} needs the scopes {challenge.scope}, which were not granted")
        if self._grant.interactive and OFFLINE in server.scopes_supported:
            scopes.append(OFFLINE)
        self._asked.update(scopes)
        endpoint = self._endpoint(server.issuer, server.token_endpoint, server.token_endpoint_auth_methods_supported)
        named = canonical(self._url) if resource is None else resource.resource
        attempt = Attempt(self._web, server, endpoint, named, joined(scopes))
        self._keep(await self._grant.obtain(attempt))

    def _scopes(self, challenge: Challenge, resource: ResourceMetadata | None, before: TokenSet | None) -> list[str]:
        """The scopes to ask for: those of the challenge, else those of the metadata; and those of before."""
        wanted = challenge.scope.split() if challenge.scope else list(self._grant.scopes)
        if not wanted and resource is not None:
            wanted = resource.scopes_supported or []
        earlier = [] if before is None else [scope for scope in before.scope.split() if scope != OFFLINE]
        return list(dict.fromkeys((*earlier, *self._grant.scopes, *wanted)))

    async def _refreshed(self, tokens: TokenSet) -> TokenSet | None:
        """New tokens for a refresh token; None if there is none, or it is not good any more."""
        if tokens.refresh_token is None:
            return None
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "resource": tokens.resource}
        endpoint = self._endpoint(tokens.issuer, tokens.token_endpoint, tokens.auth_methods, tokens)
        try:
            renewed = await endpoint.request(form, tokens.client, tokens.scope)
        except SignInError as error:
            if error.code is None:  # no answer, or none that lasts: the token may still be good
                raise
            if (now := self._tokens()) not in (None, tokens):
                return now  # another process was faster, and has used up the refresh token
            if error.code == "invalid_client":  # nobody could sign in with a registration that is not known
                self._grant.store.save(client_key(tokens.issuer), None)
            self._grant.store.save(self._key, kept(msgspec.structs.replace(tokens, refresh_token=None)))
            return None
        self._keep(renewed)
        if tokens.access_token == self._current:
            self._current = renewed.access_token
        return renewed

    # ---------------------------------------------------------------- what is kept

    def _endpoint(
        self, issuer: str, url: str, auth_methods: list[str], tokens: TokenSet | None = None
    ) -> TokenEndpoint:
        dpop = self._dpop_key(tokens) if self._grant.dpop else None
        return TokenEndpoint(self._web, issuer, url, auth_methods, self._grant.signing, dpop)

    def _dpop_key(self, tokens: TokenSet | None) -> DpopKey:
        if self._dpop is None:
            self._dpop = DpopKey(None if tokens is None else tokens.dpop_key)
        return self._dpop

    def _tokens(self) -> TokenSet | None:
        try:
            return msgspec.convert(self._grant.store.load(self._key), TokenSet)
        except msgspec.ValidationError:  # None, or of another version of this program
            return None

    def _keep(self, tokens: TokenSet) -> None:
        self._untried = tokens.access_token
        self._grant.store.save(self._key, kept(tokens))


def canonical(url: str) -> str:
    """The URL of a server as a resource: without query and fragment, and without a slash at its end.

    >>> canonical("HTTPS://Example.com/mcp/?x#y")
    'https://example.com/mcp'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), "", ""))
