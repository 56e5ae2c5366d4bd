"""Gets JSON documents from authorization servers: the only way by which this package opens a connection.

A URL may come from a peer, directly or by way of a document, and must not lead into the operator's own network. So the
name is resolved first, each address is checked, and the connection goes to the address that was checked. Only origins
that the operator has configured may have private addresses. Everything is https, but for loopback, and small and timed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from socket import SOCK_STREAM, gaierror
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from redstart.wire.jsonrpc import JsonObject, decode

SECONDS: Final = 5.0
"""For one document: name, connection, redirects and body together."""
MAX_BYTES: Final = 256 * 1024
MAX_REDIRECTS: Final = 3
_NAT64: Final = ip_network("64:ff9b::/96")
_PORTS: Final = {"https": 443, "http": 80}


class FetchError(Exception):
    """A document cannot be had; the text says why, without the body of the answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        """What the server has answered, if it has."""


class Fetcher:
    """Gets documents. `trusted` are the URLs that the operator has configured, whose origins may be private."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = {_origin(urlsplit(url)) for url in trusted}

    async def get(self, url: str, headers: Mapping[str, str] = {}) -> JsonObject:
        """The JSON object at `url`. A redirect is followed only within its origin."""
        try:
            async with asyncio.timeout(SECONDS):
                for _ in range(MAX_REDIRECTS + 1):
                    found = await self._request("GET", url, headers)
                    if not isinstance(found, str):
                        return found
                    if _origin(urlsplit(found)) != _origin(urlsplit(url)):
                        raise FetchError(f"{shown(url)} redirects to another origin")
                    url = found
        except TimeoutError:
            raise FetchError(f"{shown(url)} did not answer within {SECONDS:g} seconds") from None
        raise FetchError(f"{shown(url)} redirects more than {MAX_REDIRECTS} times")

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

        parts = urlsplit(url)
        address = await self._address(parts)
        host = parts.hostname or ""
        pinned = httpx2.URL(url).copy_with(host=str(address))
        sent = {**headers, "host": parts.netloc.rpartition("@")[2], "accept-encoding": "identity"}
        sent.setdefault("accept", "application/json")
        body_kind = "content" if isinstance(form, bytes) else "data"
        secure = _tls() if parts.scheme == "https" else False
        try:
            async with (
                httpx2.AsyncClient(verify=secure, trust_env=False, timeout=SECONDS) as client,
                client.stream(
                    method, pinned, headers=sent, extensions={"sni_hostname": host}, **{body_kind: form}
                ) as response,
            ):
                if response.is_redirect:
                    return urljoin(url, str(response.headers["location"]))
                if response.status_code != 200:
                    raise FetchError(f"{shown(url)} answered {response.status_code}", response.status_code)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise FetchError(f"{shown(url)} is compressed, although that was not asked for")
                body = b""
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > MAX_BYTES:
                        raise FetchError(f"{shown(url)} is larger than {MAX_BYTES} bytes")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise FetchError(f"{shown(url)} cannot be reached: {type(error).__name__}: {error}"[:500]) from None
        try:
            found = decode(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise FetchError(f"{shown(url)} is not a JSON object")
        return found

    async def _address(self, parts: SplitResult) -> IPv4Address | IPv6Address:
        """The address to connect to. Every address of the name must be allowed, so that it does not depend on luck."""
        origin, url = _origin(parts), shown(parts.geturl())
        _, host, port = origin
        if not host or not port or parts.username is not None:
            raise FetchError(f"{url} is not a URL that can be read: it must be https://…, without a user")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
        except (gaierror, UnicodeError):
            raise FetchError(f"the name {host[:200]} is not known") from None
        addresses = [ip_address(str(one[4][0]).partition("%")[0]) for one in found]
        if parts.scheme != "https" and not all(address.is_loopback for address in addresses):
            raise FetchError(f"{url} must begin with https://")
        if origin not in self._trusted and not all(is_public(address) for address in addresses):
            raise FetchError(f"{url} has an address that is not public, and the operator has not configured it")
        return addresses[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is on the internet: not private, loopback, link-local or shared, also inside of IPv6."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.sixtofour is not None or address.teredo is not None:
            return False
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and not address.is_multicast


def shown(url: str) -> str:
    """A URL for people: without its query, which may have secrets in it."""
    return url.partition("?")[0][:200]


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    try:
        return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:  # a port that is not a number
        return "", "", 0


@cache
def _tls() -> ssl.SSLContext:
    """The certificates that are trusted are read once: that takes longer than a request."""
    import httpx2

    context: ssl.SSLContext = httpx2.create_ssl_context(trust_env=False)
    return context
