"""Whose share of a limit a request counts against, whether there is room, and what a proxy may say of a request."""

from __future__ import annotations

import pytest

from redstart.transports.address import checked_proxies, client_site, has_room


@pytest.mark.parametrize(
    ("taken", "room"),
    [
        ([("ada", 3), ("bob", 7)], True),  # 10 of 10 in all
        ([("ada", 3), ("bob", 8)], False),
        ([("ada", 1), ("bob", 2), ("ada", 3)], True),  # 4 of 4 of her own
        ([("ada", 2), ("bob", 1), ("ada", 3)], False),
        ([(None, 10)], True),
    ],
)
def test_a_limit_may_be_reached_and_not_exceeded(taken: list[tuple[str | None, int]], room: bool) -> None:
    assert has_room(taken, "ada", most=10, most_own=4) is room


def restated(peer: str | None, proxies: list[str], **headers: str) -> tuple[str, str, str]:
    """The client, the scheme and the host of a request from this peer with these headers."""
    pairs = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    scope = {"client": None if peer is None else (peer, 1), "scheme": "http"}
    said, sent = checked_proxies(proxies).restated(scope, {b"host": b"inner:8000", **pairs})
    assert scope == {"client": None if peer is None else (peer, 1), "scheme": "http"}  # others may have it
    return client_site(said), said["scheme"], sent[b"host"].decode()


INNER = "10.9.9.9"
NONE = (INNER, "http", "inner:8000")


@pytest.mark.parametrize("network", ["10.0.0.0/8", "10.1.2.3/8"])
def test_a_proxy_is_any_address_of_its_network(network: str) -> None:
    """A network may be written as one of its addresses, as `ip addr` shows it."""
    assert restated(INNER, [network], x_forwarded_for="203.0.113.7")[0] == "203.0.113.7"


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, NONE),
        ({"x_forwarded_for": "203.0.113.7"}, ("203.0.113.7", "http", "inner:8000")),
        ({"x_forwarded_for": "6.6.6.6, 203.0.113.7"}, ("203.0.113.7", "http", "inner:8000")),
        ({"x_forwarded_for": "6.6.6.6, 203.0.113.7:4711, 10.0.0.3"}, ("203.0.113.7", "http", "inner:8000")),
        ({"x_forwarded_for": "10.0.0.4, 10.0.0.3"}, ("10.0.0.4", "http", "inner:8000")),
        ({"x_forwarded_for": "[2001:db8:1:2:3::4]:99"}, ("2001:db8:1:2::/64", "http", "inner:8000")),
        ({"x_forwarded_for": ""}, NONE),
        ({"x_forwarded_proto": "https", "x_forwarded_host": "mcp.example.com"}, (INNER, "https", "mcp.example.com")),
        ({"x_forwarded_proto": "gopher, HTTPS"}, (INNER, "https", "inner:8000")),
        ({"x_forwarded_proto": "https, gopher"}, NONE),
        ({"x_forwarded_host": "evil.example, mcp.example.com"}, (INNER, "http", "mcp.example.com")),
        (
            {"forwarded": "for=203.0.113.7;proto=https;host=mcp.example.com"},
            ("203.0.113.7", "https", "mcp.example.com"),
        ),
        ({"forwarded": 'For="[2001:db8::7]:99" ; Proto=HTTPS'}, ("2001:db8::/64", "https", "inner:8000")),
        (
            {"forwarded": "for=6.6.6.6;host=evil.example, for=203.0.113.7;host=a.example, for=10.0.0.3;host=inner"},
            ("203.0.113.7", "http", "a.example"),
        ),
        ({"forwarded": "for=6.6.6.6;host=evil.example, rubbish, for=10.0.0.3"}, NONE),
        ({"forwarded": 'for=6.6.6.6, for=203.0.113.7;host="a'}, NONE),
        ({"forwarded": "for=unknown"}, ("unknown", "http", "inner:8000")),
        ({"forwarded": "for=6.6.6.6", "x_forwarded_for": "203.0.113.7"}, ("203.0.113.7", "http", "inner:8000")),
    ],
)
def test_what_a_trusted_proxy_says_counts(headers: dict[str, str], found: tuple[str, str, str]) -> None:
    assert restated(INNER, ["10.0.0.0/8"], **headers) == found


SAID = {"x_forwarded_for": "203.0.113.7", "x_forwarded_proto": "https", "x_forwarded_host": "mcp.example.com"}


def test_what_anybody_else_says_does_not() -> None:
    assert restated("192.0.2.1", ["10.0.0.0/8"], **SAID) == ("192.0.2.1", "http", "inner:8000")
    assert restated("192.0.2.1", ["10.0.0.0/8"], forwarded="for=6.6.6.6") == ("192.0.2.1", "http", "inner:8000")
    assert restated(None, ["10.0.0.0/8"], **SAID) == ("", "http", "inner:8000")


def test_the_peers_of_a_unix_socket_have_a_word_instead_of_an_address() -> None:
    assert restated(None, ["unix"], **SAID) == ("203.0.113.7", "https", "mcp.example.com")
    assert restated("192.0.2.1", ["unix"], **SAID) == ("192.0.2.1", "http", "inner:8000")
