"""Whose share of a limit a request counts against, and whether there is room."""

from __future__ import annotations

import pytest

from redstart.transports.address import checked_proxies, client_address, has_room


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


@pytest.mark.parametrize("network", ["10.0.0.0/8", "10.1.2.3/8"])
def test_a_proxy_is_any_address_of_its_network(network: str) -> None:
    """A network may be written as one of its addresses, as `ip addr` shows it."""
    scope, headers = {"client": ("10.9.9.9", 1)}, {b"x-forwarded-for": b"203.0.113.7"}
    assert client_address(scope, headers, checked_proxies([network])) == "203.0.113.7"
