"""An OpenID provider that we did not write: npm's `oidc-provider`, started on a free loopback port.

`sign_in` is the person at the browser: it follows redirects, signs in at the provider's own pages and agrees there, and
stops at the first URL of somebody else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import Request, urlopen

import httpx2

from support import DEADLINE, ROOT, free_port, node_packages, serving

SOURCE = ROOT / "tests" / "auth" / "node"
MOST_STEPS = 20
_FORM = re.compile(r'<form[^>]* action="([^"]+)"')
_PROMPT = re.compile(r'name="prompt" value="(\w+)"')


class Provider:
    """A provider that runs. `url` is its issuer."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def rotate_key(self) -> None:
        """From now on sign with a new key, and publish only that one."""
        self._tell("rotate")

    def withdraw_key(self) -> None:
        """From now on sign with a key that is not published, as somebody would who has stolen one."""
        self._tell("withdraw")

    def set_clock_ahead(self, seconds: int) -> None:
        """From now on it is so much later for the provider."""
        self._tell(f"later?{seconds}")

    def forget(self) -> None:
        """End all sessions, and withdraw all tokens."""
        self._tell("forget")

    def _tell(self, what: str) -> None:
        with urlopen(Request(f"{self.url}/-/{what}", method="POST"), timeout=DEADLINE):
            pass


@contextmanager
def oidc_provider(**settings: Any) -> Iterator[Provider]:
    """A provider with these settings: `clients` as RFC 7591 has them, `scopes` of resources, `registration` (False),
    `seconds` of an access token (600), `refresh` tokens (True), and their rotation, `rotate` (True).

    An access token for a `resource` is a JWT with that audience.
    """
    node, folder = node_packages("oidc-provider", SOURCE)
    port = free_port()
    with serving([node, str(folder / "provider.mjs"), json.dumps({"port": port, **settings})], port):
        yield Provider(port)


async def sign_in(browser: httpx2.AsyncClient, url: str, provider: Provider, user: str = "ada") -> str:
    """Open `url` at the provider, sign in and agree; the first URL outside of it, which is not opened.

    `browser` must keep cookies and not follow redirects.
    """
    response = await browser.get(url)
    for _ in range(MOST_STEPS):
        if response.is_redirect:
            found: str = urljoin(str(response.url), str(response.headers["location"]))
            if urlsplit(found).netloc != urlsplit(provider.url).netloc:
                return found
            response = await browser.get(found)
            continue
        form, prompt = _FORM.search(response.text), _PROMPT.search(response.text)
        if form is None or prompt is None:
            raise AssertionError(f"{response.status_code} {response.url}: {response.text[:2000]}")
        said = {"prompt": prompt[1], "login": user, "password": "any"}
        response = await browser.post(urljoin(str(response.url), form[1]), data=said)
    raise AssertionError(f"no end after {MOST_STEPS} steps, at {response.url}")
