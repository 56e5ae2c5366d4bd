"""Identity providers that people use, each as a few lines on `JWT`, or on the provider's own check of a token.

They follow the documentation of the providers, and were not tried live.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from redstart.auth.introspection import RemoteCheck, basic
from redstart.auth.jwt import JWT, LEEWAY, is_current, scopes_in, user_of
from redstart.features.principal import User
from redstart.wire.jsonrpc import JsonObject, encode

Texts = str | Iterable[str]
SHARED_TENANTS: Final = ("common", "organizations", "consumers")


class GitHub(RemoteCheck):
    """Users of GitHub, with tokens of one OAuth app: GitHub's own check of them takes the place of the audience.

    The client needs the id and the secret of that app, because GitHub does not register clients by itself.

    >>> GitHub(client_id="Iv1.0", client_secret="s3cret").authorization_servers
    ('https://github.com/login/oauth',)
    """

    refusals: ClassVar = (404, 422)
    site: ClassVar = "https://api.github.com"

    def __init__(self, *, client_id: str, client_secret: str, scopes: Texts = ()) -> None:
        url = f"{self.site}/applications/{client_id}/token"
        super().__init__(url, "https://github.com/login/oauth", scopes)
        self._client_id = client_id
        self._headers = {**basic(client_id, client_secret), "accept": "application/vnd.github+json"}

    async def claims(self, token: str) -> JsonObject:
        return await self.fetcher.post(self.url, encode({"access_token": token}), self._headers)

    def user(self, claims: JsonObject) -> User | None:
        app, person = claims.get("app"), claims.get("user")
        if not isinstance(app, dict) or app.get("client_id") != self._client_id or not isinstance(person, dict):
            return None
        return user_of(person, self.issuer, scopes_in(claims, ("scopes",)), subject="id")


class Google(RemoteCheck):
    """Users of Google, with access tokens for one client id, which Google's own check of a token names.

    The client needs that client id and its secret, because Google does not register clients by itself.

    >>> Google(client_id="1.apps.googleusercontent.com").authorization_servers
    ('https://accounts.google.com',)
    """

    refusals: ClassVar = (400,)
    site: ClassVar = "https://oauth2.googleapis.com"

    def __init__(self, *, client_id: str, scopes: Texts = ()) -> None:
        super().__init__(f"{self.site}/tokeninfo", "https://accounts.google.com", scopes)
        self._client_id = client_id

    async def claims(self, token: str) -> JsonObject:
        said = await self.fetcher.post(self.url, {"access_token": token})
        return {**said, "exp": int(said["exp"]) if str(said.get("exp", "")).isdecimal() else None}

    def user(self, claims: JsonObject) -> User | None:
        if claims.get("aud") != self._client_id or not is_current(claims, LEEWAY):
            return None
        return user_of(claims, self.issuer, scopes_in(claims, ("scope",)))


def Entra(*, tenant: str, client_id: str, scopes: Texts = ()) -> JWT:
    """Users of one tenant of Microsoft Entra, with tokens of version 2.0 for the application `client_id`.

    >>> Entra(tenant="contoso", client_id="1").authorization_servers
    ('https://login.microsoftonline.com/contoso/v2.0',)
    """
    if tenant in SHARED_TENANTS:
        raise ValueError(f"tenant of Entra must be the id of one tenant: {tenant!r} would let in users of all of them")
    issuer = f"https://login.microsoftonline.com/{tenant}/v2.0"
    return JWT(issuer=issuer, audience=[client_id, f"api://{client_id}"], scopes=scopes, scope_claims=("scp", "roles"))


def Auth0(*, domain: str, audience: Texts, scopes: Texts = ()) -> JWT:
    """Users of a tenant of Auth0; `audience` is the identifier of the API.

    >>> Auth0(domain="example.eu.auth0.com", audience="https://mcp.example.com").authorization_servers
    ('https://example.eu.auth0.com/',)
    """
    claims = ("scope", "permissions")
    return JWT(issuer=f"https://{domain}/", audience=audience, scopes=scopes, scope_claims=claims)


def Okta(*, domain: str, audience: Texts, server: str = "default", scopes: Texts = ()) -> JWT:
    """Users of an authorization server of Okta.

    >>> Okta(domain="example.okta.com", audience="api://default").authorization_servers
    ('https://example.okta.com/oauth2/default',)
    """
    return JWT(issuer=f"https://{domain}/oauth2/{server}", audience=audience, scopes=scopes)


def Keycloak(*, url: str, realm: str, audience: Texts, scopes: Texts = ()) -> JWT:
    """Users of a realm of Keycloak. A mapper of the client has to add the audience to its tokens.

    >>> Keycloak(url="https://sso.example.com", realm="birds", audience="mcp").authorization_servers
    ('https://sso.example.com/realms/birds',)
    """
    return JWT(issuer=f"{url.rstrip('/')}/realms/{realm}", audience=audience, scopes=scopes)


def Cognito(*, region: str, user_pool: str, client_id: Texts, scopes: Texts = ()) -> JWT:
    """Users of a pool of AWS Cognito, whose access tokens name the client, not an audience.

    >>> Cognito(region="eu-west-1", user_pool="eu-west-1_x", client_id="1").authorization_servers
    ('https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x',)
    """
    issuer = f"https://cognito-idp.{region}.amazonaws.com/{user_pool}"
    return JWT(issuer=issuer, audience=client_id, audience_claim="client_id", scopes=scopes)


def WorkOS(*, domain: str, audience: Texts, scopes: Texts = ()) -> JWT:
    """Users of WorkOS AuthKit; `domain` is the one of AuthKit.

    >>> WorkOS(domain="example.authkit.app", audience="https://mcp.example.com/mcp").authorization_servers
    ('https://example.authkit.app',)
    """
    return JWT(issuer=f"https://{domain}", audience=audience, scopes=scopes)
