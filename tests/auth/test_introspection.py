"""`auth=Introspection(...)`: what is sent, which answers let somebody in, and how long they are remembered."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from auth.support import AUDIENCE, Issuer, issuing
from redstart import Server, User
from redstart.auth import Introspection
from support import run
from transports.support import Http

ACTIVE = {"active": True, "sub": "ada", "aud": AUDIENCE, "scope": "mcp read"}
FAR = 4102444800  # the year 2100
BEARER = {"authorization": "Bearer opaque"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def asking(site: Issuer, **options: Any) -> Introspection:
    given = {"client_id": "m:cp", "client_secret": "s3 cret", "issuer": site.url, "audience": AUDIENCE}
    return Introspection(f"{site.url}/introspect", **{**given, **options})


def status(issuer: Issuer, answer: object, **options: Any) -> int:
    issuer.serve("/introspect", answer)

    async def test() -> int:
        http = Http(Server("guarded", auth=asking(issuer, **options)).asgi())
        return (await http.modern(1, "server/discover", headers=BEARER)).status

    return run(test())


def test_an_active_token(issuer: Issuer) -> None:
    forms = []

    def answer(form: bytes) -> tuple[int, dict[str, str], bytes]:
        forms.append(parse_qs(form.decode()))
        return 200, {}, json.dumps(ACTIVE).encode()

    issuer.documents["/introspect"] = answer
    auth = asking(issuer)

    async def test() -> None:
        assert auth.remembered("opaque") is None
        user = await auth("opaque")  # type: ignore[misc]
        assert isinstance(user, User)
        assert (user.subject, user.issuer, sorted(user.scopes)) == ("ada", issuer.url, ["mcp", "read"])
        assert auth.remembered("opaque") == user

    run(test())
    assert forms == [{"token": ["opaque"], "token_type_hint": ["access_token"]}]
    assert issuer.headers[0]["authorization"] == f"Basic {b64encode(b'm%3Acp:s3+cret').decode()}"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 200),
        ({"exp": FAR, "nbf": 0, "aud": ["x", AUDIENCE], "sub": 7}, 200),
        ({"active": False}, 401),
        ({"active": "true"}, 401),
        ({"active": 1}, 401),
        ({"exp": 1000}, 401),
        ({"exp": "x"}, 401),
        ({"nbf": FAR}, 401),
        ({"iss": "https://evil.example.com"}, 401),
        ({"aud": "https://other.example.com"}, 401),
        ({"aud": None}, 401),
        ({"sub": ""}, 401),
        ({"sub": None}, 401),
        ({"sub": True}, 401),
        ({"scope": "read"}, 403),
        ({"cnf": {"jkt": "x"}, "token_type": "DPoP"}, 401),
        ({"token_use": "access_token", "token_type": "Bearer"}, 200),
        ({"token_use": "refresh_token"}, 401),
        ({"token_use": "id"}, 401),
        ({"token_use": []}, 401),
    ],
    ids=str,
)
def test_what_the_answer_must_say(issuer: Issuer, changes: dict[str, Any], expected: int) -> None:
    assert status(issuer, {**ACTIVE, **changes}, scopes="mcp") == expected


def test_the_log_says_whose_audience_is_wrong(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    assert status(issuer, {**ACTIVE, "aud": "https://other.example.com"}) == 401
    assert status(issuer, {"active": False}) == 401
    [said] = [record.getMessage() for record in caplog.records if "auth=" in record.getMessage()]
    assert f"aud is 'https://other.example.com', and audience= is ['{AUDIENCE}']" in said
    assert status(issuer, {**ACTIVE, "sub": None}) == 401
    assert "sub is None, cnf is None, and a token must have sub, and no cnf" in caplog.text


def test_an_answer_that_cannot_be_had_is_a_503(issuer: Issuer) -> None:
    assert status(issuer, b"<html>") == 503
    issuer.documents.clear()
    assert status(issuer, []) == 503


def test_a_refusal_is_not_remembered(issuer: Issuer) -> None:
    auth = asking(issuer)

    async def test() -> None:
        issuer.serve("/introspect", {"active": False})
        assert await auth("opaque") is None  # type: ignore[misc]
        issuer.serve("/introspect", {**ACTIVE, "exp": time.time() + 0.01})
        assert await auth("opaque") is not None  # type: ignore[misc]

    run(test())


def test_an_answer_is_remembered_only_for_a_time(issuer: Issuer) -> None:
    auth = asking(issuer, remember=0)
    issuer.serve("/introspect", ACTIVE)

    async def test() -> None:
        assert await auth("opaque") is not None  # type: ignore[misc]
        assert auth.remembered("opaque") is None

    run(test())


def test_a_clock_that_is_set_back_does_not_make_that_time_longer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth, now = asking(issuer, remember=0.05), time.time
    issuer.serve("/introspect", ACTIVE)

    async def test() -> None:
        assert await auth("opaque") is not None  # type: ignore[misc]
        monkeypatch.setattr(time, "time", lambda: now() - 3600)
        await asyncio.sleep(0.1)
        assert auth.remembered("opaque") is None

    run(test())


@pytest.mark.parametrize("options", [{"audience": ""}, {"audience": []}, {"issuer": "http://x.example.com"}])
def test_what_would_let_anybody_in_is_refused(issuer: Issuer, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"audience|issuer"):
        asking(issuer, **options)
