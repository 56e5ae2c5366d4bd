"""What a refusal says, and where the metadata of an authorization server is."""

from __future__ import annotations

import pytest

from client.support import Request, http_server
from redstart.client.challenge import Challenge, read_challenge
from redstart.client.oauth.discovery import find_server
from redstart.client.oauth.web import OAuthWeb
from support import run


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], Challenge(401)),
        (["Bearer"], Challenge(401)),
        (['Bearer realm="x", scope="a b"'], Challenge(401, scope="a b")),
        (["bearer error=invalid_token"], Challenge(401, error="invalid_token")),
        (['Basic realm="x"', 'Bearer resource_metadata="https://a/b?c=d,e"'], Challenge(401, "https://a/b?c=d,e")),
        (['Basic realm="x", Bearer scope="a", DPoP algs="ES256", scope="b"'], Challenge(401, scope="a")),
        ([r'Bearer scope="a \"b\""'], Challenge(401, scope='a "b"')),
        (['Bearer scope="never ends'], Challenge(401)),
        (['Bearer error="e", scope="a\x9b2J"'], Challenge(401, error="e")),  # it would control a terminal
    ],
)
def test_a_challenge_is_read(headers: list[str], expected: Challenge) -> None:
    assert read_challenge(401, headers) == expected


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        (
            "/tenant",
            [
                "/.well-known/oauth-authorization-server/tenant",
                "/.well-known/openid-configuration/tenant",
                "/tenant/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_metadata_is_looked_for_in_the_order_of_the_specification(path: str, places: list[str]) -> None:
    seen: list[str] = []

    async def main() -> None:
        async def handler(request: Request) -> None:
            seen.append(request.path)
            if request.path == places[-1]:
                await request.answer(200, {"issuer": origin + path, "token_endpoint": f"{origin}/token"})
            else:
                await request.answer(404)

        async with http_server(handler) as url:
            origin = url.removesuffix("/mcp")
            found = await find_server(OAuthWeb(url), origin + path)
            assert found is not None
            assert found.token_endpoint == f"{origin}/token"

    run(main())
    assert seen == places
