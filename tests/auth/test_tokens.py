"""`auth=BearerTokens({...})`, and what a User is."""

from __future__ import annotations

from typing import Any

import pytest

from redstart import Client, Context, Server, User
from redstart.auth import BearerTokens
from redstart.client.errors import RequestError
from support import run

TOKENS: dict[str, User | str] = {
    "s3cret": "ada",
    "t0ken": User("bob", issuer="https://login.example.com", scopes=["read", "write"]),
}


def whoami(auth: BearerTokens) -> Server:
    server = Server("tokens", auth=auth)

    @server.tool
    async def who(ctx: Context) -> dict[str, Any]:
        assert isinstance(ctx.user, User)
        return {"subject": ctx.user.subject, "issuer": ctx.user.issuer, "scopes": sorted(ctx.user.scopes)}

    return server


@pytest.mark.parametrize(
    ("token", "user"),
    [("s3cret", ["ada", "", []]), ("t0ken", ["bob", "https://login.example.com", ["read", "write"]])],
)
def test_who_has_a_token_is_let_in(token: str, user: list[Any]) -> None:
    async def test() -> None:
        async with Client(whoami(BearerTokens(TOKENS)), token=token) as client:
            found = (await client.call_tool("who", {})).structured
            assert found == dict(zip(("subject", "issuer", "scopes"), user, strict=True))

    run(test())


def test_tokens_without_users_are_refused() -> None:
    tokens: Any = ["s3cret"]
    with pytest.raises(TypeError, match="'list' object is not a mapping"):
        BearerTokens(tokens)


@pytest.mark.parametrize("token", ["s3cre", "s3crett", "S3cret", "ada"])
def test_any_other_token_is_refused(token: str) -> None:
    async def test() -> None:
        with pytest.raises(RequestError, match="A valid bearer token is needed"):
            async with Client(whoami(BearerTokens(TOKENS)), token=token):
                pass

    run(test())


def test_every_token_may_need_a_scope() -> None:
    async def test() -> None:
        server = whoami(BearerTokens(TOKENS, scopes=["read", "write"]))
        async with Client(server, token="t0ken") as client:
            assert (await client.call_tool("who", {})).structured["subject"] == "bob"
        with pytest.raises(RequestError, match="The token needs the scopes: read write"):
            async with Client(server, token="s3cret"):
                pass

    run(test())


def test_the_tokens_are_not_kept() -> None:
    auth = BearerTokens(TOKENS)
    kept = repr(vars(auth))
    assert "ada" in kept
    assert "s3cret" not in kept
    assert "t0ken" not in kept


@pytest.mark.parametrize("tokens", [{"": "ada"}, {"two words": "ada"}, {b"secret": "ada"}, {"s\xe9cret": "ada"}])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(tokens: Any) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as caught:
        BearerTokens(tokens)
    assert "cret" not in str(caught.value).replace("secret", "")


@pytest.mark.parametrize("subject", ["", " ", None, 5])
def test_a_user_has_a_subject(subject: Any) -> None:
    with pytest.raises(ValueError, match="subject of a User"):
        User(subject)


@pytest.mark.parametrize("scopes", [["two words"], ['"'], ["\\"], [""], [5], 5, None])
def test_scopes_are_texts_that_a_challenge_can_carry(scopes: Any) -> None:
    with pytest.raises(TypeError, match="scopes"):
        User("ada", scopes=scopes)
    with pytest.raises(TypeError, match="scopes"):
        BearerTokens({}, scopes=scopes)


def test_the_same_subject_of_two_issuers_is_two_people() -> None:
    keys = {User("ada", issuer=issuer).principal for issuer in ("", "https://a.example", "https://b.example")}
    assert len(keys) == 3
