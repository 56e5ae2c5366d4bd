"""What the links, the hub and the log of a server report, turned into events.

Every call is measured. Whether it is shown, with its messages, is decided when its request comes: with very many calls
only some are, and the others cost little. For the thread of the loop, but for `LogTap`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from time import perf_counter
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from redstart.features.principal import user_mark
from redstart.features.subscriptions import Hub, Peer
from redstart.inspector.clients import MAX_TOOLS, ClientRecord, Clients, Tally
from redstart.inspector.events import (
    MAX_TEXT,
    CallEvent,
    ClientEvent,
    LogEvent,
    MessageEvent,
    Parts,
    Ring,
    TaskEvent,
)
from redstart.inspector.failure import Failure, failure_of, place_of
from redstart.inspector.redaction import secret_names, shown_headers, without_secrets
from redstart.observe.metrics import outcome_of
from redstart.protocol.call import Answer, Call, Channel, Event, Pending, Refusal, Timings
from redstart.protocol.headers import Headers
from redstart.protocol.link import Link
from redstart.server.runtime import Description, current_call
from redstart.wire.jsonrpc import Id, ProtocolError, encode
from redstart.wire.types import CreateTaskResult, InputRequired, ProgressParams, Result, TaskState, ToolResult

MAX_ROUNDS: Final = 1000
"""Calls that wait for the next round of a dialogue."""
ERROR_ID: Final = re.compile(r"\(error id ([0-9a-f]{8})\)")
STATUSES: Final = {"ok": "completed", "tool_error": "failed", "error": "failed"}
"""From the outcome of a run to the state of its task."""


class MessageHead(Struct):
    """The parts of a message that say what it is."""

    id: int | str | None = None
    method: str | None = None
    result: Raw | msgspec.UnsetType = UNSET
    error: Raw | msgspec.UnsetType = UNSET


class Tracked(Timings, kw_only=True, gc=False):
    """A call that is measured, and perhaps shown."""

    client: ClientRecord
    method: str
    key: str = ""
    shown: bool = False
    name: str | None = None
    at: float = 0.0
    human: float = 0.0
    spent: float = 0.0
    """Seconds of earlier rounds."""
    rounds: int = 1
    ids: Sequence[Id] = ()
    revision: str = ""
    waits: int = 0
    """Questions that are open."""
    since: float = 0.0
    progress: dict[str, object] | None = None
    failure: Failure | None = None
    task: str | None = None


class Tap:
    """Turns what happens in one process into events."""

    def __init__(
        self, ring: Ring, describe: Callable[[], Description], *, strict: bool = False, prefix: str = ""
    ) -> None:
        self.ring = ring
        self.strict = strict
        self.prefix = prefix
        """What the ids of this process begin with, where there are others."""
        self.clients = Clients(os.getpid(), prefix)
        self.tallies: dict[str, Tally] = {}
        self.any_tool = False
        """Whether tools are counted that the description does not have: those of another server."""
        self.running: dict[str, Tracked] = {}
        """The shown calls that have not ended."""
        self._describe = describe
        self._described: Description | None = None
        self._secrets: dict[str, frozenset[str]] = {}
        self.rounds: OrderedDict[str, Tracked] = OrderedDict()
        """Calls that wait for the next round of their dialogue, by the state that it brings."""
        self._numbers = count(1)

    # ------------------------------------------------------------ calls

    def begin(self, call: Call, client: ClientRecord, shown: bool) -> Tracked:
        """A request has come."""
        params = call.params
        state = getattr(params, "request_state", UNSET)
        earlier = self.rounds.pop(state, None) if isinstance(state, str) else None
        now = perf_counter()
        if earlier is not None:
            earlier.human += now - earlier.since
            earlier.rounds += 1
            earlier.ids = [*earlier.ids, call.id]
            earlier.began = now
            call.timings = tracked = earlier
        else:
            tracked = Tracked(
                began=now,
                key=self.next_key(),
                client=client,
                shown=shown,
                method=call.method.name,
                name=call.name or call.uri,
                at=time.time(),
                ids=[call.id],
                revision=call.dialect.version,
            )
            call.timings = tracked
        if tracked.shown:
            self.running[tracked.key] = tracked
            self.ring.add(self.event(tracked, "running"))
        return tracked

    def end(
        self, call: Call, tracked: Tracked, outcome: Result | Raw | ProtocolError | None, data: bytes | None
    ) -> None:
        """A call was answered, or its client no longer waits for it."""
        self.running.pop(tracked.key, None)
        word = "cancelled" if outcome is None else outcome_of(outcome)
        now = perf_counter()
        if isinstance(outcome, InputRequired) and outcome.request_state:
            self._park(tracked, outcome.request_state, now)
        elif tracked.method == "tools/call":
            self.count(tracked.name or "", word, _ms(tracked, now))
        if isinstance(outcome, CreateTaskResult | TaskState):
            tracked.task = self._task_made(outcome, tracked)
        if call.user is not None:
            tracked.client.user = user_mark(call.user)
        if not tracked.shown and word not in ("error", "tool_error"):
            self.ring.leave_out("call")
            return
        code = outcome.code if isinstance(outcome, ProtocolError) else None
        if word == "input_required":
            self.ring.add(self.event(tracked, "waiting"))
        else:
            size = len(data) if data is not None else 0
            self.ring.add(self.event(tracked, "done", outcome=word, code=code, size=size, timings=_parts(tracked, now)))

    def next_key(self) -> str:
        return f"{self.prefix}k{next(self._numbers)}"

    def _park(self, tracked: Tracked, state: str, now: float) -> None:
        """The client is to come back with this state, and with answers."""
        tracked.spent += now - tracked.began
        tracked.began = tracked.since = now
        self.rounds[state] = tracked
        while len(self.rounds) > MAX_ROUNDS:
            self.rounds.popitem(last=False)

    def count(self, name: str, word: str, ms: float) -> None:
        """Measure the call of a tool."""
        tally = self.tallies.get(name)
        if tally is None:
            known = self.any_tool or name in self._describe().tools.items
            if not known or len(self.tallies) >= MAX_TOOLS:
                return
            tally = self.tallies[name] = Tally()
        tally.count += 1
        tally.errors += word != "ok"
        tally.times.append(ms)

    def _task_made(self, outcome: CreateTaskResult | TaskState, tracked: Tracked) -> str:
        state = outcome.task if isinstance(outcome, CreateTaskResult) else outcome
        if tracked.method == "tools/call":
            self.ring.add(TaskEvent(task=state.task_id, call=tracked.key, name=tracked.name, status=state.status))
        return state.task_id

    def event(self, tracked: Tracked, state: str, **more: Any) -> CallEvent:
        """A call as it is now."""
        now = tracked.since if state == "waiting" else perf_counter()
        return CallEvent(
            call=tracked.key,
            client=tracked.client.id,
            state=state,
            method=tracked.method,
            name=tracked.name,
            began=tracked.at,
            ms=_ms(tracked, now),
            human=round(tracked.human * 1000, 3),
            rounds=tracked.rounds,
            ids=tracked.ids,
            revision=tracked.revision,
            transport=tracked.client.transport,
            progress=None if self.strict else tracked.progress,
            task=tracked.task,
            error=tracked.failure,
            **more,
        )

    # ------------------------------------------------------------ messages

    def text(self, data: bytes, tool: str | None = None) -> tuple[str, bool]:
        """The text that is shown of a message, and whether it was cut."""
        if self.strict:
            return "", bool(data)
        if tool is not None and (names := self._secrets_of(tool)):
            data = without_secrets(data, names)
        if len(data) <= MAX_TEXT:
            return data.decode(errors="replace"), False
        return data[:MAX_TEXT].decode(errors="replace"), True

    def _secrets_of(self, tool: str) -> frozenset[str]:
        description = self._describe()
        if description is not self._described:
            self._described, self._secrets = description, {}
        if tool not in self._secrets:
            known = description.tools.items.get(tool)
            self._secrets[tool] = secret_names(known.input_schema) if known is not None else frozenset()
        return self._secrets[tool]

    def message(self, client: ClientRecord, direction: str, data: bytes, **more: Any) -> None:
        """A message to or from a client."""
        client.messages += 1
        client.seen = time.time()
        tool = more["name"] if more.get("method") == "tools/call" else None
        text, cut = self.text(data, tool)
        self.ring.add(
            MessageEvent(
                client=client.id,
                direction=direction,
                era=client.era,
                revision=client.revision,
                transport=client.transport,
                size=len(data),
                text=text,
                cut=cut,
                **more,
            )
        )

    def client(self, change: str, record: ClientRecord) -> None:
        """A client has connected, has said more about itself, or has left."""
        self.ring.add(ClientEvent(change=change, client=record))

    def task_run(self, call: Call, status: str) -> None:
        """A worker has begun or ended a run of a task."""
        assert call.task is not None
        self.ring.add(TaskEvent(task=call.task.id, name=call.name, status=status, updated=time.time()))

    def logged(self, call: Call, level: str, data: object, logger: str | None) -> None:
        """A handler sends a log message to its client."""
        tracked = call.timings
        text = "" if self.strict else data if isinstance(data, str) else encode(data).decode()
        self.ring.add(
            LogEvent(
                level=level,
                logger=logger or "",
                text=text[:MAX_TEXT],
                source="context",
                call=tracked.key if isinstance(tracked, Tracked) else None,
                client=tracked.client.id if isinstance(tracked, Tracked) else None,
            )
        )


def _ms(tracked: Tracked, now: float) -> float:
    waiting = now - tracked.since if tracked.waits else 0.0
    handshake_human = tracked.human if tracked.rounds == 1 else 0.0
    return round((tracked.spent + now - tracked.began - handshake_human - waiting) * 1000, 3)


def _parts(tracked: Tracked, now: float) -> Parts | None:
    """Where the time of the last run went; None for what is not a tool."""
    if not tracked.checked:
        return None
    ended = tracked.ended or now
    parts = (tracked.started - tracked.checked, tracked.checked - tracked.began, ended - tracked.started, now - ended)
    return Parts(*(round(max(0.0, part) * 1000, 3) for part in parts))


class LinkEnd(Struct, eq=False, gc=False):
    """Sees the messages of one link. Over HTTP there may be one for each call, so it is cheap to make."""

    _tap: Tap
    _client: ClientRecord | None = None

    def client_of(self, link: Link, call: Call | None, headers: Headers | None) -> ClientRecord:
        """The client at the other end, as far as it is known."""
        tap, record = self._tap, self._client
        if record is None:
            if headers is None:
                record = tap.clients.new("stdio")
            elif call is not None and call.dialect.modern:
                record = tap.clients.named(call)
            elif link.session is None or (call is not None and call.method == "initialize"):
                record = tap.clients.new("http")
            else:
                record = tap.clients.claim(link.session)
            self._client = record
        if call is not None and record.name == "" and record.know(call):
            tap.client("came", record)
            if headers is not None and call.method == "initialize":
                tap.clients.offer(record)
        return record

    def received(self, link: Link, data: bytes, headers: Headers | None, events: list[Event]) -> None:
        tap, now = self._tap, perf_counter()
        if (
            now < tap.ring.full_until
            and len(events) == 1
            and type(call := events[0]) is Call
            and (not tap.rounds or getattr(call.params, "request_state", UNSET) is UNSET)
        ):  # With very many calls most of them take this short way, and that of `ended`: it makes no object.
            call.began = now
            client = self._client
            if client is None:
                last = tap.clients.last
                if last is not None and call.client_info == last[0] and call.dialect.modern and headers:
                    client = self._client = last[1]
                else:
                    client = self.client_of(link, call, headers)
            client.messages += 2
            return
        self._received(link, data, headers, events, now >= tap.ring.full_until)

    def _received(self, link: Link, data: bytes, headers: Headers | None, events: list[Event], shown: bool) -> None:
        tap = self._tap
        tracked = None
        calls = [event for event in events if type(event) is Call]
        client = self.client_of(link, calls[0] if calls else None, headers)
        for call in calls:
            tracked = tap.begin(call, client, shown)
        for event in events:
            if isinstance(event, Answer):
                tracked = self._answered(event.pending)
        if not shown:
            client.messages += 1
            tap.ring.leave_out("message")
        else:
            self._show_received(client, data, headers, tracked, calls)
        for event in events:
            if isinstance(event, Refusal):
                tap.message(client, "out", event.data, type="error", status=_status(event.status, headers))

    def _show_received(
        self,
        client: ClientRecord,
        data: bytes,
        headers: Headers | None,
        tracked: Tracked | None,
        calls: list[Call],
    ) -> None:
        if len(calls) == 1:
            head = MessageHead(calls[0].id, calls[0].method.name)
        else:
            head = _head(data)
        self._tap.message(
            client,
            "in",
            data,
            type=_kind(head),
            id=head.id,
            method=head.method or (tracked.method if tracked is not None else None),
            name=tracked.name if tracked is not None else None,
            call=tracked.key if tracked is not None else None,
            headers=None if headers is None else shown_headers(headers, strict=self._tap.strict),
        )

    def ended(self, call: Call, outcome: Result | Raw | ProtocolError | None, data: bytes | None) -> None:
        if call.timings is None and type(outcome) is ToolResult and not outcome.is_error and call.user is None:
            tap = self._tap
            tally = tap.tallies.get(call.params.name) if call.began and call.method.name == "tools/call" else None
            if tally is not None:
                tap.ring.passed += 1
                tally.count += 1
                tally.times.append((perf_counter() - call.began) * 1000)
                return
        self._ended(call, outcome, data)

    def _ended(self, call: Call, outcome: Result | Raw | ProtocolError | None, data: bytes | None) -> None:
        tap = self._tap
        if call.timings is None and _is_plain(outcome):
            self._passed(call)
            return
        tracked = self.tracked(call)
        if tracked is None:
            return
        tap.end(call, tracked, outcome, data)
        if data is None:
            return
        error = isinstance(outcome, ProtocolError)
        if not tracked.shown:
            tap.ring.leave_out("message")
            return
        tap.message(
            tracked.client,
            "out",
            data,
            type="error" if error else "response",
            id=call.id,
            method=tracked.method,
            name=tracked.name,
            call=tracked.key,
            status=_status(call.dialect.status(outcome.code) if error else call.status, call.headers),  # type: ignore[union-attr]
            is_error=isinstance(outcome, ToolResult) and bool(outcome.is_error),
        )

    def _passed(self, call: Call) -> None:
        """A call that is not shown has ended well."""
        tap, client = self._tap, self._client
        if not call.began or client is None:
            return
        tap.ring.passed += 1
        if call.method.name == "tools/call":
            tap.count(call.params.name, "ok", (perf_counter() - call.began) * 1000)
        if client.user is None and call.user is not None:
            client.user = user_mark(call.user)

    def tracked(self, call: Call) -> Tracked | None:
        """What is known of a call. If it is not shown, that is only put together where there is a reason."""
        known = call.timings
        if known is not None or not call.began or self._client is None:
            return known if isinstance(known, Tracked) else None
        self._tap.ring.leave_out("message")
        call.timings = tracked = Tracked(
            call.began,
            key=self._tap.next_key(),
            client=self._client,
            method=call.method.name,
            name=call.name or call.uri,
            at=time.time() + call.began - perf_counter(),
            ids=[call.id],
            revision=call.dialect.version,
        )
        return tracked

    def told(self, call: Call, method: str, params: object, data: bytes) -> None:
        tap, tracked = self._tap, call.timings
        if isinstance(call.channel, _SeenChannel):  # it reports that
            return
        if not isinstance(tracked, Tracked) or not tracked.shown:
            tap.ring.leave_out("message")
            return
        if isinstance(params, ProgressParams):
            tracked.progress = {"progress": params.progress, "total": params.total, "message": params.message}
            tap.ring.add(tap.event(tracked, "running"))
        self._out(tracked, data, type="notification", method=method)

    def asked(self, pending: Pending, method: str, data: bytes) -> None:
        tracked = self.tracked(pending.call)
        if tracked is None:
            return
        if not tracked.waits:
            tracked.since = perf_counter()
        tracked.waits += 1
        if tracked.shown:
            self._tap.ring.add(self._tap.event(tracked, "waiting"))
            self._out(tracked, data, type="request", method=method, id=pending.id)

    def withdrew(self, pending: Pending, data: bytes) -> None:
        tracked = self._answered(pending)
        if tracked is not None and tracked.shown:
            self._out(tracked, data, type="notification", method="notifications/cancelled")

    def _answered(self, pending: Pending) -> Tracked | None:
        """A question is not open any more."""
        tracked = pending.call.timings
        if not isinstance(tracked, Tracked):
            return None
        if tracked.waits == 1:
            tracked.human += perf_counter() - tracked.since
        tracked.waits = max(0, tracked.waits - 1)
        if tracked.shown and not tracked.waits:
            self._tap.ring.add(self._tap.event(tracked, "running"))
        return tracked

    def _out(self, tracked: Tracked, data: bytes, **more: Any) -> None:
        self._tap.message(tracked.client, "out", data, name=tracked.name, call=tracked.key, **more)

    def pushed(self, data: bytes) -> None:
        """A message that belongs to no call, by the hub."""
        if self._client is not None:
            head = _head(data)
            self._tap.message(self._client, "out", data, type="notification", method=head.method)

    def left(self, link: Link) -> None:
        """The client has gone."""
        if self._client is not None and self._client.open:
            self._client.open = False
            self._tap.client("went", self._client)


def _is_plain(outcome: Result | Raw | ProtocolError | None) -> bool:
    """Whether a call ended well, and nothing comes after it."""
    if type(outcome) is ToolResult:
        return not outcome.is_error
    return isinstance(outcome, Result) and not isinstance(outcome, InputRequired | CreateTaskResult | TaskState)


_decode_head = msgspec.json.Decoder(MessageHead).decode


def _head(data: bytes) -> MessageHead:
    try:
        return _decode_head(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MessageHead()


def _kind(head: MessageHead) -> str:
    if head.method is not None:
        return "request" if head.id is not None else "notification"
    return "response" if head.result is not UNSET else "error"


def _status(status: int, headers: Headers | None) -> int | None:
    """The status of the HTTP response, where there is one."""
    return None if headers is None else status


# ---------------------------------------------------------------- what the hub sends


class _SeenChannel:
    """A channel whose messages are seen. All else is left to the channel itself."""

    def __init__(self, channel: Channel, end: LinkEnd) -> None:
        self._channel = channel
        self._end = end

    def __getattr__(self, name: str) -> object:
        return getattr(self._channel, name)

    def send(self, data: bytes) -> None:
        self._end.pushed(data)
        self._channel.send(data)

    async def ready(self) -> None:
        await self._channel.ready()


class _SeenPeer:
    """A peer whose channel is seen; that of an HTTP session may be another one each time."""

    def __init__(self, peer: Peer, end: LinkEnd) -> None:
        self._peer = peer
        self._end = end

    @property
    def link(self) -> Link:
        return self._peer.link

    @property
    def channel(self) -> Channel:
        return _SeenChannel(self._peer.channel, self._end)


class SeenHub(Hub):
    """A hub whose messages are seen."""

    on_close: Callable[[], None]
    """Called when the server stops and ends what would not end by itself."""

    def close(self) -> None:
        super().close()
        self.on_close()

    def join(self, peer: Peer) -> None:
        end = peer.link.tap
        super().join(_SeenPeer(peer, end) if isinstance(end, LinkEnd) else peer)

    def leave(self, peer: Peer) -> None:
        super().leave(peer)
        if isinstance(peer.link.tap, LinkEnd):
            peer.link.tap.left(peer.link)

    async def listen(self, call: Call) -> Result:
        if isinstance(call.link.tap, LinkEnd):
            call.channel = _SeenChannel(call.channel, call.link.tap)
        return await super().listen(call)


# ---------------------------------------------------------------- logging


def _tracked(call: Call, *, failed: bool) -> Tracked | None:
    """What is known of a call. One that fails is shown when it ends, with the reason."""
    if failed and isinstance(call.link.tap, LinkEnd):
        return call.link.tap.tracked(call)
    return call.timings if isinstance(call.timings, Tracked) else None


class LogTap(logging.Handler):
    """Shows the records of Python's logging, in whichever thread they are made."""

    def __init__(self, tap: Tap, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._tap = tap
        self._loop = loop
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            call = current_call.get(None)
            event = self._event(record, None if call is None else _tracked(call, failed=bool(record.exc_info)))
        except Exception:  # a record whose arguments do not fit its text
            self.handleError(record)
            return
        if threading.get_ident() == self._thread:
            self._tap.ring.add(event)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tap.ring.add, event)

    def _event(self, record: logging.LogRecord, tracked: Tracked | None) -> LogEvent:
        text, strict, failure = record.getMessage(), self._tap.strict, None
        if record.exc_info and record.exc_info[1] is not None:
            found = ERROR_ID.search(text)
            failure = failure_of(record.exc_info[1], found[1] if found else None, strict=strict)
            if tracked is not None:
                tracked.failure = failure
        own_words = not strict or record.name.startswith("redstart")
        return LogEvent(
            time=record.created,
            level=record.levelname.lower(),
            logger=record.name,
            text=text[:MAX_TEXT] if own_words else "",
            source="logging",
            call=tracked.key if tracked is not None else None,
            client=tracked.client.id if tracked is not None else None,
            place=place_of(record.pathname, record.lineno),
            error=failure,
        )
