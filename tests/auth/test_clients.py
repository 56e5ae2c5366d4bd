"""Clients of OAuthProxy: what they may register, which redirect is theirs, and documents that describe them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from auth.support import Issuer, issuing
from redstart import Server
from redstart.auth.clients import MAX_DOCUMENT, SCHEMES, OAuthClients, OAuthError, is_redirect, is_same_redirect
from redstart.auth.records import Kept
from redstart.features.registry import hidden_character
from support import run

BACK = "http://127.0.0.1/back"


def clients(*trusted: str) -> OAuthClients:
    return OAuthClients(Kept(Server("notes", keys=["a key that is long enough"]).runtime), SCHEMES, trusted)


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example.com/back",
        "https://app.example.com:8443/back?x=1",
        "http://localhost:3000/back",
        "http://127.0.0.1/",
        "http://[::1]:3000/back",
        "com.example.app:/back",
        "com.example.app://back",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
def test_redirects_that_are_allowed(uri: str) -> None:
    assert is_redirect(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        None,
        1,
        ["https://app.example.com"],
        "https://",
        "https:///back",
        "http://app.example.com/back",
        "http://127.0.0.1.example.com/back",
        "http://127.0.0.1@evil.example/back",
        "https://user@app.example.com/back",
        "https://app.example.com/back#x",
        "https://app.example.com/ba ck",
        "https://app.example.com/back\r\nset-cookie: x",
        "https://app.example.com\\@evil.example",
        "https://evil.example\\.app.example.com/back",
        "https://[::1/back",
        "http://[::1]evil.example/back",
        "http://evil.example[::1]/back",
        "https://app.example.com[::1]:443/back",
        "https://[v1.x]/back",
        "https://app.example.com%2eevil.example/back",
        "https://app.example.com<br>/back",
        "http://127.1/back",
        "http://0x7f.1/back",
        "http://2130706433/back",
        "http://localhost./back",
        "http://[::ffff:127.0.0.1]/back",
        "http://[::1%25eth0]/back",
        "https://app.example.com/a\\..\\b",
        "https:app.example.com/back",
        "com.example.app://[::1]evil/back",
        "https://app.example.com:99999/back",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "blob:https://x",
        "about:blank",
        "ftp://app.example.com/back",
        "/back",
        "https://app.example.com/" + "x" * 2000,
    ],
)
def test_redirects_that_are_not(uri: Any) -> None:
    assert not is_redirect(uri)


@pytest.mark.parametrize(
    ("known", "given", "same"),
    [
        ("http://127.0.0.1/back", "http://127.0.0.1:5000/back", True),
        ("http://localhost:1/back", "http://localhost:2/back", True),
        ("http://[::1]/back", "http://[::1]:5000/back", True),
        ("http://127.0.0.1/back", "http://localhost/back", False),
        ("http://127.0.0.1/back", "http://127.0.0.1:5000/back/", False),
        ("http://127.0.0.1/back", "http://127.0.0.1:5000/back?x", False),
        ("http://127.0.0.1/back", "http://x@127.0.0.1:5000/back", False),
        ("https://app.example.com/back", "https://app.example.com:444/back", False),
        ("https://127.0.0.1/back", "https://127.0.0.1:444/back", False),
        ("http://127.0.0.1/back", "http://127.0.0.1:5000/back#x", False),
        ("http://127.0.0.1/back", "http://127.0.0.1:5000/back#", False),
        ("http://app.example.com/back", "http://app.example.com:5000/back", False),
        ("http://127.0.0.1/" + "x" * 1980, "http://127.0.0.1:50000/" + "x" * 1980, False),
        ("com.example.app:/back", "com.example.app:/other", False),
    ],
)
def test_a_redirect_is_the_known_one_to_the_letter_but_for_the_port_of_this_machine(
    known: str, given: str, same: bool
) -> None:
    assert is_same_redirect(known, given) is same


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": BACK}, "invalid_redirect_uri"),
        ({"redirect_uris": [BACK, "javascript:x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [BACK, 1]}, "invalid_redirect_uri"),
        ({"redirect_uris": [deep(100_000)]}, "invalid_redirect_uri"),  # nested as deeply as can be read, and more
        ({"redirect_uris": [f"{BACK}{n}" for n in range(11)]}, "invalid_redirect_uri"),
        ({"redirect_uris": [BACK], "token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"redirect_uris": [BACK], "token_endpoint_auth_method": None}, "invalid_client_metadata"),
        ({"redirect_uris": [BACK], "grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"redirect_uris": [BACK], "response_types": "code"}, "invalid_client_metadata"),
    ],
)
def test_what_cannot_be_registered(document: Any, code: str) -> None:
    with pytest.raises(OAuthError) as caught:
        clients().register(document)
    assert caught.value.code == code


def test_a_name_has_no_character_that_people_do_not_see() -> None:
    """The rule for the names of tools, and more: a client is somebody else's."""
    everything = list(map(chr, range(sys.maxunicode + 1)))
    hidden = [one for one in everything if hidden_character(one)]
    others = "\u00ad\u061c\u180e\u200c\u200e\u206a\U0001d173\ue000\u2028\n\ud800"
    assert len(hidden) > 150
    known = clients()
    for one in (*hidden, *others):
        said = known.register({"redirect_uris": [BACK], "client_name": f"Bi{one}rds"})
        assert said["client_name"] == "Birds", repr(one)
    assert known.register({"redirect_uris": [BACK], "client_name": "Vögel 鳥 🐦"})["client_name"] == "Vögel 鳥 🐦"


def test_a_client_without_a_method_gets_a_secret() -> None:
    async def main() -> None:
        known = clients()
        said = known.register({"redirect_uris": [BACK]})
        assert said["token_endpoint_auth_method"] == "client_secret_basic"
        assert said["client_secret_expires_at"] == 0  # never
        assert said["grant_types"] == ["authorization_code", "refresh_token"]
        assert said["client_name"] == "An application without a name"
        found = await known.find(said["client_id"])
        assert found is not None
        assert found.check(said["client_secret"])
        assert not found.check("")
        assert not found.check("other")
        assert said["client_secret"] not in repr(found)
        assert await known.find("unknown") is None

    run(main())


# ---------------------------------------------------------------- documents


@pytest.fixture
def site() -> Iterator[Issuer]:
    with issuing() as site:
        yield site


def document(site: Issuer, **change: Any) -> str:
    id = f"{site.url}/client.json"
    said = {"client_id": id, "client_name": "Birds", "redirect_uris": [BACK], **change}
    site.serve("/client.json", {name: value for name, value in said.items() if value is not None})
    return id


def test_a_document_is_read_once_for_a_while(site: Issuer) -> None:
    async def main() -> None:
        id = document(site)
        known = clients(site.url)
        for _ in range(3):
            found = await known.find(id)
            assert found is not None
            assert (found.name, found.redirects, found.verified_host) == ("Birds", [BACK], "127.0.0.1")
            assert found.check("")
            assert not found.check("x")
        assert site.asked == ["/client.json"]

    run(main())


def test_a_document_is_read_again_after_a_while(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect URI that its owner has taken out must not be used for ever."""
    monkeypatch.setattr("redstart.auth.clients.FRESH", -1.0)

    async def main() -> None:
        known = clients(site.url)
        assert await known.find(document(site)) is not None
        found = await known.find(document(site, redirect_uris=["http://127.0.0.1/other"], client_name="Gulls"))
        assert found is not None
        assert (found.name, found.redirects) == ("Gulls", ["http://127.0.0.1/other"])

    run(main())


def test_only_so_many_documents_are_remembered(site: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redstart.auth.clients.MOST", 2)
    ids = [f"{site.url}/{name}.json" for name in "abc"]
    for id in ids:
        site.serve(id.removeprefix(site.url), {"client_id": id, "client_name": "Birds", "redirect_uris": [BACK]})

    async def main() -> None:
        known = clients(site.url)
        for id in (*ids, *ids[1:], ids[0]):
            await known.find(id)

    run(main())
    assert site.asked == ["/a.json", "/b.json", "/c.json", "/a.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "https://other.example/client.json"},
        {"client_id": None},
        {"client_name": None},
        {"client_name": "\u202e"},
        {"client_name": 7},
        {"redirect_uris": None},
        {"redirect_uris": ["javascript:x"]},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"client_secret": "x"},
        {"padding": "x" * MAX_DOCUMENT},
    ],
    ids=str,
)
def test_documents_that_are_not_taken(site: Issuer, change: dict[str, Any]) -> None:
    id = document(site, **change)
    with pytest.raises(OAuthError):
        run(clients(site.url).find(id))


@pytest.mark.parametrize("path", ["", "/", "/a/../client.json", "/./client.json", "/client.json#x"])
def test_urls_that_are_not_ids(site: Issuer, path: str) -> None:
    with pytest.raises(OAuthError):
        run(clients(site.url).find(site.url + path))
    assert site.asked == []


def test_a_document_does_not_lead_into_the_own_network_rust_sdk_935_fastmcp_4294(site: Issuer) -> None:
    """Whoever calls itself a URL of this machine, or of a private network, is not looked at there."""
    document(site)
    private = ("https://127.0.0.1/c", "https://169.254.169.254/c", "https://10.0.0.1/c", "http://192.0.2.1/c")
    for url in (f"{site.url}/client.json", *private):
        with pytest.raises(OAuthError):
            run(clients().find(url))
    assert site.asked == []


def test_a_document_that_redirects(site: Issuer) -> None:
    site.serve("/client.json", {}, 302, location=f"{site.url}/other.json")
    with pytest.raises(OAuthError, match="redirects"):
        run(clients(site.url).find(f"{site.url}/client.json"))
    assert site.asked == ["/client.json"]
