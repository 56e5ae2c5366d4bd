"""Streamable HTTP as a plain ASGI application: both eras on one path, no web framework.

It starts itself on the first request where nobody runs its lifespan, so it can be mounted anywhere.
Spec: /specification/2026-07-28/basic/transports/streamable-http, and 2025-11-25's for sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from redstart.asking.seal import found_keys
from redstart.features.errors import log
from redstart.features.principal import principal_key
from redstart.features.startup_errors import not_started
from redstart.protocol import headers as h
from redstart.protocol.call import Answer, Call, Cancel, Event, Refusal
from redstart.protocol.dialect import Session
from redstart.protocol.handshake import HEADER_VALUES, REVISIONS
from redstart.protocol.modern import SUPPORTED
from redstart.transports import cors
from redstart.transports.address import Proxies, client_site, has_room
from redstart.transports.audit import note_response
from redstart.transports.guard import ORIGIN_HELP, Guard, accepts, check_post
from redstart.transports.health import Health
from redstart.transports.http_options import EndpointOptions
from redstart.transports.request import (
    JSON,
    LATER,
    Accepts,
    AsgiRequest,
    Gone,
    HeaderList,
    HeaderMap,
    HttpRequest,
    Limits,
    Receive,
    Rejection,
    Scope,
    Send,
)
from redstart.transports.response import SESSION_ENDED, Response, give_up, is_asking
from redstart.transports.routes import answer_route, claim_paths
from redstart.transports.sessions import HttpSession, Sessions
from redstart.transports.shares import Rate, Rates, Seats
from redstart.transports.signals import StopSignals
from redstart.transports.stream import Writer
from redstart.wire.jsonrpc import HEADER_MISMATCH, ProtocolError, failure
from redstart.wire.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from redstart.server.runtime import Hosted
    from redstart.transports.legacy_sse import LegacySse
    from redstart.transports.protected import ProtectedResource
    from redstart.transports.shared import SharedSessions

_CLAIM: Final = PROTOCOL_VERSION.encode()
_ALLOW: Final = (b"allow", b"POST, GET, DELETE")
_SESSION_VERSIONS: Final = (None, *HEADER_VALUES)
"""The version headers with which a session id counts: modern requests ignore it."""
_SERVED: Final = (*REVISIONS, *SUPPORTED)
_KNOWN_VERSIONS: Final = (None, *(version.encode() for version in _SERVED))
_DECIDING: Final = (b"origin", h.SESSION)
"""The headers that may mean something else for the next request, or are answered with headers of their own."""

SMALL_BODY: Final = 64 * 1024
MAX_RUNNING_BYTES: Final = 64 * 1024 * 1024
"""The bodies of all requests whose calls run; small ones are always taken."""
RUNNING_SHARE: Final = 4
"""One caller may have this part of it."""


class Pages(Protocol):
    """Further paths beside the endpoint, which only `redstart dev` and its like have: those of the inspector."""

    async def serve(self, request: HttpRequest) -> bool:
        """Answer a request for a page. False: it is not one."""

    def refused(self, request: HttpRequest) -> None:
        """See a request that was refused."""


class Endpoint:
    """One server at one path.

    >>> from redstart import Server
    >>> app = Server("weather").asgi(path="/mcp", allowed_hosts=["mcp.example.com"])
    """

    def __init__(self, server: Hosted, options: EndpointOptions) -> None:
        self.runtime = server.runtime
        self.path = "/" + options["path"].strip("/")
        self.guard = Guard(options["allowed_hosts"], options["allowed_origins"], options["public_url"])
        self.limits = Limits(options["max_body_bytes"], options["keep_alive"], options["write_deadline"])
        self.drain = self.runtime.drain = options["drain"]
        self._protected = self._protect(options["public_url"])
        self._proxies: Proxies | None = options["trusted_proxies"] or None  # type: ignore[assignment]  # by its rule
        self._has_keys, self.sessions = self._open_sessions(options)
        self._shared: SharedSessions | None = self.sessions if self.runtime.replica is not None else None  # type: ignore[assignment]
        self._calls = Seats("calls", options["max_calls"], options["max_calls_per_caller"], self._owner)
        self._streams = Seats("streams", options["max_streams"], options["max_streams_per_caller"], self._owner)
        self._rates = self._open_rates(options)
        self._left: dict[Response, int] = {}  # whose clients have gone and may come back, the oldest first
        self.health = Health(self.runtime, options)
        self._pages: Pages | None = getattr(server, "pages", None)
        self._ready = False
        self._failure: Exception | None = None
        self._signals = StopSignals(self.begin_stop)
        self._deadline: asyncio.TimerHandle | None = None
        self._paths = frozenset((self.path, self.path + "/"))
        self._legacy: LegacySse | None = None
        if options["legacy_sse"]:
            from redstart.transports.legacy_sse import LegacySse

            self._legacy = LegacySse(self.runtime, self.limits.max_body, self._rates, self._owner)
        if options["access_log"]:
            from redstart.transports.access_log import logged

            self.serve = logged(self.serve, self.runtime)  # type: ignore[method-assign, assignment]  # it costs nothing without the option
        claim_paths(server, self._paths | (self._legacy.paths if self._legacy is not None else frozenset()))

    def _open_sessions(self, options: EndpointOptions) -> tuple[bool, Sessions]:
        """Whether keys are configured, and the sessions, which several processes may share."""
        replica = self.runtime.replica
        keys = found_keys(self.runtime.given_keys)[1]
        open_sessions: Callable[..., Sessions] = Sessions
        if replica is not None:
            from redstart.transports.shared import SharedSessions

            open_sessions = partial(SharedSessions, replica, self.runtime)
        return bool(keys), open_sessions(
            keys,
            self.runtime.link,
            self._begin_session,
            self._end_session,
            limit=options["max_sessions"],
            idle=options["session_idle"],
            kept_bytes=options["max_kept_bytes"],
        )

    def _open_rates(self, options: EndpointOptions) -> Rates | None:
        every: Rate | None = options["rate_limit"]  # type: ignore[assignment]  # by its rule
        tools: Mapping[str, Rate] = options["tool_rate_limits"]  # type: ignore[assignment]
        return Rates(self.runtime.name, every, tools, lambda: self.runtime.store) if every or tools else None

    def _protect(self, public_url: str | None) -> ProtectedResource | None:
        if self.runtime.authenticator is None:
            return None
        from redstart.transports.protected import ProtectedResource

        return ProtectedResource(self.runtime.authenticator, self.runtime.name, self.path, public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        headers, task = dict(scope["headers"]), asyncio.current_task()
        await self.serve(AsgiRequest(scope, headers, self.limits, task, _receive=receive, _send=send))

    async def serve(self, request: HttpRequest) -> None:
        """Serve one HTTP request."""
        try:
            if self._ready and request.head is not None and request.head.plain is not None:
                await self._post(request, request.head.plain, None)
            else:
                if self._proxies is not None or b"origin" in request.headers:
                    self._restate(request)
                await self._serve(request)
        except Gone:
            pass
        except Rejection as rejection:
            request.reason = rejection.text
            error = failure(None, ProtocolError(rejection.code, rejection.text))
            await request.reply(rejection.status, error, [JSON, *rejection.headers])
        except ProtocolError as error:  # the store is away, or there is no room for a session
            request.reason = error.message
            await request.reply(503, failure(None, error), [JSON, LATER])
        if request.status >= 400:
            note_response(request)
            if self._pages is not None:
                self._pages.refused(request)

    def _restate(self, request: HttpRequest) -> None:
        """Read what a trusted proxy says of its client, and grant a page of an allowed site every response."""
        if self._proxies is not None:
            request.scope, request.headers = self._proxies.restated(request.scope, request.headers)
        origin = request.headers.get(b"origin")
        if origin is not None and self.guard.grants(origin):
            request.granted = cors.grant(origin)

    async def _serve(self, request: HttpRequest) -> None:
        if not self._ready and not self.health.knows(request.path):
            await self._prepare()
        scope, headers = request.scope, request.headers
        pairs, method, path = scope["headers"], scope["method"], scope["path"]
        if len(headers) != len(pairs):
            _unite(headers, pairs)
        ours = path in self._paths
        if not ours and self.health.knows(request.path):
            self.guard.check_origin(headers)  # not the host: a probe asks for an address
            await self.health.serve(request, self._be_ready)
            return
        self.guard.check(headers)
        if method == "OPTIONS" and cors.METHOD in headers:
            await self._preflight(request)
            return
        legacy = self._legacy if self._legacy is not None and self._legacy.knows(request) else None
        if not ours and legacy is None and not self._mounted_here(request):
            if self._pages is not None and await self._pages.serve(request):
                return
            if self._protected is None or path in self.runtime.routes or not await self._protected.describe(request):
                await answer_route(self.runtime, request, self.path)
            return
        if self._protected is not None:
            await self._protected.admit(request)
        if legacy is not None:
            await legacy.serve(request)
        elif method == "POST":
            accepted = check_post(headers)
            if request.head is not None and self._is_plain(request):
                request.head.plain = accepted
            request.whole = await request.body()
            id = _session_id(request, request.whole)
            session = None if id is None else await self._session_of(id, request, request.whole)
            await self._post(request, accepted, session)
        elif method == "GET":
            await self._get(request)
        elif method == "DELETE":
            await self._delete(request)
        else:
            raise Rejection(405, f"{method} is not supported here; use POST", _ALLOW)

    async def _preflight(self, request: HttpRequest) -> None:
        """A browser asks whether a page may send a request; the path and the token are not checked yet."""
        if not request.granted:
            raise Rejection(403, ORIGIN_HELP.format(request.headers.get(b"origin", b"").decode("latin-1")[:200]))
        await request.reply(200, b"", cors.preflight(request.headers))

    def _mounted_here(self, request: HttpRequest) -> bool:
        """Whether another application has mounted us, and the rest of the path is ours."""
        root, path = request.root, request.path
        return bool(root) and (path in ("", "/") or (path in self._paths and not root.endswith(self.path)))

    # ------------------------------------------------------------ methods

    def _owner(self, request: HttpRequest) -> str:
        """Whose share of a limit a request counts against: its user's, or that of the address that it comes from."""
        return principal_key(request.user) or client_site(request.scope)

    def _is_plain(self, request: HttpRequest) -> bool:
        """Whether nothing but the body decides what a checked request means: no token, session, proxy or page."""
        headers = request.headers
        open_to_all = self._protected is None and self._proxies is None
        return open_to_all and headers.keys().isdisjoint(_DECIDING) and headers.get(h.VERSION) in _KNOWN_VERSIONS

    # `_post` and `_run` return what is to be awaited, and are no coroutines themselves: those cost more than they do.

    def _post(self, request: HttpRequest, accepted: Accepts, session: HttpSession | None) -> Awaitable[None]:
        """Read a message and do what it says."""
        body, request.whole = request.whole or b"", None  # it is not kept while the call runs
        if len(body) > SMALL_BODY:
            self._check_room(request, len(body))
        link = self.runtime.link() if session is None else session.link
        events = link.receive(body, request.headers)
        if len(events) == 1 and type(events[0]) is Call:
            return self._run(request, accepted, events, session)  # type: ignore[arg-type]
        return self._sort(request, accepted, events, session)

    def _run(
        self, request: HttpRequest, accepted: Accepts, calls: list[Call], session: HttpSession | None
    ) -> Awaitable[None]:
        """Run the calls of a message, if there is room for them."""
        opened = calls[0].link.session
        extra: HeaderList = []
        if opened is not None and session is None:  # by `initialize`
            extra.append((h.SESSION, self._mint(opened, request)))
        listens = calls[0].method.name == "subscriptions/listen"
        seats = self._streams if listens else self._calls
        refusal = _no_stream() if listens and not accepted.sse else seats.take(request, len(calls))
        if refusal is not None:
            return _refuse_calls(request, calls, refusal)
        if request.user is not None:
            for call in calls:
                call.user = request.user
        in_time = None if self._rates is None else partial(self._in_time, self._rates, request, calls)
        return Response(self.runtime, request, accepted, calls, session, extra, seats, self._left, in_time).run()

    def _mint(self, session: Session, request: HttpRequest) -> bytes:
        session.key = self.sessions.mint(session, principal_key(request.user))
        return session.key.encode()

    async def _in_time(self, rates: Rates, request: HttpRequest, calls: list[Call]) -> bool:
        """Whether the caller may make these calls now; if not, they are answered."""
        try:
            refusal = await rates.refusal(self._owner(request), calls)
        except ProtocolError as error:  # the store is away
            refusal = Rejection(503, error.message, LATER, code=error.code)
        except Exception:  # the store has failed in another way: the calls do not run, and their ids are free again
            for call in calls:
                call.link.forget(call)
            raise
        if refusal is not None:
            await _refuse_calls(request, calls, refusal)
        return refusal is None

    def _held(self) -> Iterator[HttpRequest]:
        """The requests whose calls and streams run."""
        return chain(self._calls.held, self._streams.held)

    def _responses(self) -> list[Response]:
        """The responses whose calls run."""
        return [request.watcher for request in self._held() if isinstance(request.watcher, Response)]

    def _check_room(self, request: HttpRequest, size: int) -> None:
        """Refuse a large request that does not fit beside those that run, of the same caller and of all.

        Requests whose clients have gone have a limit of their own, at which the oldest ends.
        """
        owner, large = self._owner(request), [other for other in self._held() if other.large]
        running = [(self._owner(other), other.large) for other in large if other.watcher not in self._left]
        most, most_own = (max(MAX_RUNNING_BYTES // part, self.limits.max_body) for part in (1, RUNNING_SHARE))
        if not has_room([*running, (owner, size)], owner, most, most_own):
            text = f"All large requests may have {most} bytes, {most_own} of a caller (grows with max_body_bytes=)"
            raise Rejection(503, f"{text}; try again later", (b"retry-after", b"10"))
        request.large = size

    async def _session_of(self, id: str, request: HttpRequest, body: bytes) -> HttpSession | None:
        """The session of a message; a modern one may name any, and has none."""
        session = await self._find_session(id, request)
        if session is None and (h.VERSION in request.headers or _CLAIM not in body):
            raise _unknown_session()
        return session

    async def _find_session(self, id: str, request: HttpRequest) -> HttpSession | None:
        if self._shared is not None:
            return await self._shared.lookup(id, principal_key(request.user), lambda: self._owner(request))
        return self.sessions.find(id, principal_key(request.user), lambda: self._owner(request))

    async def _sort(
        self, request: HttpRequest, accepted: Accepts, events: list[Event], session: HttpSession | None
    ) -> None:
        """Run the calls among the events; without any the request is answered here."""
        calls = self._calls_among(events)  # first what is for calls here: the store may be away
        if self._shared is not None:
            try:
                events = await self._shared.deliver(session, events)
            except BaseException:  # the client is told to send all of it again, and may use the same ids
                for call in calls:
                    call.link.forget(call)
                raise
        if calls:
            await self._run(request, accepted, calls, session)
        else:
            await self._reply_without_calls(events, request, session)

    def _calls_among(self, events: list[Event]) -> list[Call]:
        """The calls among the events; answers and cancellations go where they belong."""
        calls = []
        for event in events:
            if isinstance(event, Call):
                calls.append(event)
            elif isinstance(event, Cancel):
                self.runtime.cancel(event.call)
            elif isinstance(event, Answer):
                event.pending.resolve(event.outcome)
        return calls

    async def _reply_without_calls(
        self, events: list[Event], request: HttpRequest, session: HttpSession | None
    ) -> None:
        """The reply to a message that opened no call."""
        for event in events:
            if isinstance(event, Refusal):
                await request.reply(event.status, event.data, [JSON])
                return
        if session is None and request.headers.get(h.VERSION) in _SESSION_VERSIONS:
            raise Rejection(400, 'The header Mcp-Session-Id is missing; "initialize" answers with one')
        await request.reply(202, b"", [])

    async def _get(self, request: HttpRequest) -> None:
        id = _session_id(request)
        if id is None:
            text = "MCP clients send POST here. GET opens the event stream of a session, and this request names none"
            raise Rejection(405, text, _ALLOW)
        if not accepts(request.headers).sse:
            raise Rejection(406, "The client must accept text/event-stream")
        session = await self._find_session(id, request)
        if session is None:
            raise _unknown_session()
        refusal = self._streams.take(request, 1)
        if refusal is not None:
            raise refusal
        session.waiting += 1
        try:
            await self._serve_stream(session, request)
        finally:
            session.leave()
            self._streams.release(request)

    async def _serve_stream(self, session: HttpSession, request: HttpRequest) -> None:
        """The event stream of a session, until it ends or its client goes."""
        if self._shared is not None:
            await self._shared.serve_stream(session, request)
            return
        stream, after = session.push, session.push.sequence
        last = request.headers.get(h.LAST_EVENT)
        if last is not None:
            resumed = session.find_stream(last.decode("latin-1"))
            if resumed is None:
                raise Rejection(404, "Nothing is known of that event any more")
            stream, after = resumed
        writer = Writer(request, [])
        stream.attach(writer, after)
        try:
            await writer.until_gone()
        finally:
            if stream.writer is writer:
                stream.writer = None

    async def _delete(self, request: HttpRequest) -> None:
        id = _session_id(request)
        if id is None:
            raise Rejection(405, "DELETE ends a session; there is none here", _ALLOW)
        principal = principal_key(request.user)
        if self._shared is not None:
            ended = await self._shared.finish(id, principal)
        else:
            ended = self.sessions.end(id, principal)
        if not ended:
            raise _unknown_session()
        await request.reply(200, b"", [])

    # ------------------------------------------------------------ life

    async def figures(self) -> dict[str, float]:
        """What the admin port tells beside the counts of calls."""
        return {
            "redstart_sessions": len(self.sessions),
            "redstart_streams": self._streams.taken,
            "redstart_tasks_running": self.runtime.tasks_running,
            "redstart_store_away": await self.health.store_is_away(),
        }

    def _begin_session(self, session: HttpSession) -> None:
        self.runtime.hub.join(session)
        if self.runtime.telemetry is not None:
            self.runtime.telemetry.begin_session(session, session.ticket.revision, "tcp")

    def _end_session(self, session: HttpSession) -> None:
        self.runtime.hub.leave(session)
        if self.runtime.telemetry is not None:
            self.runtime.telemetry.end_session(session)
        for call in tuple(session.link.calls.values()):
            if isinstance(call.channel, Response):
                call.channel.end_call(call, SESSION_ENDED)
            else:  # it waits until what came with it has reached other processes; then its batch has the answer
                give_up(self.runtime, call, SESSION_ENDED)
        session.push.end()

    def _end_calls(self, which: Callable[[Call], bool]) -> int:
        count = sum(response.end_calls(which) for response in self._responses())
        return count + (self._legacy.end_calls(which) if self._legacy is not None else 0)

    def end_waits(self) -> None:
        """The server stops: end what would not end by itself, streams and calls that wait for a person."""
        self.runtime.hub.close()
        self.sessions.end_streams()
        self._end_calls(is_asking)

    def end_calls(self) -> bool:
        """The server has waited for long enough: end every call. Whether somebody is still to hear of it."""
        count = self._end_calls(lambda call: True)
        if count:
            log.warning("the server stops, and %d %s not done", count, "call is" if count == 1 else "calls are")
        return bool(count or self._calls.held or self._streams.held)

    async def start(self, *, signals: bool = True) -> None:
        """Start the server. `signals`: somebody else runs us, and may tell us too late that it stops."""
        await self.runtime.start()
        if self._shared is not None:
            await self._shared.start(self._has_keys)
        if not self._ready:
            self._ready = True
            self.runtime.at_stop.append(self._close)
            if self._rates is not None:
                self._rates.check_names(self.runtime.description.tools.items)
            if signals:
                self._signals.install()

    async def _be_ready(self) -> None:
        if not self._ready:
            await self._prepare()

    async def _prepare(self) -> None:
        """Start with the first request, where nobody has run our lifespan; 503 where there is nothing to serve."""
        if self._deadline is not None:
            raise Rejection(503, "The server is stopping; try again when it is back", LATER, (b"connection", b"close"))
        unwired = self.runtime.options["lifespan"] is not None and not self.runtime.started
        try:
            await self.start()
        except Exception as error:
            if isinstance(error, ProtocolError) and error.retry_after:
                raise  # the next request tries again
            if error is not self._failure:  # a start that failed is not repeated: it is logged once
                self._failure = error
                log.error("%s", not_started(self.runtime.name, error))
            raise Rejection(503, "The server did not start; its log says why") from None
        if unwired:
            log.warning("%s: %s", self.runtime.name, _UNWIRED)

    def begin_stop(self) -> None:
        """End idle streams and calls that wait for a person now, and other calls after `drain` seconds.

        SIGTERM and Ctrl-C call this where the host has a handler for them. A host that stops in another way may call
        it before it waits for its open requests.
        """
        self.health.stopping = True
        if self._ready:
            self._ready = False
            self._deadline = asyncio.get_running_loop().call_later(self.drain, self.end_calls)
            self.end_waits()

    def _close(self) -> None:
        """The server has stopped; it may start again."""
        self.health.stopping = False
        self._ready = False
        self._signals.remove()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.sessions.close()

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": not_started(self.runtime.name, error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.runtime.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _unite(headers: HeaderMap, pairs: HeaderList) -> None:
    """Refuse a header that may stand only once; of Accept, all lines together are the list."""
    if (twice := h.duplicated(pairs)) is not None:
        raise Rejection(400, f"The header {twice.decode('latin-1')} stands twice", code=HEADER_MISMATCH)
    if b"accept" in headers:
        headers[b"accept"] = b", ".join(value for name, value in pairs if name == b"accept")


def _session_id(request: HttpRequest, body: bytes = b"") -> str | None:
    """The session id of a request whose version has sessions. A version that is not served is refused."""
    id, version = request.headers.get(h.SESSION), request.headers.get(h.VERSION)
    if version not in _KNOWN_VERSIONS and _CLAIM not in body:  # a claim in the body is answered by its own era
        named = (version or b"").decode("latin-1")[:50]
        served = ", ".join(_SERVED)
        raise Rejection(400, f"The header MCP-Protocol-Version is {named!r}, which is not served. Served are {served}.")
    return id.decode("latin-1") if id is not None and version in _SESSION_VERSIONS else None


async def _refuse_calls(request: HttpRequest, calls: list[Call], refusal: Rejection) -> None:
    """Answer calls that are not run, each with its id."""
    request.reason = refusal.text
    error = ProtocolError(refusal.code, refusal.text)
    answers, batch = [call.link.fail(call, error) for call in calls], calls[0].batch
    data = answers[0] if batch is None else batch.whole()  # None if all of them were cancelled meanwhile
    await request.reply(refusal.status, data or failure(None, error), [JSON, *refusal.headers])


def _no_stream() -> Rejection:
    """A client that takes JSON only would wait for ever."""
    return Rejection(406, "subscriptions/listen is answered as text/event-stream: accept that")


def _unknown_session() -> Rejection:
    return Rejection(404, "Unknown or ended session; initialize again")


_UNWIRED: Final = (
    "the first request has started its lifespan, and nothing will end it. Give the application "
    "lifespan=server.lifespan_context, or pass the ASGI lifespan on"
)
