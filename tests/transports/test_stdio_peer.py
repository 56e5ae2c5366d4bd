"""stdio in this process, on pipes: a client that does not read, its end, and a server that is cancelled."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from redstart import Server
from redstart.transports import stdio
from redstart.transports.loop import run_loop
from support import DEADLINE, SECONDS, message, modern, run
from transports.support import Child

SIZE = 100_000
COUNT = 40
"""So many answers of that size are more than a pipe holds, and more than is kept for a client that does not read."""
MOMENT = 0.1


class Client:
    """A server on two pipes, and our ends of them."""

    def __init__(self, source: Any = None) -> None:
        self.server = Server("pipes")
        self.working = asyncio.Event()
        self.ends: list[str] = []
        to_read, self.feed = os.pipe()
        self.answers, sink = os.pipe()
        os.set_blocking(self.answers, False)
        os.set_blocking(self.feed, False)
        self.files = [os.fdopen(to_read, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0)]
        self._lines = b""

        @self.server.tool
        async def large() -> str:
            return "x" * SIZE

        @self.server.tool
        async def brief() -> str:
            await asyncio.sleep(MOMENT / 10)
            return "done"

        @self.server.tool
        async def work() -> str:
            self.working.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ends.append("work")
                raise
            return "never"

        self.task = asyncio.create_task(self.server.run_async(stdin=source or self.files[0], stdout=self.files[1]))

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
async def client(source: Any = None) -> AsyncIterator[Client]:
    made = Client(source)
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


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_client_that_reads_nothing_for_a_while_may_go_on(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(kind)
    monkeypatch.setenv("REDSTART_LOOP", kind)
    monkeypatch.setattr(stdio, "PATIENCE", MOMENT)

    async def test() -> None:
        async with asyncio.timeout(SECONDS), client() as c:
            await c.fill()
            await asyncio.sleep(3 * MOMENT)
            assert not c.task.done()
            assert sorted(await c.receive(COUNT)) == list(range(COUNT))
            c.call(COUNT)
            assert await c.receive(1) == [COUNT]
            c.end()
            await c.task

    run_loop(test())


def test_a_client_that_reads_again_is_looked_after_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        original, timers = loop.call_later, []

        def call_later(delay: float, *rest: Any, **options: Any) -> asyncio.TimerHandle:
            timer = original(delay, *rest, **options)
            if delay == stdio.PATIENCE:
                timers.append(timer)
            return timer

        monkeypatch.setattr(loop, "call_later", call_later)
        async with client() as c:
            await c.fill()
            await c.receive(COUNT)
            assert [timer.cancelled() for timer in timers] == [True]

    run(test())


def test_a_slow_client_that_has_ended_its_input_gets_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "PATIENCE", 10 * MOMENT)  # less than it takes, and more than we may stand still
    monkeypatch.setattr(stdio, "GRACE", MOMENT)

    async def test() -> None:
        async with client() as c:
            await c.fill()
            c.end()
            assert sorted(await c.receive(COUNT, pause=MOMENT / 5)) == list(range(COUNT))
            await c.task

    run(test())


class Calls:
    """An input in memory: one call for each read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, size: int) -> bytes:
        self.reads += 1
        return modern(self.reads - 1, "tools/call", {"name": "large"}) + b"\n" if self.reads <= COUNT else b""


def test_an_input_without_a_descriptor_is_not_read_ahead_of_a_client_that_does_not_read() -> None:
    async def test() -> None:
        source = Calls()
        async with client(source) as c:
            reads = -1
            while reads != source.reads:
                reads = source.reads
                await asyncio.sleep(2 * MOMENT)
            assert reads < COUNT / 2
            assert sorted(await c.receive(COUNT)) == list(range(COUNT))
            await c.task

    run(test())


def test_a_regular_file_is_closed_when_it_was_read(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "in"
        path.write_bytes(modern(0, "tools/call", {"name": "large"}) + b"\n")
        with path.open("rb") as file:
            async with client(file) as c:
                assert await c.receive(1) == [0]
                await c.task
                held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
                assert held.count(str(path)) == 1  # the caller's

    run(test())


def _is_open(fd: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{fd}")


STUCK = """
import asyncio, io, sys, threading
from redstart import Server

class Stuck(io.RawIOBase):
    def read(self, size=-1):
        asked.set()
        threading.Event().wait()

async def main():
    serving = asyncio.create_task(Server("stuck").run_async(stdin=Stuck(), stdout=io.BytesIO()))
    await asyncio.to_thread(asked.wait)
    serving.cancel()
    await asyncio.wait([serving])
    print("ended", flush=True)

asked = threading.Event()
asyncio.run(main())
"""


def test_a_read_that_does_not_return_does_not_keep_the_process() -> None:
    with Child(command=[sys.executable, "-c", STUCK]) as child:
        child.read_until(b"ended\n")
        assert child.process.wait(DEADLINE) == 0


def test_a_call_that_is_nearly_done_is_answered_after_the_end_of_the_input() -> None:
    async def test() -> None:
        async with client() as c:
            c.call(1, tool="brief")
            c.end()
            assert await c.receive(1) == [1]
            await c.task

    run(test(), seconds=10)


def test_a_terminal_gets_no_hint_where_the_input_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    run(Server("pipes").run_async(stdin=io.BytesIO(), stdout=io.BytesIO()))
    assert capsys.readouterr().err == ""


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
