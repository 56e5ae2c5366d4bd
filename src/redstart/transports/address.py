"""Whose share of a limit a request counts against where nobody is authenticated: the address that it comes from.

Behind a proxy every request comes from the address of the proxy. The header in which it names the client counts only
if the proxy is one of `trusted_proxies=`, because anybody can send that header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

_FORWARDED: Final = b"x-forwarded-for"
_SITE: Final = 64
"""The leading bits of an IPv6 address that count: one customer usually has all that follow them."""
_HOPS: Final = 32
"""How many proxies may stand in a row."""
Networks = tuple[IPv4Network | IPv6Network, ...]


def has_room(taken: Iterable[tuple[str | None, int]], owner: str, most: int, most_own: int) -> bool:
    """Whether what all callers have taken is at most `most`, and what `owner` has taken is at most `most_own`."""
    total = own = 0
    for whose, size in taken:
        total += size
        if whose == owner:
            own += size
    return total <= most and own <= most_own


def checked_proxies(given: Iterable[str]) -> Networks:
    """The proxies whose word counts, as networks."""
    try:
        return tuple(ip_network(one, strict=False) for one in given)
    except (ValueError, TypeError) as error:
        raise ValueError(f'trusted_proxies= is a list such as ["10.0.0.0/8", "::1"]; {error}') from None


def client_address(scope: Mapping[str, Any], headers: Mapping[bytes, bytes], proxies: Networks) -> str:
    """The address of whoever sent a request, as far as it can be known; empty where there is none."""
    client = scope.get("client")
    address = client[0] if client else ""
    forwarded = headers.get(_FORWARDED) if proxies else None
    if forwarded is None or not _is_trusted(address, proxies):
        return _site(address[:64])
    hops = forwarded.decode("latin-1").rsplit(",", _HOPS)[-_HOPS:]
    for hop in reversed(hops):  # each proxy adds the one that it was called by
        address = _without_port(hop.strip())
        if not _is_trusted(address, proxies):
            break
    return _site(address[:64])


def _without_port(hop: str) -> str:
    """Some proxies add the port, which differs for each connection."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _is_trusted(address: str, proxies: Networks) -> bool:
    ip = _read(address)
    return ip is not None and any(ip in network for network in proxies)


@lru_cache(1024)
def _site(address: str) -> str:
    ip = _read(address)
    if isinstance(ip, IPv6Address):
        return str(ip_network((ip, _SITE), strict=False))
    return address if ip is None else str(ip)


def _read(address: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ip_address(address)
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return mapped or ip
