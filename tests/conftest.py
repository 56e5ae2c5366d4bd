"""Every test listens in on what the servers of its process send: see `tap.py`."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import tap

tap.install()
# The same examples in each run, on a busy machine too; --hypothesis-profile=default looks for others.
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a run in the background: what it starts would ignore Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What the test files have imported stays: no collection of garbage need look at it again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _messages_are_right(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a server sent something that its revision does not allow."""
    yield
    problems = list(dict.fromkeys(tap.found))
    tap.found.clear()
    if problems and request.node.get_closest_marker("sends_anything") is None:
        pytest.fail("a server sent what the revision does not allow:\n" + "\n".join(problems[:20]), pytrace=False)
