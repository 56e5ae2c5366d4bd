"""Signals under somebody else's server: every handler is called, whoever stops first."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

from redstart import Server
from support import run
from transports.support import Http


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that the host's own handler gets."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread can set a handler")
    found: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


async def started(http: Http) -> None:
    assert (await http.modern(1, "server/discover")).status == 200


async def stopping(http: Http) -> bool:
    await asyncio.sleep(0)  # a signal reaches an application with the next turn of the loop
    return (await http.modern(1, "server/discover")).status == 503


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_applications_and_a_host(order: tuple[int, int], heard: list[int]) -> None:
    servers = [Server("a"), Server("b")]

    async def test() -> None:
        apps = [Http(server.asgi()) for server in servers]
        for http in apps:
            await started(http)
        signal.raise_signal(signal.SIGTERM)
        assert [await stopping(http) for http in apps] == [True, True]
        assert len(heard) == 1
        for number in order:
            await servers[number].runtime.stop()
        signal.raise_signal(signal.SIGTERM)
        assert len(heard) == 2
        for http in apps:  # they may start again
            await started(http)
        signal.raise_signal(signal.SIGTERM)
        assert [await stopping(http) for http in apps] == [True, True]
        assert len(heard) == 3
        for server in servers:
            await server.runtime.stop()

    run(test())
    signal.raise_signal(signal.SIGTERM)
    assert len(heard) == 4


def test_a_signal_that_nobody_handles_still_ends_the_process() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread can set a handler")
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    server = Server("alone")

    async def test() -> None:
        await started(Http(server.asgi()))
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        await server.runtime.stop()

    try:
        run(test())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_handler_of_the_host_is_back_when_the_server_has_stopped(heard: list[int]) -> None:
    async def test() -> None:
        server, handler = Server("hosted"), signal.getsignal(signal.SIGTERM)
        for _ in range(2):
            await started(Http(server.asgi()))
            assert signal.getsignal(signal.SIGTERM) is not handler
            await server.runtime.stop()
            assert signal.getsignal(signal.SIGTERM) is handler

    run(test())
