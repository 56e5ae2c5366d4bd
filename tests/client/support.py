"""What the client's tests share: the peers' commands, and a small HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from redstart import Context, Server
from redstart.client import CallResult, Client
from support import MODERN
from warm import command

PEERS = Path(__file__).parent / "peers"
PEER_PYTHON = os.environ.get("PEER_PYTHON", sys.executable)
"""The interpreter that has the packages of the peers; `make test-oldest` runs the tests in one that has not."""
INFO = {"name": "s", "version": "1"}
INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": INFO}
Start = Callable[..., str]
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": [MODERN],
    "capabilities": {},
    "ttlMs": 0,
    "cacheScope": "public",
}


def peer(name: str, *options: str) -> list[str]:
    """The command of a server of `peers/`, by stdio unless the options say otherwise."""
    return command(PEERS / f"{name}_server.py", *(options or ["stdio"]), python=PEER_PYTHON)


async def cancel(c: Client, tag: str) -> CallResult[Any]:
    """Have a call of the tool `wait` cancelled after the server has begun it; whether the server noticed."""
    started = asyncio.Event()
    call = asyncio.create_task(c.call_tool("wait", {"tag": tag}, on_progress=lambda progress: started.set()))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    return await c.call_tool("was_cancelled", {"tag": tag}, timeout=10)


async def time_out(c: Client) -> str:
    """Have a call of the tool `wait` time out after the server has begun it; its tag."""
    started = False

    def start(progress: object) -> None:
        nonlocal started
        started = True

    await c.list_tools()
    for seconds in (0.3, 2, 10):  # a busy machine needs more
        tag = str(time.monotonic_ns())
        with pytest.raises(TimeoutError, match=f"tools/call: no answer within {seconds:g} seconds"):
            await c.call_tool("wait", {"tag": tag}, timeout=seconds, on_progress=start)
        if started:
            return tag
    raise AssertionError("the server never began the call")


def scripted(**script: Any) -> list[str]:
    """The command of a server that follows `script`, from method to lines; `__` stands for the slash."""
    methods = {name.replace("__", "/"): does for name, does in script.items()}
    return [sys.executable, str(PEERS / "scripted.py"), json.dumps(methods)]


def reply(result: Any) -> str:
    """A line that answers with `result`."""
    return f'{{"jsonrpc":"2.0","id":$id,"result":{json.dumps(result)}}}'


HANDSHAKE_ONLY = {"initialize": [reply(INITIALIZED)]}
"""The script of a server that knows the handshake."""


class Request:
    """One request to the small HTTP server, and the ways to answer it."""

    def __init__(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        self.message: Any = json.loads(body) if body and not is_form else None
        self._reader = reader
        self._writer = writer

    async def answer(self, status: int, body: Any = b"", **headers: str) -> None:
        """A whole answer; a body that is not bytes is sent as JSON."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content_Type", "application/json")
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await self._writer.drain()

    async def result(self, result: Any, **headers: str) -> None:
        """A JSON-RPC result for this request."""
        await self.answer(200, {"jsonrpc": "2.0", "id": self.message["id"], "result": result}, **headers)

    async def error(self, status: int, code: int, data: Any = None, id: Any = None) -> None:
        """A JSON-RPC error with an HTTP status."""
        error = {"code": code, "message": "no", "data": data}
        await self.answer(status, {"jsonrpc": "2.0", "id": id, "error": error})

    async def stream(self, *chunks: bytes) -> None:
        """A stream of events in the given pieces, then the end of the connection."""
        await self.hold(*chunks)
        self._writer.close()

    async def hold(self, *chunks: bytes) -> None:
        """A stream of events that stays open for `more`."""
        await self.more(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", *chunks)

    async def more(self, *chunks: bytes) -> None:
        """More of a stream."""
        for chunk in chunks:
            self._writer.write(chunk)
            await self._writer.drain()

    def hang_up(self) -> None:
        """Close the connection without an answer."""
        self._writer.close()

    async def gone(self) -> None:
        """Wait until the client has closed this connection."""
        assert await self._reader.read() == b""


Handler = Callable[[Request], Awaitable[None]]


@asynccontextmanager
async def http_server(handler: Handler) -> AsyncIterator[str]:
    """A small HTTP server in this event loop: `handler` answers each request. Yields its URL."""
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)  # a task that is cancelled before its first step closes nothing
        tasks.add(asyncio.create_task(serve(reader, writer)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader, writer)) is not None:
                await handler(request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        for _ in range(3):  # asyncio forgets a connection that was accepted just before its server closes
            await asyncio.sleep(0)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.close()


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().split("\r\n")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = first.split()
    return Request(method, path, headers, body, reader, writer)


def modern(handler: Handler) -> Handler:
    """`handler` behind an answer to the opening question."""

    async def handle(request: Request) -> None:
        if request.message["method"] == "server/discover":
            await request.result(DISCOVERED)
        else:
            await handler(request)

    return handle


def handshake(handler: Handler, session: str | None = "s1", get: int = 405, version: str = "2025-11-25") -> Handler:
    """`handler` behind a handshake; the GET stream and DELETE are refused unless `get` is 200."""

    async def handle(request: Request) -> None:
        method = request.message and request.message.get("method")
        if method == "initialize":
            headers = {} if session is None else {"Mcp_Session_Id": session}
            await request.result({**INITIALIZED, "protocolVersion": version}, **headers)
        elif method == "notifications/initialized":
            await request.answer(202)
        elif request.method == "DELETE" or (request.method == "GET" and get != 200):
            await request.answer(405)
        else:
            await handler(request)

    return handle


def event(method: str, params: Any = None, *, at: str | None = None, id: Any = None) -> bytes:
    """A notification of the server, or its request where it has an `id`, as the server-sent event `at`."""
    message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return sse(message if id is None else {**message, "id": id}, at)


def answer(request: Request, result: Any, *, at: str | None = None) -> bytes:
    """The answer to `request` as the server-sent event `at`."""
    return sse({"jsonrpc": "2.0", "id": request.message["id"], "result": result}, at)


def sse(message: dict[str, Any], at: str | None) -> bytes:
    head = "" if at is None else f"id: {at}\r\n"
    return f"{head}data: {json.dumps(message, ensure_ascii=False)}\r\n\r\n".encode()


PREAMBLE = f"""
import json, os, signal, sys, time
INITIALIZED = {INITIALIZED!r}
def say(id, result):
    print(json.dumps(dict(jsonrpc="2.0", id=id, result=result)), flush=True)
"""


def python(code: str) -> list[str]:
    """The command of a server that is a few lines of code, with `say` to answer and INITIALIZED to begin."""
    return [sys.executable, "-c", PREAMBLE + code]


def guarded() -> Server:
    """A server with two users, a tool that only one of them sees, and a note for each."""
    users = {"t-ada": {"sub": "ada", "admin": True}, "t-bob": {"sub": "bob", "admin": False}}
    server = Server("guarded", auth=users.get)

    @server.tool(visible=lambda user: bool(user and user["admin"]))
    async def drop(ctx: Context) -> str:
        return str(ctx.user["sub"])

    @server.tool
    async def note(text: str, ctx: Context) -> str | None:
        before: str | None = await ctx.state.get("note")
        await ctx.state.set("note", text)
        return before

    return server


def handshake_client(command: list[str], **options: Any) -> Client:
    """A client of a command that speaks the handshake."""
    return Client(command, protocol="2025-11-25", stderr="capture", **options)
