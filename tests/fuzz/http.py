"""The HTTP surface as a target: the ASGI application, and the same server on a socket.

Each request gets exactly one response, which no fault of ours has made: never a 500, never an internal error, no
error in the log, nothing that hangs, and at the end no task, connection or memory is left.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

from auth.support import Issuer, issuing
from redstart import Context, Server
from redstart.auth import JWT
from support import free_port

from .mutate import Mutator
from .requests import Request, Requests
from .server import make_server
from .targets import PATIENCE, Failure

SITE = "https://app.example.com"
AUDIENCE = "https://mcp.example.com/mcp"
EXPECTED = {200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 411, 413, 415, 417, 421, 422, 426, 429, 431, 501, 505}
"""A status for each thing that a client can do wrong. 503 is one of ours: nothing is full or away here."""
INTERNAL = (b'"code":-32603', b'"code": -32603')
MOST_MEMORY = 64 * 1024 * 1024
"""What the process may grow by after the first tenth of a run."""
CONNECTIONS = 32
"""At once, because many of them wait until a deadline."""
DEADLINE = 0.5
"""Seconds for a request on the socket: many of them are never complete."""


class Faults(logging.Handler):
    """Errors in the log that no tool has made on purpose."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info is not None and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]!r}"
        if "on purpose" not in text:
            self.found.append(text)


@contextmanager
def no_faults() -> Iterator[Faults]:
    """Collect what our code and the event loop report."""
    faults, logs = Faults(), [logging.getLogger(name) for name in ("redstart", "asyncio", "uvicorn.error")]
    before = [(log.level, log.propagate) for log in logs]
    for log in logs:
        log.addHandler(faults)
        log.setLevel(logging.WARNING)
        log.propagate = False
    try:
        yield faults
    finally:
        for log, (level, propagate) in zip(logs, before, strict=True):
            log.removeHandler(faults)
            log.setLevel(level)
            log.propagate = propagate


def guarded_server(issuer: Issuer) -> Server:
    """The fuzzed server with tokens that an issuer has signed."""
    server = make_server(auth=JWT(issuer=issuer.url, audience=AUDIENCE, scopes="mcp"))
    logging.getLogger("redstart").setLevel(logging.WARNING)

    @server.tool(scopes="admin", visible=lambda user: True)
    async def reset(ctx: Context) -> str:
        return str(ctx.user.subject)

    return server


def more_of(server: Server) -> Server:
    """What only requests reach: questions, tasks, headers of arguments, routes."""

    @server.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.ask("Your name?", str))

    @server.tool(task="optional")
    async def work(n: int = 1) -> int:
        return n

    @server.resource("notes://{name}")
    async def note(name: str) -> str:
        return name

    @server.route("/hook", methods=["GET", "POST"])
    async def hook(request: Any) -> dict[str, Any]:
        return {"method": request.method, "query": request.query, "size": len(request.body)}

    return server


def tokens_of(issuer: Issuer) -> list[str]:
    said = {"aud": AUDIENCE}
    return [
        issuer.token({**said, "sub": "ada"}),
        issuer.token({**said, "sub": "ada", "scope": "mcp admin"}),
        issuer.token({**said, "sub": "bob"}),
        issuer.token({**said, "sub": "bob", "scope": "other"}),
        issuer.token({**said, "exp": 1}),
        issuer.token({"aud": "https://other.example.com"}),
        issuer.token({**said, "iss": "https://other.example.com"}),
    ]


# ---------------------------------------------------------------- ASGI


async def http_asgi(mutator: Mutator, count: int, go_on: Callable[[], bool]) -> int:
    """One request at a time to two applications: one for everybody, one that needs tokens."""
    options: dict[str, Any] = {
        "legacy_sse": True,
        "allowed_origins": [SITE],
        "max_body_bytes": 65536,
        "max_sessions": 500,
    }
    free = more_of(make_server())
    with issuing() as issuer, no_faults() as faults:
        issuer.publish()
        guarded = more_of(guarded_server(issuer))
        faced = [
            (free.asgi(**options, trusted_proxies=["127.0.0.1"]), Requests(mutator, [])),
            (guarded.asgi(**options), Requests(mutator, tokens_of(issuer)[:3])),
        ]
        faced[1][1].tokens = tokens_of(issuer)
        sent, watch = 0, Watch()
        while sent < count and go_on():
            app, requests = faced[mutator.random.random() < 0.5]
            if requests.needs_session or sent % 400 == 0:
                await _open(app, requests)
            await _exchange(app, requests, requests.next())
            sent += 1
            if faults.found:
                raise Failure(f"the log says after {sent} requests: {faults.found[:3]}")
            if sent % max(count // 10, 1) == 0:
                watch.look()
        for server in (free, guarded):
            await server.runtime.stop()
        await watch.is_clean()
    return sent


async def _open(app: Any, requests: Requests) -> None:
    """A session, as clients open them; those of the fuzzed requests are spoiled in many ways."""
    request = requests.opening()
    status, headers, body = await _drive(app, request)
    if status == 200:
        requests.opened(request, headers[b"mcp-session-id"].decode())
    elif status not in (401, 403):
        raise Failure(f"initialize is answered with {status}: {body!r}")


async def _exchange(app: Any, requests: Requests, request: Request) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            status, headers, body = await _drive(app, request)
    except TimeoutError:
        raise Failure(f"no response to {request!r} with {request.body!r}") from None
    except Exception as error:
        raise Failure(f"{error!r} for {request!r} with {request.body!r}") from error
    if status == 0 and request.leaves:
        return
    judge(request, status, headers, body)
    if status == 404 or request.method == "DELETE":
        requests.ended(request)
    if request.method == "GET" and headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        _, _, query = body.partition(b"data: /messages?")
        requests.streams = [*requests.streams, query.partition(b"\n")[0].strip()][-5:] if query else requests.streams
    requests.events = [*requests.events, *(_ids(body))][-20:]


def _ids(body: bytes) -> list[str]:
    return [line[4:].decode() for line in body.split(b"\n") if line.startswith(b"id: ")][:2]


def judge(request: Request, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
    """Whether a response is one that a client may get for something that it has done."""
    if status not in EXPECTED:
        raise Failure(f"status {status} for {request!r} with {request.body[:3000]!r}: {body[:1000]!r}")
    if any(mark in body for mark in INTERNAL):
        raise Failure(f"an internal error for {request!r} with {request.body[:3000]!r}: {body[:1000]!r}")
    kind = headers.get(b"content-type", b"")
    if kind == b"application/json" and request.method != "HEAD":
        json.loads(body)
    from_page = request.method == "OPTIONS" or b"origin" in dict(request.pairs)
    if (status == 401 or (status == 403 and not from_page)) and b"www-authenticate" not in headers:
        raise Failure(f"{status} without a challenge for {request!r}")


async def _drive(app: Any, request: Request) -> tuple[int, dict[bytes, bytes], bytes]:
    """What the application answers. A client of a stream that does not end goes away."""
    out: list[Any] = []
    gone = asyncio.Event()
    parts = list(request.parts)

    async def receive() -> Any:
        if request.leaves and len(parts) == 1:
            return {"type": "http.disconnect"}
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        out.append(event)
        data = event.get("body", b"")
        streams = request.method == "GET" and event.get("more_body", True) is not False and out[0]["status"] == 200
        if streams or b"subscriptions/acknowledged" in data or b"elicitation/create" in data:
            gone.set()

    scope = {
        "type": "http", "method": request.method, "path": request.path, "root_path": request.root, "scheme": "http",
        "query_string": request.query, "headers": request.pairs, "client": ("127.0.0.1", 5), "http_version": "1.1",
    }  # fmt: skip
    await asyncio.get_running_loop().create_task(app(scope, receive, send))  # as servers do
    if not out:
        return 0, {}, b""
    starts = [event["type"] for event in out].count("http.response.start")
    if starts != 1 or (out[-1].get("more_body") and not gone.is_set()):
        raise Failure(f"a response that is not whole for {request!r}: {out!r}")
    return out[0]["status"], dict(out[0]["headers"]), b"".join(event.get("body", b"") for event in out[1:])


class Watch:
    """What a run may leave behind: nothing but what it began with."""

    def __init__(self) -> None:
        self._looks = 0
        self._first = 0
        self._files = _open_files()

    def look(self) -> None:
        self._looks += 1
        now = _memory()
        if self._looks == 1:
            self._first = now
        elif self._first and now - self._first > MOST_MEMORY:
            raise Failure(f"the process has grown from {self._first:,} to {now:,} bytes")

    async def is_clean(self) -> None:
        for _ in range(1000):
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            if not left:
                break
            await asyncio.sleep(0.005)
        else:
            raise Failure(f"{len(left)} tasks are left: {left[:3]}")
        gc.collect()
        if _open_files() > self._files + 2:
            raise Failure(f"{_open_files()} files are open, at the beginning there were {self._files}")


def _memory() -> int:
    """The resident bytes of this process; 0 where nobody says."""
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


# ---------------------------------------------------------------- a socket


class Responses:
    """The responses on one connection."""

    def __init__(self) -> None:
        self.found: list[tuple[int, dict[bytes, bytes], bytes]] = []
        self.heads: list[int] = []
        """The statuses of all that have begun."""
        self.is_whole = True
        """Whether the last response has come to its end."""
        self._parser = HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body = b""

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers, self._body, self.is_whole = {}, b"", False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.heads.append(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.is_whole = True
        status = self._parser.get_status_code()
        if status != 100:
            self.found.append((status, self._headers, self._body))

    @property
    def streams(self) -> bool:
        """Whether a stream has begun that may not end."""
        return not self.is_whole and self._headers.get(b"content-type", b"").startswith(b"text/event-stream")


async def http_socket(mutator: Mutator, count: int, go_on: Callable[[], bool]) -> int:
    """Some requests on each connection, in pieces, one after the other, whole or broken; many connections at once."""
    server, port = more_of(make_server()), free_port()
    options: dict[str, Any] = {"body_deadline": DEADLINE, "max_body_bytes": 65536, "allowed_origins": [SITE]}
    with no_faults() as faults:
        serving = asyncio.get_running_loop().create_task(server.run_async("http", port=port, **options))
        watch, sent = Watch(), 0
        seeds = [mutator.random.randrange(1 << 30) for _ in range(CONNECTIONS)]
        try:
            await _await_server(port)
            async with asyncio.TaskGroup() as group:
                share = -(-count // CONNECTIONS)
                clients = [group.create_task(_client(port, Mutator(seed), share, go_on, faults)) for seed in seeds]
            sent = sum(client.result() for client in clients)
            await _await_server(port)
        except* Failure as failures:
            raise failures.exceptions[0] from None
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
        await watch.is_clean()
    return sent


async def _client(port: int, mutator: Mutator, count: int, go_on: Callable[[], bool], faults: Faults) -> int:
    """One connection after the other, with requests of a seed of its own."""
    requests, sent, connections = Requests(mutator, []), 0, 0
    while sent < count and go_on():
        if connections % 30 == 0:
            await _open_on(port, requests)
        connections += 1
        chunk = _requests(requests, mutator.random.choice((1, 1, 1, 2, 5)))
        raw = b"".join(_raw(request, mutator) for request in chunk)
        writes = [raw] if chunk[0].method == "HEAD" else _broken(raw, mutator)
        await _connection(port, _awaited(b"".join(writes), len(chunk)), writes)
        sent += len(chunk)
        if faults.found:
            raise Failure(f"the log says after {raw[:3000]!r}: {faults.found[:3]}")
    return sent


def _requests(requests: Requests, number: int) -> list[Request]:
    """The requests of one connection. After the answer to a HEAD the connection ends: only so is its end known."""
    found = [requests.next() for _ in range(number)]
    for request in found:
        if request.method == "HEAD":
            request.headers.append(("connection", "close"))
            return [request]
    return found


async def _await_server(port: int) -> None:
    """Wait until the server answers; at the end of a run it must do so at once."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(ConnectionError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answer = await reader.read()
                writer.close()
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise Failure(f"a probe is answered with {answer!r}")
                return
            await asyncio.sleep(0.01)


async def _open_on(port: int, requests: Requests) -> None:
    request, responses = requests.opening(), Responses()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = request.body
    writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    writer.write(b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    async with asyncio.timeout(PATIENCE):
        responses.feed(await reader.read())
    writer.close()
    status, headers, answer = responses.found[0]
    if status != 200:
        raise Failure(f"initialize is answered with {status}: {answer!r}")
    requests.opened(request, headers[b"mcp-session-id"].decode())


def _raw(request: Request, mutator: Mutator) -> bytes:
    """The bytes of a request; mostly its size is told as it is."""
    pick = mutator.random.random
    target = request.path.encode("utf-8", "surrogatepass").replace(b"\x00", b"%00") or b"/"
    if request.query:
        target += b"?" + request.query
    version = (
        b"HTTP/1.1" if pick() < 0.97 else mutator.random.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"HTP", b""))
    )
    lines = [b"%b %b %b" % (request.method.encode(), target, version)]
    sizes = {name for name, _ in request.headers} & {"content-length", "transfer-encoding"}
    lines += [b"%b: %b" % (name, value.replace(b"\x00", b"")) for name, value in request.pairs]
    body = request.body
    if pick() < 0.15:
        lines += [] if sizes else [b"Transfer-Encoding: chunked"]
        at = mutator.random.randrange(len(body) + 1)
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:at], body[at:]) if part) + b"0\r\n\r\n"
    elif not sizes:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", b""]) + body


def _broken(raw: bytes, mutator: Mutator) -> list[bytes]:
    """The writes of a connection: the bytes as they are or broken, in one piece or in several."""
    pick = mutator.random
    if pick.random() < 0.2:
        at = pick.randrange(min(len(raw), 400))
        junk = pick.choice(
            (
                b"\r\n",
                b"\n",
                b"\x00",
                b"\xff",
                b" ",
                b":",
                b"\r\n\r\n",
                b"0\r\n\r\n",
                b"ffffffffffffffff\r\n",
                b"GET / HTTP/1.1\r\n",
            )
        )
        raw = pick.choice((raw[:at], raw[:at] + junk + raw[at:], raw[:at] + raw[at + 3 :], junk + raw))
    if pick.random() < 0.7 or len(raw) < 2:
        return [raw]
    at = pick.randrange(1, len(raw))
    return [raw[:at], raw[at:]]


class Whole:
    """Counts the requests that are there to their last byte."""

    def __init__(self) -> None:
        self.count, self.midway = 0, False

    def on_message_begin(self) -> None:
        self.midway = True

    def on_message_complete(self) -> None:
        self.count, self.midway = self.count + 1, False


def _awaited(sent: bytes, most: int) -> int:
    """How many responses must come before the server may wait: where what was sent ends with a whole request, it waits
    for the next one, and need not hang up."""
    whole = Whole()
    try:
        HttpRequestParser(whole).feed_data(sent)
    except (HttpParserError, HttpParserUpgrade):
        return most
    return most if whole.midway else min(most, whole.count)


async def _connection(port: int, awaited: int, writes: list[bytes]) -> None:
    """Send, and read until the server hangs up, everything is answered, or a stream has begun."""
    told = f"{b''.join(writes)[:2000]!r} … in {len(writes)} writes"
    responses = Responses()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                for part in writes:
                    writer.write(part)
                    await writer.drain()
            with suppress(ConnectionError):
                while len(responses.found) < awaited and not responses.streams:
                    data = await reader.read(65536)
                    if not data:
                        break
                    responses.feed(data)
    except TimeoutError:
        raise Failure(f"{len(responses.found)} responses within {PATIENCE:g} s to {told}") from None
    except HttpParserError as error:
        raise Failure(f"a response that is not HTTP ({error}) to {told}") from None
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    if not responses.heads and b"".join(writes).strip():
        raise Failure(f"no response to {told}")
    plain = Request("GET", "", [("origin", "")], [])
    for status, headers, body in responses.found:
        judge(plain if status != 200 else Request("HEAD", "", [], []), status, headers, body)
