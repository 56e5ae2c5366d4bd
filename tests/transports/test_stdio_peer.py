"""stdio in this process, on pipes: a client that does not read, its end, and a server that is cancelled."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from redstart import Server
from redstart.transports import stdio
from support import message, modern, run

SIZE = 100_000
COUNT = 40
"""So many answers of that size are more than a pipe holds, and more than is kept for a client that does not read."""
MOMENT = 0.1


class Client:
    """A server on two pipes, and our ends of them."""

    def __init__(self) -> None:
        self.server = Server("pipes")
        self.working = asyncio.Event()
        self.ends: list[str] = []
        source, self.feed = os.pipe()
        self.answers, sink = os.pipe()
        os.set_blocking(self.answers, False)
        os.set_blocking(self.feed, False)
        self.files = [os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0)]
        self._lines = b""

        @self.server.tool
        async def large() -> str:
            return "x" * SIZE

        @self.server.tool
        async def work() -> str:
            self.working.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ends.append("work")
                raise
            return "never"

        self.task = asyncio.create_task(self.server.run_async(stdin=self.files[0], stdout=self.files[1]))

    def call(self, *ids: int, tool: str = "large") -> None:
        data = b"".join(modern(id, "tools/call", {"name": tool}) + b"\n" for id in ids)
        assert os.write(self.feed, data) == len(data)

    def end(self) -> None:
        """No more input."""
        if self.feed >= 0:
            os.close(self.feed)
            self.feed = -1

    def read(self) -> list[Any]:
        """The messages that are complete now."""
        with suppress(BlockingIOError):
            self._lines += os.read(self.answers, 1 << 16)
        *lines, self._lines = self._lines.split(b"\n")
        return [json.loads(line) for line in lines]

    async def receive(self, count: int, pause: float = 0) -> list[int]:
        """The ids of so many answers."""
        found: list[int] = []
        while len(found) < count:
            found += [each["id"] for each in self.read()]
            await asyncio.sleep(pause)
        return found

    async def fill(self) -> None:
        """Ask until the server does not read any more."""
        self.call(*range(COUNT))
        await asyncio.sleep(MOMENT)
        with suppress(BlockingIOError):
            while os.write(self.feed, b"\n" * 4096):
                await asyncio.sleep(0.001)  # there is no event for "somebody reads no longer"

    async def close(self) -> None:
        self.end()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        os.close(self.answers)
        for file in self.files:
            file.close()


@asynccontextmanager
async def client() -> AsyncIterator[Client]:
    made = Client()
    try:
        yield made
    finally:
        await made.close()


def test_a_client_that_reads_nothing_and_has_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "PATIENCE", MOMENT)

    async def test() -> None:
        async with client() as c:
            await c.fill()
            c.end()
            await c.task

    run(test(), seconds=10)


def test_a_client_that_reads_nothing_for_a_while_may_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "PATIENCE", MOMENT)

    async def test() -> None:
        async with client() as c:
            await c.fill()
            await asyncio.sleep(3 * MOMENT)
            assert not c.task.done()
            assert sorted(await c.receive(COUNT)) == list(range(COUNT))
            c.call(COUNT)
            assert await c.receive(1) == [COUNT]
            c.end()
            await c.task

    run(test())


def test_a_slow_client_that_has_ended_its_input_gets_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "PATIENCE", 5 * MOMENT)

    async def test() -> None:
        async with client() as c:
            await c.fill()
            c.end()
            assert sorted(await c.receive(COUNT, pause=MOMENT / 5)) == list(range(COUNT))
            await c.task

    run(test())


def test_the_answers_to_one_read_are_one_write() -> None:
    class Written(io.RawIOBase):
        def __init__(self) -> None:
            self.parts: list[bytes] = []

        def write(self, data: Any) -> int:
            self.parts.append(bytes(data))
            return len(data)

    async def test() -> None:
        out = Written()
        asked = b"".join(message(id, "ping") + b"\n" for id in range(3))
        await Server("pipes").run_async(stdin=io.BytesIO(asked), stdout=out)
        assert [len(part.splitlines()) for part in out.parts] == [3]

    run(test())


def test_a_call_ends_when_its_server_is_cancelled() -> None:
    async def test() -> None:
        async with client() as c:
            c.call(1, tool="work")
            await c.working.wait()
            c.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await c.task
            await asyncio.sleep(0)
            assert c.ends == ["work"]

    run(test())


def test_a_call_that_does_not_end_is_cancelled_soon_after_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "GRACE", MOMENT)

    async def test() -> None:
        async with client() as c:
            c.call(1, tool="work")
            await c.working.wait()
            c.end()
            await c.task
            assert c.ends == ["work"]

    run(test(), seconds=10)
