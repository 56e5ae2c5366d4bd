"""The connected clients, and how long the calls of each tool take."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from redstart.protocol.call import Call
from redstart.protocol.dialect import Session
from redstart.wire.meta import Implementation

MAX_CLIENTS: Final = 200
MAX_TEXT: Final = 200
MEASURED: Final = 512
"""The last calls of a tool that its percentiles are of."""
LAST: Final = 60
MAX_TOOLS: Final = 5000


class ClientRecord(Struct, rename="camel", kw_only=True, eq=False):
    """One client, as the page shows it."""

    id: str
    transport: str
    since: float
    seen: float
    name: str = ""
    version: str = ""
    title: str | None = None
    revision: str | None = None
    era: str | None = None
    capabilities: dict[str, object] = {}
    open: bool = True
    messages: int = 0
    user: str | None = None
    worker: int

    def know(self, call: Call) -> bool:
        """Take name, version and revision from a request; whether one of them has changed."""
        info, before = call.client_info, (self.name, self.version, self.revision)
        if isinstance(info, Implementation):
            self.name, self.version = info.name[:MAX_TEXT], info.version[:MAX_TEXT]
            self.title = info.title[:MAX_TEXT] if info.title else None
        self.revision, self.era = call.dialect.version, "modern" if call.dialect.modern else "handshake"
        if before != (self.name, self.version, self.revision):
            self.capabilities = _declared(call)
            return True
        return False


def _declared(call: Call) -> dict[str, object]:
    declared = {name: getattr(call.capabilities, name) for name in call.capabilities.__struct_fields__}
    known: dict[str, object] = msgspec.to_builtins(
        {name: value for name, value in declared.items() if value is not UNSET}
    )
    return known if len(str(known)) < 4000 else {name: {} for name in known}


class Clients:
    """The clients of this process; those that have gone are kept for a while."""

    def __init__(self, worker: int, prefix: str = "") -> None:
        self._worker = worker
        self._prefix = prefix
        self._records: OrderedDict[str, ClientRecord] = OrderedDict()
        self._by_name: dict[tuple[str, str], ClientRecord] = {}
        self._fresh: dict[tuple[str, str, str], ClientRecord] = {}
        """HTTP clients that have made a handshake, and whose session was not seen yet."""
        self._numbers = count(1)
        self.last: tuple[object, ClientRecord] | None = None
        """The last argument and result of `named`: the next call is often of the same client."""

    def __iter__(self) -> Iterator[ClientRecord]:
        return iter(self._records.values())

    def new(self, transport: str) -> ClientRecord:
        """A client of which nothing is known yet."""
        now = time.time()
        record = ClientRecord(
            id=f"{self._prefix}c{next(self._numbers)}", transport=transport, since=now, seen=now, worker=self._worker
        )
        self._records[record.id] = record
        while len(self._records) > MAX_CLIENTS:
            gone = next((one for one in self._records.values() if not one.open), next(iter(self._records.values())))
            self._drop(gone)
        return record

    def named(self, call: Call) -> ClientRecord:
        """The client of a modern request over HTTP: all that have the same name and version count as one."""
        info = call.client_info
        key = (info.name, info.version) if isinstance(info, Implementation) else ("", "")
        record = self._by_name.get(key)
        if record is None:
            key = key[0][:MAX_TEXT], key[1][:MAX_TEXT]
            record = self._by_name.get(key) or self.new("http")
            self._by_name[key] = record
        self.last = info, record
        return record

    def offer(self, record: ClientRecord) -> None:
        """A handshake over HTTP was made: the session that begins with it is this client's."""
        self._fresh[record.name, record.version, record.revision or ""] = record

    def claim(self, session: Session) -> ClientRecord:
        """The client of a session over HTTP that is seen for the first time."""
        info = session.client_info
        name, version = (info.name, info.version) if isinstance(info, Implementation) else ("", "")
        for fresh in reversed(self._fresh):  # the id of a session has the beginnings of name and version only
            if fresh[2] == session.revision and fresh[0].startswith(name) and fresh[1].startswith(version):
                return self._fresh.pop(fresh)
        return self.new("http")

    def forget_gone(self) -> None:
        for record in [record for record in self._records.values() if not record.open]:
            self._drop(record)

    def _drop(self, record: ClientRecord) -> None:
        del self._records[record.id]
        if self.last is not None and self.last[1] is record:
            self.last = None
        for table in (self._by_name, self._fresh):
            for key in [key for key, known in table.items() if known is record]:
                del table[key]  # type: ignore[arg-type]


class Tally:
    """The calls of one tool. Not a Struct, whose fields take longer to change."""

    __slots__ = ("count", "errors", "times")

    def __init__(self) -> None:
        self.count = 0
        self.errors = 0
        self.times: deque[float] = deque(maxlen=MEASURED)
        """Milliseconds of the last ones."""

    def shown(self) -> Statistics:
        times = sorted(self.times)
        last = [round(ms, 3) for ms in list(self.times)[-LAST:]]
        return Statistics(
            self.count, self.errors, _percentile(times, 50), _percentile(times, 95), _percentile(times, 99), last
        )


class Statistics(Struct, frozen=True):
    """How long the calls of a tool take, in milliseconds."""

    count: int
    errors: int
    p50: float
    p95: float
    p99: float
    last: Sequence[float]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3) if ordered else 0.0
