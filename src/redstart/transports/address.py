"""Where a request comes from: the address of its client, and the scheme and host that the client has used.

Behind a proxy every request comes from the address of the proxy. The headers in which it names the client, the scheme
and the host count only if the proxy is one of `trusted_proxies=`, because anybody can send those headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

from msgspec import Struct

_FOR: Final = b"x-forwarded-for"
_PROTO: Final = b"x-forwarded-proto"
_HOST: Final = b"x-forwarded-host"
_FORWARDED: Final = b"forwarded"
_PAIR: Final = re.compile(r'\s*([a-z]+)=(?:"([^"]*)"|([^;,"\s]*))\s*(;|,|$)', re.IGNORECASE)
"""One pair of a Forwarded header (RFC 7239), and what ends it."""
_SITE: Final = 64
"""The leading bits of an IPv6 address that count: one customer usually has all that follow them."""
_HOPS: Final = 32
"""How many proxies may stand in a row."""
_READ: Final = 4096
"""The last characters of a header that are read."""
UNIX: Final = "unix"
"""How `trusted_proxies=` names the peers of a unix socket, which have no address."""


def has_room(taken: Iterable[tuple[str | None, int]], owner: str, most: int, most_own: int) -> bool:
    """Whether what all callers have taken is at most `most`, and what `owner` has taken is at most `most_own`."""
    total = own = 0
    for whose, size in taken:
        total += size
        if whose == owner:
            own += size
    return total <= most and own <= most_own


class Hop(Struct, frozen=True):
    """What a proxy says of a request: who sent it, by which scheme, to which host. Empty is not said."""

    client: str = ""
    scheme: str = ""
    host: str = ""


class Proxies(Struct, frozen=True):
    """The proxies whose word counts."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    unix: bool = False

    def restated(
        self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]
    ) -> tuple[MutableMapping[str, Any], dict[bytes, bytes]]:
        """What a request says, as its client has sent it to the outermost of our proxies. Both are copied."""
        client = scope.get("client")
        if not (self._trusts(client[0]) if client else self.unix):
            return scope, headers
        hop = self._read(headers)
        scope = dict(scope)
        if hop.client:
            scope["client"] = (hop.client[:64], 0)
        if hop.scheme in ("http", "https"):
            scope["scheme"] = hop.scheme
        return scope, {**headers, b"host": hop.host.encode("latin-1")} if hop.host else headers

    def _read(self, headers: dict[bytes, bytes]) -> Hop:
        """What a proxy says. Most write `X-Forwarded-*`; `Forwarded` counts where there is no `X-Forwarded-For`."""
        if _FOR not in headers and _FORWARDED in headers:
            return self._outermost(_forwarded_hops(_last(headers, _FORWARDED)))
        hops = [Hop(_without_port(one.strip())) for one in _last(headers, _FOR).rsplit(",", _HOPS)]
        return Hop(self._outermost(hops).client, _last_item(headers, _PROTO).lower(), _last_item(headers, _HOST))

    def _outermost(self, hops: list[Hop]) -> Hop:
        """The hop that the outermost of our proxies has added: each proxy adds the one that it was called by."""
        found = Hop()
        for hop in reversed(hops[-_HOPS:]):
            found = hop
            if not self._trusts(hop.client):
                break
        return found

    def _trusts(self, address: str) -> bool:
        ip = _read(address)
        return ip is not None and any(ip in network for network in self.networks)


def checked_proxies(given: Iterable[str]) -> Proxies:
    """The proxies whose word counts: networks, and the word for a unix socket."""
    listed = list(given)
    try:
        return Proxies(tuple(ip_network(one, strict=False) for one in listed if one != UNIX), UNIX in listed)
    except (ValueError, TypeError) as error:
        raise ValueError(f'trusted_proxies= is a list such as ["10.0.0.0/8", "::1", "unix"]; {error}') from None


def client_site(scope: Mapping[str, Any]) -> str:
    """The address of whoever sent a request, or its network; empty where there is none."""
    client = scope.get("client")
    return _site(client[0][:64]) if client else ""


def _last(headers: dict[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"")[-_READ:].decode("latin-1")


def _last_item(headers: dict[bytes, bytes], name: bytes) -> str:
    """The last item of a list: the word of the nearest proxy, whatever the client has sent before it."""
    return _last(headers, name).rpartition(",")[2].strip()


def _forwarded_hops(value: str) -> list[Hop]:
    """The elements of a Forwarded header; nothing counts that stands before what cannot be read."""
    hops: list[Hop] = []
    pairs: dict[str, str] = {}
    place = 0
    while place < len(value):
        match = _PAIR.match(value, place)
        if match is None:
            comma = value.find(",", place)
            hops, pairs, place = [Hop()], {}, len(value) if comma < 0 else comma + 1
            continue
        pairs[match[1].lower()] = match[2] or match[3] or ""
        if match[4] != ";":
            named = (_without_port(pairs.get("for", "")), pairs.get("proto", "").lower(), pairs.get("host", ""))
            hops.append(Hop(*named))
            pairs = {}
        place = match.end()
    return hops


def _without_port(hop: str) -> str:
    """Some proxies add the port, which differs for each connection."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


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
