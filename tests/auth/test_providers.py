"""The presets for identity providers: documents as the providers describe them, served by the test. Not tried live."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from auth.support import Issuer, issuing
from redstart import User
from redstart.access.verifier import AuthError, TokenVerifier
from redstart.auth import Auth0, Cognito, Entra, GitHub, Google, Keycloak, Okta, OpenID, WorkOS, providers
from redstart.auth.jwt import JWT
from support import run

FAR = 4102444800  # the year 2100


@pytest.fixture
def site() -> Iterator[Issuer]:
    with issuing() as site:
        yield site


async def ask(auth: TokenVerifier, token: str) -> Any:
    return await auth(token)  # type: ignore[misc]


CHECKED = {
    "id": 1,
    "token": "gho_x",
    "app": {"name": "birds", "url": "https://birds.example.com", "client_id": "Iv1.0"},
    "scopes": ["read:user", "repo"],
    "user": {"login": "octocat", "id": 583231, "type": "User"},
}


def test_github(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GitHub, "site", site.url)
    forms: list[Any] = []

    def check(form: bytes) -> tuple[int, dict[str, str], bytes]:
        forms.append(json.loads(form))
        return 200, {}, json.dumps(CHECKED).encode()

    site.documents["/applications/Iv1.0/token"] = check
    user = run(ask(GitHub(client_id="Iv1.0", client_secret="s3cret"), "gho_x"))
    assert isinstance(user, User)
    assert (user.subject, user.claims["login"], sorted(user.scopes)) == ("583231", "octocat", ["read:user", "repo"])
    assert forms == [{"access_token": "gho_x"}]
    assert site.headers[0]["authorization"] == f"Basic {b64encode(b'Iv1.0:s3cret').decode()}"


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (404, {"message": "Not Found"}),
        (422, {"message": "Validation Failed"}),
        (200, {**CHECKED, "app": {"client_id": "another"}}),
        (200, {**CHECKED, "user": None}),
        (200, {}),
    ],
)
def test_github_refuses(site: Issuer, monkeypatch: pytest.MonkeyPatch, status: int, document: Any) -> None:
    monkeypatch.setattr(GitHub, "site", site.url)
    site.serve("/applications/Iv1.0/token", document, status)
    assert run(ask(GitHub(client_id="Iv1.0", client_secret="s3cret"), "gho_x")) is None


INFO = {
    "azp": "1.apps.googleusercontent.com",
    "aud": "1.apps.googleusercontent.com",
    "sub": "110169484474386276334",
    "scope": "openid https://www.googleapis.com/auth/userinfo.email",
    "exp": str(FAR),
    "expires_in": "3488",
    "email": "ada@example.com",
    "email_verified": "true",
}


def test_google(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Google, "site", site.url)
    forms: list[Any] = []

    def info(form: bytes) -> tuple[int, dict[str, str], bytes]:
        forms.append(parse_qs(form.decode()))
        return 200, {}, json.dumps(INFO).encode()

    site.documents["/tokeninfo"] = info
    user = run(ask(Google(client_id="1.apps.googleusercontent.com"), "ya29.x"))
    assert isinstance(user, User)
    assert (user.subject, user.issuer) == ("110169484474386276334", "https://accounts.google.com")
    assert "openid" in user.scopes
    assert forms == [{"access_token": ["ya29.x"]}]


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (400, {"error": "invalid_token"}),
        (200, {**INFO, "aud": "2.apps.googleusercontent.com"}),
        (200, {**INFO, "exp": "1000"}),
        (200, {**INFO, "exp": "soon"}),
        (200, {**INFO, "sub": None}),
    ],
)
def test_google_refuses(site: Issuer, monkeypatch: pytest.MonkeyPatch, status: int, document: Any) -> None:
    monkeypatch.setattr(Google, "site", site.url)
    site.serve("/tokeninfo", document, status)
    assert run(ask(Google(client_id="1.apps.googleusercontent.com"), "ya29.x")) is None


def test_a_provider_that_is_away_is_not_a_refusal(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Google, "site", site.url)
    site.serve("/tokeninfo", {}, 500)
    with pytest.raises(AuthError) as caught:
        run(ask(Google(client_id="1"), "ya29.x"))
    assert caught.value.status == 503


@pytest.mark.parametrize(
    ("auth", "issuer"),
    [
        (Entra(tenant="contoso", client_id="1"), "https://login.microsoftonline.com/contoso/v2.0"),
        (Auth0(domain="x.auth0.com", audience="a"), "https://x.auth0.com/"),
        (Auth0(domain="https://x.auth0.com/", audience="a"), "https://x.auth0.com/"),
        (Okta(domain="https://x.okta.com", audience="a"), "https://x.okta.com/oauth2/default"),
        (WorkOS(domain="https://x.authkit.app/", audience="a"), "https://x.authkit.app"),
        (Okta(domain="x.okta.com", audience="a", server="s"), "https://x.okta.com/oauth2/s"),
        (Keycloak(url="https://x.example.com/", realm="r", audience="a"), "https://x.example.com/realms/r"),
        (Cognito(region="r", user_pool="r_p", client_id="1"), "https://cognito-idp.r.amazonaws.com/r_p"),
        (WorkOS(domain="x.authkit.app", audience="a"), "https://x.authkit.app"),
    ],
)
def test_the_issuers_of_those_that_sign_their_tokens(auth: JWT, issuer: str) -> None:
    assert auth.authorization_servers == (issuer,)


def test_keycloak_with_the_tokens_of_a_realm(site: Issuer) -> None:
    base = site.url
    site.url = f"{base}/realms/birds"
    site.serve("/realms/birds/.well-known/openid-configuration", {"issuer": site.url, "jwks_uri": f"{base}/certs"})
    site.serve("/certs", site.jwks())
    auth = Keycloak(url=base, realm="birds", audience="mcp")
    claims = {"aud": ["account", "mcp"], "azp": "inspector", "typ": "Bearer", "preferred_username": "ada"}
    user = run(ask(auth, site.token(claims)))
    assert isinstance(user, User)
    assert user.claims["preferred_username"] == "ada"
    assert run(ask(auth, site.token({**claims, "aud": "account"}))) is None


KEYCLOAK = {"aud": "mcp", "azp": "mcp", "scope": None, "preferred_username": "ada"}
ENTRA = {"aud": "mcp", "ver": "2.0", "tid": "contoso", "oid": "1", "scope": None}
COGNITO = {"aud": None, "scope": None}


@pytest.mark.parametrize(
    ("preset", "claims", "known"),
    [
        ("Keycloak", {**KEYCLOAK, "typ": "Bearer"}, True),
        ("Keycloak", {**KEYCLOAK, "typ": "ID", "at_hash": "x", "nonce": "n"}, False),
        ("Keycloak", {**KEYCLOAK, "typ": "Refresh"}, False),
        ("Keycloak", {**KEYCLOAK, "typ": "DPoP", "cnf": {"jkt": "x"}}, False),
        ("Keycloak", {**KEYCLOAK, "typ": ["Bearer"]}, False),
        ("Keycloak", KEYCLOAK, False),
        ("Entra", {**ENTRA, "azp": "another app", "azpacr": "0", "scp": "mcp"}, True),
        ("Entra", {**ENTRA, "azp": "a service", "azpacr": "2", "roles": ["mcp"]}, True),
        ("Entra", {**ENTRA, "nonce": "n", "name": "Ada"}, False),
        ("Entra", {**ENTRA, "nonce": "n", "roles": ["mcp"]}, False),
        ("Entra", {**ENTRA, "azp": "", "nonce": "n"}, False),
        ("Cognito", {**COGNITO, "client_id": "mcp", "token_use": "access"}, True),
        ("Cognito", {**COGNITO, "client_id": "other", "token_use": "access"}, False),
        ("Cognito", {**COGNITO, "aud": "mcp", "token_use": "id"}, False),
        ("Cognito", {**COGNITO, "client_id": "mcp", "token_use": "id"}, False),
    ],
    ids=str,
)
def test_an_id_token_is_not_an_access_token(
    site: Issuer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    preset: str,
    claims: dict[str, Any],
    known: bool,
) -> None:
    """It is given to an application that signs people in, which may be another site than this server."""
    site.publish()
    monkeypatch.setattr(providers, "OpenID", lambda issuer, **given: OpenID(issuer=site.url, **given))
    auth = {
        "Keycloak": lambda: Keycloak(url=site.url, realm="birds", audience="mcp"),
        "Entra": lambda: Entra(tenant="contoso", client_id="mcp"),
        "Cognito": lambda: Cognito(region="r", user_pool="r_p", client_id="mcp"),
    }[preset]()
    assert (run(ask(auth, site.token(claims))) is not None) is known
    assert any("auth= refuses a token of its issuer" in record.getMessage() for record in caplog.records) is not known


@pytest.mark.parametrize("tenant", ["common", "organizations", "consumers"])
def test_entra_is_for_one_tenant(tenant: str) -> None:
    with pytest.raises(ValueError, match="one tenant"):
        Entra(tenant=tenant, client_id="1")
