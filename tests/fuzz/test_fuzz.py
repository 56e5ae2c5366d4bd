"""A short run of the fuzzer with a fixed seed, and a check that it would see what it looks for."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from fuzz.arguments import arguments
from fuzz.http import http_asgi, http_socket, no_faults
from fuzz.http import judge as judge_response
from fuzz.mutate import ANY, Expected, Mutator, expected
from fuzz.requests import Request
from fuzz.targets import Failure, in_memory, judge, over_asgi, over_stdio


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    """The fuzzed server silences the log; the tests that come after read it."""
    log = logging.getLogger("redstart")
    before = log.level
    yield
    log.setLevel(before)


@pytest.fixture(autouse=True)
def _own_garbage() -> None:
    """What other tests have left in memory is not collected while the clock runs: that takes half a second."""
    gc.collect()
    gc.freeze()


@pytest.mark.requirement("R1")
@pytest.mark.parametrize(
    ("target", "count"),
    [(in_memory, 2000), (over_asgi, 1000), (over_stdio, 1000), (arguments, 200), (http_asgi, 1000), (http_socket, 300)],
)
def test_a_short_run(target: Any, count: int) -> None:
    assert asyncio.run(target(Mutator(20260728), count, lambda: True)) >= count


def test_the_same_seed_sends_the_same_messages() -> None:
    first, second = Mutator(1), Mutator(1)
    found = [first.message() for _ in range(500)]
    assert found == [second.message() for _ in range(500)]
    assert len(set(found)) > 400


def test_the_messages_are_of_every_kind() -> None:
    mutator = Mutator(2)
    found = [expected(mutator.message()) for _ in range(5000)]
    assert sum(e.least == 1 and e.id is not ANY and e.id is not None for e in found) > 1500
    assert sum(e.id is None for e in found) > 20
    assert sum(e.most == 0 for e in found) > 100
    assert sum(e.id is ANY for e in found) > 500


@pytest.mark.parametrize(
    ("wanted", "answers"),
    [
        (Expected(1, 1, 1), []),
        (Expected(1, 1, 1), [{"id": 1}, {"id": 1}]),
        (Expected(1, 1, 1), [{"id": 2}]),
        (Expected(1, 1, 1), [{"id": None}]),
        (Expected(0, 0, ANY), [{"id": 1}]),
    ],
)
def test_a_broken_promise_is_seen(wanted: Expected, answers: list[Any]) -> None:
    with pytest.raises(Failure):
        judge(b"message", wanted, answers)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, {}, b""),
        (503, {}, b""),
        (200, {b"content-type": b"application/json"}, b'{"error":{"code":-32603}}'),
        (200, {b"content-type": b"application/json"}, b'{"result":'),
        (401, {}, b""),
        (403, {}, b""),
    ],
)
def test_a_response_that_is_a_fault_is_seen(status: int, headers: dict[bytes, bytes], body: bytes) -> None:
    with pytest.raises((Failure, ValueError)):
        judge_response(Request("POST", "/mcp", [], []), status, headers, body)


def test_a_fault_in_the_log_is_seen_and_what_is_on_purpose_is_not() -> None:
    with no_faults() as faults:
        for text in ("on purpose", "a key is missing"):
            try:
                raise RuntimeError(text)
            except RuntimeError:
                logging.getLogger("redstart").exception("the tool failed")
        logging.getLogger("redstart").warning("nothing")
    assert faults.found == ["the tool failed: RuntimeError('a key is missing')"]


@pytest.mark.parametrize(
    ("message", "least", "id"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "x"}, 1, 7),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "x"}, 1, None),
        ({"jsonrpc": "2.0", "method": "x"}, 0, ANY),
        ([], 0, ANY),
        (5, 1, None),
    ],
)
def test_what_is_expected(message: Any, least: int, id: Any) -> None:
    found = expected(json.dumps(message).encode())
    assert (found.least, found.id) == (least, id)
