"""Messages as they are, right or wrong, to any server: over its pipe, or over HTTP.

The Client writes only what is right, so a suite that sends mistakes needs a way around it. A probe reads no more than
the envelope of what comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from redstart.wire.jsonrpc import JsonObject

LIMIT: Final = 16 << 20
"""The most bytes of one line, or of one body, that are read."""
GRACE: Final = 5.0
"""Seconds in which a server must end after its input has ended."""


class Heard(NamedTuple):
    """What came back: messages, and over HTTP a status."""

    messages: list[JsonObject]
    status: int = 200
    headers: Mapping[str, str] = {}

    @property
    def first(self) -> JsonObject:
        """The first message, or an empty object."""
        return self.messages[0] if self.messages else {}

    @property
    def code(self) -> int | None:
        """The code of the error, if it is one."""
        error = self.first.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        return code if isinstance(code, int) else None


class PipeProbe:
    """A server as a subprocess. `noise` is what it wrote to stdout that is not a message."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None, seconds: float) -> None:
        self._command = command
        self._env = None if env is None else {**os.environ, **env}
        self._seconds = seconds
        self.noise: list[str] = []

    async def __aenter__(self) -> PipeProbe:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=self._env, limit=LIMIT
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def send(self, data: bytes) -> None:
        """Send one line, whatever it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(data + b"\n")
        await self._process.stdin.drain()

    @property
    def gone(self) -> bool:
        """Whether the server has ended, or was told to."""
        assert self._process.stdin is not None
        return self._process.returncode is not None or self._process.stdin.is_closing()

    async def write(self, message: JsonObject) -> None:
        """Send a message."""
        await self.send(json.dumps(message).encode())

    async def ask(self, message: JsonObject, headers: Mapping[str, str] | None = None) -> Heard:
        """Send a request, and wait for the answer that has its id."""
        await self.write(message)
        async with asyncio.timeout(self._seconds):
            while True:
                found = await self.receive()
                if "method" not in found and found.get("id") == message.get("id"):
                    return Heard([found])

    async def receive(self) -> JsonObject:
        """The next message; EOFError if the server has ended, TimeoutError if none comes."""
        async with asyncio.timeout(self._seconds):
            return await self._next()

    async def _next(self) -> JsonObject:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError:
                self.noise.append(line.decode("utf-8", "replace").rstrip())
                continue
            if isinstance(message, dict):
                return message
            self.noise.append(line.decode("utf-8", "replace").rstrip())
        raise EOFError("the server has ended")

    async def ended(self) -> bool:
        """Close the input, and see whether the server ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._process.wait()
                return True
        return False


class HttpProbe:
    """A server behind a URL."""

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        self.url = url
        self._headers = dict(headers)
        self._seconds = seconds
        self._led = False

    async def __aenter__(self) -> HttpProbe:
        import httpx2

        own = httpx2.URL(self.url).host in ("localhost", "127.0.0.1", "::1")  # a proxy could not reach these
        tls = httpx2.create_ssl_context()  # SSL_CERT_FILE counts for all addresses
        self._client = httpx2.AsyncClient(headers=self._headers, timeout=self._seconds, verify=tls, trust_env=not own)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._client.aclose()

    async def ask(self, message: JsonObject, headers: Mapping[str, str] | None = None) -> Heard:
        """POST a message."""
        return await self.post(json.dumps(message).encode(), headers)

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> Heard:
        """POST any body."""
        return await self.exchange("POST", body, headers)

    async def exchange(self, method: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Heard:
        """One exchange, after one redirect within the origin. A stream is read until its first answer."""
        from redstart.client.http_endpoint import same_origin_redirect  # needs httpx2

        given = {"Accept": "application/json, text/event-stream", **(headers or {})}
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        async with self._client.stream(method, self.url, content=body, headers=given) as response:
            if not self._led and (target := same_origin_redirect(response)) is not None:
                self._led, self.url = True, target
                return await self.exchange(method, body, headers)
            messages: list[JsonObject] = []
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                if method == "POST":
                    messages = await _events(response.aiter_lines())
            else:
                data = b""
                async for part in response.aiter_bytes():
                    data += part
                    if len(data) > LIMIT:
                        break
                messages = _objects(data)
            return Heard(messages, response.status_code, dict(response.headers))


async def _events(lines: object) -> list[JsonObject]:
    """The messages of a stream up to the first answer."""
    found: list[JsonObject] = []
    async for line in lines:  # type: ignore[attr-defined]
        if line.startswith("data:"):
            found += _objects(line[5:].encode())
            if found and "method" not in found[-1]:
                return [found[-1]]
    return found


def _objects(data: bytes) -> list[JsonObject]:
    try:
        value = json.loads(data)
    except ValueError:
        return []
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
