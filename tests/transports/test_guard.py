"""Which names a server answers to, whose pages it serves, and which replies a client takes: one row each."""

from __future__ import annotations

import tracemalloc

import pytest

from redstart import Server
from redstart.transports.guard import Guard, accepts
from redstart.transports.request import MAX_BODY, Rejection

PLAIN = Guard()
NAMED = Guard(allowed_hosts=["MCP.example.com", "ten.example:8443"], allowed_origins=["https://App.example/"])
PUBLIC = Guard(public_url="https://user:secret@Public.example:8443/mcp")
OPEN = Guard(allowed_hosts=["*"])
ANY_SITE = Guard(allowed_origins=["*"])


def refusal_of(guard: Guard, headers: dict[bytes, bytes]) -> Rejection | None:
    try:
        guard.check(headers)
    except Rejection as rejection:
        return rejection
    return None


HOSTS: list[tuple[Guard, str, bool]] = [
    (PLAIN, "localhost", True),
    (PLAIN, "LOCALHOST:8000", True),
    (PLAIN, "127.0.0.1:1", True),
    (PLAIN, "[::1]:8000", True),
    (PLAIN, "[::1]", True),
    (PLAIN, "", False),
    (PLAIN, "evil.example", False),
    (PLAIN, "localhost.evil.example", False),
    (PLAIN, "localhost:80@evil.example", False),
    (PLAIN, "localhost:8000x", False),
    (PLAIN, "localhost:²", False),
    (PLAIN, "[::1]evil", False),
    (PLAIN, "[::1", False),
    (PLAIN, "[::1]80", False),
    (PLAIN, "[::1]:x", False),
    (PLAIN, "[::1]:", True),
    (NAMED, "mcp.example.com", True),
    (NAMED, "mcp.example.com:443", True),
    (NAMED, "ten.example:8443", True),
    (NAMED, "ten.example", False),
    (NAMED, "ten.example:80", False),
    (NAMED, "localhost", True),
    (PUBLIC, "public.example", True),
    (PUBLIC, "secret@public.example", False),
    (OPEN, "anything.example", True),
]


@pytest.mark.parametrize(("guard", "host", "allowed"), HOSTS, ids=[f"{h or 'none'}-{ok}" for _, h, ok in HOSTS])
def test_hosts(guard: Guard, host: str, allowed: bool) -> None:
    for _ in range(2):  # what was decided once is decided the same way again
        refusal = refusal_of(guard, {b"host": host.encode("latin-1")})
        assert (refusal is None) is allowed
        assert refusal is None or (refusal.status == 421 and repr(host) in refusal.text)
        assert refusal is None or "--public-url or --allow-host" in refusal.text


ORIGINS: list[tuple[Guard, str, bool]] = [
    (PLAIN, "http://localhost", True),
    (PLAIN, "https://127.0.0.1:3000", True),
    (PLAIN, "http://evil.example", False),
    (PLAIN, "http://localhost.evil.example", False),
    (PLAIN, "http://localhost/path", False),
    (PLAIN, "http://localhost:80/path", False),
    (PLAIN, "http://[::1]/path", False),
    (PLAIN, "http://[::1]:80", True),
    (PLAIN, "http://", False),
    (PLAIN, "http", False),
    (PLAIN, "ftp://localhost", False),
    (PLAIN, "localhost", False),
    (PLAIN, "null", False),
    (PLAIN, "", False),
    (NAMED, "https://app.example", True),
    (NAMED, "https://APP.example", True),
    (NAMED, "http://app.example", False),
    (NAMED, "https://mcp.example.com", True),
    (PUBLIC, "https://public.example:8443", True),
    (OPEN, "https://evil.example", False),
    (ANY_SITE, "https://evil.example", True),
]


@pytest.mark.parametrize(("guard", "origin", "allowed"), ORIGINS, ids=[f"{o or 'none'}-{ok}" for _, o, ok in ORIGINS])
def test_origins(guard: Guard, origin: str, allowed: bool) -> None:
    for _ in range(2):
        refusal = refusal_of(guard, {b"host": b"localhost", b"origin": origin.encode()})
        assert (refusal is None) is allowed
        assert refusal is None or (refusal.status == 403 and repr(origin) in refusal.text)
        assert refusal is None or "--allow-origin" in refusal.text


def test_only_sites_that_are_named_may_read_replies() -> None:
    assert NAMED.grants(b"https://APP.example")
    assert ANY_SITE.grants(b"https://evil.example")
    assert not NAMED.grants(b"https://evil.example")
    assert not PLAIN.grants(b"http://localhost")


def test_a_request_without_a_host_is_refused_and_one_without_an_origin_is_not() -> None:
    assert refusal_of(PLAIN, {}) is not None
    assert refusal_of(PLAIN, {b"host": b"localhost"}) is None


def test_many_names_are_decided_alike_though_few_are_remembered() -> None:
    guard = Guard(allowed_hosts=["*"], allowed_origins=["*"])
    for number in range(2000):
        name = b"host%d" % number
        assert refusal_of(guard, {b"host": name, b"origin": b"https://" + name}) is None
        assert accepts({b"accept": b"application/json;v=%d" % number}).json


def test_what_is_remembered_takes_little_memory() -> None:
    guard = Guard(allowed_hosts=["*"], allowed_origins=["*"])
    tracemalloc.start()
    try:
        for size, count in ((30_000, 600), (2000, 3000)):
            for number in range(count):
                value = b"%d" % number + b"x" * (size - 10)
                guard.check({b"host": value, b"origin": value})
                accepts({b"accept": value})
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


def test_of_a_long_accept_only_the_beginning_is_read() -> None:
    padding = b"image/png," * 6000  # 60 kB that would be read for a tenth of a second, while nobody else is served
    assert not accepts({b"accept": padding + b"application/json"}).json
    assert accepts({b"accept": b"application/json," + padding}).json


@pytest.mark.parametrize("url", ["mcp.example.com", "ftp://mcp.example.com", "https://", "/mcp"])
def test_a_public_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="public_url must be like"):
        Server("guarded").asgi(public_url=url)


def test_the_limit_of_a_body_is_four_mebibytes_or_as_told() -> None:
    server = Server("limited")
    limits = [server.asgi().limits.max_body, MAX_BODY, server.asgi(max_body_bytes=5).limits.max_body]
    assert limits == [MAX_BODY, 4 * 1024 * 1024, 5]


ACCEPTS: list[tuple[str | None, bool, bool]] = [
    (None, True, True),
    ("*/*", True, True),
    ("application/json", True, False),
    ("text/event-stream", False, True),
    ("APPLICATION/JSON, Text/Event-Stream", True, True),
    ("application/*", True, False),
    ("text/*;q=0.1", False, True),
    ("text/html", False, False),
    ("", False, False),
    ("application/json;q=0, */*", False, True),
    ("*/*, application/json;q=0", False, True),
    ("application/*;q=0, application/json", True, False),
    ("application/*;q=0, */*", False, True),
    ("application/json;q=0, application/*", False, False),
    ("text/*, text/event-stream;q=0", False, False),
    ("application/json; Q=0", False, False),
    ("application/json;q=x", False, False),
    ('application/json;a="b,c;q=0", text/event-stream', True, True),
    ('text/html;a="application/json"', False, False),
    ('text/html;a="b",application/json;q=1;b="c",text/event-stream', True, True),
    ('text/html;a="b, application/json, c"', False, False),
    ('application/json;a="b;q=0"', True, False),
]


@pytest.mark.parametrize(("accept", "json", "sse"), ACCEPTS)
def test_accepts(accept: str | None, json: bool, sse: bool) -> None:
    headers = {} if accept is None else {b"accept": accept.encode()}
    for _ in range(2):
        found = accepts(headers)
        assert (found.json, found.sse) == (json, sse)
