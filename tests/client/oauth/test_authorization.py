"""When a client asks for a token, what it asks for, and when it stops."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest

from client.oauth.support import Site, agree, guarded_site, signed_in
from client.support import Request
from redstart.client import Client, ClientCredentials, HttpError, JwtBearer, OAuth, SignInError
from redstart.client.oauth import MemoryTokens
from support import DEADLINE, LeapingLoop, leap, run

ONCE = {"authorization_code": 1}


def kinds(site: Site) -> dict[str, int]:
    found = [form["grant_type"] for form in site.forms]
    return {kind: found.count(kind) for kind in found}


def test_a_person_signs_in_once_and_every_request_has_the_token() -> None:
    site = Site()

    async def main() -> None:
        async with signed_in(site, client_name="my app") as c:
            await asyncio.gather(*(c.request("x/y") for _ in range(3)))

    run(main())
    assert kinds(site) == ONCE
    assert [token for _, token in site.calls] == ["", "token-1", "token-1", "token-1", "token-1"]
    (asked,), (form,), (client,) = site.signed_in, site.forms, site.registered
    assert asked["client_id"] == form["client_id"] == "client-1"
    assert asked["resource"] == form["resource"] == site.url
    assert client["client_name"] == "my app"
    assert client["application_type"] == "native"
    assert client["redirect_uris"] == [asked["redirect_uri"]]
    assert "scope" not in asked


def test_the_browser_is_not_led_into_the_network_of_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    site, opened = Site(metadata={"authorization_endpoint": "https://127.0.0.9/restart"}), list[str]()
    monkeypatch.setattr("redstart.client.oauth.web.is_public", lambda address: str(address) != "127.0.0.9")

    async def main() -> None:
        async with signed_in(site, browser=opened.append):
            pass

    with pytest.raises(SignInError, match=r"the page to sign in https://127\.0\.0\.9/restart has a private"):
        run(main())
    assert (opened, site.registered) == ([], [])


KEPT = {"resultType": "complete", "contents": [], "ttlMs": 60_000, "cacheScope": "private"}


def test_what_was_kept_for_one_person_is_not_for_the_next_who_signs_in() -> None:
    site = Site(token={"refresh_token": None}, result=KEPT)

    async def main() -> list[int]:
        reads = []
        async with signed_in(site) as c:

            async def read() -> None:
                await c.read_resource("mail://inbox")
                reads.append(sum(method == "resources/read" for method, _ in site.calls))

            await read()
            await read()
            site.valid.clear()  # somebody has to sign in again
            await c.request("x/y")
            await read()
            await read()
        return reads

    assert run(main()) == [1, 1, 2, 2]


def test_what_was_kept_stays_when_a_token_is_renewed_and_ends_when_another_process_signs_in() -> None:
    site, store = Site(result=KEPT), MemoryTokens()

    async def main() -> list[int]:
        reads = []
        async with signed_in(site, store=store) as c:

            async def read() -> None:
                await c.read_resource("mail://inbox")
                reads.append(sum(method == "resources/read" for method, _ in site.calls))

            await read()
            site.valid.clear()  # the refresh token is still good
            await c.request("x/y")
            await read()
            async with Client(site.url, auth=OAuth(browser=agree, store=store), protocol="2026-07-28") as other:
                site.valid.clear()
                site.refuses = {"refresh_token": "invalid_grant"}
                await other.request("x/y")
            await c.request("x/y")
            await read()
        return reads

    assert run(main()) == [1, 1, 2]
    assert kinds(site) == {"authorization_code": 2, "refresh_token": 2}


def test_tokens_in_a_file_are_used_by_the_next_process(tmp_path: Path) -> None:
    site, file = Site(), tmp_path / "state" / "tokens.json"

    async def main() -> None:
        async with guarded_site(site) as url:
            for _ in range(2):
                async with Client(url, auth=OAuth(browser=agree, store=file)) as c:
                    await c.request("x/y")

    run(main())
    assert len(site.signed_in) == 1
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_registration_is_used_again_with_its_port(tmp_path: Path) -> None:
    site = Site(token={"refresh_token": None})

    async def main() -> None:
        async with guarded_site(site) as url:
            for _ in range(2):
                async with Client(url, auth=OAuth(browser=agree, store=tmp_path / "tokens.json")):
                    site.valid.clear()

    run(main())
    first, second = site.signed_in
    assert first["redirect_uri"] == second["redirect_uri"]
    assert len(site.registered) == 1


def test_a_token_that_ends_is_renewed_before_it_is_refused() -> None:
    site = Site(token={"expires_in": 10})

    async def main() -> None:
        async with signed_in(site) as c:
            site.token = {}
            await asyncio.gather(c.request("x/y"), c.request("x/y"))

    run(main())
    assert kinds(site) == {"authorization_code": 1, "refresh_token": 2}  # one for the repeated server/discover
    assert [token for _, token in site.calls] == ["", "token-2", "token-3", "token-3"]
    assert site.forms[2]["refresh_token"] == "refresh-2"


@pytest.mark.parametrize("site", [
    Site(token={"expires_in": 10, "refresh_token": None}),
    Site(token={"expires_in": 10}, refuses={"refresh_token": "invalid_grant"}),
], ids=["no refresh token", "refused"])  # fmt: skip
def test_a_token_that_ends_and_cannot_be_renewed_is_used_to_its_end_and_then_there_is_another(site: Site) -> None:
    async def main() -> None:
        async with guarded_site(site) as url:
            auth = ClientCredentials("nightly-job", "s3cret")
            async with Client(url, auth=auth, protocol="2026-07-28") as c:
                await c.request("x/y")
                site.valid.clear()
                await c.request("x/y")

    run(main())
    assert kinds(site)["client_credentials"] == 2
    first, *used, last = [token for _, token in site.calls]
    assert (first, len(used), len(set(used))) == ("", 3, 1)  # the last of these is refused
    assert last not in ("", used[0])


@pytest.mark.parametrize(
    "seconds", [10**400, -(10**400), "3600", None, True], ids=["long", "past", "text", "none", "yes"]
)
def test_whatever_a_server_says_of_the_end_of_a_token(seconds: Any) -> None:
    """A number of JSON may have hundreds of digits, which no clock can add."""
    site = Site(token={"expires_in": seconds})

    async def main() -> None:
        async with signed_in(site):
            site.token = {}

    run(main())
    assert len(site.signed_in) == 1


def test_a_refresh_token_that_is_refused_leads_to_a_new_sign_in() -> None:
    site = Site(refuses={"refresh_token": "invalid_grant"})

    async def main() -> None:
        async with signed_in(site) as c:
            site.valid.clear()
            await c.request("x/y")

    run(main())
    assert kinds(site) == {"authorization_code": 2, "refresh_token": 1}


def test_two_processes_that_renew_a_token_at_once_both_go_on_with_the_new_one() -> None:
    """A server that takes each refresh token once refuses the slower one."""
    both, kept = asyncio.Barrier(2), asyncio.Event()

    class Rotating(Site):
        async def _token(self, request: Request) -> None:
            if b"refresh_token=" in request.body and await both.wait():
                await kept.wait()
                self.refuses = {"refresh_token": "invalid_grant"}
            await super()._token(request)

    class Shared(MemoryTokens):
        def save(self, key: str, value: dict[str, Any] | None) -> None:
            super().save(key, value)
            kept.set()

    site, store = Rotating(), Shared()

    async def main() -> None:
        async with guarded_site(site) as url:
            first, second = (Client(url, auth=OAuth(browser=agree, store=store)) for _ in range(2))
            async with first, second:
                kept.clear()
                site.valid.clear()
                await asyncio.gather(first.request("x/y"), second.request("x/y"))
                await asyncio.gather(first.request("x/y"), second.request("x/y"))

    run(main())
    assert kinds(site) == {"authorization_code": 1, "refresh_token": 2}


def test_a_registration_that_is_not_known_any_more_is_made_again() -> None:
    site = Site(refuses={"refresh_token": "invalid_client"})

    async def main() -> None:
        async with signed_in(site) as c:
            site.valid.clear()
            await c.request("x/y")

    run(main())
    assert len(site.registered) == 2
    assert kinds(site) == {"authorization_code": 2, "refresh_token": 1}


@pytest.mark.parametrize("status", [429, 503])
def test_an_authorization_server_that_is_busy_for_a_moment_keeps_the_refresh_token(status: int) -> None:
    site = Site(refuses={"refresh_token": "temporarily_unavailable"}, refuses_with=status)

    async def main() -> None:
        async with signed_in(site) as c:
            site.valid.clear()
            with pytest.raises(SignInError, match="temporarily_unavailable"):
                await c.request("x/y")
            site.refuses = {}
            await c.request("x/y")

    run(main())
    assert kinds(site) == {"authorization_code": 1, "refresh_token": 2}


def test_requests_that_are_refused_at_the_same_time_lead_to_one_sign_in() -> None:
    site = Site(token={"refresh_token": None})

    async def main() -> None:
        async with signed_in(site) as c:
            site.valid.clear()
            await asyncio.gather(*(c.request("x/y") for _ in range(5)))

    run(main())
    assert kinds(site) == {"authorization_code": 2}


def test_the_time_of_the_sign_in_does_not_count() -> None:
    async def slowly(url: str) -> None:
        await leap(12)
        await agree(url)

    async def main() -> None:
        async with signed_in(Site(), {"timeout": 10}, browser=slowly) as c:
            await c.request("x/y")

    run(main(), loop=LeapingLoop)


def test_more_scopes_are_asked_for_when_a_call_needs_them() -> None:
    site = Site(scopes={"x/read": "read", "x/write": "write"}, resource={"scopes_supported": ["read"]})

    async def main() -> None:
        async with signed_in(site) as c:
            for method in ("x/read", "x/write", "x/read"):
                await c.request(method)

    run(main())
    assert [asked["scope"] for asked in site.signed_in] == ["read", "read write"]


def test_a_scope_that_is_not_granted_is_asked_for_once() -> None:
    site = Site(scopes={"x/write": "write"}, grants={"read"})

    async def main() -> None:
        async with signed_in(site, scopes=["read"]) as c:
            with pytest.raises(SignInError, match="needs the scopes write, which were not granted"):
                await c.request("x/write")

    run(main())
    assert [asked["scope"] for asked in site.signed_in] == ["read", "read write"]


def test_after_a_scope_that_was_not_granted_a_token_that_ends_is_followed_by_a_new_one() -> None:
    site = Site(scopes={"x/write": "write"}, grants={"read"}, token={"refresh_token": None})

    async def main() -> None:
        async with signed_in(site, scopes=["read"]) as c:
            with pytest.raises(SignInError, match="were not granted"):
                await c.request("x/write")
            site.valid.clear()
            await c.request("x/y")

    run(main())
    assert kinds(site) == {"authorization_code": 3}


def test_a_new_token_that_is_refused_is_an_error_and_not_a_loop() -> None:
    site = Site(never=True)

    async def main() -> None:
        with pytest.raises(SignInError, match="refuses a token that was issued for it just now"):
            async with signed_in(site):
                raise AssertionError("not reached")

    run(main())
    assert len(site.signed_in) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"answer": {"code": "", "error": "access_denied", "error_description": "No."}}, "access_denied: No."),
        ({"answer": {"code": "", "error": "denied", "error_description": "\x1b[2J"}}, "did not succeed: denied$"),
        ({"answer": {"iss": "https://evil.example", "error": "s3cret"}}, "does not come from http://127"),
        ({"answer": {"code": ""}}, "has no code"),
        ({"refuses": {"authorization_code": "invalid_grant"}}, "refuses: invalid_grant: Not today"),
        ({"token": {"access_token": "a\r\nX: y"}}, "without a usable access_token"),
        ({"token": {"token_type": "mac"}}, "a token of the type 'mac'"),
        ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE with S256"),
        ({"metadata": {"authorization_endpoint": "javascript:alert(1)"}}, "must begin with https://"),
        ({"metadata": {"authorization_endpoint": "file:///etc/passwd"}}, "must begin with https://"),
        ({"metadata": {"token_endpoint": "http://token.example/t"}}, "must begin with https://"),
        ({"metadata": {"issuer": "https://other.example"}}, "names another issuer"),
        ({"metadata": {"registration_endpoint": None}}, r"give OAuth\(client_id="),
        ({"resource": {"resource": "https://evil.example/mcp"}}, "is about another resource"),
        ({"resource": {"resource": "https://["}}, "is about another resource"),
        ({"resource": {"authorization_servers": []}}, "names no authorization server"),
        ({"resource": {"authorization_servers": ["http://as.example"]}}, "must begin with https://"),
        ({"resource": {"authorization_servers": "x"}}, "is not valid"),
    ],
)
def test_what_a_sign_in_must_not_do_ends_it(settings: dict[str, Any], said: str) -> None:
    async def main() -> None:
        async with signed_in(Site(**settings)):
            raise AssertionError("not reached")

    with pytest.raises(SignInError, match=said) as caught:
        run(main())
    assert "s3cret" not in str(caught.value)


def test_an_authorization_server_that_is_gone_keeps_the_refresh_token(tmp_path: Path) -> None:
    site, store = Site(token={"expires_in": 1}), tmp_path / "tokens.json"

    async def main() -> None:
        async with guarded_site(site) as url:
            c = Client(url, auth=OAuth(browser=agree, store=store), protocol="2026-07-28")
            await c.__aenter__()
            await c.__aexit__()
        with pytest.raises(SignInError, match="cannot be reached"):
            async with Client(url, auth=OAuth(browser=agree, store=store), protocol="2026-07-28"):
                raise AssertionError("not reached")

    run(main())
    assert "refresh-" in store.read_text()


def test_nobody_signs_in_to_say_goodbye() -> None:
    site = Site(token={"refresh_token": None})

    async def main() -> None:
        async with guarded_site(site) as url, Client(url, auth=OAuth(browser=agree), protocol="2025-11-25"):
            site.valid.clear()

    run(main())
    assert site.calls[-1][0] == "DELETE"
    assert len(site.signed_in) == 1


def test_a_stranger_cannot_end_the_sign_in() -> None:
    statuses = []

    async def browser(url: str) -> None:
        asked = dict(httpx2.URL(url).params)
        async with httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as http:
            queries = ("?code=stolen", "?code=stolen&state=guessed", "?code=stolen&state=é", "/../other")
            statuses.extend([(await http.get(asked["redirect_uri"] + query)).status_code for query in queries])
            statuses.append((await http.post(asked["redirect_uri"])).status_code)
        await agree(url)

    async def main() -> None:
        async with signed_in(Site(), browser=browser) as c:
            await c.request("x/y")

    run(main())
    assert statuses == [400, 400, 400, 404, 404]


def test_nobody_signs_in() -> None:
    async def main() -> None:
        async with signed_in(Site(), browser=lambda url: None, timeout=0.05):
            raise AssertionError("not reached")

    with pytest.raises(SignInError, match=r"nobody signed in within 0\.05 seconds"):
        run(main())


def test_a_client_that_was_registered_by_hand() -> None:
    site = Site(metadata={"registration_endpoint": None})

    async def main() -> None:
        async with signed_in(site, client_id="mine", client_secret="a/b"):
            pass

    run(main())
    assert site.signed_in[0]["client_id"] == "mine"
    assert site.forms[0]["authorization"] == "Basic bWluZTphJTJGYg=="  # mine:a%2Fb


def test_a_document_is_the_registration_where_the_server_reads_it() -> None:
    site = Site(metadata={"client_id_metadata_document_supported": True})

    async def main() -> None:
        async with signed_in(site, client_metadata_url="https://my.app/client.json"):
            pass

    run(main())
    assert site.signed_in[0]["client_id"] == "https://my.app/client.json"
    assert site.registered == []


@pytest.mark.parametrize(
    ("grant", "form"),
    [
        (
            lambda: ClientCredentials("job", "s3cret", scopes=["read"]),
            {"grant_type": "client_credentials", "scope": "read", "authorization": "Basic am9iOnMzY3JldA=="},
        ),
        (
            lambda: JwtBearer("job", assertion=lambda attempt: f"for {attempt.server.issuer}"),
            {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "client_id": "job", "authorization": ""},
        ),
    ],
)
def test_a_program_signs_in_as_itself(grant: Any, form: dict[str, str]) -> None:
    site = Site()

    async def main() -> None:
        async with guarded_site(site) as url, Client(url, auth=grant()) as c:
            await c.request("x/y")

    run(main())
    assert form.items() <= site.forms[0].items()
    assert site.forms[0].get("assertion", f"for {site.origin}") == f"for {site.origin}"
    assert site.signed_in == []


@pytest.mark.parametrize("grant", [ClientCredentials, OAuth, JwtBearer])
def test_credentials_go_to_no_other_authorization_server_than_issuer_says(grant: Any) -> None:
    """A server that was taken over must not get the secret by naming an authorization server of its own."""
    site = Site()
    more = {"assertion": "signed"} if grant is JwtBearer else {}

    async def main() -> None:
        auth = grant(client_id="job", client_secret="s3cret", issuer="https://login.example.com", **more)
        async with guarded_site(site) as url, Client(url, auth=auth):
            raise AssertionError("not reached")

    with pytest.raises(SignInError, match=r"and not https://login\.example\.com, as issuer= says"):
        run(main())
    assert site.forms == site.signed_in == []


@pytest.mark.parametrize("grant", [ClientCredentials, OAuth, JwtBearer])
@pytest.mark.parametrize("named", [False, True], ids=["nobody names the new one", "issuer= names it"])
def test_credentials_stay_with_the_authorization_server_that_has_accepted_them(grant: Any, named: bool) -> None:
    first, second, store = Site(), Site(), MemoryTokens()
    more = {"assertion": "signed"} if grant is JwtBearer else {"browser": agree} if grant is OAuth else {}

    async def main() -> None:
        async with guarded_site(first) as url, guarded_site(second):
            async with Client(url, auth=grant(client_id="job", client_secret="s3cret", store=store, **more)) as c:
                await c.request("x/y")
            first.resource, first.valid = {"authorization_servers": [second.origin]}, second.valid
            issuer = second.origin if named else None
            auth = grant(client_id="job", client_secret="s3cret", store=store, issuer=issuer, **more)
            with nullcontext() if named else pytest.raises(SignInError, match=f"is known to {first.origin}. If"):
                async with Client(url, auth=auth) as c:
                    await c.request("x/y")

    run(main())
    assert (len(first.forms), len(second.forms)) == (1, int(named))
    assert len(second.signed_in) == int(named and grant is OAuth)


def test_without_auth_a_refusal_says_what_to_give() -> None:
    async def main() -> None:
        async with guarded_site(Site()) as url, Client(url):
            raise AssertionError("not reached")

    with pytest.raises(HttpError, match='give token=, or auth="oauth"'):
        run(main())


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("http://127.0.0.1:1/mcp", {"auth": "basic"}, 'auth must be "oauth"'),
        ("http://127.0.0.1:1/mcp", {"auth": "oauth", "token": "t"}, "either token= or auth="),
        ("http://127.0.0.1:1/mcp", {"auth": "oauth", "headers": {"authorization": "x"}}, "the header Authorization"),
        (["python", "server.py"], {"auth": "oauth"}, "auth= needs a URL"),
    ],
)
def test_where_auth_cannot_be_is_said_at_once(target: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Client(target, **options)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: OAuth(scopes="read"),
        lambda: OAuth(client_metadata_url="http://my.app/client.json"),
        lambda: OAuth(client_metadata_url="https://my.app"),
        lambda: ClientCredentials("job"),
        lambda: ClientCredentials("job", "secret", private_key="key"),
    ],
)
def test_grants_check_what_they_are_given(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        wrong()


def test_a_server_without_https_is_refused_a_token() -> None:
    with pytest.raises(SignInError, match="must begin with https://"):
        Client("http://mcp.example/mcp", auth="oauth")
