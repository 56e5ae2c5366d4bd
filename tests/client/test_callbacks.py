"""The order of callbacks, and that a failing one stops nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from redstart.client.background import BackgroundTasks
from redstart.client.callbacks import CallbackQueue
from support import run


def test_a_plain_callback_runs_at_once_and_an_async_one_holds_back_the_next() -> None:
    async def main() -> None:
        seen: list[Any] = []
        gate = asyncio.Event()

        async def slow(argument: int) -> None:
            await gate.wait()
            seen.append(argument)

        queue = CallbackQueue(BackgroundTasks())
        queue.deliver(seen.append, 1)
        assert seen == [1]
        queue.deliver(slow, 2)
        queue.deliver(seen.append, 3)
        queue.deliver(slow, 4)
        assert seen == [1]
        gate.set()
        await queue.finish()
        assert seen == [1, 2, 3, 4]
        await queue.finish()

    run(main())


def test_a_callback_that_fails_is_logged_and_the_next_runs(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        seen: list[int] = []

        async def broken(argument: int) -> None:
            raise LookupError("async")

        def wrong(argument: int) -> None:
            raise LookupError("plain")

        queue = CallbackQueue(BackgroundTasks())
        for callback in (wrong, broken, seen.append):
            queue.deliver(callback, 1)
        await queue.finish()
        assert seen == [1]

    with caplog.at_level(logging.ERROR, "redstart.client"):
        run(main())
    assert "plain" in caplog.text
    assert "async" in caplog.text


def test_what_is_cancelled_takes_what_waits_with_it() -> None:
    async def main() -> None:
        seen: list[int] = []
        tasks = BackgroundTasks()

        async def forever(argument: int) -> None:
            await asyncio.Event().wait()

        queue = CallbackQueue(tasks)
        queue.deliver(forever, 1)
        queue.deliver(seen.append, 2)
        await tasks.cancel()
        await queue.finish()
        assert seen == []

    run(main())
