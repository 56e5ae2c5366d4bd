"""Requests to authorization servers, whose URLs come from a peer: https or loopback, small, timed, no other redirects.

A server on the internet must not lead its clients to services of their own network, so a URL that comes from it must
have a public address, and the connection goes to the address that was checked. A server that is itself on a private
address may name others there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from redstart.client.errors import SignInError
from redstart.transports.outgoing import Address, addresses_of, is_public, origin_of, shown
from redstart.wire.jsonrpc import JsonObject, decode

if TYPE_CHECKING:
    import httpx2

SECONDS: Final = 15.0
"""For one answer of an authorization server."""
MAX_ANSWER: Final = 256 * 1024
_REDIRECTS: Final = 3
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class WebAnswer(Struct, frozen=True):
    """What an authorization server has answered; `body` is empty if it is not a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: JsonObject


def checked_url(url: str, what: str) -> SplitResult:
    """The parts of a URL that may be used: https, or http on this machine, of visible ASCII, and without a user."""
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if not secure or not parts.hostname or parts.username is not None or parts.port == 0:
            raise ValueError
        if not _VISIBLE.fullmatch(url):  # it is written to terminals
            raise ValueError
    except ValueError:
        raise SignInError(f"{what} {shown(url)!r} must begin with https:// (http:// only on this machine)") from None
    return parts


class OAuthWeb:
    """Requests on behalf of a client of the MCP server at `server`. `own` are URLs that the user has given."""

    def __init__(self, server: str, own: Iterable[str] = ()) -> None:
        self._server = urlsplit(server)
        self._own = {origin_of(urlsplit(url)) for url in own}
        self._peer: Address | None = None

    def met(self, peer: str | None) -> None:
        """The address from which the MCP server has answered: another one that its name has does not count."""
        self._peer = None if peer is None else ip_address(peer)

    async def get(self, url: str, what: str) -> WebAnswer:
        """The document at `url`. A redirect is followed within its origin."""
        for _ in range(_REDIRECTS):
            answer = await self._request("GET", url, what, {}, None)
            try:
                target = urljoin(url, answer.headers.get("location", ""))
            except ValueError:  # that is not a URL, so it leads nowhere
                return answer
            if answer.status not in (301, 302, 303, 307, 308) or urlsplit(target)[:2] != urlsplit(url)[:2]:
                return answer
            url = target
        raise SignInError(f"{what} {shown(url)} redirects too often")

    async def post(self, url: str, what: str, headers: Mapping[str, str], content: bytes) -> WebAnswer:
        """The answer to a form or to JSON. A redirect is not followed: the request may have secrets in it."""
        return await self._request("POST", url, what, headers, content)

    async def _request(
        self, method: str, url: str, what: str, headers: Mapping[str, str], content: bytes | None
    ) -> WebAnswer:
        import httpx2

        parts = checked_url(url, what)
        sent = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        try:
            async with asyncio.timeout(SECONDS):
                async with (
                    httpx2.AsyncClient(transport=await self._transport(parts, what), timeout=SECONDS) as client,
                    client.stream(method, url, headers=sent, content=content) as response,
                ):
                    body = bytearray()
                    async for part in response.aiter_raw():
                        body += part
                        if len(body) > MAX_ANSWER:
                            raise SignInError(f"{what} {shown(url)} answers with more than {MAX_ANSWER} bytes")
                    return WebAnswer(response.status_code, response.headers, _object(body))
        except TimeoutError:
            raise SignInError(f"{what} {shown(url)} did not answer within {SECONDS:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise SignInError(f"{what} {shown(url)} cannot be reached: {type(error).__name__}: {error}"[:500]) from None

    async def _transport(self, parts: SplitResult, what: str) -> httpx2.AsyncHTTPTransport:
        import httpx2

        from redstart.transports.pinned import PinnedTransport

        addresses, proxy = await self.admit(parts, what), proxy_for(parts)
        if proxy is not None:
            return httpx2.AsyncHTTPTransport(proxy=proxy)
        return PinnedTransport(addresses, parts.scheme == "https")

    async def admit(self, parts: SplitResult, what: str) -> list[Address]:
        """The addresses of a URL, if the MCP server may lead there; none where a proxy finds them."""
        if proxy_for(parts) is not None:
            return []
        addresses = await addresses_of(*origin_of(parts)[1:])
        if origin_of(parts) not in self._own and not all(map(is_public, addresses)) and await self._is_public():
            raise SignInError(f"{what} {shown(parts.geturl())} has a private address, and the MCP server has not")
        return addresses

    async def _is_public(self) -> bool:
        """Whether the MCP server is on the internet. As long as it has not answered, what its name means counts."""
        if proxy_for(self._server) is not None:
            return True
        peer = await addresses_of(*origin_of(self._server)[1:]) if self._peer is None else [self._peer]
        return all(map(is_public, peer))


def proxy_for(parts: SplitResult) -> str | None:
    """The proxy that the environment names for a URL. None can reach the loopback address of this machine."""
    host = parts.hostname or ""
    if host in _LOOPBACK or proxy_bypass(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return found if found is None or "://" in found else f"http://{found}"


def _object(body: bytearray) -> JsonObject:
    try:
        found = decode(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
