"""What the transport tests share: a child process with bounded waits, and a small ASGI driver."""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import warm
from support import DEADLINE, MODERN, NOVEMBER, initialize, message, modern

HERE = Path(__file__).parent
STDIO_SERVER = HERE / "stdio_server.py"


class Child:
    """A child process whose streams are read with a deadline, never with a sleep."""

    def __init__(
        self,
        *arguments: str,
        script: Path = STDIO_SERVER,
        fresh: bool = False,
        command: list[str] | None = None,
        **options: Any,
    ) -> None:
        """Run `command`, or the script; `fresh`, if the test is about how Python starts or about the process itself."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        env = {**os.environ, **options.pop("env", {})}
        self._fresh = fresh or command is not None
        if command is None:
            command = [sys.executable, str(script), *arguments] if fresh else warm.command(script, *arguments)
        self.process = subprocess.Popen(command, env=env, **{**pipes, **options})
        self._buffers = {"stdout": b"", "stderr": b""}

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    @property
    def pid(self) -> int:
        assert self._fresh, "this is the id of another process: say fresh=True"
        return self.process.pid

    def write(self, *messages: bytes, end: bytes = b"\n") -> None:
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(b"".join(m + end for m in messages))
        stdin.flush()

    def read_until(self, mark: bytes, stream: str = "stdout", within: float = DEADLINE) -> bytes:
        """Everything up to and with `mark`."""
        deadline = time.monotonic() + within
        while mark not in self._buffers[stream]:
            data = self._read(stream, deadline)
            assert data, f"{stream} ended before {mark!r}: {self._buffers[stream][-2000:]!r}; {self.rest('stderr')!r}"
            self._buffers[stream] += data
        head, _, self._buffers[stream] = self._buffers[stream].partition(mark)
        return head + mark

    def read_bytes(self, size: int) -> bytes:
        deadline = time.monotonic() + DEADLINE
        while len(self._buffers["stdout"]) < size:
            data = self._read("stdout", deadline)
            assert data
            self._buffers["stdout"] += data
        head, self._buffers["stdout"] = self._buffers["stdout"][:size], self._buffers["stdout"][size:]
        return head

    def _read(self, stream: str, deadline: float) -> bytes:
        pipe = getattr(self.process, stream)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"nothing on {stream}; so far {self._buffers[stream][-500:]!r}")
        return os.read(pipe.fileno(), 1 << 20)

    def rest(self, stream: str = "stdout") -> bytes:
        """Everything until the stream ends."""
        deadline = time.monotonic() + DEADLINE
        while data := self._read(stream, deadline):
            self._buffers[stream] += data
        found, self._buffers[stream] = self._buffers[stream], b""
        return found

    def answer(self) -> Any:
        return json.loads(self.read_until(b"\n"))

    def ask(self, data: bytes) -> Any:
        self.write(data)
        return self.answer()

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self, how: str = "eof") -> tuple[int, float]:
        """Tell it to end; the status, and how long it took."""
        started = time.monotonic()
        if how == "eof":
            self.close_input()
        else:
            self.process.send_signal(getattr(signal, how))
        status = self.process.wait(DEADLINE)
        return status, time.monotonic() - started


# ---------------------------------------------------------------- ASGI

DEFAULT_HEADERS: dict[str, str] = {
    "host": "localhost:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


class Response:
    """One exchange with an ASGI application, as it goes on."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = False
        self.started = asyncio.Event()
        self.changed = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.gone = asyncio.Event()
        self.task: asyncio.Task[None]

    async def _send(self, event: Any) -> None:
        await self.may_send.wait()
        if event["type"] == "http.response.start":
            assert not self.status
            self.status = event["status"]
            self.headers = {name.decode(): value.decode() for name, value in event["headers"]}
            assert len(self.headers) == len(event["headers"])
            self.started.set()
        else:
            assert self.status
            assert not self.complete
            self.body += event.get("body", b"")
            self.complete = not event.get("more_body", False)
        self.changed.set()

    def disconnect(self) -> None:
        self.gone.set()

    async def until(self, found: Any) -> None:
        """Wait until `found(self)`."""
        while not found(self):
            self.changed.clear()
            await self.changed.wait()

    async def done(self) -> Response:
        await self.task
        assert self.complete or self.gone.is_set()
        return self

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_sse(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def events(self) -> list[dict[str, str]]:
        """The whole events so far: their fields, comments under an empty name."""
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            fields = [line.partition(":") for line in block.split("\n")]
            found.append({name: value.removeprefix(" ") for name, _, value in fields})
        return found

    def messages(self) -> list[Any]:
        """The JSON messages: of an SSE body, or the one of a plain body."""
        if not self.is_sse:
            return [self.json()] if self.body else []
        return [json.loads(event["data"]) for event in self.events() if event.get("data")]


class Http:
    """A client of an ASGI application in this process."""

    def __init__(self, app: Any, path: str = "/mcp", root_path: str = "") -> None:
        self.app = app
        self.path = path
        self.root_path = root_path

    def start(
        self,
        body: bytes | list[bytes] = b"",
        *,
        method: str = "POST",
        path: str | None = None,
        query: bytes = b"",
        pairs: list[tuple[bytes, bytes]] | None = None,
        headers: Mapping[str, str | None] | None = None,
        client: str | None = None,
    ) -> Response:
        if pairs is None:
            merged = {**DEFAULT_HEADERS, **(headers or {})}
            pairs = [(k.lower().encode(), v.encode("latin-1")) for k, v in merged.items() if v is not None]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": self.path if path is None else path,
            "root_path": self.root_path,
            "query_string": query,
            "headers": pairs,
            "client": None if client is None else (client, 12345),
        }
        response = Response()
        chunks = list(body) if isinstance(body, list) else [body]

        async def receive() -> Any:
            if chunks:
                chunk = chunks.pop(0)
                return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}
            await response.gone.wait()
            return {"type": "http.disconnect"}

        response.task = asyncio.get_running_loop().create_task(self.app(scope, receive, response._send))
        return response

    async def send(self, body: bytes | list[bytes] = b"", **options: Any) -> Response:
        return await self.start(body, **options).done()

    def start_modern(self, id: Any, method: str, params: dict[str, Any] | None = None, **options: Any) -> Response:
        meta = options.pop("meta", {})
        params = params or {}
        sent = {"mcp-protocol-version": MODERN, "mcp-method": method, **options.pop("headers", {})}
        name = params.get("uri" if method == "resources/read" else "name")
        if isinstance(name, str) and method in ("tools/call", "prompts/get", "resources/read"):
            sent.setdefault("mcp-name", name)
        return self.start(modern(id, method, params, **meta), headers=sent, **options)

    async def modern(self, id: Any, method: str, params: dict[str, Any] | None = None, **options: Any) -> Response:
        return await self.start_modern(id, method, params, **options).done()

    async def open(self, revision: str = NOVEMBER, **options: Any) -> dict[str, str]:
        """Make a handshake; the headers that later requests of the session carry."""
        response = await self.send(initialize(revision), **options)
        assert response.status == 200, response.body
        session = {
            **(options.get("headers") or {}),
            "mcp-session-id": response.headers["mcp-session-id"],
            "mcp-protocol-version": revision,
        }
        ready = await self.send(message(None, "notifications/initialized"), **{**options, "headers": session})
        assert ready.status == 202
        return session
