"""Many clients at once, on real sockets and with a real process; `python -m tests.faults.load` has the full sizes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from faults.load import LONGEST, SERVER, abandoned, cancelled, drained, half_open, same_id
from faults.running import read, serving

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc here")
SLACK = 10
"""How much longer a time may be on a machine that runs other tests."""


@pytest.mark.slow("the deadline of a request is eight seconds")
def test_half_open_connections_are_closed_and_hold_up_nobody() -> None:
    with serving(SERVER) as (_, port, noise):
        figures = asyncio.run(half_open(port, 200))
        assert b"Traceback" not in read(noise)
    assert figures["closed within s"] < 10
    assert figures["p50 meanwhile ms"] < SLACK * figures["p50 before ms"]


def test_calls_that_run_at_a_signal_are_all_answered() -> None:
    with serving(SERVER) as (process, port, noise):
        figures = asyncio.run(drained(process, port, 100))
        said = read(noise)
    assert figures["answered"] == 100
    assert figures["status"] == 0
    assert said.count(b"\n") == 1, said  # where it is served


def test_clients_with_the_same_id_see_their_own_answers() -> None:
    with serving(SERVER) as (_, port, noise):
        asyncio.run(same_id(port, 200, 5))
        assert b"Traceback" not in read(noise)


def test_calls_that_are_cancelled_leave_nothing_behind() -> None:
    with serving(SERVER) as (_, port, noise):
        figures = asyncio.run(cancelled(port, 1000))
        assert b"Traceback" not in read(noise)
    assert figures["tasks more"] <= 0
    assert figures["fds more"] <= 0
    assert figures["KiB more"] < 4096
    assert figures["next call ms"] < 1000 * LONGEST * SLACK


def test_sessions_that_nobody_uses_cost_next_to_nothing() -> None:
    with serving(SERVER) as (process, port, noise):
        figures = asyncio.run(abandoned(port, process.pid, 2000))
        assert b"Traceback" not in read(noise)
    assert figures["MiB more"] < 25, figures  # as many are in use as there may be; the full size has the limit of 50
