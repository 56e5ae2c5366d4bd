"""Gets JSON documents from authorization servers: the only way by which this package opens a connection.

A URL may come from a peer, directly or by way of a document, and must not lead into the operator's own network. So the
name is resolved first, each address is checked, and the connection goes to the address that was checked. Only origins
that the operator has configured may have private addresses. Everything is https, but for loopback, and small and timed.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final
from urllib.parse import SplitResult, urljoin

from redstart.transports.outgoing import Address, addresses_of, is_public, origin_of, shown, split_url
from redstart.wire.jsonrpc import JsonObject, decode

SECONDS: Final = 5.0
"""For one document: name, connection, redirects and body together."""
MAX_BYTES: Final = 256 * 1024
MAX_REDIRECTS: Final = 3
LEAST_PART: Final = 64
"""What each part of a body counts at least: one byte at a time is most of the work, and leaves no time for others."""
LOOK_UPS: Final = 256
"""Names of peers that are looked up at once: more than one address may ask for in the time that a slow one takes."""


class FetchError(Exception):
    """A document cannot be had; the text says why, without the body of the answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        """What the server has answered, if it has."""


class Fetcher:
    """Gets documents. `trusted` are the URLs that the operator has configured, whose origins may be private."""

    def __init__(self, trusted: Iterable[str] = (), max_bytes: int = MAX_BYTES, redirects: int = MAX_REDIRECTS) -> None:
        self._trusted = {origin_of(split_url(url)) for url in trusted}
        self._max_bytes = max_bytes
        self._redirects = redirects
        self._places = threading.Semaphore(LOOK_UPS)

    async def get(self, url: str, headers: Mapping[str, str] = {}) -> JsonObject:
        """The JSON object at `url`. A redirect is followed only within its origin."""
        try:
            async with asyncio.timeout(SECONDS):
                for _ in range(self._redirects + 1):
                    found = await self._request("GET", url, headers)
                    if not isinstance(found, str):
                        return found
                    if origin_of(split_url(found)) != origin_of(split_url(url)):
                        raise FetchError(f"{shown(url)} redirects to another origin")
                    url = found
        except TimeoutError:
            raise FetchError(f"{shown(url)} did not answer within {SECONDS:g} seconds") from None
        raise FetchError(f"{shown(url)} redirects more than {self._redirects} times")

    async def post(self, url: str, form: Mapping[str, str] | bytes, headers: Mapping[str, str] = {}) -> JsonObject:
        """The JSON object that answers a form, or JSON. A redirect is not followed: it may have secrets in it."""
        try:
            async with asyncio.timeout(SECONDS):
                found = await self._request("POST", url, headers, form)
        except TimeoutError:
            raise FetchError(f"{shown(url)} did not answer within {SECONDS:g} seconds") from None
        if isinstance(found, str):
            raise FetchError(f"{shown(url)} redirects a POST")
        return found

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | bytes | None = None
    ) -> JsonObject | str:
        """The JSON object of an answer, or the URL that it redirects to."""
        import httpx2

        from redstart.transports.pinned import PinnedTransport

        parts = split_url(url)
        sent = {"accept": "application/json", **headers, "accept-encoding": "identity"}
        body_kind = "content" if isinstance(form, bytes) else "data"
        try:
            addresses = await self._addresses(parts)
            transport = PinnedTransport(addresses, _tls() if parts.scheme == "https" else False)
            async with (
                httpx2.AsyncClient(transport=transport, timeout=SECONDS) as client,
                client.stream(method, url, headers=sent, **{body_kind: form}) as response,
            ):
                if response.has_redirect_location:
                    return urljoin(url, str(response.headers["location"]))
                if response.status_code != 200:
                    raise FetchError(f"{shown(url)} answered {response.status_code}", response.status_code)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise FetchError(f"{shown(url)} is compressed, although that was not asked for")
                body, size = bytearray(), 0  # not bytes: of many small parts these would be copied for each
                async for part in response.aiter_raw():
                    body += part
                    size += max(len(part), LEAST_PART)
                    if size > self._max_bytes:
                        raise FetchError(f"{shown(url)} is larger than {self._max_bytes} bytes")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise FetchError(f"{shown(url)} cannot be reached: {type(error).__name__}: {error}"[:500]) from None
        try:
            found = decode(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise FetchError(f"{shown(url)} is not a JSON object", 200)
        return found

    async def _addresses(self, parts: SplitResult) -> list[Address]:
        """The addresses to connect to. Every address of the name must be allowed, so it does not depend on luck."""
        origin, url = origin_of(parts), shown(parts.geturl())
        _, host, port = origin
        if not host or not port or parts.username is not None:
            raise FetchError(f"{url} is not a URL that can be read: it must be https://…, without a user")
        trusted = origin in self._trusted
        if not trusted and not self._places.acquire(blocking=False):
            raise FetchError(f"{url} cannot be read now: too many names are looked up at the moment")
        addresses = await addresses_of(host, port, None if trusted else self._places.release)
        if not trusted and not (addresses and all(map(is_public, addresses))):
            # One text: a peer must not learn which names there are in the operator's network.
            raise FetchError(f"{url} has no public address, and the operator has not configured it")
        if not addresses:
            raise FetchError(f"the name {host[:200]} is not known")
        if parts.scheme != "https" and not all(address.is_loopback for address in addresses):
            raise FetchError(f"{url} must begin with https://")
        return addresses


@cache
def _tls() -> ssl.SSLContext:
    """The certificates that are trusted are read once: that takes longer than a request."""
    import httpx2

    context: ssl.SSLContext = httpx2.create_ssl_context()
    return context
