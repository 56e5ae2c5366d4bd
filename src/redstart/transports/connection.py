"""One HTTP connection under uvicorn: its httptools protocol, with another way to run requests.

uvicorn starts an application before the body is there, writes head and body separately, arms two timers per request
and has no limit for a body that never ends. Here a request starts when it is complete, a response leaves in one
write, and one sweep over all connections does the work of the timers.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections import deque
from contextvars import copy_context
from http import HTTPStatus
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from redstart.protocol.headers import SteadyHeaders
from redstart.transports.audit import note_hang_up
from redstart.transports.http_options import BODY_DEADLINE, MAX_HEADERS, MAX_UNSENT
from redstart.transports.request import Head, HeaderList, HttpRequest, Limits, Watcher

log = logging.getLogger("redstart")
_EAGER: Final = sys.version_info >= (3, 12)
_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_STATUS: Final = {code: b"HTTP/1.1 %d %b\r\n" % (code, _PHRASES.get(code, b"")) for code in range(200, 600)}
MAX_HEAD: Final = 64 * 1024
MAX_KNOWN: Final = 2048
"""The bytes of a head that is remembered; more is rare, and would cost memory for as long as a connection lives."""
MAX_HEADS: Final = 8
MAX_HEADS_IN_ALL: Final = 2048
SLICE: Final = 16 * 1024
"""The bytes that are parsed at a time: a request that is read before its turn takes more memory than its bytes."""
SMALL: Final = 64 * 1024
MAX_UNFINISHED: Final = 64 * 1024 * 1024
"""The bytes of bodies that are not complete or wait for their turn, of all connections together; small ones are always
taken."""
LEAST: Final = 64 * 1024
"""What a client must take of what waits for it within the write deadline, unless it takes all."""
LARGE: Final = 256 * 1024
"""The bytes of a body that is written by itself: to copy it behind its head would take longer than another write."""
STOPPING: Final = 2.0
"""The write deadline while the server stops."""
_AUTHORITY: Final = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*://([^/?#]*)")
_UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_JSON_REPLY: Final = _STATUS[200] + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Backlog:
    """The bytes that clients have yet to take, of all connections together. Where too many wait, the server hangs up
    on the client that has taken nothing for longest."""

    def __init__(self, limit: int = MAX_UNSENT) -> None:
        self._limit = limit
        self._sizes: dict[Connection, int] = {}
        self._total = 0

    def put(self, reader: Connection) -> None:
        """More waits for this client. The server does not hang up on it yet: it had no time to take anything."""
        self._note(reader)
        if self._total > self._limit:
            for other in tuple(self._sizes):
                self._note(other)
            for other in sorted(self._sizes, key=lambda one: one.taken):
                if self._total > self._limit and other is not reader:
                    self.drop(other)
                    other.give_up()

    def drop(self, reader: Connection) -> None:
        """The client has caught up, or has gone."""
        self._total -= self._sizes.pop(reader, 0)

    def _note(self, reader: Connection) -> None:
        size = reader.waiting()
        self._total += size - self._sizes.get(reader, 0)
        self._sizes[reader] = size


class Connection(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
    """Reads whole requests and runs one at a time; a request that the client sends ahead waits for its turn."""

    cycle: Any  # uvicorn's has another class
    limits = Limits()
    deadline = BODY_DEADLINE
    max_headers = MAX_HEADERS
    idle = 75.0
    backlog = Backlog()
    stopping = False
    heads_in_all = 0
    """How many heads are remembered by all connections together."""
    unfinished = 0
    """The bytes of all bodies that are not complete, or wait for their turn."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._cycles: deque[Cycle] = deque()
        self._context = copy_context()
        self._body: bytes | bytearray = b""
        self._ahead = 0  # the bytes of the bodies of the requests that wait
        self._rest = b""  # what came in the packet of a request that waits, not parsed yet
        self._heads: list[Head] = []
        self._starting = False
        self._midway = False
        self._in_head = True
        self._tail = b""  # of a head that came in part: its last bytes, because the blank line may be in two packets
        self._unused = 0  # the bytes since the parser has last reported a whole head, a part of a body, or an end
        self._refusal: tuple[int, bytes] | None = None
        self._unsent = 0
        self.taken = self.loop.time()
        self.held = 0  # the bytes that are written only when the client has taken what was written before
        self.reading = True  # a client that sends nothing has no more time than one that sends too little
        self.since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        if self._midway:
            self._packet = b""
        else:
            for head in self._heads:  # they are few, and each comparison ends at the first byte that differs
                if data.startswith(head.raw) and len(data) == head.size:
                    self._enqueue(head, data[len(head.raw) :])
                    return
            self._packet = data
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Parse what came, until a request has to wait: the rest is parsed when its turn has come."""
        for start in range(0, len(data), SLICE):
            if self._cycles:
                self._rest = data[start:]
                break
            self._parse(data[start : start + SLICE] if len(data) > SLICE else data)

    def _parse(self, data: bytes) -> None:
        if self._in_head and b"pgrade" in data:
            # We speak HTTP/1.1 only. Some clients offer more in every first request, and the parser would then stop
            # before the body.
            head, end, body = (self._tail + data).partition(b"\r\n\r\n")
            data = (_UPGRADE.sub(b"\r\nx-upgrade:", head) + end + body)[len(self._tail) :]
        self._unused += len(data)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse_unread(error)
        self._tail = (self._tail + data[-3:])[-3:] if self._midway and self._in_head else b""
        if self._unused > MAX_HEAD:
            self.refuse(431, b"the head or the trailers are larger than %d bytes (no option changes it)" % MAX_HEAD)

    def _refuse_unread(self, error: Exception) -> None:
        cause = error.__context__
        if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(cause, httptools.HttpParserError):
            log.error("a request failed while it was read", exc_info=cause)
            self.refuse(500, b"internal server error")
        else:
            self.refuse(400, b"not a valid HTTP request")

    # ------------------------------------------------------------ the parser's callbacks

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._midway = True
        self.reading = True
        self.since = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer comes after all was decided by the headers, and is dropped
            self.headers.append((name.lower(), value))
            if len(self.headers) > self.max_headers:
                self.refuse(431, b"the head has more than %d headers (max_headers=)" % self.max_headers)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unused = 0
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD:
            self.refuse(431, b"the head is larger than %d bytes (no option changes it)" % MAX_HEAD)
        if self.parser.should_upgrade():  # in pieces or in capitals `_parse` has not seen it, and there will be no body
            self.refuse(400, b"this server speaks HTTP/1.1 only: send the request without Upgrade or CONNECT")
        for name, value in self.headers:
            if name == b"expect" and value.lower() == b"100-continue":
                if not self._running() and not self.transport.is_closing():  # not in the middle of another response
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            # The parser checks that these are digits and fit into 64 bits, but lets any number of zeros stand before.
            elif name == b"content-length" and int(value.lstrip(b"0").strip() or 0) > self.limits.max_body:
                self.refuse(413, b"the body is larger than %d bytes (max_body_bytes=)" % self.limits.max_body)

    def on_body(self, body: bytes) -> None:
        if self._refusal is not None:  # the rest of what is refused is not kept
            return
        self._unused = 0
        size = len(self._body) + len(body)
        Connection.unfinished += len(body)
        if not self._body:
            self._body = body
        elif isinstance(self._body, bytearray):  # not a list: many small parts would take a lot more than their bytes
            self._body += body
        else:
            self._body = bytearray(self._body + body)
        if size > self.limits.max_body:
            self.refuse(413, b"the body is larger than %d bytes (max_body_bytes=)" % self.limits.max_body)
        elif size > SMALL and Connection.unfinished > max(MAX_UNFINISHED, 2 * self.limits.max_body):
            text = b"all bodies on their way here may have %d bytes (grows with max_body_bytes=); try again later"
            self.refuse(503, text % max(MAX_UNFINISHED, 2 * self.limits.max_body))

    def _drop_body(self) -> None:
        Connection.unfinished -= len(self._body)
        self._body = b""

    def on_message_complete(self) -> None:
        self._midway = False
        self._in_head = True
        self._unused = 0
        body = bytes(self._body)
        self._drop_body()
        if self._refusal is not None:
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        head = Head(self._scope(), SteadyHeaders(self.headers), keep_alive)
        self._remember(head, len(body))
        self.headers = []  # an idle connection keeps nothing of its last request
        self._enqueue(head, body)

    def _remember(self, head: Head, length: int) -> None:
        """Keep the head: clients send the same one again and again, and on this connection it is not parsed again."""
        packet, size = self._packet, len(self._packet) - length
        # Where the packet is the head and the bytes of the body, the head has said how many these are.
        if 0 < length <= SMALL and size <= MAX_KNOWN and packet.find(b"\r\n\r\n") + 4 == size:
            if len(self._heads) >= MAX_HEADS:
                self._forget_heads()
            if Connection.heads_in_all < MAX_HEADS_IN_ALL:
                Connection.heads_in_all += 1
                head.raw, head.size = packet[:size], len(packet)
                self._heads.append(head)
        self._packet = b""

    def _forget_heads(self) -> None:
        Connection.heads_in_all -= len(self._heads)
        self._heads.clear()

    def _enqueue(self, head: Head, body: bytes) -> None:
        """A whole request: run it, or let it wait for the one before it."""
        self.reading = False
        now = self.since = self.loop.time()
        cycle = Cycle(
            head.scope, head.headers, self.limits, None, head, body, _wire=self, keep_alive=head.keep_alive, _since=now
        )
        if self.cycle is None and not self._starting and not self.transport.is_closing():
            self._start(cycle)  # nothing runs, so nothing waits either
            return
        self._cycles.append(cycle)
        self._run_next()
        if self._cycles:
            self._ahead += len(body)
            Connection.unfinished += len(body)
            self.flow.pause_reading()

    def _forget_ahead(self) -> None:
        Connection.unfinished -= self._ahead
        self._ahead = 0

    def _running(self) -> bool:
        return self.cycle is not None

    def _scope(self) -> dict[str, Any]:
        parser, url = self.parser, self.url
        path, _, query = url.partition(b"?")
        if not path.startswith(b"/"):  # an absolute URL, as a proxy may send it
            parsed = httptools.parse_url(url)
            path, query = parsed.path or b"/", parsed.query or b""
            self._name_host(url)
        shown = path.decode("latin-1")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": parser.get_http_version(),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": parser.get_method().decode("ascii"),
            "root_path": self.root_path,
            "path": unquote(shown) if "%" in shown else shown,
            "raw_path": path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state,
        }

    def _name_host(self, url: bytes) -> None:
        """The host of an absolute URL counts, not the header beside it (RFC 9112, 3.2.2): there is one, not two."""
        if found := _AUTHORITY.match(url):
            self.headers = [(name, found[1] if name == b"host" else value) for name, value in self.headers]

    # ------------------------------------------------------------ requests

    def _run_next(self) -> None:
        """Run what waits, in a loop: a request that starts eagerly may be over at once, and so may the next."""
        if self._starting:
            return
        self._starting = True
        try:
            while not self._running() and not self.transport.is_closing() and (self._cycles or self._read_on()):
                # The request before it may have called us: what that one has set in its context is not for this one.
                self._context.copy().run(self._start, self._cycles.popleft())
        finally:
            self._starting = False

    def _read_on(self) -> bool:
        """Parse more of what was held back; whether there is another request."""
        rest, self._rest = self._rest, b""
        self._feed(rest)
        return bool(self._cycles)

    def _start(self, cycle: Cycle) -> None:
        if self._ahead and not self._cycles:
            self._forget_ahead()
        self.cycle = cycle
        run = cycle.run(self.app)
        if _EAGER:
            task = asyncio.Task(run, loop=self.loop, eager_start=True)  # type: ignore[call-arg, unused-ignore]
            if task.done():
                return
        else:
            task = cycle.task = self.loop.create_task(run)
        self.tasks.add(task)

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self.cycle = None
        if self._cycles or self._rest:
            self._run_next()
            if self._cycles or self._rest:
                return
        if self._refusal is None:
            if self.flow.read_paused:  # asyncio then reads in the context of whoever calls this
                self._context.copy().run(self.flow.resume_reading)
        elif not self._running():
            self.hang_up(*self._refusal)

    def refuse(self, status: int, text: bytes) -> None:
        """Refuse what is being received and hang up, after the answers to what was received before it."""
        if not self._running() and not self._cycles:
            self.hang_up(status, text)
        elif self._refusal is None:
            self._refusal = status, text
            self._drop_body()
            self.flow.pause_reading()

    def hang_up(self, status: int, text: bytes) -> None:
        """Refuse what was not read to its end, and hang up."""
        if not self.transport.is_closing():
            note_hang_up(self.client, status, text)
        self.end(status, text)

    def end(self, status: int, text: bytes) -> None:
        """Answer without an application, and hang up."""
        if not self.transport.is_closing():
            later = b"retry-after: 1\r\n" if status == 503 else b""
            head = b"content-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(text)
            self.transport.write(_STATUS[status] + later + head + text)
            self.transport.close()

    def sweep(self, now: float) -> None:
        """Hang up on a client that does not read, does not complete its request, or has been idle for long."""
        if self._stalls(now):
            self.give_up()
        elif self._running():
            self.cycle.sweep(now)
        elif self.stopping and self.transport.is_closing() and not self._unsent:
            self.transport.abort()  # a client of TLS that is idle does not say good-bye, and may take all the time
        elif self.reading and now - self.since > self.deadline:
            log.warning("closed a connection whose request was not complete after %g s", self.deadline)
            self.hang_up(408, b"the request was not complete after %g s (body_deadline=)" % self.deadline)
        elif not self.reading and now - self.since > self.idle:
            self.transport.close()

    def _stalls(self, now: float) -> bool:
        """Whether the client has taken too little of what was sent to it for too long."""
        self._look(now)
        patience = min(self.limits.write_deadline, STOPPING) if self.stopping else self.limits.write_deadline
        return now - self.taken > patience

    def _look(self, now: float) -> int:
        """How much was sent that the client has not taken; notes when it has taken some."""
        unsent: int = self.transport.get_write_buffer_size()
        if not unsent or unsent <= self._unsent - LEAST:
            self._unsent, self.taken = unsent, now
        elif unsent > self._unsent:
            self._unsent = unsent  # more was sent
        return unsent

    def waiting(self) -> int:
        return self._look(self.loop.time()) + self.held

    def give_up(self) -> None:
        log.warning("closed a connection whose client does not read")
        self.transport.abort()

    def pause_writing(self) -> None:
        """The transport calls this within the write by which a client falls behind: what waits is counted at once."""
        super().pause_writing()
        if not self._unsent:  # it had taken all
            self.taken = self.loop.time()
        self.backlog.put(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.backlog.drop(self)

    async def caught_up(self, size: int) -> None:
        """Wait until the client has taken what was sent; so many bytes more wait with it."""
        self.hold(size)
        await self.flow.drain()
        self.held = 0

    def hold(self, size: int) -> None:
        if self.flow.write_paused:
            self.held += size
            self.backlog.put(self)

    def shutdown(self) -> None:
        self.stopping = True
        self.taken = self.loop.time()
        if self._midway and not self._running():  # so that the client knows that its request was not served
            self.end(503, b"the server stops")
        super().shutdown()

    def cut_off(self) -> None:
        """The server has waited for long enough; a refusal still goes out, if the client takes it at once."""
        self.stopping = True  # by a second Ctrl-C that comes before `shutdown`
        if not self._running() or self.cycle.response_started:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._forget_heads()
        self.backlog.drop(self)
        if self.cycle is not None:
            self.cycle.lose()
        self._cycles.clear()
        self._forget_ahead()
        self._rest = b""
        self._drop_body()
        self.flow.resume_writing()
        self.parser = None


class Cycle(HttpRequest, kw_only=True):
    """One request and its response: what `Endpoint.serve` answers."""

    own_connection: ClassVar[bool] = True

    _wire: Connection
    keep_alive: bool  # uvicorn sets it to False when the server stops
    _since: float
    _waits: bool = True
    """Whether who watches has not been told yet that the client has waited for long."""
    disconnected: bool = False
    response_started: bool = False
    response_complete: bool = False

    async def run(self, endpoint: Any) -> None:
        if _EAGER:  # the task already runs before its constructor returns
            self.task = asyncio.current_task()
        try:
            await endpoint.serve(self)
        except ConnectionAbortedError:  # the client does not read, so it would not read the end of the response either
            self._wire.transport.abort()
        except asyncio.CancelledError as error:
            if self._wire.stopping or self.disconnected:
                self._fail(503, b"the server stops")
            else:
                self._fail(500, b"internal server error", error)
        except BaseException as error:
            self._fail(500, b"internal server error", error)
        else:
            if not self.response_complete:
                self._wire.transport.close()
        finally:
            self._wire.tasks.discard(self.task)

    def _fail(self, status: int, text: bytes, error: BaseException | None = None) -> None:
        if error is not None:
            log.error("a request failed", exc_info=error)
        if not self.response_started:
            self._wire.end(status, text)
        self._wire.transport.close()

    # ------------------------------------------------------------ the request

    async def reply(self, status: int, body: bytes, headers: HeaderList) -> None:
        size = len(body)
        if not await self._is_ready(size):
            return
        head = self._head(status, headers)
        if self.scope["method"] == "HEAD":
            body = b""
        if size < LARGE:
            self._wire.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, size, body))
        else:
            self._wire.transport.write(b"%bcontent-length: %d\r\n\r\n" % (head, size))
            self._wire.transport.write(body)
        self._end()

    def reply_at_once(self, body: bytes) -> bool:
        wire, size = self._wire, len(body)
        if wire.flow.write_paused or self.disconnected or not self.keep_alive or self.granted or size >= LARGE:
            return False
        self.response_started = self.response_complete = True
        self.status = 200
        wire.transport.write(_JSON_REPLY % (size, body))
        wire.on_response_complete()
        return True

    async def begin(self, headers: HeaderList, data: bytes) -> None:
        """The head of an event stream; such a response has no length. One write: each of them wakes the client."""
        if await self._is_ready(len(data)):
            head = self._head(200, headers) + (b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n")
            self._wire.transport.write(head + self._part(data))

    async def send(self, data: bytes) -> None:
        if await self._is_ready(len(data)):
            self._wire.transport.write(self._part(data))

    async def finish(self, data: bytes) -> None:
        if await self._is_ready(len(data)):
            self._wire.transport.write(self._part(data) + (_LAST_CHUNK if self._chunked else b""))
            self._end()

    async def _is_ready(self, size: int) -> bool:
        """Wait until the client has taken what was sent; so many bytes wait with it. False where it has gone."""
        if self._wire.flow.write_paused:
            await self._wire.caught_up(size)
        return not self.disconnected

    @property
    def _chunked(self) -> bool:
        """HTTP/1.0 has no chunks: there a stream ends with its connection."""
        return bool(self.scope["http_version"] != "1.0")

    def _part(self, data: bytes) -> bytes:
        """A part of a stream as it is sent; an empty chunk would be the end of the response."""
        return b"%x\r\n%b\r\n" % (len(data), data) if data and self._chunked else data

    def write(self, data: bytes) -> bool:
        if self._wire.flow.write_paused or self.disconnected:
            return False
        self._wire.transport.write(self._part(data))
        return True

    def hold(self, size: int) -> None:
        self._wire.hold(size)

    def watch(self, watcher: Watcher) -> None:
        self.watcher = watcher
        if self.disconnected:  # it went before anybody watched, such as while its token was checked
            self._wire.loop.call_soon(self.lose)

    # ------------------------------------------------------------ the wire

    def _head(self, status: int, headers: HeaderList) -> bytes:
        if self.granted:
            headers = self.with_granted(headers)
        if status not in _STATUS:
            raise ValueError(f"{status} is not the status of a response")
        head = _STATUS[status]
        for name, value in headers:
            line = b"%b: %b" % (name, value)
            if b"\n" in line or b"\r" in line:
                raise ValueError(f"the header {line!r} has a line break")
            head += line + b"\r\n"
        self.response_started = True
        self.status = status
        return head if self.keep_alive else head + b"connection: close\r\n"

    def _end(self) -> None:
        self.response_complete = True
        if not self.keep_alive:
            self._wire.transport.close()
        self._wire.on_response_complete()

    def lose(self) -> None:
        """The client has gone."""
        if not self.response_complete:
            self.disconnected = True
            if self.watcher is not None:
                self.watcher.client_gone()

    def sweep(self, now: float) -> None:
        """Tell who watches, once, that the client has waited for long."""
        if self._waits and self.watcher is not None and now - self._since > self.limits.keep_alive:
            self._waits = False
            self.watcher.client_waits()
