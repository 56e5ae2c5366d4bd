"""The provider of the tests is one: a round trip as a plain OpenID client makes it."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from hashlib import sha256
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from auth.provider import Provider, oidc_provider, sign_in
from redstart.auth import JWT
from support import DEADLINE

CALLBACK = "http://127.0.0.1:1/callback"
RESOURCE = "https://mcp.example.com/mcp"
CLIENT = {
    "client_id": "web",
    "client_secret": "s3cret",
    "redirect_uris": [CALLBACK],
    "grant_types": ["authorization_code", "refresh_token"],
}


async def tokens(provider: Provider, browser: httpx2.AsyncClient) -> dict[str, object]:
    verifier = "v" * 43
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "client_id": "web", "response_type": "code", "redirect_uri": CALLBACK, "scope": "openid notes", "state": "s",
        "code_challenge": challenge, "code_challenge_method": "S256", "resource": RESOURCE,
    }  # fmt: skip
    landed = await sign_in(browser, f"{provider.url}/auth?{urlencode(asked)}", provider)
    assert landed.startswith(CALLBACK)
    code = parse_qs(urlsplit(landed).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": verifier}
    answer = await browser.post(f"{provider.url}/token", data={**form, "resource": RESOURCE}, auth=("web", "s3cret"))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.timeout(400)
def test_a_token_of_the_provider_and_a_rotated_key() -> None:
    async def main(provider: Provider) -> None:
        async with httpx2.AsyncClient(timeout=DEADLINE) as browser:
            found = await tokens(provider, browser)
            auth = JWT(issuer=provider.url, audience=RESOURCE, scopes="notes")
            user = await auth.verify(str(found["access_token"]))
            assert user.subject == "ada"
            assert user.scopes == {"notes"}
            assert found["refresh_token"]
            provider.rotate_key()
            other = await tokens(provider, browser)
            fresh = JWT(issuer=provider.url, audience=RESOURCE)
            assert await fresh.verify(str(found["access_token"])) is None
            assert (await fresh.verify(str(other["access_token"]))).subject == "ada"

    with oidc_provider(clients=[CLIENT], scopes=["notes"]) as provider:
        asyncio.run(main(provider))
