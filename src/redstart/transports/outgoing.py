"""The URLs of requests that we send: what their names mean, and which of these addresses are on the internet.

For URLs that come from a peer, which must not lead into the network of those who run this.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from redstart.execution.threads import Pool

_NAT64: Final = ip_network("64:ff9b::/96")
_UNICAST: Final = ip_network("2000::/3")
"""All of IPv6 that is on the internet today."""
_SPECIAL: Final = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")))
"""Addresses that look public: of protocols and documents, and of the services that clouds have for their machines."""
_PORTS: Final = {"https": 443, "http": 80}
_AUTHORITY: Final = re.compile(r"([^@]*@)?(\[[\da-f:.]+\]|[^\x00-\x20\x7f\"%:<>\[\\\]^`{|}]*)(:\d*)?", re.IGNORECASE)
"""A host and its port as browsers read them too. `urlsplit` takes `[::1]evil.example` for the host `::1`."""

Address: TypeAlias = IPv4Address | IPv6Address


async def addresses_of(host: str, port: int, ended: Callable[[], None] | None = None) -> list[Address]:
    """What a name means now; of a name that is not known nothing. OSError: it cannot be looked up now.

    Whoever owns a name can make its look-up slow, and none can be ended. So each has its own thread: in the default
    executor of the loop they would keep all others waiting, and the end of the loop too. `ended` is called when that
    thread is free, also if the caller has given up before.
    """
    pool = Pool(1)
    try:
        job = pool.run(socket.getaddrinfo, {"host": host, "port": port, "type": socket.SOCK_STREAM})
    except RuntimeError as error:  # this machine has no thread for it
        if ended is not None:
            ended()
        raise OSError(str(error)) from None
    job.after = ended
    pool.close()  # its thread ends with this job
    try:
        return [ip_address(str(one[4][0]).partition("%")[0]) for one in await job]
    except (socket.gaierror, UnicodeError):
        return []


def is_public(address: Address) -> bool:
    """Whether an address is on the internet: not private, loopback, link-local or shared, also inside of IPv6."""
    if isinstance(address, IPv6Address):
        inner = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.ipv4_mapped
        if inner is not None:
            return is_public(inner)
        if address.sixtofour is not None or address.teredo is not None or address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _SPECIAL)


def shown(url: str) -> str:
    """A URL for people: without its query, which may have secrets in it, and without what controls a terminal."""
    return "".join(one if one.isprintable() else "?" for one in url.partition("?")[0][:200])


def split_url(url: str) -> SplitResult:
    """The parts of a URL; of one that cannot be read nothing."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts if _AUTHORITY.fullmatch(parts.netloc) else urlsplit("")


def origin_of(parts: SplitResult) -> tuple[str, str, int]:
    """What is trusted, or not: scheme, host and port."""
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
