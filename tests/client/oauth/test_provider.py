"""A sign-in at a provider that we did not write (npm's oidc-provider), for a server of ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from auth.provider import Provider, oidc_provider, sign_in
from redstart.client import Client, OAuth
from support import DEADLINE, ERAS, ROOT, free_port, run, serving

SERVER = str(ROOT / "tests" / "client" / "oauth" / "guarded_server.py")


class Person:
    """Signs in at the provider in a browser that keeps its cookies, and counts how often."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.sign_ins = 0

    async def __call__(self, url: str) -> None:
        self.sign_ins += 1
        async with httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as browser:
            landed = await sign_in(browser, url, self._provider)
            (await browser.get(landed)).raise_for_status()


@pytest.mark.timeout(400)
def test_a_sign_in_a_renewal_and_more_scopes(tmp_path: Path) -> None:
    async def main(provider: Provider, url: str) -> None:
        person = Person(provider)
        options: dict[str, Any] = {"auth": OAuth(browser=person, store=tmp_path / "tokens.json")}
        for era in ERAS:
            async with Client(url, protocol=era, **options) as c:
                assert (await c.call_tool("whoami")).text == "ada"
        assert person.sign_ins == 1  # tokens end within the leeway, so each request has brought a new one
        async with Client(url, **options) as c:
            assert (await c.call_tool("write")).text == "written by ada"
            assert (await c.call_tool("whoami")).text == "ada"
        assert person.sign_ins == 2

    port = free_port()
    with (
        oidc_provider(scopes=["notes", "notes:write"], registration=True, seconds=20) as provider,
        serving([sys.executable, SERVER, str(port), provider.url], port) as url,
    ):
        run(main(provider, url), seconds=60)
