"""The event loop of a server: which one it is, what its end leaves behind, and its signals."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from redstart.transports.loop import new_loop, on_signals, run_loop
from support import run


@pytest.mark.parametrize("wanted", ["asyncio", ""])
def test_which_loop_it_is(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")
    monkeypatch.setenv("REDSTART_LOOP", wanted)
    loop = new_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop) is not bool(wanted)


def test_what_is_left_is_cancelled_and_ends_before_its_loop() -> None:
    ended: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []
    tasks: list[asyncio.Task[None]] = []

    async def rest() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("rest")

    async def work() -> None:
        loops.append(asyncio.get_running_loop())
        tasks.append(asyncio.create_task(rest()))
        await asyncio.sleep(0)

    run_loop(work())
    assert ended == ["rest"]
    assert loops[0].is_closed()


def test_the_event_loop_that_the_caller_has_set_stays() -> None:
    async def work() -> None:
        assert asyncio.get_event_loop() is asyncio.get_running_loop() is not own

    own = asyncio.new_event_loop()
    asyncio.set_event_loop(own)
    try:
        run_loop(work())
        assert asyncio.get_event_loop() is own
    finally:
        asyncio.set_event_loop(None)
        own.close()


def test_signals_are_heard_meanwhile_and_not_later() -> None:
    async def test() -> None:
        heard: asyncio.Queue[int] = asyncio.Queue()
        with on_signals(heard.put_nowait):
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(os.getpid(), number)
                assert await heard.get() == number
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    run(test())
