"""One application that is registered at an identity provider: where people sign in, and what comes back.

Spec: OpenID Connect Core (the code flow), RFC 7636 (PKCE), RFC 9207 (who has answered).
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from redstart.access.verifier import AuthError, is_token
from redstart.auth.fetch import Fetcher, FetchError
from redstart.auth.introspection import basic
from redstart.auth.jwt import JWT, checked_url
from redstart.auth.keys import discover
from redstart.auth.records import Transaction, UpstreamTokens
from redstart.features.errors import log
from redstart.features.principal import User
from redstart.wire.jsonrpc import JsonObject

MAX_AGE: Final = 3600.0
"""Seconds for which the metadata of a provider is used."""
EARLY: Final = 60.0
"""Seconds before its end at which a token of the provider is renewed."""


class Application(Struct, frozen=True):
    """What is registered at a provider, and what is known of the provider."""

    provider: str
    """Its name, for people."""
    issuer: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    authorize: str = ""
    token: str = ""
    """Where people sign in, and where codes become tokens; empty: the metadata of the issuer says it."""
    more: Mapping[str, str] = {}
    """Parameters that the provider wants beside those of the standard."""
    by_token: Callable[[str], Awaitable[User | None]] | None = None
    """Finds the user of an access token; None: there is an ID token."""


class SignInRefused(Exception):
    """The provider does not confirm this person, or no longer does; the text says why."""


class Upstream:
    """The application at work."""

    def __init__(self, application: Application, scopes: Iterable[str] | None) -> None:
        self.application = application
        self._scopes = tuple(application.scopes if scopes is None else scopes)
        self._fetcher = Fetcher(filter(None, (application.issuer, application.authorize, application.token)))
        self._ids = JWT(issuer=application.issuer, audience=application.client_id)
        self._metadata: JsonObject = {}
        self._read_at = float("-inf")

    async def _known(self) -> JsonObject:
        """The metadata of the provider, as far as it is needed."""
        app = self.application
        if app.authorize:
            return {"authorization_endpoint": app.authorize, "token_endpoint": app.token}
        if time.monotonic() - self._read_at > MAX_AGE:
            found = await discover(app.issuer, self._fetcher)
            try:
                for name in ("authorization_endpoint", "token_endpoint"):
                    checked_url(name, str(found.get(name)))
            except ValueError as error:
                raise FetchError(f"the metadata of {app.issuer} cannot be used: {error}") from None
            self._metadata, self._read_at = found, time.monotonic()
        return self._metadata

    async def sign_in_url(self, state: str, transaction: Transaction, callback: str) -> str:
        """Where to send the browser of a person."""
        challenge = urlsafe_b64encode(sha256(transaction.verifier.encode()).digest()).decode().rstrip("=")
        app, scope = self.application, " ".join(self._scopes)
        said = {"response_type": "code", "client_id": app.client_id, "redirect_uri": callback, "scope": scope}
        said |= {"state": state, "code_challenge": challenge, "code_challenge_method": "S256", **app.more}
        said |= {} if app.by_token else {"nonce": transaction.nonce}
        url = (await self._known())["authorization_endpoint"]
        return f"{url}{'&' if '?' in url else '?'}{urlencode({name: text for name, text in said.items() if text})}"

    async def redeem(self, code: str, transaction: Transaction, callback: str) -> tuple[User, UpstreamTokens]:
        """Who has signed in, and the tokens of the provider."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback}
        said = await self._ask({**form, "code_verifier": transaction.verifier})
        tokens = _tokens(said, UpstreamTokens(""))
        user = await self._user(said, tokens)
        named = transaction.nonce if user is None or self.application.by_token else str(user.claims.get("nonce"))
        if user is None or not compare_digest(named.encode(), transaction.nonce.encode()):
            raise SignInRefused(f"{self.application.provider} did not say who has signed in")
        return user, tokens

    async def renew(self, tokens: UpstreamTokens, keep: Callable[[UpstreamTokens], Awaitable[object]]) -> User | None:
        """Ask the provider again about a person; the user if it says anything new. SignInRefused: no longer."""
        if self.application.by_token is not None:
            if (user := await self.application.by_token(tokens.access)) is None:
                raise SignInRefused(f"{self.application.provider} has withdrawn its token")
            return user
        if not tokens.refresh or not is_due(tokens):
            return None
        said = await self._ask({"grant_type": "refresh_token", "refresh_token": tokens.refresh})
        renewed = _tokens(said, tokens)
        # The old refresh token may be used up, so the new one must not be lost if the provider goes away now. It is
        # kept as one that is due: until the person is confirmed, the next attempt asks again.
        await keep(replace(renewed, expires=tokens.expires))
        user = await self._user(said, renewed) if "id_token" in said else None
        if user is None and "id_token" in said:  # perhaps its keys cannot be read: that is no answer about the person
            raise AuthError(503, f"{self.application.provider} did not say who is signed in")
        await keep(renewed)
        return user

    async def _user(self, said: JsonObject, tokens: UpstreamTokens) -> User | None:
        if self.application.by_token is not None:
            return await self.application.by_token(tokens.access)
        token = said.get("id_token")
        user = await self._ids.verify(token) if isinstance(token, str) else None
        return await self._informed(user, tokens) if isinstance(user, User) else None

    async def _informed(self, user: User, tokens: UpstreamTokens) -> User:
        """A user with what the provider says of people only when it is asked: many do not put that into ID tokens."""
        try:
            url = str((await self._known())["userinfo_endpoint"])
            said = await self._fetcher.get(url, {"authorization": f"Bearer {tokens.access}"})
        except (KeyError, FetchError) as error:
            status = error.status if isinstance(error, FetchError) else 404
            if not 200 <= status < 500 or status == 429:  # else `allow=` would decide by half of the facts
                raise AuthError(503, f"{self.application.provider} does not answer: {error}") from None
            log.info("nothing more is known of a user: %s", error)
            return user
        if said.get("sub") != user.subject:
            raise SignInRefused(f"{self.application.provider} names two people at once")
        return User(user.subject, user.issuer, (), {**said, **user.claims})

    async def _ask(self, form: dict[str, str]) -> JsonObject:
        """What the token endpoint answers. AuthError: it does not; SignInRefused: it says no."""
        app = self.application
        try:
            known = await self._known()
            methods = known.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            by_form = app.authorize or not isinstance(methods, list) or "client_secret_basic" not in methods
            form |= {"client_id": app.client_id, "client_secret": app.client_secret} if by_form else {}
            headers = {} if by_form else basic(app.client_id, app.client_secret)
            said = await self._fetcher.post(known["token_endpoint"], form, headers)
        except FetchError as error:
            if error.status in (400, 403):  # 403: Auth0. 401 refuses the application, whose secret may have expired
                raise SignInRefused(f"{app.provider} refused the sign-in: {error}") from None
            why = "does not know this client_id= and client_secret=" if error.status == 401 else "does not answer"
            raise AuthError(503, f"{app.provider} {why}: {error}") from None
        if not is_token(said.get("access_token")):  # GitHub answers 200 and names an error
            raise SignInRefused(f"{app.provider} refused the sign-in: {str(said.get('error', 'no token'))[:100]}")
        return said

    def close(self) -> None:
        self._ids.close()


def is_due(tokens: UpstreamTokens) -> bool:
    return 0 < tokens.expires < time.time() + EARLY


def _tokens(said: JsonObject, before: UpstreamTokens) -> UpstreamTokens:
    refresh, seconds = said.get("refresh_token"), said.get("expires_in")
    expires = time.time() + min(max(seconds, 0), 1e9) if isinstance(seconds, int | float) else 0.0
    return UpstreamTokens(said["access_token"], refresh if isinstance(refresh, str) else before.refresh, expires)
