"""The part of a person in the official conformance suite's test of an authorization server, which is an OAuthProxy."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from auth.provider import oidc_provider, sign_in
from auth.proxied import Browser, application, proxied
from support import free_port

SECONDS = 120.0


def run_suite(command: Sequence[str]) -> str:
    """What the suite prints. It is told the URL and a client; a person opens the page that it asks for, and agrees."""
    port, back = free_port(), free_port()

    async def main(browser: Browser) -> str:
        await browser.register(redirect_uris=[f"http://127.0.0.1:{back}/callback"])
        told = ["--url", browser.url, "--resource", browser.url, "--client-id", browser.client_id, "--port", str(back)]
        pipe = asyncio.subprocess.PIPE
        suite = await asyncio.create_subprocess_exec(*command, *told, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        assert suite.stdout is not None
        output = ""
        try:
            async with asyncio.timeout(SECONDS):
                while line := (await suite.stdout.readline()).decode(errors="replace"):
                    output += line
                    if line.startswith(browser.url):
                        sent = await browser.agree(await browser.http.get(line.strip()))
                        landed = await sign_in(browser.http, sent.headers["location"], browser.provider)
                        await browser.http.get((await browser.http.get(landed)).headers["location"])
                await suite.wait()
        finally:
            if suite.returncode is None:
                suite.kill()
                await suite.wait()
        return output

    async def played(url: str) -> str:
        async with Browser(url, provider) as browser:
            return await main(browser)

    with (
        tempfile.TemporaryDirectory() as folder,
        oidc_provider(clients=[application(port)]) as provider,
        proxied(Path(folder), provider, port) as url,
    ):
        return asyncio.run(played(url))
