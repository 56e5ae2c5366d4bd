"""`auth=OAuthProxy(GitHub(…))`: this server gives out tokens itself, and people sign in at an identity provider.

For providers that do not register MCP clients: one application is registered there, by the operator.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from redstart.access.verifier import AuthError, Keeper, TokenVerifier
from redstart.asking.seal import MAKE_ONE, found_keys
from redstart.auth.checked import CheckedTokens
from redstart.auth.clients import SCHEMES, OAuthClients
from redstart.auth.issuing import Allow, IssuingServer, Policy
from redstart.auth.records import Kept, UpstreamTokens
from redstart.auth.upstream import Application, SignInRefused, Upstream
from redstart.features.errors import SettingsError, ToolError, log
from redstart.features.principal import User
from redstart.features.rules import scope_list, texts
from redstart.wire.jsonrpc import JsonObject

CLAIMS: Final = ("name", "email", "email_verified", "preferred_username", "login")
"""What tokens say of a person beside who it is."""
TOKEN_SECONDS: Final = 600.0
SIGN_IN_DAYS: Final = 30.0
_ENDED: Final = "The sign-in of this user has ended. Connect to this server again."


class OAuthProxy(TokenVerifier):
    """Gives out tokens to MCP clients, to people who have signed in at an identity provider.

    >>> from redstart.auth import GitHub
    >>> auth = OAuthProxy(GitHub(client_id="Iv1.0", client_secret="s3cret"), allow=lambda user: user.subject == "1")
    """

    def __init__(
        self,
        provider: TokenVerifier,
        *,
        allow: Allow | None = None,
        scopes: str | Iterable[str] = (),
        optional_scopes: str | Iterable[str] = (),
        upstream_scopes: str | Iterable[str] | None = None,
        claims: Iterable[str] = CLAIMS,
        token_seconds: float = TOKEN_SECONDS,
        sign_in_days: float = SIGN_IN_DAYS,
        redirect_schemes: Iterable[str] = SCHEMES,
        trusted_clients: Iterable[str] = (),
    ) -> None:
        super().__init__(self._check, scopes=scopes)
        application = getattr(provider, "application", None)
        if not isinstance(application, Application) or not application.client_id or not application.client_secret:
            advice = "such as GitHub(client_id=…, client_secret=…) or OpenID(issuer=…, client_id=…, client_secret=…)"
            raise ValueError(f"OAuthProxy needs a provider with the id and the secret of an application, {advice}")
        if token_seconds <= 0 or sign_in_days <= 0:
            raise ValueError("token_seconds and sign_in_days of OAuthProxy must be more than 0")
        if allow is not None and not callable(allow):
            raise ValueError("allow of OAuthProxy must be a function of the user")
        more = tuple(one for one in scope_list("optional_scopes", optional_scopes) if one not in self.scopes)
        self._policy = Policy(self.scopes, more, allow, texts("claims", claims), token_seconds, sign_in_days * 86400.0)
        asked = None if upstream_scopes is None else scope_list("upstream_scopes", upstream_scopes)
        self._upstream = Upstream(application, asked)
        self._redirects = texts("redirect_schemes", redirect_schemes), texts("trusted_clients", trusted_clients)
        self._checked = CheckedTokens(token_seconds)
        self._server: Keeper | None = None
        self._kept: Kept | None = None
        self._issuing: IssuingServer | None = None

    def open(self, server: Keeper) -> IssuingServer:
        if self._server is not None and self._server is not server:
            raise SettingsError("this OAuthProxy is the auth= of another server", "make one for each server")
        if not found_keys(server.given_keys)[1]:
            advice = f"give the server keys=[…], or set REDSTART_KEYS; {MAKE_ONE}"
            if server.shares:
                raise SettingsError("OAuthProxy needs keys, because its store outlives this process", advice)
            log.warning("OAuthProxy has no keys: everybody has to sign in again after a restart; %s", advice)
        self._server, self._kept = server, Kept(server)
        clients = OAuthClients(self._kept, *self._redirects)
        self._issuing = IssuingServer(server.name, self._kept, clients, self._upstream, self._policy)
        return self._issuing

    def remembered(self, token: str) -> User | None:
        return self._checked.get(token)

    async def _check(self, token: str) -> User | None:
        claims = None if self._kept is None else self._kept.open("access", token, JsonObject)
        if claims is None or claims["exp"] <= time.time():
            return None
        user = User(claims["sub"], claims["idp"], claims["scope"], claims)
        self._checked.put(token, user, claims["exp"])
        return user

    async def upstream_token(self, user: User) -> str:
        """The identity provider's own token of a user, for calls to its API. It is renewed where that is possible.

        It must not be given to the client: the result of a tool is for the client.
        """
        id = user.claims.get("sid")
        if self._kept is None or self._issuing is None or not isinstance(id, str):
            raise ValueError("upstream_token takes the ctx.user of a request to the server of this OAuthProxy")
        try:
            await self._issuing.renew(id, check=False)
        except (SignInRefused, AuthError) as error:
            raise ToolError(_ENDED if isinstance(error, SignInRefused) else str(error)) from None
        if (tokens := await self._kept.get("upstream", id, UpstreamTokens)) is None:
            raise ToolError(_ENDED)
        return tokens.access

    def close(self) -> None:
        self._upstream.close()
        self._policy.pool.close()
