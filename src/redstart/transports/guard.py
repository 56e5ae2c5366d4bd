"""What an HTTP request must look like before its body is read: its Host, Origin and Accept headers.

DNS rebinding is stopped here: a page of another site cannot make a browser talk to a server on this machine.
Spec: /specification/2026-07-28/basic/transports/streamable-http#security-warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from redstart.transports.request import Accepts, Rejection

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_CACHE: Final = 512
"""How many decisions are remembered; clients must not be able to fill the memory with them."""
_READ: Final = 2048
"""The bytes of an Accept header that are read, and of other headers whose decision is remembered."""
_RANGES: Final = re.compile(r'(?:[^,"]|"[^"]*"?)+')
_OPTIONS: Final = re.compile(r'(?:[^;"]|"[^"]*"?)+')


class Guard:
    """The allow-lists of one endpoint."""

    def __init__(
        self, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = (), public_url: str | None = None
    ) -> None:
        self._hosts = {*LOOPBACK, *(host.lower() for host in allowed_hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        if public_url:
            parts = urlsplit(public_url)
            self._hosts.add(split_host(parts.netloc.rpartition("@")[2])[0])
            self._origins.add(f"{parts.scheme}://{parts.netloc}".lower())
        self._remembered = lru_cache(_CACHE)(self._problem)

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request that came under another name, or from another site's page."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        short = len(host) + len(origin or b"") <= _READ
        problem = self._remembered(host, origin) if short else self._problem(host, origin)
        if problem is not None:
            raise Rejection(*problem)

    def check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request from another site's page, under whichever name it came."""
        origin = headers.get(b"origin")
        if origin is not None and (problem := self._problem(b"localhost", origin)) is not None:
            raise Rejection(*problem)

    def _problem(self, host: bytes, origin: bytes | None) -> tuple[int, str] | None:
        name = host.decode("latin-1")
        if "*" not in self._hosts and not self._is_known(name):
            return 421, _HOST_HELP.format(name[:200])
        if origin is not None and not self.grants(origin) and not self._is_own(origin.decode("latin-1").lower()):
            return 403, ORIGIN_HELP.format(origin.decode("latin-1")[:200])
        return None

    def grants(self, origin: bytes) -> bool:
        """Whether pages of this site may read what the server says: only if `allowed_origins` has it."""
        return "*" in self._origins or origin.decode("latin-1").lower() in self._origins

    def _is_own(self, origin: str) -> bool:
        """Whether a page comes from a host that is served here by name: `*` in the hosts does not allow every site."""
        scheme, _, host = origin.partition("://")
        return scheme in ("http", "https") and self._is_known(host)

    def _is_known(self, host: str) -> bool:
        name, port = split_host(host)
        numbered = not port or (port.isascii() and port.isdigit())
        return host.lower() in self._hosts or (numbered and name in self._hosts)


def split_host(host: str) -> tuple[str, str]:
    """`("localhost", "8000")`; an IPv6 address keeps its brackets."""
    host = host.lower()
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return host, "invalid"
        return name + "]", rest[1:]
    name, _, port = host.partition(":")
    return name, port


def accepts(headers: Mapping[bytes, bytes]) -> Accepts:
    """What the client takes, by its Accept header."""
    return _read_accept(headers.get(b"accept", b"*/*")[:_READ])


def check_post(headers: Mapping[bytes, bytes]) -> Accepts:
    """What the client takes, if it sends JSON and takes what we send."""
    if headers.get(b"content-type") != b"application/json" and not _is_json(headers):
        raise Rejection(415, "The body must be application/json")
    accepted = _read_accept(headers.get(b"accept", b"*/*")[:_READ])
    if not (accepted.json or accepted.sse):
        raise Rejection(406, "The client must accept application/json or text/event-stream")
    return accepted


def _is_json(headers: Mapping[bytes, bytes]) -> bool:
    kind = headers.get(b"content-type", b"").partition(b";")[0]
    return kind.strip().lower() == b"application/json"


@lru_cache(_CACHE)
def _read_accept(value: bytes) -> Accepts:
    text = value.decode("latin-1").lower()
    return Accepts(_is_accepted(text, "application/json"), _is_accepted(text, "text/event-stream"))


def _is_accepted(accept: str, wanted: str) -> bool:
    """Whether an Accept header allows a type; the most specific range decides, and q=0 is a refusal."""
    ranges = ("*/*", wanted.partition("/")[0] + "/*", wanted)
    rank, quality = -1, 0.0
    for item in _RANGES.findall(accept):
        media, *options = _OPTIONS.findall(item) or [""]
        place = ranges.index(media.strip()) if media.strip() in ranges else -1
        if place >= max(rank, 0):
            rank, quality = place, _quality(options)
    return quality > 0


def _quality(options: list[str]) -> float:
    for option in options:
        name, _, value = option.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


_HOST_HELP: Final = (
    "This server does not answer to the host {!r}. If that is its public name, allow it: "
    'server.run("http", public_url="https://…") or server.asgi(allowed_hosts=["…"]); '
    "on the command line --public-url or --allow-host."
)
ORIGIN_HELP: Final = (
    "This server does not take requests from pages of {!r}. If that site may use it, allow it: "
    'server.run("http", allowed_origins=["https://…"]) or server.asgi(allowed_origins=["…"]); '
    "on the command line --allow-origin."
)
