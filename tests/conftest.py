"""Every test listens in on what the servers of its process send: see `tap.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tap

tap.install()


@pytest.fixture(autouse=True)
def _messages_are_right(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a server sent something that its revision does not allow."""
    yield
    problems = list(dict.fromkeys(tap.found))
    tap.found.clear()
    if problems and request.node.get_closest_marker("sends_anything") is None:
        pytest.fail("a server sent what the revision does not allow:\n" + "\n".join(problems[:20]), pytrace=False)
