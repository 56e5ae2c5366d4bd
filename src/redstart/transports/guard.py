"""What an HTTP request must look like before its body is read: Host, Origin, Accept, Content-Type, size.

DNS rebinding is stopped here: a page of another site cannot make a browser talk to a server on this machine.
Spec: /specification/2026-07-28/basic/transports/streamable-http#security-warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from redstart.transports.options import MAX_BODY

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_CACHE: Final = 512
"""How many header values are remembered; an attacker must not be able to fill the memory with them."""
_READ: Final = 2048
"""The bytes of a header value that are read item by item, and of one that is remembered."""


class Rejection(Struct, frozen=True):
    """Why a request is not served: a status, and words that say what to do."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Accepts(Struct, frozen=True):
    """Which kinds of reply a client takes."""

    json: bool
    sse: bool


class Guard:
    """The allow-lists of one endpoint. What was found good is remembered, so that a look-up is all it costs."""

    def __init__(
        self,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        public_url: str | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        self.max_body = max_body
        self._hosts = {*LOOPBACK, *(host.lower() for host in allowed_hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        if public_url:
            parts = urlsplit(public_url)
            self._hosts.add(split_host(parts.netloc.rpartition("@")[2])[0])
            self._origins.add(f"{parts.scheme}://{parts.netloc}".lower())
        self._good_hosts: set[bytes] = set()
        self._good_origins: set[bytes] = set()
        self._accepts: dict[bytes, Accepts] = {}

    def check(self, headers: Mapping[bytes, bytes]) -> Rejection | None:
        """Refuse a request that came under another name, or from another site's page."""
        host = headers.get(b"host", b"")
        if host not in self._good_hosts:
            if not self._host_allowed(host.decode("latin-1")):
                return Rejection(421, _HOST_HELP.format(host.decode("latin-1")[:200]))
            _remember(self._good_hosts, host)
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._good_origins:
            if not self._origin_allowed(origin.decode("latin-1")):
                return Rejection(403, ORIGIN_HELP.format(origin.decode("latin-1")[:200]))
            _remember(self._good_origins, origin)
        return None

    def grants(self, origin: bytes) -> bool:
        """Whether pages of this site may read what the server says: only if `allowed_origins` has it."""
        return "*" in self._origins or origin.decode("latin-1").lower() in self._origins

    def _host_allowed(self, host: str) -> bool:
        return "*" in self._hosts or self._is_known(host)

    def _is_known(self, host: str) -> bool:
        name, port = split_host(host)
        numbered = not port or (port.isascii() and port.isdigit())
        return host.lower() in self._hosts or (numbered and name in self._hosts)

    def _origin_allowed(self, origin: str) -> bool:
        origin = origin.lower()
        if "*" in self._origins or origin in self._origins:
            return True
        scheme, _, host = origin.partition("://")
        # Not _host_allowed: a server that answers to every name must still not serve every site's pages.
        return scheme in ("http", "https") and self._is_known(host)

    def accepts(self, headers: Mapping[bytes, bytes]) -> Accepts:
        """What the client takes, by its Accept header."""
        value = headers.get(b"accept", b"*/*")[:_READ]
        found = self._accepts.get(value)
        if found is None:
            text = value.decode("latin-1")
            found = Accepts(_quality(text, "application/json") > 0, _quality(text, "text/event-stream") > 0)
            if len(self._accepts) < _CACHE:
                self._accepts[value] = found
        return found


def _remember(known: set[bytes], value: bytes) -> None:
    if len(known) < _CACHE and len(value) <= _READ:
        known.add(value)


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


def _quality(accept: str, wanted: str) -> float:
    """The q-value that an Accept header gives a type; the most specific range decides, and q=0 is a refusal."""
    best, specific = 0.0, -1
    kind = wanted.partition("/")[0]
    for item in _items(accept, ","):
        media, *options = _items(item, ";")
        media = media.strip().lower()
        rank = {"*/*": 0, f"{kind}/*": 1, wanted: 2}.get(media, -1)
        if rank >= specific and rank >= 0:
            best, specific = _q(options), rank
    return best


def _q(options: list[str]) -> float:
    for option in options:
        name, _, value = option.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _items(text: str, mark: str) -> list[str]:
    """Split at `mark`, but not inside quotes."""
    if '"' not in text:
        return text.split(mark)
    items, start, quoted = [], 0, False
    for place, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif letter == mark and not quoted:
            items.append(text[start:place])
            start = place + 1
    return [*items, text[start:]]


_HOST_HELP: Final = (
    "This server does not answer to the host {!r}. If that is its public name, allow it: "
    'server.run("http", public_url="https://…") or server.asgi(allowed_hosts=["…"]).'
)
ORIGIN_HELP: Final = (
    "This server does not take requests from pages of {!r}. If that site may use it, allow it: "
    'server.run("http", allowed_origins=["https://…"]) or server.asgi(allowed_origins=["…"]).'
)
