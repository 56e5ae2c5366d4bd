"""OAuthProxy in several processes that share a store, behind a proxy without affinity."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from auth.provider import oidc_provider
from auth.proxied import Browser, application, proxied
from round_robin import round_robin
from store.engines import running
from support import free_port


def test_two_processes_on_one_redis(tmp_path: Path) -> None:
    """Each request of a sign-in goes to the other process than the one before it."""
    front, ports = free_port(), [free_port(), free_port()]

    async def main(url: str) -> None:
        async with Browser(url, provider) as browser:
            await browser.register()
            code = (await browser.authorize())["code"]
            found = await asyncio.gather(*(browser.redeem(code) for _ in range(6)))
            statuses = sorted(one.status_code for one in found)
            # Nobody, if one of the others came before the first was done: a code that is used twice ends its sign-in.
            assert statuses in ([200, *[400] * 5], [400] * 6)
            code = (await browser.authorize())["code"]
            first = await browser.redeem(code)
            assert first.status_code == 200
            assert (await browser.redeem(code)).status_code == 400  # by the other process
            assert (await browser.refresh(first.json()["refresh_token"])).status_code == 400
            await browser.register()
            tokens = await browser.tokens()
            for _ in range(4):
                assert (await browser.call(tokens["access_token"])).status_code == 200
            renewed = await asyncio.gather(*(browser.refresh(tokens["refresh_token"]) for _ in range(6)))
            assert [one.status_code for one in renewed] == [200] * 6
            last = (await browser.refresh(renewed[0].json()["refresh_token"])).json()["refresh_token"]
            for _ in range(2):  # a stolen token ends the sign-in for both
                assert (await browser.refresh(tokens["refresh_token"])).status_code == 400
                assert (await browser.refresh(last)).status_code == 400

    with ExitStack() as stack:
        store = stack.enter_context(running("redis")).url
        provider = stack.enter_context(oidc_provider(clients=[application(front)]))
        for port in ports:
            public = ["--public-url", f"http://127.0.0.1:{front}"]
            stack.enter_context(proxied(tmp_path, provider, port, store, arguments=public))
        stack.enter_context(round_robin(front, ports))
        asyncio.run(main(f"http://127.0.0.1:{front}/mcp"))
