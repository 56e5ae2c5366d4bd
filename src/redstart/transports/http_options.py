"""The options of HTTP: those of `asgi()`, and those that `run("http", …)` takes beside them, each with its rule."""

import os
import socket as sockets
from collections.abc import Iterable, Mapping
from socket import AF_INET, AF_INET6, socket
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

from redstart.features.rules import FlagOption, Rule, age, at_least, mapping, path, seconds, text, texts, wrong
from redstart.server import DRAIN, MAX_PORT
from redstart.transports.request import KEEP_ALIVE, MAX_BODY, WRITE_DEADLINE

if TYPE_CHECKING:
    from redstart.transports.address import Proxies
    from redstart.transports.shares import Rate

_FAMILIES: Final = (AF_INET, AF_INET6, getattr(sockets, "AF_UNIX", None))
BODY_DEADLINE: Final = 8.0
"""Seconds for a whole request. Many connections are looked at about once a second, so all are closed within ten."""
MAX_HEADERS: Final = 256
MAX_UNSENT: Final = 128 * 1024 * 1024
"""The bytes that wait for clients that are behind, of all connections together."""
MAX_SESSIONS: Final = 10_000
SESSION_IDLE: Final = 3600.0
"""Seconds after which a session that nobody uses is let go."""
MAX_CALLS: Final = 4096
MAX_OWN_CALLS: Final = 1024
"""Requests whose calls run at once, in one process: of all callers, and of one."""
MAX_STREAMS: Final = 10_000
MAX_OWN_STREAMS: Final = 1000
"""Event streams that are open without a call: of all callers, and of one."""
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Events that clients may have missed, of all sessions together."""


def _public_url(label: str, value: object) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text(label, value))
        _ = parts.port  # a ValueError where it is none
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        wrong(label, "like https://mcp.example.com", value)
    return str(value)


def _hosts(label: str, value: object) -> tuple[str, ...]:
    """Names as they stand in a Host header."""
    hosts = texts(label, value)
    for host in hosts:
        if "/" in host:
            name = host.partition("://")[2] or host
            raise ValueError(f'{label}: "{host}" is not a host; write "{name.partition("/")[0]}"')
    return hosts


def _origins(label: str, value: object) -> tuple[str, ...]:
    """Sites as they stand in an Origin header."""
    origins = texts(label, value)
    for origin in origins:
        scheme, mark, rest = origin.rstrip("/").rpartition("://")
        if origin not in ("*", "null") and (not mark or "/" in rest):
            site = f"{scheme or 'https'}://{rest.partition('/')[0]}"
            raise ValueError(f'{label}: "{origin}" is not the origin of a page; write "{site}"')
    return origins


def _port(label: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PORT:
        wrong(label, f"a whole number from 0 to {MAX_PORT}", value)
    return value


def _listener(label: str, value: object) -> socket:
    if not isinstance(value, socket) or value.family not in _FAMILIES:
        wrong(label, "a TCP or unix socket that is bound", value)
    return value


def _probe_path(label: str, value: object) -> str | None:
    """A path, or None: nothing is served there."""
    if value is not None and (not isinstance(value, str) or not value.startswith("/")):
        wrong(label, 'a path such as "/healthz", or None', value)
    return value


def _socket_path(label: str, value: object) -> str:
    return os.fspath(path(label, value)) or wrong(label, "the path of a unix socket", value)


def _rate(label: str, value: object) -> "Rate":
    from redstart.transports.shares import read_rate

    return read_rate(label, value)


def _rates(label: str, value: object) -> "dict[str, Rate]":
    return {name: _rate(f"{label} of {name}", rate) for name, rate in mapping(label, value).items()}


def _proxies(label: str, value: object) -> "Proxies":
    from redstart.transports.address import checked_proxies

    return checked_proxies(texts(label, value))


class EndpointOptions(TypedDict, total=False):
    """What `asgi()` takes."""

    path: Annotated[str, Rule(text, "/mcp")]
    """The path of the endpoint."""
    allowed_hosts: Annotated[Iterable[str], Rule(_hosts, (), optional=True)]
    """Names under which clients may reach it, beside those of this machine and of `public_url`."""
    allowed_origins: Annotated[Iterable[str], Rule(_origins, (), optional=True)]
    """Pages that may call it from a browser."""
    public_url: Annotated[str | None, Rule(_public_url)]
    """The URL under which clients reach it, through a proxy for example."""
    max_body_bytes: Annotated[int, Rule(at_least(1), MAX_BODY)]
    """How large a request may be."""
    keep_alive: Annotated[float, Rule(seconds, KEEP_ALIVE)]
    """Seconds without an event after which a stream gets a comment."""
    drain: Annotated[float, Rule(age, DRAIN)]
    """Seconds that open calls have to finish when the server stops."""
    write_deadline: Annotated[float, Rule(seconds, WRITE_DEADLINE)]
    """Seconds that a client has to take what was sent to it."""
    max_sessions: Annotated[int, Rule(at_least(1), MAX_SESSIONS)]
    """How many sessions are kept."""
    session_idle: Annotated[float, Rule(seconds, SESSION_IDLE)]
    """Seconds after which a session that nobody uses is let go."""
    max_calls: Annotated[int, Rule(at_least(1), MAX_CALLS)]
    """How many calls run at once, of all callers."""
    max_calls_per_caller: Annotated[int, Rule(at_least(1), MAX_OWN_CALLS)]
    """How many calls of one caller run at once."""
    max_streams: Annotated[int, Rule(at_least(1), MAX_STREAMS)]
    """How many event streams are open at once, of all callers."""
    max_streams_per_caller: Annotated[int, Rule(at_least(1), MAX_OWN_STREAMS)]
    """How many event streams of one caller are open at once."""
    rate_limit: Annotated[str | None, Rule(_rate)]
    """How many calls a caller may make, such as `"60/minute"`; counted over all processes."""
    tool_rate_limits: Annotated[Mapping[str, str], Rule(_rates, {}, optional=True)]
    """The same for single tools: `{"report": "5/hour"}`."""
    max_kept_bytes: Annotated[int, Rule(at_least(1), KEPT_BYTES)]
    """How many bytes of events are kept for clients that may have missed them."""
    trusted_proxies: Annotated[Iterable[str], Rule(_proxies, (), optional=True)]
    """Addresses of proxies whose forwarded headers count."""
    legacy_sse: FlagOption
    """Whether the HTTP+SSE transport of 2024-11-05 is served too."""
    access_log: FlagOption
    """Whether each request is written to the log, as JSON."""
    health_path: Annotated[str | None, Rule(_probe_path, "/healthz", optional=False)]
    """Where the process says that it runs; None for nowhere."""
    ready_path: Annotated[str | None, Rule(_probe_path, "/readyz", optional=False)]
    """Where the process says whether it takes requests; None for nowhere."""


class HttpOptions(EndpointOptions, total=False):
    """What `run("http", …)` takes."""

    host: Annotated[str, Rule(text, "127.0.0.1")]
    """The address to listen on."""
    port: Annotated[int, Rule(_port, 8000)]
    """The port; 0 takes a free one."""
    listener: Annotated[socket | None, Rule(_listener)]
    """A socket that listens already."""
    uds: Annotated[str | os.PathLike[str] | None, Rule(_socket_path)]
    """The path of a unix socket, in place of a port."""
    tls_cert: Annotated[str | os.PathLike[str] | None, Rule(path)]
    """The certificate of HTTPS, a PEM file."""
    tls_key: Annotated[str | os.PathLike[str] | None, Rule(path)]
    """Its key."""
    drain_delay: Annotated[float, Rule(age, 0)]
    """Seconds to go on after SIGTERM while `/readyz` is a 503."""
    body_deadline: Annotated[float, Rule(seconds, BODY_DEADLINE)]
    """Seconds that a client has for a whole request."""
    max_headers: Annotated[int, Rule(at_least(1), MAX_HEADERS)]
    """How many headers a request may have."""
    max_unsent_bytes: Annotated[int, Rule(at_least(1), MAX_UNSENT)]
    """How many bytes may wait for clients that are behind, of all connections."""
    admin_port: Annotated[int | None, Rule(_port)]
    """A port for `/metrics`."""
    admin_host: Annotated[str, Rule(text, "127.0.0.1")]
    """The address of that port."""
    admin_listener: Annotated[socket | None, Rule(_listener)]
    """A socket for it that listens already."""
