"""Identity providers that people use, each as a few lines on `JWT`, or on the provider's own check of a token.

With the id and the secret of an application that is registered there, `OAuthProxy` can use each of them.
They follow the documentation of the providers, and were not tried live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, TypedDict, Unpack
from urllib.parse import urlsplit

from redstart.access.verifier import Keeper
from redstart.auth.introspection import RemoteCheck, basic
from redstart.auth.jwt import JWT, LEEWAY, is_current, scopes_in, user_of
from redstart.auth.upstream import Application
from redstart.features.errors import SettingsError
from redstart.features.principal import User
from redstart.wire.jsonrpc import JsonObject, encode

Texts = str | Iterable[str]
SHARED_TENANTS: Final = ("common", "organizations", "consumers")
OFFLINE: Final = ("openid", "email", "profile", "offline_access")
"""What is asked for where a provider gives refresh tokens only for `offline_access`."""


class GitHub(RemoteCheck):
    """Users of GitHub, with tokens of one OAuth app: GitHub's own check of them takes the place of the audience.

    The client needs the id and the secret of that app, because GitHub does not register clients by itself.

    >>> GitHub(client_id="Iv1.0", client_secret="s3cret").authorization_servers
    ('https://github.com/login/oauth',)
    """

    refusals: ClassVar = (404, 422)
    site: ClassVar = "https://api.github.com"
    login: ClassVar = "https://github.com/login/oauth"

    def __init__(self, *, client_id: str, client_secret: str, scopes: Texts = ()) -> None:
        url = f"{self.site}/applications/{client_id}/token"
        super().__init__(url, "https://github.com/login/oauth", scopes)
        self._client_id = client_id
        urls = f"{self.login}/authorize", f"{self.login}/access_token"
        self.application = Application("GitHub", self.issuer, client_id, client_secret, (), *urls, by_token=self.verify)
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

    def __init__(self, *, client_id: str, client_secret: str = "", scopes: Texts = ()) -> None:
        super().__init__(f"{self.site}/tokeninfo", "https://accounts.google.com", scopes)
        self._client_id = client_id
        more = {"access_type": "offline", "prompt": "consent"}  # else there is no refresh token
        self.application = Application("Google", self.issuer, client_id, client_secret, more=more)

    async def claims(self, token: str) -> JsonObject:
        said = await self.fetcher.post(self.url, {"access_token": token})
        return {**said, "exp": int(said["exp"]) if str(said.get("exp", "")).isdecimal() else None}

    def user(self, claims: JsonObject) -> User | None:
        if claims.get("aud") != self._client_id or not is_current(claims, LEEWAY):
            return None
        return user_of(claims, self.issuer, scopes_in(claims, ("scope",)))


class _Given(TypedDict, total=False):
    """What every provider takes: the audience of its tokens, or an application that is registered there, or both."""

    audience: Texts
    client_id: str
    client_secret: str
    scopes: Texts


class OpenID(JWT):
    """Users of any OpenID provider, which is known by its issuer: for `OAuthProxy`; with `audience`, as `auth=` itself.

    >>> OpenID(issuer="https://login.example.com", client_id="mcp", client_secret="s3cret").application.client_id
    'mcp'

    `access_claims` are claims that access tokens have and ID tokens have not, and their values; empty: any value.
    """

    def __init__(
        self, *, issuer: str, name: str = "", upstream_scopes: tuple[str, ...] = OFFLINE[:3],
        scope_claims: Sequence[str] = ("scope", "scp"), audience_claim: str = "aud",
        access_claims: Mapping[str, str] = {}, **given: Unpack[_Given],
    ) -> None:  # fmt: skip
        audience, id = given.get("audience", ()), given.get("client_id", "")
        super().__init__(
            issuer=issuer, audience=audience or id, scopes=given.get("scopes", ()),
            scope_claims=scope_claims, audience_claim=audience_claim,
        )  # fmt: skip
        self._has_audience = bool(audience)
        self._access_claims = tuple(access_claims.items())
        shown = name or urlsplit(issuer).hostname or issuer
        self.application = Application(shown, issuer, id, given.get("client_secret", ""), upstream_scopes)

    def _user(self, claims: JsonObject) -> User | None:
        # An ID token tells an application who has signed in. It has the same issuer, and often the same audience.
        lacks = [name for name, value in self._access_claims if not claims.get(name) or value not in ("", claims[name])]
        return self._refused(claims, lacks, "it is not an access token") if lacks else super()._user(claims)

    def open(self, server: Keeper) -> None:
        if not self._has_audience:  # else the ID tokens of other sites that use the application would be let in
            raise SettingsError(
                "auth= needs the audience of its tokens", "give audience=…, or write auth=OAuthProxy(…)"
            )


def Entra(*, tenant: str, client_id: str, client_secret: str = "", scopes: Texts = ()) -> OpenID:
    """Users of one tenant of Microsoft Entra, with tokens of version 2.0 for the application `client_id`.

    >>> Entra(tenant="contoso", client_id="1").authorization_servers
    ('https://login.microsoftonline.com/contoso/v2.0',)
    """
    if tenant in SHARED_TENANTS:
        raise ValueError(f"tenant of Entra must be the id of one tenant: {tenant!r} would let in users of all of them")
    given: _Given = {"client_id": client_id, "client_secret": client_secret, "scopes": scopes}
    given["audience"] = [client_id, f"api://{client_id}"]
    issuer, scp = f"https://login.microsoftonline.com/{tenant}/v2.0", ("scp", "roles")
    azp = {"azp": ""}  # which client an access token was given to
    return OpenID(
        issuer=issuer, name="Microsoft", upstream_scopes=OFFLINE, scope_claims=scp, access_claims=azp, **given
    )


def _host(domain: str) -> str:
    """A domain, also as a browser shows it: many pages of providers have it with a scheme."""
    return (domain or "").removeprefix("https://").rstrip("/")


def Auth0(*, domain: str, **given: Unpack[_Given]) -> OpenID:
    """Users of a tenant of Auth0; `audience` is the identifier of the API.

    >>> Auth0(domain="example.eu.auth0.com", audience="https://mcp.example.com").authorization_servers
    ('https://example.eu.auth0.com/',)
    """
    claims = ("scope", "permissions")
    return OpenID(issuer=f"https://{_host(domain)}/", upstream_scopes=OFFLINE, scope_claims=claims, **given)


def Okta(*, domain: str, server: str = "default", **given: Unpack[_Given]) -> OpenID:
    """Users of an authorization server of Okta.

    >>> Okta(domain="example.okta.com", audience="api://default").authorization_servers
    ('https://example.okta.com/oauth2/default',)
    """
    return OpenID(issuer=f"https://{_host(domain)}/oauth2/{server}", name="Okta", upstream_scopes=OFFLINE, **given)


def Keycloak(*, url: str, realm: str, **given: Unpack[_Given]) -> OpenID:
    """Users of a realm of Keycloak. A mapper of the client has to add the audience to its tokens.

    >>> Keycloak(url="https://sso.example.com", realm="birds", audience="mcp").authorization_servers
    ('https://sso.example.com/realms/birds',)
    """
    return OpenID(issuer=f"{url.rstrip('/')}/realms/{realm}", access_claims={"typ": "Bearer"}, **given)


def Cognito(*, region: str, user_pool: str, client_id: Texts, client_secret: str = "", scopes: Texts = ()) -> OpenID:
    """Users of a pool of AWS Cognito, whose access tokens name the client, not an audience.

    >>> Cognito(region="eu-west-1", user_pool="eu-west-1_x", client_id="1").authorization_servers
    ('https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x',)
    """
    issuer = f"https://cognito-idp.{region}.amazonaws.com/{user_pool}"
    id = client_id if isinstance(client_id, str) else ""
    given: _Given = {"client_id": id, "client_secret": client_secret, "audience": client_id, "scopes": scopes}
    known = {"token_use": "access"}
    return OpenID(issuer=issuer, name="AWS Cognito", audience_claim="client_id", access_claims=known, **given)


def WorkOS(*, domain: str, **given: Unpack[_Given]) -> OpenID:
    """Users of WorkOS AuthKit; `domain` is the one of AuthKit.

    >>> WorkOS(domain="example.authkit.app", audience="https://mcp.example.com/mcp").authorization_servers
    ('https://example.authkit.app',)
    """
    return OpenID(issuer=f"https://{_host(domain)}", upstream_scopes=OFFLINE, **given)
