"""`redstart dev` as a real process: its address and token, its files, its events."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from support import DEADLINE
from warm import redstart

ADDRESS = re.compile(r"inspector +(http://127\.0\.0\.1:\d+)/#token=(\S+)")
TOKEN = "X-Redstart-Token"

SERVER = """
from redstart import Server

server = Server("demo", version="1.0")

@server.tool
def add(a: int, b: int = 2) -> int:
    "Add."
    return a + b
"""


class Dev:
    """One process of `redstart dev` or `redstart inspect`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.origin = self.token = ""
        self._grown = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            async with self._grown:
                self.lines.append(line.decode())
                self._grown.notify_all()
        async with self._grown:
            self._grown.notify_all()

    async def line(self, pattern: str) -> re.Match[str]:
        """The first line that has this in it, as soon as it is there."""
        wanted = re.compile(pattern)

        def found() -> re.Match[str] | None:
            return next((match for line in self.lines if (match := wanted.search(line))), None)

        async with asyncio.timeout(DEADLINE), self._grown:
            await self._grown.wait_for(lambda: found() or self._reading.done())
        match = found()
        assert match is not None, f"{pattern!r} is not in:\n{''.join(self.lines)}"
        return match

    async def ended(self) -> None:
        """The end of the process, and of what it has written: an open pipe would be a warning in another test."""
        async with asyncio.timeout(DEADLINE):
            await self.process.wait()
            await self._reading

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=DEADLINE) as client:
            return await client.get(self.origin + path, headers={TOKEN: self.token, **headers})

    async def post(self, path: str, **headers: str) -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=DEADLINE) as client:
            return await client.post(self.origin + path, headers={TOKEN: self.token, **headers})

    async def state(self) -> dict[str, Any]:
        answer = await self.get("/_redstart/state")
        assert answer.status_code == 200, answer.text
        state: dict[str, Any] = answer.json()
        return state

    async def batches(self, since: int = 0) -> AsyncGenerator[dict[str, Any], None]:
        """The batches of the event stream."""
        async with (
            httpx2.AsyncClient(timeout=DEADLINE) as client,
            client.stream(
                "GET", f"{self.origin}/_redstart/events?since={since}", headers={TOKEN: self.token}
            ) as response,
        ):
            assert response.status_code == 200, response.status_code
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    async def event(self, kind: str, fits: Callable[[Any], bool] = lambda event: True, since: int = 0) -> Any:
        """The first event of this kind that fits, as soon as it is there."""
        seen = []
        try:
            async with asyncio.timeout(DEADLINE):
                async for batch in self.batches(since):
                    for event in batch["events"]:
                        seen.append(event)
                        if event["kind"] == kind and fits(event):
                            return event
        except TimeoutError:
            raise AssertionError(f"no {kind} event that fits; there were {seen}") from None
        raise AssertionError("the event stream has ended")


def rewrite(file: Path, text: str) -> None:
    """Give a file that is watched another text in one step: a file that is being written may be loaded half."""
    new = file.with_suffix(".new")  # only files that end with .py count
    new.write_text(text)
    new.replace(file)


@asynccontextmanager
async def command(*arguments: str, cwd: Path, **env: str) -> AsyncIterator[Dev]:
    """Run one command of redstart that shows its inspector."""
    process = await asyncio.create_subprocess_exec(
        *redstart(*arguments),
        cwd=cwd,
        env=None if not env else {**__import__("os").environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    dev = Dev(process)
    try:
        found = await dev.line(ADDRESS.pattern)
        dev.origin, dev.token = found[1], found[2]
        yield dev
    finally:
        if process.returncode is None:
            process.terminate()
        await dev.ended()


@asynccontextmanager
async def developing(
    folder: Path, text: str = SERVER, *arguments: str, target: str = "server.py"
) -> AsyncIterator[Dev]:
    """Run `redstart dev` on a file with this text."""
    (folder / "server.py").write_text(text)
    async with command("dev", target, "--no-open", "--port", "0", *arguments, cwd=folder) as dev:
        yield dev
