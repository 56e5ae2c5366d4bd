"""`auth=JWT(...)`: which tokens are let in, where the keys come from, and how often they are read."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import ANY

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

from auth.support import AUDIENCE, Issuer, issuing, new_key
from redstart import Client, Context, Server, User
from redstart.access.verifier import AuthError
from redstart.auth import JWT, keys
from redstart.auth.jwt import ALGORITHMS
from redstart.client.errors import RequestError
from support import run
from transports.support import Http


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        issuer.publish()
        yield issuer


def verifier(issuer: Issuer, **options: Any) -> JWT:
    return JWT(**{"issuer": issuer.url, "audience": AUDIENCE, **options})


def user_of(auth: JWT, *tokens: str) -> list[Any]:
    """The users of the tokens, by way of a server; the status of a refusal."""
    server = Server("guarded", auth=auth)

    async def test() -> list[Any]:
        found: list[Any] = []
        authenticator = server.runtime.authenticator
        assert authenticator is not None
        for token in tokens:
            try:
                found.append(await authenticator.user(token))
            except AuthError as error:
                found.append(error.status)
        return found

    return run(test(), server)


def test_a_token_for_this_server_is_let_in(issuer: Issuer) -> None:
    (user,) = user_of(verifier(issuer), issuer.token({"org": "x"}))
    assert isinstance(user, User)
    assert (user.subject, user.issuer, sorted(user.scopes)) == ("ada", issuer.url, ["mcp", "read"])
    assert user.claims["org"] == "x"
    assert issuer.asked == [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/jwks",
    ]


NOW = int(time.time())
GOOD: dict[str, Callable[[Issuer], str]] = {
    "several audiences": lambda issuer: issuer.token({"aud": ["https://other", AUDIENCE]}),
    "expired within the leeway": lambda issuer: issuer.token({"exp": time.time() - 10}),
    "a clock that is ahead": lambda issuer: issuer.token({"nbf": time.time() + 10}),
    "typ of access tokens": lambda issuer: issuer.token(typ="at+jwt"),
    "no key id": lambda issuer: issuer.token(kid=None),
    "scp": lambda issuer: issuer.token({"scope": None, "scp": ["mcp", "read"]}),
    "a header that nobody knows, fastmcp 4282": lambda issuer: _with_header(issuer, cat="cl_B7"),
}
BAD: dict[str, Callable[[Issuer], str]] = {
    "not a token": lambda issuer: "x",
    "two parts": lambda issuer: "e30.e30",
    "five parts": lambda issuer: "e30.e30.e30.e30.e30",
    "a deep head": lambda issuer: f"{_deep({'alg': 'RS256', 'kid': 'one'})}.e30.e30",
    "deep claims": lambda issuer: f"{issuer.token().split('.')[0]}.{_deep({'sub': 'root'})}.e30",
    "deep claims that are signed": lambda issuer: _signed(
        issuer, f"{issuer.token().split('.')[0]}.{_deep(_claims(issuer))}"
    ),
    "half of a character in a claim": lambda issuer: _signed(
        issuer, f"{issuer.token().split('.')[0]}.{_part({**_claims(issuer), 'name': chr(0xD83D)})}"
    ),
    "an algorithm of another kind of key": lambda issuer: f"{_part({'alg': 'ES256', 'kid': 'one'})}.e30.e30",
    "expired": lambda issuer: issuer.token({"exp": time.time() - 60}),
    "no expiry": lambda issuer: issuer.token({"exp": None}),
    "an expiry that is a text": lambda issuer: issuer.token({"exp": "tomorrow"}),
    "an expiry that is true": lambda issuer: issuer.token({"exp": True}),
    "not yet": lambda issuer: issuer.token({"nbf": time.time() + 60}),
    "nbf that is a text": lambda issuer: issuer.token({"nbf": "now"}),
    "another issuer": lambda issuer: issuer.token({"iss": "https://evil.example.com"}),
    "no issuer": lambda issuer: issuer.token({"iss": None}),
    "issuer with a slash": lambda issuer: issuer.token({"iss": issuer.url + "/"}),
    "another audience": lambda issuer: issuer.token({"aud": "https://other.example.com"}),
    "a part of the audience": lambda issuer: issuer.token({"aud": AUDIENCE[:-1]}),
    "no audience": lambda issuer: issuer.token({"aud": None}),
    "an empty list of audiences": lambda issuer: issuer.token({"aud": []}),
    "an audience that is an object": lambda issuer: issuer.token({"aud": [{"a": AUDIENCE}]}),
    "an expiry beyond all time": lambda issuer: issuer.token({"exp": 1e300}),
    "a subject that is true": lambda issuer: issuer.token({"sub": True}),
    "a token for the holder of a key": lambda issuer: issuer.token({"cnf": {"jkt": "x"}}),
    "a token for the holder of a certificate": lambda issuer: issuer.token({"cnf": {"x5t#S256": "x"}}),
    "no subject": lambda issuer: issuer.token({"sub": None}),
    "an empty subject": lambda issuer: issuer.token({"sub": " "}),
    "another key without an id": lambda issuer: issuer.token(key=RSAKey.generate_key(2048), kid=None),
    "an unknown key": lambda issuer: issuer.token(key=RSAKey.generate_key(2048, parameters={"kid": "two"})),
    "another key of the same id": lambda issuer: issuer.token(key=RSAKey.generate_key(2048, parameters={"kid": "one"})),
    "another type": lambda issuer: issuer.token(typ="logout+jwt"),
    "an algorithm that is not the key's": lambda issuer: issuer.token(key=_plain(issuer), alg="PS256"),
    "none": lambda issuer: _unsigned(issuer),
    "tampered": lambda issuer: _tampered(issuer),
    "the public key as a secret": lambda issuer: _confused(issuer),
    "a header that must be understood": lambda issuer: _with_header(issuer, crit=["new"], new=1),
}


def test_a_token_without_a_key_id_needs_exactly_one_key_that_fits(issuer: Issuer) -> None:
    bare, other = (RSAKey.generate_key(2048) for _ in range(2))
    token = issuer.token(key=bare, kid=None)
    curves: list[Key] = [ECKey.generate_key(name) for name in ("P-256", "P-384")]
    cases: list[tuple[list[Key], int | None]] = [
        ([bare], None),
        ([bare, *curves, new_key("three")], None),  # of other kinds
        ([bare, issuer.keys[0]], 401),  # two that fit: which one is meant is not guessed
        ([other], 401),
        (curves, 401),
    ]
    for published, refused in cases:
        issuer.keys[:] = published
        assert user_of(verifier(issuer), token) == [refused or ANY], published
    issuer.keys[:] = [*curves, bare]
    assert user_of(verifier(issuer), issuer.token(key=curves[1], alg="ES384", kid=None))[0].subject == "ada"


def test_a_new_key_without_an_id_is_found(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "PAUSE", 0.0)
    old, new = (RSAKey.generate_key(2048) for _ in range(2))
    issuer.keys[:] = [old]
    tokens = [issuer.token(key=key, kid=None) for key in (old, new)]

    async def test() -> None:
        auth = verifier(issuer)
        assert (await auth.verify(tokens[0])).subject == "ada"
        issuer.keys[:] = [new]
        assert (await auth.verify(tokens[1])).subject == "ada"
        assert auth.remembered(tokens[0]) is None
        assert await auth.verify(tokens[0]) is None

    run(test())


def test_a_number_may_be_a_text_as_an_environment_has_it(issuer: Issuer) -> None:
    late = issuer.token({"exp": time.time() - 10})
    assert user_of(verifier(issuer, leeway="20"), late)[0].subject == "ada"
    assert user_of(verifier(issuer, leeway="5"), late) == [401]
    with pytest.raises(ValueError, match="half a minute"):
        verifier(issuer, leeway="half a minute")


def test_the_log_says_once_which_claim_is_wrong(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong `audience=` or `issuer=` is nothing that the caller could correct. That tokens expire is usual."""
    elsewhere = issuer.token({"aud": "https://other.example.com"})
    user_of(
        verifier(issuer),
        *(elsewhere, elsewhere, issuer.token({"iss": issuer.url + "/"}), issuer.token({"exp": NOW - 3600})),
        issuer.token({"aud": "https://evil.example.com"}, key=RSAKey.generate_key(2048)),  # not of this issuer
        issuer.token({"sub": None}),
    )
    aud, iss, sub = (record.getMessage() for record in caplog.records)
    assert f"aud is 'https://other.example.com', and audience= is ['{AUDIENCE}']" in aud
    assert f"iss is '{issuer.url}/', and issuer= is '{issuer.url}'" in iss
    assert "sub is None, cnf is None, and a token must have sub, and no cnf" in sub


def _plain(issuer: Issuer) -> RSAKey:
    found = issuer.keys[0].as_dict(private=True)
    return RSAKey.import_key({name: value for name, value in found.items() if name not in ("alg", "use")})


def _part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _deep(value: dict[str, object]) -> str:
    text = json.dumps({**value, "x": 0}).replace('"x": 0', '"x": ' + "[" * 20_000 + "]" * 20_000)
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _claims(issuer: Issuer) -> dict[str, object]:
    return {"iss": issuer.url, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 600}


def _unsigned(issuer: Issuer) -> str:
    body = issuer.token().split(".")[1]
    return f"{_part({'alg': 'none', 'kid': 'one'})}.{body}."


def _tampered(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    other = issuer.token({"sub": "root"}).split(".")[1]
    return f"{head}.{other}.{signature}"


def _with_header(issuer: Issuer, **more: Any) -> str:
    """A token with more in its header; signed by hand, because the library refuses to."""
    return _signed(issuer, f"{_part({'alg': 'RS256', 'kid': 'one', **more})}.{issuer.token().split('.')[1]}")


def _signed(issuer: Issuer, signed: str) -> str:
    private: Any = issuer.keys[0].private_key
    signature = private.sign(signed.encode(), PKCS1v15(), SHA256())
    return f"{signed}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _confused(issuer: Issuer) -> str:
    secret = OctKey.import_key(json.dumps(issuer.keys[0].as_dict(private=False)))
    return jwt.encode({"alg": "HS256", "kid": "one"}, _claims(issuer), secret, algorithms=["HS256"])


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_good_tokens(issuer: Issuer, make: Callable[[Issuer], str]) -> None:
    (user,) = user_of(verifier(issuer, scopes="mcp"), make(issuer))
    assert isinstance(user, User)


@pytest.mark.requirement("T107")
@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_bad_tokens(issuer: Issuer, make: Callable[[Issuer], str]) -> None:
    token = make(issuer)
    good, *refused = user_of(verifier(issuer), issuer.token(), token, token)
    assert isinstance(good, User)
    assert refused == [401, 401]


def test_a_token_without_a_scope_that_all_need(issuer: Issuer) -> None:
    assert user_of(verifier(issuer, scopes="admin"), issuer.token()) == [403]


@pytest.mark.parametrize(
    "scope", ["mcp\u00a0admin", "mcp\u2003admin", "mcp\tadmin", "\u0430dmin", "admin\u200b", "Admin"]
)
def test_scopes_that_look_like_another_one(issuer: Issuer, scope: str) -> None:
    """Some issuers repeat what a client has asked for, and only a space is between two scopes."""
    assert user_of(verifier(issuer, scopes="admin"), issuer.token({"scope": scope})) == [403]


def test_the_claim_of_the_audience_can_be_another_one(issuer: Issuer) -> None:
    auth = verifier(issuer, audience="app", audience_claim="client_id")
    good, bad = user_of(auth, issuer.token({"aud": None, "client_id": "app"}), issuer.token({"aud": "app"}))
    assert isinstance(good, User)
    assert bad == 401


# ---------------------------------------------------------------- the keys


@pytest.mark.requirement("T107")
def test_a_new_key_is_found_and_unknown_ones_do_not_make_us_ask_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, auth = Server("guarded"), verifier(issuer)

    async def test() -> None:
        assert await auth(issuer.token()) is not None  # type: ignore[misc]
        issuer.keys.append(new_key("two"))
        fresh = issuer.token(key=issuer.keys[1], alg="ES256")
        assert await auth(fresh) is None  # type: ignore[misc]  # the keys were read a moment ago
        monkeypatch.setattr("redstart.auth.keys.PAUSE", 0.0)
        assert await auth(fresh) is not None  # type: ignore[misc]
        monkeypatch.undo()
        asked = len(issuer.asked)
        for number in range(20):
            unknown = issuer.token(key=new_key(f"made up {number}"), alg="ES256")
            assert await auth(unknown) is None  # type: ignore[misc]
        assert len(issuer.asked) == asked

    run(test(), server)


def test_a_key_that_is_withdrawn_is_not_used_any_more(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    auth, token = verifier(issuer), issuer.token()
    server = Server("guarded", auth=auth)

    async def test() -> None:
        authenticator = server.runtime.authenticator
        assert authenticator is not None
        await authenticator.user(token)
        assert auth.remembered(token) is not None
        issuer.keys[:] = [new_key("two")]
        monkeypatch.setattr("redstart.auth.keys.PAUSE", 0.0)
        assert await auth(issuer.token(key=issuer.keys[0], alg="ES256")) is not None  # type: ignore[misc]
        with pytest.raises(AuthError):
            await authenticator.user(token)

    run(test(), server)


def test_a_key_that_is_withdrawn_ends_tokens_that_are_only_remembered(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose callers are all known reads the keys again, too."""
    auth, token = verifier(issuer), issuer.token()

    async def test() -> None:
        assert await auth(token) is not None  # type: ignore[misc]
        issuer.keys[:] = [new_key("two")]
        monkeypatch.setattr("redstart.auth.keys.PAUSE", 0.0)
        monkeypatch.setattr("redstart.auth.keys.MAX_AGE", 0.0)
        while auth.remembered(token) is not None:
            await asyncio.sleep(0.001)
        monkeypatch.setattr("redstart.auth.keys.MAX_AGE", 600.0)
        assert await auth(token) is None  # type: ignore[misc]
        auth.close()

    run(test())


def test_an_algorithm_that_is_not_named_is_refused(issuer: Issuer) -> None:
    """Also one that is sound, with a key that the issuer has published for it."""
    token, others = issuer.token(alg="RS256"), [one for one in ALGORITHMS if one != "RS256"]

    async def test() -> None:
        assert await verifier(issuer, algorithms=["RS256"])(token) is not None  # type: ignore[misc]
        assert await verifier(issuer, algorithms=others)(token) is None  # type: ignore[misc]

    run(test())


def test_while_the_issuer_is_away_known_keys_stay_in_use(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = verifier(issuer)

    async def test() -> None:
        assert await auth(issuer.token()) is not None  # type: ignore[misc]
        issuer.documents.clear()
        monkeypatch.setattr("redstart.auth.keys.PAUSE", 0.0)
        monkeypatch.setattr("redstart.auth.keys.MAX_AGE", 0.0)
        for subject in ("bob", "eve"):
            assert await auth(issuer.token({"sub": subject})) is not None  # type: ignore[misc]
        assert await auth(issuer.token(key=new_key("two"), alg="ES256")) is None  # type: ignore[misc]
        auth.close()

    run(test())


def test_without_keys_a_request_is_a_503(issuer: Issuer) -> None:
    issuer.documents.clear()

    async def test() -> None:
        server = Server("guarded", auth=verifier(issuer))
        headers = {"authorization": f"Bearer {issuer.token()}"}
        response = await Http(server.asgi()).modern(1, "server/discover", headers=headers)
        assert (response.status, response.headers["retry-after"]) == (503, "2")
        assert "issuer does not answer" in response.json()["error"]["message"]
        assert "www-authenticate" not in response.headers

    run(test())


@pytest.mark.parametrize(
    ("path", "metadata"),
    [
        ("", "/.well-known/oauth-authorization-server"),
        ("/realm", "/.well-known/oauth-authorization-server/realm"),
        ("/realm", "/.well-known/openid-configuration/realm"),
        ("/realm", "/realm/.well-known/openid-configuration"),
    ],
)
def test_where_the_metadata_may_be(issuer: Issuer, path: str, metadata: str) -> None:
    issuer.documents.clear()
    site = issuer.url
    issuer.url = site + path
    issuer.serve(metadata, {"issuer": issuer.url, "jwks_uri": f"{site}/jwks"})
    issuer.serve("/jwks", issuer.jwks())
    (user,) = user_of(verifier(issuer), issuer.token())
    assert user.issuer == site + path


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example.com", "jwks_uri": "/jwks"},
        {"issuer": None},
        {"jwks_uri": "https://169.254.169.254/keys"},
        {"jwks_uri": "http://192.0.2.1/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": 5},
        [],
    ],
    ids=str,
)
def test_metadata_that_is_not_to_be_used(issuer: Issuer, document: Any) -> None:
    said = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks", **document} if document else document
    issuer.serve("/.well-known/openid-configuration", said)
    assert user_of(verifier(issuer), issuer.token()) == [503]


@pytest.mark.requirement("T107")
def test_keys_that_cannot_sign_are_left_out(issuer: Issuer) -> None:
    for_encryption = RSAKey.generate_key(2048, parameters={"kid": "two", "use": "enc"})
    jwks = issuer.jwks()
    jwks["keys"] += [for_encryption.as_dict(private=False), {"kty": "oct", "k": "c2VjcmV0", "kid": "three"}]
    jwks["keys"] += [{"kty": "RSA", "kid": "four"}, {"kty": "XYZ", "kid": "five"}, "six", {}]
    issuer.serve("/jwks", jwks)
    plain = RSAKey.import_key({**for_encryption.as_dict(private=True), "use": "sig"})
    good, bad = user_of(verifier(issuer), issuer.token(), issuer.token(key=plain))
    assert isinstance(good, User)
    assert bad == 401


# ---------------------------------------------------------------- the options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"issuer": "http://login.example.com"}, "issuer must be like https"),
        ({"issuer": "login.example.com"}, "issuer must be like https"),
        ({"jwks_uri": "http://login.example.com/jwks"}, "jwks_uri must be like https"),
        ({"audience": ""}, "audience of JWT must name this server"),
        ({"audience": []}, "audience of JWT must name this server"),
        ({"algorithms": ["none"]}, "'none' is not allowed"),
        ({"algorithms": ["RS256", "HS256"]}, "'HS256' is not allowed"),
    ],
)
def test_what_would_let_anybody_in_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JWT(**{"issuer": "https://login.example.com", "audience": AUDIENCE, **options})


def test_a_server_with_it(issuer: Issuer) -> None:
    server = Server("guarded", auth=verifier(issuer, scopes="mcp"))

    @server.tool(scopes="admin")
    async def reset() -> str:
        return "done"

    @server.tool
    async def who(ctx: Context) -> str:
        return str(ctx.user.subject)

    async def test() -> None:
        async with Client(server, token=issuer.token()) as client:
            assert [tool.name for tool in await client.list_tools()] == ["who"]
            with pytest.raises(RequestError, match="admin"):
                await client.call_tool("reset", {})
        async with Client(server, token=issuer.token({"scope": "mcp admin"})) as client:
            assert len(await client.list_tools()) == 2

    run(test())


def test_a_token_that_was_checked_costs_little(issuer: Issuer) -> None:
    server, token = Server("guarded", auth=verifier(issuer)), issuer.token({"text": "x" * 500})

    async def test() -> float:
        authenticator = server.runtime.authenticator
        assert authenticator is not None
        await authenticator.user(token)
        best = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(100):
                await authenticator.user(token)
            best = min(best, (time.perf_counter() - began) / 100)
        return best

    assert run(test(), server) < 10e-6
