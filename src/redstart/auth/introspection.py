"""`auth=Introspection(...)`: the authorization server is asked about each token. Spec: RFC 7662."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final
from urllib.parse import quote_plus

from redstart.access.verifier import AuthError, TokenVerifier
from redstart.auth.checked import CheckedTokens
from redstart.auth.fetch import Fetcher, FetchError
from redstart.auth.jwt import AWAY, LEEWAY, checked_url, is_current, names_any, need_extra, scopes_in, user_of
from redstart.features.errors import log
from redstart.features.principal import User
from redstart.wire.jsonrpc import JsonObject

REMEMBER: Final = 60.0
"""Seconds for which an answer is remembered: a token that was withdrawn may be used for so long."""


class RemoteCheck(TokenVerifier):
    """Asks a server about each token, and remembers a positive answer for a moment.

    `refusals` are the statuses by which the server says that a token is not valid.
    """

    refusals: ClassVar[tuple[int, ...]] = ()

    def __init__(self, url: str, issuer: str, scopes: str | Iterable[str], remember: float = REMEMBER) -> None:
        need_extra()
        super().__init__(self._ask, authorization_servers=[checked_url("issuer", issuer)], scopes=scopes)
        self.url = checked_url("url", url)
        self.issuer = issuer
        self.fetcher = Fetcher([url])
        self._checked = CheckedTokens(remember)

    def remembered(self, token: str) -> User | None:
        return self._checked.get(token)

    async def _ask(self, token: str) -> User | None:
        try:
            claims = await self.claims(token)
        except FetchError as error:
            if error.status in self.refusals:
                return None
            log.error("a token could not be checked: %s", error)
            raise AuthError(503, AWAY) from None
        user = self.user(claims)
        if user is not None:
            self._checked.put(token, user, claims.get("exp", time.time() + REMEMBER))
        return user

    async def claims(self, token: str) -> JsonObject:
        """What the server says about a token."""
        raise NotImplementedError

    def user(self, claims: JsonObject) -> User | None:
        """The user, if that means that the token is valid, and for this server."""
        raise NotImplementedError


class Introspection(RemoteCheck):
    """Lets in callers whose token the authorization server calls active and issued for this server.

    >>> auth = Introspection(
    ...     "https://login.example.com/introspect",
    ...     client_id="mcp",
    ...     client_secret="s3cret",
    ...     issuer="https://login.example.com",
    ...     audience="https://mcp.example.com/mcp",
    ... )
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        issuer: str,
        audience: str | Iterable[str],
        audience_claim: str = "aud",
        scope_claims: Sequence[str] = ("scope",),
        scopes: str | Iterable[str] = (),
        remember: float = REMEMBER,
    ) -> None:
        super().__init__(url, issuer, scopes, remember)
        self._audiences = {audience} if isinstance(audience, str) else set(audience or ())
        if not self._audiences or not all(self._audiences):
            raise ValueError("audience of Introspection must name this server: else a token for any other one would do")
        self._audience_claim, self._scope_claims = audience_claim, tuple(scope_claims)
        self._headers = basic(client_id, client_secret)

    async def claims(self, token: str) -> JsonObject:
        form = {"token": token, "token_type_hint": "access_token"}
        return await self.fetcher.post(self.url, form, self._headers)

    def user(self, claims: JsonObject) -> User | None:
        is_access = claims.get("token_use", "access") in ("access", "access_token")  # it knows refresh tokens too
        if claims.get("active") is not True or not is_access or not is_current(claims, LEEWAY):
            return None
        if claims.get("iss", self.issuer) != self.issuer:
            return self._refused(claims, ("iss",), f"issuer= is {self.issuer!r}")
        if not names_any(claims.get(self._audience_claim), self._audiences):
            return self._refused(claims, (self._audience_claim,), f"audience= is {sorted(self._audiences)}")
        user = user_of(claims, self.issuer, scopes_in(claims, self._scope_claims))
        return user or self._refused(claims, ("sub", "cnf"), "a token must have sub, and no cnf")


def basic(user: str, password: str) -> Mapping[str, str]:
    """The header by which a client names itself (RFC 6749, section 2.3.1)."""
    pair = f"{quote_plus(user)}:{quote_plus(password)}"
    return {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}
