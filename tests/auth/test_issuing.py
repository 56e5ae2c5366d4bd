"""OAuthProxy as an authorization server, in front of npm's oidc-provider: sign-ins, tokens, and what is refused.

The server is an application in this process; the provider is a real one. Each advisory about OAuth proxies that
/specification/2026-07-28/basic/authorization and the peers know of has a test that names it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from auth.provider import Provider, oidc_provider, sign_in
from auth.proxied import CALLBACK, Browser, answered, application
from redstart import Context, Server, User
from redstart.auth import OAuthProxy, OpenID, clients, issuing, records
from redstart.store.memory import MemoryStore
from redstart.store.shared import StoreAway, StoreFull
from support import free_port, run

PORT = free_port()
URL = f"http://127.0.0.1:{PORT}/mcp"
Script = Callable[[Browser], Awaitable[None]]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with oidc_provider(clients=[application(PORT)]) as running:
        yield running


def serving(provider: Provider, **options: Any) -> Server:
    upstream = OpenID(issuer=provider.url, client_id="web", client_secret="s3cret", name="The Provider")
    store, keys = options.pop("store", None), options.pop("keys", ["a key that is long enough"])
    auth = OAuthProxy(upstream, **options)
    server = Server("notes", auth=auth, keys=keys, store=store)

    @server.tool
    async def whoami(ctx: Context) -> str:
        return f"{ctx.user.subject} of {ctx.user.issuer}: {sorted(ctx.user.scopes)} {ctx.user.claims.get('email')}"

    @server.tool(scopes="admin", visible=lambda user: True)
    async def reset() -> str:
        return "reset"

    @server.tool
    async def upstream_token(ctx: Context) -> str:
        return await auth.upstream_token(ctx.user)

    return server


def play(provider: Provider, script: Script, **options: Any) -> None:
    """Run a script with a new server, and a browser whose client is registered."""
    server = serving(provider, **options)

    async def main() -> None:
        async with Browser(URL, provider, server.asgi()) as browser:
            assert (await browser.register()).status_code == 201
            await script(browser)

    run(main(), server)


def said(response: Any) -> str:
    text: str = response.json()["result"]["content"][0]["text"]
    return text


def error_of(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


# ---------------------------------------------------------------- what works


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration/mcp",
        "/.well-known/openid-configuration",
        "/mcp/.well-known/openid-configuration",
    ],
)
def test_metadata_is_where_clients_look(provider: Provider, path: str) -> None:
    async def script(browser: Browser) -> None:
        response = await browser.http.get(browser.site + path)
        found = response.json()
        assert response.status_code == 200
        assert found["issuer"] == URL
        assert {name: found[f"{name}_endpoint"] for name in ("authorization", "token", "registration")} == {
            "authorization": f"{URL}/oauth/authorize",
            "token": f"{URL}/oauth/token",
            "registration": f"{URL}/oauth/register",
        }
        assert found["code_challenge_methods_supported"] == ["S256"]
        assert found["client_id_metadata_document_supported"] is True
        assert found["authorization_response_iss_parameter_supported"] is True
        assert found["scopes_supported"] == ["mcp", "admin"]
        assert (await browser.http.post(browser.site + path)).status_code == 405
        resource = (await browser.http.get(browser.site + "/.well-known/oauth-protected-resource/mcp")).json()
        assert (resource["resource"], resource["authorization_servers"]) == (URL, [URL])

    play(provider, script, scopes="mcp", optional_scopes="admin")


def test_a_sign_in_ends_with_tokens_of_our_own(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        answer = await browser.authorize(scope="mcp")
        assert answer["state"] == "the state"
        assert answer["iss"] == URL
        response = await browser.redeem(answer["code"], resource=URL)
        assert response.headers["cache-control"] == "no-store"
        tokens = response.json()
        assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 600, "mcp")
        assert said(await browser.call(tokens["access_token"])) == f"ada of {provider.url}: ['mcp'] ada@example.com"
        # Nobody but the server can read what the token says, and the token of the provider is another one.
        upstream = said(await browser.call(tokens["access_token"], "upstream_token"))
        assert upstream not in json.dumps(tokens)
        assert "ada" not in tokens["access_token"]

    play(provider, script, scopes="mcp")


@pytest.mark.parametrize(
    ("resource", "taken"),
    [
        ("http://localhost/mcp", True),
        ("http://localhost/mcp/", True),
        ("HTTP://LocalHost/mcp", True),
        ("http://localhost/MCP", False),
        ("http://localhost/mcp?x", False),
        ("http://localhost/mcp#x", False),
        ("http://localhost@evil.example/mcp", False),
        ("http://[", False),
    ],
)
def test_capitals_in_the_scheme_and_the_host_of_a_resource_mean_nothing(
    provider: Provider, resource: str, taken: bool
) -> None:
    site = "http://localhost"
    server = serving(provider)

    async def main() -> None:
        app = server.asgi(public_url=f"{site}/mcp")
        async with Browser(f"{site}/mcp", provider, app) as browser:
            await browser.register()
            page = await browser.page(resource=resource)
            assert page.status_code == (200 if taken else 303)
            assert taken or answered(page)["error"] == "invalid_target"

    run(main(), server)


def test_two_people_are_two_users(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        first = await browser.tokens("ada")
        browser.http.cookies.clear()
        second = await browser.tokens("bob")
        assert said(await browser.call(first["access_token"])).startswith("ada")
        assert said(await browser.call(second["access_token"])).startswith("bob")

    play(provider, script)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_clients_with_a_secret(provider: Provider, method: str) -> None:
    async def script(browser: Browser) -> None:
        await browser.register(token_endpoint_auth_method=method)
        id, secret = browser.client_id, browser.client["client_secret"]
        code = (await browser.authorize())["code"]
        assert error_of(await browser.redeem(code)) == (401, "invalid_client")
        assert error_of(await browser.redeem(code, client_secret="wrong")) == (401, "invalid_client")
        wrong = await browser.redeem(code, auth=(id, "wrong"))
        assert wrong.headers["www-authenticate"] == "Basic"
        good: dict[str, Any] = {"auth": (id, secret)} if method.endswith("basic") else {"client_secret": secret}
        response = await browser.redeem(code, **good)
        assert response.status_code == 200, "a client that could not prove itself must not have used up the code"
        assert (await browser.refresh(response.json()["refresh_token"], **good)).status_code == 200

    play(provider, script)


def test_a_client_names_itself_once(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        await browser.register(token_endpoint_auth_method="client_secret_basic")
        code, known = (await browser.authorize())["code"], (browser.client_id, browser.client["client_secret"])
        for twice in ({"client_id": "another"}, {"client_secret": known[1]}):
            assert error_of(await browser.redeem(code, auth=known, **twice)) == (400, "invalid_request")
        assert (await browser.redeem(code, auth=known, client_id=known[0])).status_code == 200

    play(provider, script)


def test_step_up_by_the_challenge(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens(scope="mcp")
        refused = await browser.call(tokens["access_token"], "reset")
        assert refused.status_code == 403
        assert 'error="insufficient_scope", scope="mcp admin"' in refused.headers["www-authenticate"]
        more = await browser.tokens(scope="mcp admin")
        assert said(await browser.call(more["access_token"], "reset")) == "reset"
        assert more["scope"] == "mcp admin"

    play(provider, script, scopes="mcp", optional_scopes="admin")


def test_a_token_expires_and_is_refreshed(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        assert (await browser.call(tokens["access_token"])).status_code == 200  # and remembered
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: now + 601)
            response = await browser.call(tokens["access_token"])
            assert response.status_code == 401
            assert 'error="invalid_token"' in response.headers["www-authenticate"]
            renewed = (await browser.refresh(tokens["refresh_token"])).json()
            assert (await browser.call(renewed["access_token"])).status_code == 200

    play(provider, script)


def test_scopes_that_nobody_offers_are_not_granted(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        assert (await browser.tokens(scope="mcp admin offline_access"))["scope"] == "mcp"

    play(provider, script, scopes="mcp")


def test_a_refresh_token_may_ask_for_less_but_not_for_more(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens(scope="mcp")
        assert error_of(await browser.refresh(tokens["refresh_token"], scope="mcp admin")) == (400, "invalid_scope")
        both = await browser.tokens(scope="mcp admin")
        less = (await browser.refresh(both["refresh_token"], scope="mcp")).json()
        assert less["scope"] == "mcp"
        assert (await browser.refresh(less["refresh_token"])).json()["scope"] == "mcp admin"

    play(provider, script, scopes="mcp", optional_scopes="admin")


# ---------------------------------------------------------------- who is let in


@pytest.mark.parametrize(
    ("allow", "user", "scopes"),
    [
        (lambda user: user.claims["email"] == "ada@example.com", "ada", "mcp admin"),
        (lambda user: user.claims["email"] == "ada@example.com", "eve", None),
        (lambda user: None, "ada", None),
        (lambda user: ["mcp"], "ada", "mcp"),
        (lambda user: "mcp admin", "ada", "mcp admin"),
        (lambda user: ["admin"], "ada", None),  # what every token needs is missing
        (lambda user: user.claims["no such claim"], "ada", ""),
    ],
)
def test_allow_decides_who_comes_in(provider: Provider, allow: Any, user: str, scopes: str | None) -> None:
    async def script(browser: Browser) -> None:
        answer = await browser.authorize(user, scope="mcp admin")
        if not scopes:
            assert answer["error"] == ("access_denied" if scopes is None else "server_error")
            assert "code" not in answer
        else:
            assert (await browser.redeem(answer["code"])).json()["scope"] == scopes

    play(provider, script, allow=allow, scopes="mcp", optional_scopes="admin")


@pytest.mark.parametrize(
    "said",
    [0, "", set(), [], {}, None, False, 1, "no", "False", b"admin", (0,), [None], [[]], {"admin": False}],
    ids=repr,
)
def test_whatever_is_not_a_yes_keeps_a_person_out(
    provider: Provider, said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where tokens need no scope, so that none is missing: a row of a database is an easy mistake."""

    async def script(browser: Browser) -> None:
        assert (await browser.authorize("ada", scope="admin"))["error"] == "access_denied"

    play(provider, script, allow=lambda user: said, optional_scopes="admin")
    assert ("allow= must return True, False, or scopes" in caplog.text) == bool(said)


def test_allow_may_be_async_and_is_asked_again_at_each_refresh(provider: Provider) -> None:
    welcome = {"ada"}

    async def allow(user: User) -> bool:
        return user.subject in welcome

    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        tokens = (await browser.refresh(tokens["refresh_token"])).json()
        welcome.clear()
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        welcome.add("ada")
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")

    play(provider, script, allow=allow)


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_an_allow_that_fails_at_a_refresh_is_no_end_of_the_sign_in(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(issuing, "ALLOW_SECONDS", 0.2 if how == "hangs" else 10.0)
    away = False

    async def allow(user: User) -> bool:
        if away:
            if how == "hangs":
                await asyncio.Event().wait()
            raise ConnectionError("the directory is away")
        return True

    async def script(browser: Browser) -> None:
        nonlocal away
        token = (await browser.tokens())["refresh_token"]
        away = True
        assert error_of(await browser.refresh(token)) == (503, "temporarily_unavailable")
        away = False
        assert (await browser.refresh(token)).status_code == 200

    play(provider, script, allow=allow)


def test_an_allow_that_says_what_cannot_be_read_keeps_a_person_out(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        assert (await browser.authorize())["error"] == "access_denied"

    play(provider, script, allow=lambda user: object())


def test_an_allow_in_threads_leaves_none_when_the_server_has_stopped(provider: Provider) -> None:
    threads = []

    def allow(user: User) -> bool:
        threads.append(threading.current_thread())
        return True

    async def script(browser: Browser) -> None:
        assert "code" in await browser.authorize()

    play(provider, script, allow=allow)
    for thread in threads:
        thread.join(20)
    assert [thread.is_alive() for thread in threads] == [False]


def test_an_allow_that_hangs_holds_nothing_but_its_own_thread(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuing, "ALLOW_SECONDS", 0.2)
    release, ended = threading.Event(), threading.Event()

    def allow(user: User) -> bool:
        release.wait(20)
        ended.set()
        return True

    async def script(browser: Browser) -> None:
        assert (await browser.authorize())["error"] == "server_error"

    play(provider, script, allow=allow)
    assert not ended.is_set(), "the end of the loop has waited for it"
    release.set()


def test_a_person_who_declines_and_a_provider_that_refuses(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redstart.audit")

    async def script(browser: Browser) -> None:
        answer = answered(await browser.agree(await browser.page(), "deny"))
        assert answer == {
            "error": "access_denied",
            "error_description": "The person did not agree",
            "state": "the state",
            "iss": URL,
        }
        sent = await browser.agree(await browser.page())
        state = parse_qs(urlsplit(sent.headers["location"]).query)["state"][0]
        response = await browser.http.get(f"{URL}/oauth/callback?error=invalid_scope&state={state}")
        answer = answered(response)
        assert answer["error"] == "access_denied"
        assert answer["error_description"] == "The Provider says no: 'invalid_scope'"

    play(provider, script)
    assert caplog.text.count('"sign-in refused"') == 2


# ---------------------------------------------------------------- the confused deputy


def test_the_provider_is_reached_only_after_consent_fastmcp_2056(provider: Provider) -> None:
    """A page that names the client comes first, and nothing is known at the provider before the person agrees."""

    async def script(browser: Browser) -> None:
        page = await browser.page(scope="mcp")
        assert page.status_code == 200
        assert "location" not in page.headers
        for shown in ("Test client", "notes", "this computer (127.0.0.1)", "mcp", "The Provider"):
            assert shown in page.text
        assert provider.url not in page.text

    play(provider, script, scopes="mcp")


def test_each_authorization_asks_again_GHSA_6x8h_498w_gv8c(provider: Provider) -> None:
    """A consent is for one authorization: a link cannot use the one that a person has given before."""

    async def script(browser: Browser) -> None:
        await browser.tokens()
        page = await browser.page()
        assert page.status_code == 200
        assert "Allow Test client" in page.text

    play(provider, script)


def test_another_browser_at_the_callback_CVE_2026_27124_GHSA_rww4_4w9c_7733(provider: Provider) -> None:
    """An attacker agrees, and sends the link of the provider to a victim: the victim's browser is not let through."""

    async def script(attacker: Browser) -> None:
        sent = await attacker.agree(await attacker.page())
        async with Browser(URL, provider, attacker.app) as victim:
            callback = await sign_in(victim.http, sent.headers["location"], provider, "victim")
            response = await victim.http.get(callback)
            assert response.status_code == 403
            assert "location" not in response.headers
            assert "another browser" in response.text
            # The attacker cannot use the code either: the sign-in is over.
            assert (await attacker.http.get(callback)).status_code == 400

    play(provider, script)


def test_a_form_counts_only_in_the_browser_that_got_it(provider: Provider) -> None:
    """CSRF: neither without the cookie, nor with the cookie of another page, nor from another site, nor changed."""

    async def script(browser: Browser) -> None:
        page = await browser.page()
        browser.http.cookies.clear()
        assert (await browser.agree(page)).status_code == 403
        other = await browser.page()
        while other.headers["set-cookie"].partition("=")[0] != page.headers["set-cookie"].partition("=")[0]:
            other = await browser.page()
        assert (await browser.agree(page)).status_code == 403
        assert (await browser.agree(other)).status_code == 303
        form = {"asked": "x", "answer": "allow"}
        foreign = {"origin": "https://evil.example"}
        assert (await browser.http.post(f"{URL}/oauth/consent", data=form, headers=foreign)).status_code == 403
        assert (await browser.http.post(f"{URL}/oauth/consent", data=form)).status_code == 400
        assert (await browser.http.get(f"{URL}/oauth/consent")).status_code == 405

    play(provider, script)


def test_two_pages_at_once_do_not_disturb_each_other(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        first = await browser.page()
        second = await browser.page()
        while second.headers["set-cookie"].partition("=")[0] == first.headers["set-cookie"].partition("=")[0]:
            browser.http.cookies.clear()
            first, second = await browser.page(), await browser.page()
        assert (await browser.agree(first)).status_code == 303
        assert (await browser.agree(second)).status_code == 303

    play(provider, script)


def test_the_state_is_for_one_use_and_unknown_ones_lead_nowhere(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        callback = await browser.to_callback()
        assert (await browser.http.get(callback)).status_code == 303
        for url in (callback, f"{URL}/oauth/callback?code=x&state=y", f"{URL}/oauth/callback"):
            response = await browser.http.get(url)
            assert response.status_code == 400
            assert "location" not in response.headers
        elsewhere = (await browser.to_callback()).replace("&iss=", "&iss=https%3A%2F%2Fother.example&was=")
        assert (await browser.http.get(elsewhere)).status_code == 400

    play(provider, script)


def test_an_old_page_is_not_taken(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(browser: Browser) -> None:
        page = await browser.page()
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: now + issuing.PAGE_SECONDS + 1)
            assert (await browser.agree(page)).status_code == 400

    play(provider, script)


def test_pages_cannot_be_framed_run_no_scripts_and_are_not_kept(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        for page in (await browser.page(), await browser.page(client_id="unknown")):
            policy = page.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"
            assert "<script" not in page.text

    play(provider, script)


def test_what_clients_call_themselves_is_escaped(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        await browser.register(client_name='<img src=x onerror="x()">{form}\u202egnp.exe' + "x" * 500)
        text = (await browser.page()).text
        assert "<img" not in text
        assert "&lt;img src=x onerror=&quot;x()&quot;&gt;{form}gnp.exe" in text
        assert "x" * 100 not in text

    play(provider, script)


def test_the_cookie_is_bound_to_the_host(provider: Provider) -> None:
    server = serving(provider)

    async def main() -> None:
        public = "https://mcp.example.com/mcp"
        async with Browser(public, provider, server.asgi(public_url="https://mcp.example.com")) as browser:
            await browser.register()
            cookie = (await browser.page()).headers["set-cookie"]
            assert cookie.startswith("__Host-redstart-")
            assert cookie.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Lax; Max-Age=1800; Secure"

    run(main(), server)


# ---------------------------------------------------------------- redirects


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://evil.example/callback",
        "http://127.0.0.1:7777/callback/",
        "http://127.0.0.1:7777/callback?x=1",
        "http://127.0.0.1:7777/callback#x",
        "http://127.0.0.1:7777/other",
        "http://localhost:7777/callback",
        "http://127.0.0.1.evil.example:7777/callback",
        "http://evil@127.0.0.1:7777/callback",
        "https://127.0.0.1:7777/callback",
        "https://app.example.com/back/",
        "https://app.example.com:444/back",
        "https://app.example.com/back?x",
        "HTTPS://app.example.com/back",
    ],
)
def test_nothing_is_sent_to_a_redirect_uri_that_is_not_registered(provider: Provider, uri: str) -> None:
    async def script(browser: Browser) -> None:
        await browser.register(redirect_uris=[CALLBACK, "https://app.example.com/back"])
        response = await browser.page(redirect_uri=uri)
        assert response.status_code == 400
        assert "location" not in response.headers
        assert "redirect_uri" in response.text

    play(provider, script)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:50123/callback", "http://127.0.0.1/callback"])
def test_the_port_of_this_machine_may_be_another_one(provider: Provider, uri: str) -> None:
    async def script(browser: Browser) -> None:
        page = await browser.page(redirect_uri=uri)
        assert page.status_code == 200
        assert (await browser.agree(page, "deny")).headers["location"].startswith(f"{uri}?error=access_denied")

    play(provider, script)


@pytest.mark.parametrize("uri", ["https://app.example.com/back?a=b", "https://app.example.com/back?"])
def test_an_answer_goes_behind_the_query_of_a_redirect_uri(provider: Provider, uri: str) -> None:
    async def script(browser: Browser) -> None:
        await browser.register(redirect_uris=[uri])
        location = (await browser.agree(await browser.page(redirect_uri=uri), "deny")).headers["location"]
        assert location.startswith(uri)
        assert parse_qs(urlsplit(location).query)["error"] == ["access_denied"]

    play(provider, script)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "unsupported_response_type"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ],
)
def test_what_a_client_asks_for_wrongly_it_is_told(provider: Provider, change: dict[str, str], error: str) -> None:
    async def script(browser: Browser) -> None:
        response = await browser.page(**change)
        assert response.status_code == 303
        answer = answered(response)
        assert (answer["error"], answer["state"], answer["iss"]) == (error, "the state", URL)

    play(provider, script)


def test_a_parameter_that_stands_twice_and_a_client_that_nobody_knows(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        twice = await browser.http.get(browser.authorize_url() + "&state=other")
        unknown = await browser.page(client_id="unknown")
        for response, words in ((twice, "stands twice"), (unknown, "connect it again")):
            assert response.status_code == 400
            assert response.headers["content-type"].startswith("text/html")
            assert words in response.text

    play(provider, script)


@pytest.mark.parametrize(
    "change", [{"response_type": "token"}, {"code_challenge": ""}, {"resource": "https://x.example"}]
)
def test_a_link_to_us_leads_to_no_website_before_anybody_has_agreed(provider: Provider, change: dict[str, str]) -> None:
    """Anybody can register a website: RFC 9700, 4.11.2 (the authorization server as an open redirector)."""

    async def script(browser: Browser) -> None:
        site = "https://evil.example/login"
        await browser.register(redirect_uris=[site])
        response = await browser.page(redirect_uri=site, **change)
        assert response.status_code == 400
        assert "location" not in response.headers
        assert "Signing in did not work" in response.text
        declined = await browser.agree(await browser.page(redirect_uri=site), "deny")
        assert declined.headers["location"].startswith(f"{site}?error=access_denied")  # the person has seen its name

    play(provider, script)


@pytest.mark.parametrize(
    "client_id",
    ["https://[::1/client.json", "https://cl\u0430ude.example/client.json", "https://a.example/" + "x" * 2000,
     "https://\x1b[31m/client.json", "http://[", "https://a.example:x/client.json"],
)  # fmt: skip
def test_a_client_id_that_cannot_be_a_document(provider: Provider, client_id: str) -> None:
    """Also with a letter of another alphabet: the page would say that the host vouches for the client."""

    async def script(browser: Browser) -> None:
        response = await browser.page(client_id=client_id)
        assert response.status_code == 400
        assert "must be https" in response.text

    play(provider, script)


def test_names_inside_of_the_operators_network_cannot_be_guessed(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        texts = set()
        for host in ("localhost", "no-such-name.invalid"):
            response = await browser.page(client_id=f"https://{host}/client.json")
            texts.add(response.text.replace(host, "HOST"))
        assert len(texts) == 1

    play(provider, script)


def test_what_is_kept_for_a_client_is_small(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        for path in ("x" * 1900, '"' * 1900):
            response = await browser.register(redirect_uris=[f"https://a.example/{path}{n}" for n in range(10)])
            assert error_of(response) == (400, "invalid_redirect_uri")
        assert (await browser.page(state="\x01" * 4000)).status_code == 400
        assert (await browser.page(state="s" * 4000)).status_code == 200

    play(provider, script)


def test_registrations_take_no_room(provider: Provider) -> None:
    """Anybody may register, so that must not keep others from doing so, or from signing in."""
    store = MemoryStore()

    async def script(browser: Browser) -> None:
        before, ids = len(store), {browser.client_id}
        for _ in range(50):
            await browser.register(redirect_uris=[CALLBACK, f"https://a.example/{'x' * 1900}"])
            ids.add(browser.client_id)
        assert len(store) == before
        assert len(ids) == 51
        assert "code" in await browser.authorize()

    play(provider, script, store=store)


def test_those_who_only_agree_do_not_take_the_room_of_others(provider: Provider) -> None:
    """One form can be sent again and again: from one address not without end, and never at the cost of the others."""
    store = MemoryStore(max_bytes=1_200_000)  # for a few people, or for some 20 who agree and come from everywhere

    async def script(browser: Browser) -> None:
        callback = await browser.to_callback()
        async with Browser(URL, provider, browser.app, "192.0.2.1") as other:
            other.client_id = browser.client_id
            page = await other.page(state="s" * 4000)
            codes = {(await other.agree(page)).status_code for _ in range(int(issuing.BURST) + 5)}
        assert codes == {303, 503, 429}
        tokens = (await browser.redeem((await browser.finish(callback))["code"])).json()
        assert (await browser.refresh(tokens["refresh_token"])).status_code == 200

    play(provider, script, store=store)


def test_one_address_is_a_small_part_of_all_who_agree(provider: Provider) -> None:
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0])

    async def script(browser: Browser) -> None:
        page, codes = await browser.page(state="s" * 4000), set()
        for second in range(0, int(issuing.PAGE_SECONDS) - 1, 15):
            now[0] = float(second)
            codes |= {(await browser.agree(page)).status_code for _ in range(5 if second else 100)}
        assert codes == {303, 429}
        assert len(store) < 300
        browser.address = "192.0.2.1"
        assert "code" in await browser.authorize()

    play(provider, script, store=store)


def test_one_person_does_not_sign_in_without_end(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuing, "BURST", 3.0)
    for what in ("register", "page", "agree"):
        monkeypatch.setitem(issuing.RATES, what, 1000.0)

    async def script(browser: Browser) -> None:
        for _ in range(3):
            assert "code" in await browser.authorize()
        assert (await browser.authorize())["error"] == "access_denied"
        browser.http.cookies.clear()
        assert "code" in await browser.authorize("bob")

    play(provider, script)


def test_a_client_with_which_somebody_has_signed_in_outlives_the_key_of_its_id(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("redstart.asking.seal._warn_after", 0.0)
    now = [0.0]
    store, old, new = MemoryStore(clock=lambda: now[0]), "the first key of all", "the second key of all"
    servers = [serving(provider, store=store, keys=keys) for keys in ([old], [new, old], [new])]

    async def main() -> None:
        async with Browser(URL, provider, servers[0].asgi()) as browser:
            await browser.register()
            unused = browser.client_id
            await browser.register()
            browser.app = servers[1].asgi()
            await browser.tokens()
            browser.app = servers[2].asgi()
            assert (await browser.page()).status_code == 200
            assert "REDSTART_KEYS" not in caplog.text  # nothing is wrong
            assert (await browser.page(client_id=unused)).status_code == 400
            assert "REDSTART_KEYS" in caplog.text
            now[0] += clients.USED + 1
            assert (await browser.page()).status_code == 400

    run(main(), *servers)


def test_a_person_of_whom_the_provider_says_much(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(browser: Browser) -> None:
        name = "a" * 20_000  # it is in the subject and in the e-mail address
        assert "code" in await browser.authorize(name)
        monkeypatch.setattr(records, "MAX_RECORD", 30_000)
        assert (await browser.authorize(name))["error"] == "server_error"

    play(provider, script)


def test_a_scope_that_is_not_offered_any_more(provider: Provider) -> None:
    store = MemoryStore()
    before = serving(provider, store=store, scopes="mcp", optional_scopes="admin")
    after = serving(provider, store=store, scopes="mcp")

    async def main() -> None:
        async with Browser(URL, provider, before.asgi()) as browser:
            tokens = await browser.tokens(scope="mcp admin")
            assert tokens["scope"] == "mcp admin"
            browser.app = after.asgi()
            assert (await browser.refresh(tokens["refresh_token"])).json()["scope"] == "mcp"

    run(main(), before, after)


# ---------------------------------------------------------------- codes and tokens


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:1/callback"}, "invalid_grant"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"client_id": "https://other.example/client.json"}, "invalid_grant"),
        ({"code": "unknown"}, "invalid_grant"),
    ],
)
def test_a_code_is_only_good_for_what_it_was_given_for(provider: Provider, change: Any, error: str) -> None:
    async def script(browser: Browser) -> None:
        response = await browser.redeem(**{"code": (await browser.authorize())["code"], **change})
        assert response.json()["error"] == error
        assert response.status_code == (401 if error == "invalid_client" else 400)
        assert response.headers["cache-control"] == "no-store"

    play(provider, script)


def test_a_code_of_another_client(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        code = (await browser.authorize())["code"]
        await browser.register()
        assert error_of(await browser.redeem(code)) == (400, "invalid_grant")

    play(provider, script)


def test_a_code_that_is_used_twice_ends_the_sign_in(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redstart.audit")

    async def script(browser: Browser) -> None:
        code = (await browser.authorize())["code"]
        tokens = (await browser.redeem(code)).json()
        assert error_of(await browser.redeem(code)) == (400, "invalid_grant")
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")

    play(provider, script)
    events = [json.loads(record.message)["event"] for record in caplog.records if record.name == "redstart.audit"]
    assert "code used twice" in events


class Watched(MemoryStore):
    """A store that calls `act` before each operation, with its name and its key."""

    act: Callable[[str, str], Awaitable[None]] | None = None

    async def _acted(self, what: str, key: str) -> None:
        if self.act is not None:
            await self.act(what, key)

    async def kv_get(self, key: str) -> bytes | None:
        await self._acted("get", key)
        return await super().kv_get(key)

    async def kv_set(
        self, key: str, value: bytes, ttl: float | None = None, nx: bool = False, durable: bool = False
    ) -> bool:
        await self._acted("set", key)
        return await super().kv_set(key, value, ttl, nx, durable)

    async def kv_take(self, key: str) -> bytes | None:
        await self._acted("take", key)
        return await super().kv_take(key)

    async def kv_delete(self, key: str) -> None:
        await self._acted("delete", key)
        await super().kv_delete(key)


def test_a_code_that_is_used_again_before_the_first_is_answered_gives_no_tokens(provider: Provider) -> None:
    store = Watched()

    async def script(browser: Browser) -> None:
        code = (await browser.authorize())["code"]

        async def redeem(what: str, key: str) -> None:
            if (what, "ended" in key) == ("get", True):  # the sign-in has been kept
                store.act = None
                assert error_of(await browser.redeem(code)) == (400, "invalid_grant")

        store.act = redeem
        assert error_of(await browser.redeem(code)) == (400, "invalid_grant")
        assert store.act is None

    play(provider, script, store=store)


def test_a_token_that_may_be_sent_again_is_not_good_for_ever(provider: Provider) -> None:
    """Its refresh has failed late, and its client has gone on before the token could be used again."""
    store, later = Watched(), []

    async def script(browser: Browser) -> None:
        token = (await browser.tokens())["refresh_token"]

        async def fail(what: str, key: str) -> None:
            if (what, "ended" in key) == ("get", True):
                store.act = go_on
                raise StoreAway("this is a test")

        async def go_on(what: str, key: str) -> None:
            store.act = None
            second = (await browser.refresh(token)).json()["refresh_token"]
            later.append((await browser.refresh(second)).json()["refresh_token"])

        store.act = fail
        assert (await browser.refresh(token)).status_code == 503
        assert error_of(await browser.refresh(token)) == (400, "invalid_grant")
        assert error_of(await browser.refresh(later[0])) == (400, "invalid_grant")

    play(provider, script, store=store)


def test_a_token_that_is_late_for_its_turn_does_not_set_the_sign_in_back(provider: Provider) -> None:
    """It was sent before others, and looked at its sign-in before them."""
    store, later = Watched(), []

    async def script(browser: Browser) -> None:
        token = (await browser.tokens())["refresh_token"]

        async def go_on(what: str, key: str) -> None:
            if (what, "turn" in key) == ("set", True):
                store.act = None
                second = (await browser.refresh(token)).json()["refresh_token"]
                later.append((await browser.refresh(second)).json()["refresh_token"])

        store.act = go_on
        assert error_of(await browser.refresh(token)) == (400, "invalid_grant")
        assert error_of(await browser.refresh(later[0])) == (400, "invalid_grant")

    play(provider, script, store=store)


def test_an_allow_that_takes_long_does_not_set_the_sign_in_back(provider: Provider) -> None:
    """Its turn does not last as long as it may take, because whoever has the turn may have crashed."""
    later = 0.0
    meanwhile: list[Callable[[], Awaitable[None]]] = []
    others: list[str] = []

    async def allow(user: User) -> bool:
        if meanwhile:
            await meanwhile.pop()()
        return True

    async def script(browser: Browser) -> None:
        token = (await browser.tokens())["refresh_token"]

        async def go_on() -> None:
            nonlocal later
            later = records.PATIENCE
            others.append((await browser.refresh(token)).json()["refresh_token"])
            others.append((await browser.refresh(others[0])).json()["refresh_token"])

        meanwhile.append(go_on)
        assert error_of(await browser.refresh(token)) == (400, "invalid_grant")
        assert [error_of(await browser.refresh(one)) for one in others] == [(400, "invalid_grant")] * 2

    play(provider, script, allow=allow, store=MemoryStore(clock=lambda: time.monotonic() + later))


def test_what_is_known_of_a_person_goes_with_the_sign_in(provider: Provider) -> None:
    store, kept = Watched(), set()

    async def script(browser: Browser) -> None:
        async def note(what: str, key: str) -> None:
            if what == "set" and ("sign-in" in key or "upstream" in key):
                kept.add(key)

        store.act = note
        tokens = await browser.tokens()
        form = {"token": tokens["refresh_token"], "client_id": browser.client_id}
        assert (await browser.http.post(f"{URL}/oauth/revoke", data=form)).status_code == 200
        assert [await store.kv_get(key) for key in kept] == [None, None]

    play(provider, script, store=store)


def test_a_sign_in_whose_tokens_of_the_provider_are_lost_has_ended(provider: Provider) -> None:
    store = Watched()

    async def script(browser: Browser) -> None:
        async def lose(what: str, key: str) -> None:
            if "upstream" in key:
                await MemoryStore.kv_delete(store, key)

        token = (await browser.tokens())["refresh_token"]
        store.act = lose
        for _ in range(2):
            assert error_of(await browser.refresh(token)) == (400, "invalid_grant")
            store.act = None

    play(provider, script, store=store)


def test_tokens_are_refreshed_for_this_server_only(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        token = (await browser.tokens())["refresh_token"]
        refused = await browser.refresh(token, resource="https://other.example/mcp")
        assert error_of(refused) == (400, "invalid_target")
        assert (await browser.refresh(token, resource=URL)).status_code == 200

    play(provider, script)


def test_a_verifier_that_can_be_guessed_is_refused(provider: Provider) -> None:
    challenge = urlsafe_b64encode(sha256(b"short").digest()).decode().rstrip("=")

    async def script(browser: Browser) -> None:
        code = (await browser.authorize(code_challenge=challenge))["code"]
        assert error_of(await browser.redeem(code, code_verifier="short")) == (400, "invalid_grant")

    play(provider, script)


def test_many_who_redeem_one_code_at_once(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        code = (await browser.authorize())["code"]
        found = await asyncio.gather(*(browser.redeem(code) for _ in range(10)))
        assert sorted(one.status_code for one in found) == [200, *[400] * 9]

    play(provider, script)


def test_refresh_tokens_rotate_and_a_stolen_one_ends_the_sign_in(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redstart.audit")

    async def script(browser: Browser) -> None:
        first = (await browser.tokens())["refresh_token"]
        second = (await browser.refresh(first)).json()["refresh_token"]
        third = (await browser.refresh(second)).json()["refresh_token"]
        assert len({first, second, third}) == 3
        assert error_of(await browser.refresh(first)) == (400, "invalid_grant")
        assert error_of(await browser.refresh(third)) == (400, "invalid_grant")

    play(provider, script)
    lines = [json.loads(record.message) for record in caplog.records if record.name == "redstart.audit"]
    reused = [line for line in lines if line["event"] == "refresh token used twice"]
    assert len(reused) == 1
    assert reused[0]["user"]


def test_a_client_that_did_not_get_the_answer_may_ask_again_for_a_moment(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(browser: Browser) -> None:
        first = (await browser.tokens())["refresh_token"]
        second = (await browser.refresh(first)).json()["refresh_token"]
        again = (await browser.refresh(first)).json()["refresh_token"]
        third = await browser.refresh(again)
        assert third.status_code == 200
        assert (await browser.refresh(second)).status_code == 200  # the same turn, a moment ago
        fourth = (await browser.refresh(third.json()["refresh_token"])).json()["refresh_token"]
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(time, "time", lambda: now + issuing.GRACE + 1)
            assert error_of(await browser.refresh(third.json()["refresh_token"])) == (400, "invalid_grant")
            assert error_of(await browser.refresh(fourth)) == (400, "invalid_grant")

    play(provider, script)


def test_a_store_that_goes_away_at_any_moment_of_a_refresh_ends_no_sign_in(provider: Provider) -> None:
    later = uses = 0.0
    store = Watched(lambda: time.monotonic() + later)

    async def use(what: str, key: str) -> None:
        nonlocal uses
        uses -= 1
        if uses < 0:
            raise StoreAway("the store")

    async def script(browser: Browser) -> None:
        nonlocal later, uses
        token = (await browser.tokens())["refresh_token"]
        for most in range(20):
            uses, store.act = most, use
            cut = await browser.refresh(token)
            store.act = None
            if cut.status_code == 200:
                assert most > 4
                return
            assert error_of(cut) == (503, "temporarily_unavailable")
            later += records.PATIENCE  # as if nobody else could tell that it was cut
            again = await browser.refresh(token)
            assert again.status_code == 200, (most, again.text)
            last = await browser.refresh(again.json()["refresh_token"])
            assert last.status_code == 200, (most, last.text)
            token = last.json()["refresh_token"]
        raise AssertionError("a refresh that uses the store without end")

    play(provider, script, store=store)


def test_many_who_refresh_at_once_all_go_on(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        token = (await browser.tokens())["refresh_token"]
        found = await asyncio.gather(*(browser.refresh(token) for _ in range(10)))
        assert [one.status_code for one in found] == [200] * 10
        assert (await browser.refresh(found[3].json()["refresh_token"])).status_code == 200

    play(provider, script)


def test_refresh_tokens_belong_to_their_client_and_are_not_access_tokens(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        own = browser.client_id
        await browser.register()
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        browser.client_id = own
        assert error_of(await browser.refresh(tokens["access_token"])) == (400, "invalid_grant")
        assert (await browser.call(tokens["refresh_token"])).status_code == 401
        assert (await browser.refresh(tokens["refresh_token"])).status_code == 200

    play(provider, script)


def test_a_sign_in_can_be_ended_when_the_store_is_full(provider: Provider) -> None:
    store = MemoryStore(max_bytes=200_000)

    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        with suppress(StoreFull):
            for number in range(1000):
                await store.kv_set(f"of {number}/x", b"")
        form = {"token": tokens["refresh_token"], "client_id": browser.client_id}
        assert (await browser.http.post(f"{URL}/oauth/revoke", data=form)).status_code == 200
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")

    play(provider, script, store=store)


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_a_token_that_is_revoked_ends_the_sign_in(provider: Provider, which: str) -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()

        async def revoke(**form: str) -> int:
            return int((await browser.http.post(f"{URL}/oauth/revoke", data=form)).status_code)

        own = browser.client_id
        await browser.register()
        assert await revoke(token=tokens[which], client_id=browser.client_id) == 200  # another client: nothing happens
        browser.client_id = own
        tokens = (await browser.refresh(tokens["refresh_token"])).json()
        assert await revoke(token="unknown", client_id=own) == 200
        assert await revoke(token=tokens[which], client_id="unknown") == 401
        assert await revoke(token=tokens[which], client_id=own) == 200
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        upstream = (await browser.call(tokens["access_token"], "upstream_token")).json()["result"]
        assert upstream["isError"] is True
        assert "has ended" in upstream["content"][0]["text"]

    play(provider, script)


# ---------------------------------------------------------------- tokens of others


def test_the_tokens_of_the_provider_are_not_taken(provider: Provider) -> None:
    """No passthrough: not even the token that the provider has given us for this person."""

    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        upstream = said(await browser.call(tokens["access_token"], "upstream_token"))
        assert (await browser.call(upstream)).status_code == 401

    play(provider, script)


def test_a_token_for_another_server_CVE_2025_69196(provider: Provider) -> None:
    """The same keys, the same name, the same store: a token is still for one URL."""
    store = MemoryStore()
    server, other = serving(provider, store=store), serving(provider, store=store)

    async def main() -> None:
        async with Browser(URL, provider, server.asgi()) as browser:
            tokens = await browser.tokens()
            assert (await browser.call(tokens["access_token"])).status_code == 200
        place = "https://other.example.com/mcp"
        async with Browser(place, provider, other.asgi(public_url="https://other.example.com")) as elsewhere:
            elsewhere.client_id = browser.client_id
            for _ in range(2):  # when it is checked, and when it is remembered
                assert (await elsewhere.call(tokens["access_token"])).status_code == 401
            assert error_of(await elsewhere.refresh(tokens["refresh_token"])) == (400, "invalid_grant")

    run(main(), server, other)


def test_what_one_endpoint_has_given_out_is_not_taken_by_another_of_the_same_host(provider: Provider) -> None:
    """The same keys, name and store, and a browser that sends the same cookies to both."""
    store = MemoryStore()
    server, other = serving(provider, store=store), serving(provider, store=store)

    async def main() -> None:
        async with Browser(URL, provider, server.asgi()) as browser:
            tokens = await browser.tokens()
            code = (await browser.authorize())["code"]
            page = await browser.page()
            callback = await browser.to_callback()  # last, because its cookie may have the name of the other one
            browser.url, browser.app = URL.replace("/mcp", "/other"), other.asgi(path="/other")
            assert (await browser.agree(page)).status_code == 400
            assert (await browser.http.get(callback.replace("/mcp/", "/other/"))).status_code == 400
            assert error_of(await browser.redeem(code)) == (400, "invalid_grant")
            assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
            assert (await browser.call(tokens["access_token"])).status_code == 401

    run(main(), server, other)


@pytest.mark.parametrize(
    "change", [lambda t: t[:-2], lambda t: "Z" + t[1:], lambda t: t[:-8] + "AAAAAAAA", lambda t: ""]
)
def test_a_token_that_was_changed(provider: Provider, change: Callable[[str], str]) -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        assert (await browser.call(change(tokens["access_token"]))).status_code in (401, 400)
        assert error_of(await browser.refresh(change(tokens["refresh_token"]) or "x")) == (400, "invalid_grant")

    play(provider, script)


# ---------------------------------------------------------------- the provider


def test_who_is_not_known_at_the_provider_any_more_is_signed_out() -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        assert len(said(await browser.call(tokens["access_token"], "upstream_token"))) == 43
        tokens = (await browser.refresh(tokens["refresh_token"])).json()
        browser.provider.forget()
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")

    # The provider's own tokens are always about to expire, so it is asked each time.
    with oidc_provider(clients=[application(PORT)], seconds=30) as own:
        play(own, script)


def test_a_token_of_the_provider_is_renewed_for_handlers() -> None:
    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        found = [browser.call(tokens["access_token"], "upstream_token") for _ in range(5)]
        first = {said(one) for one in await asyncio.gather(*found)}
        second = said(await browser.call(tokens["access_token"], "upstream_token"))
        assert second not in first
        assert all(len(one) == 43 for one in first)

    with oidc_provider(clients=[application(PORT)], seconds=30) as own:
        play(own, script)


@pytest.mark.parametrize("record", ["upstream", "sign-in"])
def test_a_sign_in_that_ends_while_it_is_renewed_leaves_nothing(record: str) -> None:
    store, kept = Watched(), set()

    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()

        async def end(what: str, key: str) -> None:
            if (what, record in key) == ("set", True):
                store.act = None
                kept.add(key)
                form = {"token": tokens["refresh_token"], "client_id": browser.client_id}
                assert (await browser.http.post(f"{URL}/oauth/revoke", data=form)).status_code == 200

        store.act = end
        assert error_of(await browser.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
        assert [await store.kv_get(key) for key in kept] == [None]

    with oidc_provider(clients=[application(PORT)], seconds=30) as own:
        play(own, script, store=store)


def test_while_the_provider_is_away_nobody_is_signed_out() -> None:
    async def away(browser: Browser) -> None:
        response = await browser.refresh(browser.client["kept"])
        assert error_of(response) == (503, "temporarily_unavailable")
        assert response.headers["retry-after"]

    async def script(browser: Browser) -> None:
        browser.client["kept"] = (await browser.tokens())["refresh_token"]
        callback = await browser.to_callback()
        stack.close()
        await away(browser)
        await away(browser)  # the refresh token was not used up
        assert (await browser.finish(callback))["error"] == "server_error"
        assert (await browser.agree(await browser.page())).status_code == 303  # where people sign in is known

    with ExitStack() as stack:
        play(stack.enter_context(oidc_provider(clients=[application(PORT)], seconds=30)), script)


# ---------------------------------------------------------------- bounds


def test_bodies_that_are_not_forms_or_too_large(provider: Provider) -> None:
    async def script(browser: Browser) -> None:
        async def post(page: str, body: bytes, kind: str) -> tuple[int, str]:
            headers = {"content-type": kind}
            return error_of(await browser.http.post(f"{URL}/oauth/{page}", content=body, headers=headers))

        form, large = "application/x-www-form-urlencoded", b"x" * (issuing.MAX_BODY + 1)
        assert await post("token", b"{}", "application/json") == (400, "invalid_request")
        assert await post("token", b"a=\xff", form) == (400, "invalid_request")
        assert await post("token", b"&".join(b"a%d=1" % n for n in range(100)), form) == (400, "invalid_request")
        assert await post("token", large, form) == (413, "invalid_request")
        assert await post("register", large, "application/json") == (413, "invalid_request")
        assert await post("register", b"[]", "application/json") == (400, "invalid_client_metadata")
        assert await post("register", b"{", "application/json") == (400, "invalid_client_metadata")
        deep = b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
        assert await post("register", deep, "application/json") == (400, "invalid_client_metadata")
        assert (await browser.http.get(f"{URL}/oauth/token")).status_code == 405
        assert (await browser.http.get(f"{URL}/oauth/nothing")).status_code == 404
        basic = {"authorization": "Basic !!!", "content-type": form}
        refused = await browser.http.post(f"{URL}/oauth/token", content=b"grant_type=x", headers=basic)
        assert error_of(refused) == (401, "invalid_client")

    play(provider, script)


def test_one_address_cannot_register_without_end(provider: Provider) -> None:
    server = serving(provider)

    async def main() -> None:
        app = server.asgi()
        async with Browser(URL, provider, app) as browser, Browser(URL, provider, app, "127.0.0.2") as other:
            codes = [(await browser.register()).status_code for _ in range(int(issuing.BURST) + 5)]
            assert codes[: int(issuing.BURST)] == [201] * int(issuing.BURST)
            assert 429 in codes
            refused = await browser.register()
            assert int(refused.headers["retry-after"]) >= 1
            assert (await other.register()).status_code == 201

    run(main(), server)


def test_one_address_cannot_open_pages_without_end(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuing, "BURST", 3.0)
    monkeypatch.setitem(issuing.RATES, "page", 0.01)

    async def script(browser: Browser) -> None:
        assert [(await browser.page()).status_code for _ in range(4)] == [200, 200, 200, 429]
        browser.address = "127.0.0.2"
        assert (await browser.page()).status_code == 200

    play(provider, script)


def test_one_person_cannot_refresh_without_end(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refresh may ask the provider, which limits how often the application of everybody may ask it."""
    monkeypatch.setattr(issuing, "BURST", 3.0)
    for what in ("register", "page", "agree"):
        monkeypatch.setitem(issuing.RATES, what, 1000.0)
    monkeypatch.setitem(issuing.RATES, "refresh", 0.01)

    async def script(browser: Browser) -> None:
        token, other = [(await browser.tokens())["refresh_token"] for _ in range(2)]
        browser.http.cookies.clear()
        bobs = (await browser.tokens("bob"))["refresh_token"]
        for _ in range(3):
            token = (await browser.refresh(token)).json()["refresh_token"]
        for one in (token, other):  # the limit is for the person
            refused = await browser.refresh(one)
            assert error_of(refused) == (429, "temporarily_unavailable")
            assert int(refused.headers["retry-after"]) >= 1
        assert (await browser.refresh(bobs)).status_code == 200
        monkeypatch.setitem(issuing.RATES, "refresh", 1e9)
        assert (await browser.refresh(token)).status_code == 200  # it was not used up

    play(provider, script)


def test_the_store_holds_nothing_that_can_be_read(provider: Provider) -> None:
    store = MemoryStore()

    async def script(browser: Browser) -> None:
        tokens = await browser.tokens()
        upstream = said(await browser.call(tokens["access_token"], "upstream_token"))
        await browser.to_callback()
        held = repr(vars(store)).encode()
        assert len(held) > 1000
        for readable in (
            browser.client_id,
            "Test client",
            "ada@example.com",
            upstream,
            tokens["refresh_token"],
            CALLBACK,
        ):
            assert readable.encode() not in held

    play(provider, script, store=store)


def test_an_abandoned_page_leaves_nothing_in_the_store(provider: Provider) -> None:
    store = MemoryStore()

    async def script(browser: Browser) -> None:
        await browser.page()
        before = len(store)
        for _ in range(20):
            await browser.page()
        assert len(store) == before

    play(provider, script, store=store)


def test_a_restart_at_every_step(provider: Provider, tmp_path: Path) -> None:
    """What is in a file and the keys are all that a new server has of the one before it."""
    servers: list[Server] = []

    async def main() -> None:
        async with Browser(URL, provider, object()) as browser:

            async def restart() -> None:
                if servers:
                    await servers[-1].runtime.stop()
                servers.append(serving(provider, store=f"sqlite:///{tmp_path / 'kept.db'}"))
                browser.app = servers[-1].asgi()

            await restart()
            await browser.register()
            await restart()
            page = await browser.page()
            await restart()
            sent = await browser.agree(page)
            await restart()
            callback = await sign_in(browser.http, sent.headers["location"], provider)
            answer = await browser.finish(callback)
            await restart()
            tokens = (await browser.redeem(answer["code"])).json()
            await restart()
            assert (await browser.call(tokens["access_token"])).status_code == 200
            renewed = (await browser.refresh(tokens["refresh_token"])).json()
            await restart()
            assert said(await browser.call(renewed["access_token"], "upstream_token"))
            assert error_of(await browser.redeem(answer["code"])) == (400, "invalid_grant")
            assert error_of(await browser.refresh(renewed["refresh_token"])) == (400, "invalid_grant")
            await servers[-1].runtime.stop()

    run(main())
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert len(held) > 1000
    assert b"Test client" not in held
