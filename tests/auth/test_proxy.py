"""OAuthProxy as an option of a server: what it needs, where it is served, and the presets of providers behind it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import RSAKey

from auth.proxied import VERIFIER, Browser
from auth.support import Issuer, issuing
from redstart import Server, User
from redstart.auth import JWT, Auth0, Cognito, Entra, GitHub, Google, Keycloak, OAuthProxy, Okta, OpenID, WorkOS, keys
from redstart.features.errors import SettingsError
from support import run
from transports.support import Http

KEYS = ["a key that is long enough"]
ISSUER = "https://login.example.com"
APP: dict[str, Any] = {"client_id": "web", "client_secret": "s3cret"}


URL = "http://127.0.0.1:9/mcp"


def proxy(**options: Any) -> OAuthProxy:
    return OAuthProxy(OpenID(issuer=ISSUER, **APP), **options)


@contextmanager
def openid_provider() -> Iterator[Issuer]:
    """A site with the metadata and the keys of a provider. The test serves /token and /me."""
    with issuing() as site:
        site.publish()
        known = {"issuer": site.url, "jwks_uri": f"{site.url}/jwks", "userinfo_endpoint": f"{site.url}/me"}
        places = {"authorization_endpoint": f"{site.url}/auth", "token_endpoint": f"{site.url}/token"}
        site.serve("/.well-known/openid-configuration", {**known, **places})
        yield site


@asynccontextmanager
async def agreed(server: Server) -> AsyncIterator[tuple[Browser, str, str]]:
    """The browser of a person who has agreed, and the state and the nonce of the question to the provider."""
    async with Browser(URL, None, server.asgi()) as browser:  # type: ignore[arg-type]  # nobody signs in there
        await browser.register()
        query = parse_qs(urlsplit((await browser.agree(await browser.page())).headers["location"]).query)
        yield browser, query["state"][0], query["nonce"][0]


def callback(state: str) -> str:
    """Where the provider sends the browser, with a code."""
    return f"{URL}/oauth/callback?code=c&state={state}"


# ---------------------------------------------------------------- what it needs


@pytest.mark.parametrize(
    "provider",
    [JWT(issuer=ISSUER, audience="x"), OpenID(issuer=ISSUER, client_id="web"), Google(client_id="web"), object()],
)
def test_a_provider_without_an_application_is_refused(provider: Any) -> None:
    with pytest.raises(ValueError, match="client_secret=…"):
        OAuthProxy(provider)


@pytest.mark.parametrize("option", [{"token_seconds": 0}, {"sign_in_days": -1}, {"scopes": 'a"b'}, {"allow": {"ada"}}])
def test_options_that_cannot_work(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        proxy(**option)


def test_keys_are_needed_for_a_store_that_lasts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SettingsError, match=r"needs keys.*openssl rand"):
        Server("notes", auth=proxy(), store=f"sqlite:///{tmp_path / 'kept.db'}").asgi()
    with caplog.at_level(logging.WARNING):
        Server("notes", auth=proxy()).asgi()
    assert "sign in again after a restart" in caplog.text
    caplog.clear()
    Server("notes", auth=proxy(), keys=KEYS).asgi()
    assert not caplog.records


def test_one_proxy_is_for_one_server() -> None:
    auth = proxy()
    Server("one", auth=auth, keys=KEYS).asgi()
    with pytest.raises(SettingsError, match="another server"):
        Server("two", auth=auth, keys=KEYS).asgi()


@pytest.mark.parametrize("opened", [False, True])
def test_the_token_of_the_provider_is_had_for_a_user_of_this_server_only(opened: bool) -> None:
    auth = proxy()
    if opened:
        Server("notes", auth=auth, keys=KEYS).asgi()
    with pytest.raises(ValueError, match=r"takes the ctx\.user"):
        run(auth.upstream_token(User("ada", claims={"sid": "x"} if not opened else {})))


def test_the_public_url_must_be_https() -> None:
    with pytest.raises(SettingsError, match="https://"):
        Server("notes", auth=proxy(), keys=KEYS).asgi(public_url="http://mcp.example.com")
    Server("notes", auth=proxy(), keys=KEYS).asgi(public_url="http://localhost:8000")  # it does not leave this machine


def test_an_openid_provider_alone_needs_an_audience() -> None:
    """Else ID tokens, which other sites get for the same application, would be let in."""
    with pytest.raises(SettingsError, match="audience"):
        Server("notes", auth=OpenID(issuer=ISSUER, **APP)).asgi()
    Server("notes", auth=OpenID(issuer=ISSUER, audience="https://mcp.example.com/mcp")).asgi()


# ---------------------------------------------------------------- where it is


@pytest.mark.parametrize(
    ("options", "root", "host", "path", "issuer"),
    [
        ({}, "", "localhost:8000", "/.well-known/oauth-authorization-server/mcp", "http://localhost:8000/mcp"),
        ({"path": "/"}, "", "localhost", "/.well-known/oauth-authorization-server", "http://localhost"),
        ({}, "/mcp", "localhost", "/mcp/.well-known/openid-configuration", "http://localhost/mcp"),
        (
            {"public_url": "https://mcp.example.com"},
            "",
            "mcp.example.com",
            "/.well-known/oauth-authorization-server/mcp",
            "https://mcp.example.com/mcp",
        ),
        (
            {"public_url": "https://mcp.example.com/a/b"},
            "",
            "mcp.example.com",
            "/.well-known/oauth-authorization-server/a/b",
            "https://mcp.example.com/a/b",
        ),
    ],
)
def test_the_issuer_is_the_url_of_the_endpoint(
    options: dict[str, Any], root: str, host: str, path: str, issuer: str
) -> None:
    server = Server("notes", auth=proxy(), keys=KEYS)

    async def main() -> None:
        http = Http(server.asgi(**options), root_path=root)
        found = (await http.send(method="GET", path=path, headers={"host": host})).json()
        assert found["issuer"] == issuer
        assert found["token_endpoint"] == f"{issuer}/oauth/token"
        below = (root or options.get("path", "/mcp")).rstrip("/")
        form = {"host": host, "content-type": "application/x-www-form-urlencoded"}
        refused = await http.send(b"grant_type=x&client_id=y", path=f"{below}/oauth/token", headers=form)
        assert (refused.status, refused.json()["error"]) == (401, "invalid_client")

    run(main(), server)


def test_without_a_public_url_only_names_of_this_machine_are_served() -> None:
    server = Server("notes", auth=proxy(), keys=KEYS)

    async def main() -> None:
        http = Http(server.asgi(allowed_hosts=["*"]))
        path = "/.well-known/oauth-authorization-server"
        response = await http.send(method="GET", path=path, headers={"host": "mcp.example.com"})
        assert response.status == 421
        assert b"public_url=" in response.body

    run(main(), server)


def test_pages_of_allowed_origins_may_use_it_and_others_may_not() -> None:
    server = Server("notes", auth=proxy(), keys=KEYS)

    async def main() -> None:
        http = Http(server.asgi(allowed_origins=["https://app.example.com"]))
        asked = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
        allowed = await http.send(method="OPTIONS", path="/mcp/oauth/token", headers=asked)
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, "https://app.example.com")
        form = {"origin": "https://app.example.com", "content-type": "application/x-www-form-urlencoded"}
        refused = await http.send(b"grant_type=x", path="/mcp/oauth/token", headers=form)
        assert refused.headers["access-control-allow-origin"] == "https://app.example.com"
        other = {**form, "origin": "https://evil.example"}
        assert (await http.send(b"grant_type=x", path="/mcp/oauth/token", headers=other)).status == 403

    run(main(), server)


# ---------------------------------------------------------------- providers, by their documentation; not tried live


@pytest.mark.parametrize(
    ("provider", "issuer", "offline"),
    [
        (Google(**APP), "https://accounts.google.com", False),
        (Entra(tenant="contoso", **APP), "https://login.microsoftonline.com/contoso/v2.0", True),
        (Auth0(domain="x.auth0.com", **APP), "https://x.auth0.com/", True),
        (Okta(domain="x.okta.com", **APP), "https://x.okta.com/oauth2/default", True),
        (Keycloak(url="https://sso.example.com", realm="birds", **APP), "https://sso.example.com/realms/birds", False),
        (Cognito(region="eu-west-1", user_pool="p", **APP), "https://cognito-idp.eu-west-1.amazonaws.com/p", False),
        (WorkOS(domain="x.authkit.app", **APP), "https://x.authkit.app", True),
    ],
)
def test_presets_can_be_behind_it(provider: Any, issuer: str, offline: bool) -> None:
    OAuthProxy(provider)
    app = provider.application
    assert (app.issuer, app.client_id, app.client_secret, app.by_token) == (issuer, "web", "s3cret", None)
    assert ("offline_access" in app.scopes) is offline
    assert "s3cret" not in str(getattr(provider, "authorization_servers", ""))


OCTOCAT = {"login": "octocat", "id": 583231}
CHECKED = {"app": {"client_id": "web"}, "scopes": [], "user": OCTOCAT}


@pytest.mark.parametrize(
    "end",
    [({"message": "Not Found"}, 404), ({**CHECKED, "user": {**OCTOCAT, "id": 1}}, 200)],
    ids=["the user has withdrawn it", "somebody else"],
)
def test_a_sign_in_with_github(end: tuple[Any, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub has no ID tokens, answers errors with 200, and is asked about its token; documents as it has them."""
    with issuing() as site:
        monkeypatch.setattr(GitHub, "site", site.url)
        monkeypatch.setattr(GitHub, "login", site.url)
        forms: list[dict[str, list[str]]] = []

        def exchange(form: bytes) -> tuple[int, dict[str, str], bytes]:
            forms.append(parse_qs(form.decode()))
            good = {"access_token": "gho_x", "token_type": "bearer", "scope": ""}
            bad = {"error": "bad_verification_code"}
            return 200, {}, json.dumps(good if forms[-1]["code"] == ["good"] else bad).encode()

        site.documents["/access_token"] = exchange
        site.serve("/applications/web/token", CHECKED)
        auth = OAuthProxy(GitHub(**APP), allow=lambda user: user.claims["login"] == "octocat")
        server = Server("notes", auth=auth, keys=KEYS)

        async def main() -> None:
            async with Browser(URL, None, server.asgi()) as browser:  # type: ignore[arg-type]  # nobody signs in there
                await browser.register()

                async def answer(code: str) -> dict[str, str]:
                    sent = (await browser.agree(await browser.page())).headers["location"]
                    query = parse_qs(urlsplit(sent).query)
                    assert sent.startswith(f"{site.url}/authorize?")
                    assert query["redirect_uri"] == [f"{URL}/oauth/callback"]
                    assert query["code_challenge_method"] == ["S256"]
                    assert "nonce" not in query
                    return await browser.finish(f"{URL}/oauth/callback?code={code}&state={query['state'][0]}")

                assert (await answer("bad"))["error"] == "access_denied"
                tokens = (await browser.redeem((await answer("good"))["code"])).json()
                assert forms[-1]["client_secret"] == ["s3cret"]
                assert forms[-1]["code_verifier"] != [VERIFIER]
                user: Any = await auth.verify(tokens["access_token"])
                assert (user.subject, user.claims["login"]) == ("583231", "octocat")
                asked = len(site.asked)
                assert await auth.upstream_token(user) == "gho_x"
                assert len(site.asked) == asked  # only a refresh asks the provider
                site.serve("/applications/web/token", {**CHECKED, "user": {**OCTOCAT, "name": "The Cat"}})
                renewed = await browser.refresh(tokens["refresh_token"])
                assert renewed.status_code == 200
                user = await auth.verify(renewed.json()["access_token"])
                assert user.claims["name"] == "The Cat"
                site.serve("/applications/web/token", *end)
                refused = await browser.refresh(renewed.json()["refresh_token"])
                assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")

        run(main(), server)


@pytest.mark.parametrize(
    ("change", "info", "let_in"),
    [
        ({}, {"sub": "ada", "email": "ada@example.com"}, True),
        ({}, None, True),  # nothing more is known of the user
        ({"nonce": "of another sign-in"}, None, False),
        ({"nonce": None}, None, False),
        ({"aud": "another application"}, None, False),
        ({"iss": "https://other.example"}, None, False),
        ({"exp": 1}, None, False),
        ({}, {"sub": "somebody else"}, False),
    ],
    ids=str,
)
def test_what_an_id_token_must_say(change: dict[str, Any], info: Any, let_in: bool) -> None:
    with openid_provider() as site:
        if info is not None:
            site.serve("/me", info)
        server = Server("notes", auth=OAuthProxy(OpenID(issuer=site.url, **APP)), keys=KEYS)

        async def main() -> None:
            async with agreed(server) as (browser, state, nonce):
                id_token = site.token({"aud": "web", "nonce": nonce, **change})
                site.serve("/token", {"access_token": "x", "token_type": "Bearer", "id_token": id_token})
                answer = await browser.finish(callback(state))
                assert ("code" in answer, answer.get("error")) == (let_in, None if let_in else "access_denied")

        run(main(), server)


@pytest.mark.parametrize(
    ("status", "said"), [(401, "127.0.0.1 does not know this client_id= and client_secret="), (500, "does not answer")]
)
def test_the_log_says_in_a_line_why_the_provider_gives_no_token(
    status: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with openid_provider() as site:
        site.serve("/token", {"error": "any"}, status)
        server = Server("notes", auth=OAuthProxy(OpenID(issuer=site.url, **APP)), keys=KEYS)

        async def main() -> None:
            async with agreed(server) as (browser, state, _):
                answer = await browser.finish(callback(state))
                assert answer["error"] == "server_error"

        run(main(), server)
        [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert f"{said}: {site.url}/token answered {status}" in record.getMessage()
        assert record.exc_info is None


def test_a_token_of_the_provider_that_no_header_can_have_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with openid_provider() as site:
        server = Server("notes", auth=OAuthProxy(OpenID(issuer=site.url, **APP)), keys=KEYS)

        async def main() -> None:
            async with agreed(server) as (browser, state, nonce):
                id_token = site.token({"aud": "web", "nonce": nonce})
                site.serve("/token", {"access_token": "hush\n", "token_type": "Bearer", "id_token": id_token})
                answer = await browser.finish(callback(state))
                assert answer["error"] == "access_denied"

        run(main(), server)
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/token", 400, (400, "invalid_grant")),
        ("/token", 403, (400, "invalid_grant")),  # as Auth0 says it
        ("/token", 401, (503, "temporarily_unavailable")),  # it does not take the secret, which may have expired
        ("/token", 404, (503, "temporarily_unavailable")),
        ("/token", 500, (503, "temporarily_unavailable")),
        ("/me", 500, (503, "temporarily_unavailable")),  # allow= must not decide without what it knew before
        ("/me", 429, (503, "temporarily_unavailable")),
        ("/me", 404, (400, "invalid_grant")),  # there is nothing more to know, and this allow= needs it
    ],
)
def test_only_an_answer_of_the_provider_ends_a_sign_in(path: str, status: int, expected: tuple[int, str]) -> None:
    with openid_provider() as site:
        info, tokens = {"sub": "ada", "email": "ada@example.com"}, {"access_token": "x", "refresh_token": "y"}
        site.serve("/me", info)
        auth = OAuthProxy(OpenID(issuer=site.url, **APP), allow=lambda user: user.claims.get("email") == info["email"])
        server = Server("notes", auth=auth, keys=KEYS)

        async def main() -> None:
            async with agreed(server) as (browser, state, nonce):
                id_token = site.token({"aud": "web", "nonce": nonce})
                said = {**tokens, "token_type": "Bearer", "expires_in": 1, "id_token": id_token}
                site.serve("/token", said)
                answer = await browser.finish(callback(state))
                token = (await browser.redeem(answer["code"])).json()["refresh_token"]
                site.serve(path, {"error": "any"}, status)
                refused = await browser.refresh(token)
                assert (refused.status_code, refused.json()["error"]) == expected
                site.serve("/me", info)
                site.serve("/token", said)
                assert (await browser.refresh(token)).status_code == (200 if expected[0] == 503 else 400)

        run(main(), server)


def test_the_new_refresh_token_of_a_provider_is_kept_before_anything_else() -> None:
    """A provider that rotates its refresh tokens takes each once, so losing the new one would end the sign-in."""
    with openid_provider() as site:
        site.serve("/me", {"sub": "ada"})
        server = Server("notes", auth=OAuthProxy(OpenID(issuer=site.url, **APP)), keys=KEYS)
        given: list[str] = []
        nonce = ""

        def exchange(form: bytes) -> tuple[int, dict[str, str], bytes]:
            sent = parse_qs(form.decode())
            if sent["grant_type"] == ["refresh_token"] and sent["refresh_token"] != given[-1:]:
                return 400, {}, b'{"error": "invalid_grant"}'
            given.append(f"refresh {len(given)}")
            id_token = site.token({"aud": "web", "nonce": nonce})
            said = {"access_token": "x", "refresh_token": given[-1], "expires_in": 1, "id_token": id_token}
            return 200, {}, json.dumps(said).encode()

        site.documents["/token"] = exchange

        async def main() -> None:
            nonlocal nonce
            async with agreed(server) as (browser, state, nonce):
                answer = await browser.finish(callback(state))
                token = (await browser.redeem(answer["code"])).json()["refresh_token"]
                site.serve("/me", {}, 500)
                assert (await browser.refresh(token)).status_code == 503
                site.serve("/me", {"sub": "eve"})  # it is asked again, with the new one
                assert (await browser.refresh(token)).status_code == 400
                assert given == ["refresh 0", "refresh 1", "refresh 2"]

        run(main(), server)


def test_an_id_token_that_cannot_be_checked_says_nothing_about_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider has a new key, and its list of keys cannot be read at this moment."""
    monkeypatch.setattr(keys, "PAUSE", 0.0)
    with openid_provider() as site:
        site.serve("/me", {"sub": "ada"})
        server = Server("notes", auth=OAuthProxy(OpenID(issuer=site.url, **APP)), keys=KEYS)

        async def main() -> None:
            async with agreed(server) as (browser, state, nonce):
                claims = {"aud": "web", "nonce": nonce}
                tokens = {"access_token": "x", "refresh_token": "y", "expires_in": 1}
                site.serve("/token", {**tokens, "id_token": site.token(claims)})
                answer = await browser.finish(callback(state))
                token = (await browser.redeem(answer["code"])).json()["refresh_token"]
                site.keys.insert(0, RSAKey.generate_key(2048, parameters={"kid": "two"}))
                site.serve("/token", {**tokens, "id_token": site.token(claims)})
                published = site.documents.pop("/jwks")
                assert (await browser.refresh(token)).status_code == 503
                site.documents["/jwks"] = published
                assert (await browser.refresh(token)).status_code == 200

        run(main(), server)


HALF = "\ud83d"  # of an emoji, where a program has cut a name


@pytest.mark.parametrize(
    ("claims", "said", "expected"),
    [
        ({}, {"expires_in": -(10**400)}, (200, None)),
        ({"name": HALF}, {}, (503, "temporarily_unavailable")),
        ({"nonce": HALF}, {}, (503, "temporarily_unavailable")),
    ],
    ids=["an end that no clock has", "half of a character", "half of a character that is compared"],
)
def test_a_provider_that_answers_oddly_is_no_500(
    claims: dict[str, Any], said: dict[str, Any], expected: tuple[int, str | None]
) -> None:
    with openid_provider() as site:
        site.serve("/me", {"sub": "ada"})
        server = Server("notes", auth=OAuthProxy(OpenID(issuer=site.url, **APP)), keys=KEYS)

        def serve(nonce: str, **more: Any) -> None:
            payload = {"iss": site.url, "aud": "web", "sub": "ada", "exp": 9e9, "nonce": nonce, **more}
            id_token = jws.serialize_compact({"alg": "RS256", "kid": "one"}, json.dumps(payload), site.keys[0])
            tokens = {"access_token": "x", "refresh_token": "y", "expires_in": 1}
            site.serve("/token", {**tokens, "id_token": id_token, **(said if more else {})})

        async def main() -> None:
            async with agreed(server) as (browser, state, nonce):
                serve(nonce)
                answer = await browser.finish(callback(state))
                token = (await browser.redeem(answer["code"])).json()["refresh_token"]
                serve(**{"nonce": nonce, "refreshed": True, **claims})
                answered = await browser.refresh(token)
                assert (answered.status_code, answered.json().get("error")) == expected

        run(main(), server)
