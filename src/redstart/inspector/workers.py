"""Several processes behind one page: each tells the others what happens in it, as long as a page is open somewhere.

Messages go over the bus of the shared store. If one is lost, the page lacks an event.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

import msgspec
from msgspec import Raw, Struct

from redstart.features.replica import Replica, Word
from redstart.inspector.clients import LAST, ClientRecord, Statistics
from redstart.inspector.events import AnyEvent
from redstart.inspector.host import Host
from redstart.wire.jsonrpc import encode

KIND: Final = "inspect"
ASKED: Final = 2.0
"""Seconds between two signs that a page is open here."""
WANTED: Final = 3 * ASKED
"""Seconds for which such a sign counts."""
PAUSE: Final = 0.1
"""Seconds between two messages with events."""
MOMENT: Final = 0.15
MAX_WAITING: Final = 500
MAX_OTHERS: Final = 1000
_decode_events = msgspec.json.Decoder(list[AnyEvent]).decode


class WorkerState(Struct, rename="camel"):
    """What a process tells of itself."""

    clients: list[ClientRecord]
    tools: dict[str, Statistics]


_decode_state = msgspec.json.Decoder(WorkerState).decode


class Workers:
    """This process as one of several whose events are shown."""

    def __init__(self, host: Host, replica: Replica) -> None:
        self._host = host
        self._replica = replica
        self._me = str(os.getpid())
        self._wanted = 0.0
        self._waiting: list[AnyEvent] = []
        self._others: dict[str, tuple[float, WorkerState]] = {}
        replica.on(KIND, self._heard)
        host.ring.listeners.append(self._happened)

    async def run(self) -> None:
        """Send what has happened, and ask the others while a page is open here."""
        asked = 0.0
        while True:
            await asyncio.sleep(PAUSE)
            now = time.monotonic()
            if self._host.ring.read and now - asked >= ASKED:
                asked = now
                self._replica.tell(Word(KIND, id=self._me, text="want"))
            if self._waiting:
                events, self._waiting = self._waiting, []
                self._replica.tell(Word(KIND, id=self._me, text="events", data=Raw(encode(events))))

    def _happened(self, event: AnyEvent) -> None:
        if time.monotonic() < self._wanted and len(self._waiting) < MAX_WAITING:
            self._waiting.append(event)

    async def _heard(self, word: Word) -> None:
        if word.id == self._me:
            return
        if word.text == "want":
            self._wanted = time.monotonic() + WANTED
            seen = self._host.seen
            state = WorkerState(list(seen.clients), {name: tally.shown() for name, tally in seen.tallies.items()})
            self._replica.tell(Word(KIND, id=self._me, text="state", data=Raw(encode(state))))
        elif word.text == "state" and len(self._others) < MAX_OTHERS:
            self._others[word.id] = time.monotonic(), _decode_state(word.data)
        elif word.text == "events":
            for event in _decode_events(word.data):
                event.worker = int(word.id)
                self._host.ring.keep(event)

    def merge(self, state: dict[str, object]) -> None:
        """Add what the others have told to a state."""
        now = time.monotonic()
        self._others = {id: told for id, told in self._others.items() if now - told[0] < WANTED}
        others = [told for _, told in self._others.values()]
        own = self._host.seen
        state["workers"] = 1 + len(others)
        state["clients"] = [*own.clients, *(record for told in others for record in told.clients)]
        tools = {name: tally.shown() for name, tally in own.tallies.items()}
        for told in others:
            for name, more in told.tools.items():
                tools[name] = _sum(tools[name], more) if name in tools else more
        state["tools"] = tools

    async def gather(self) -> None:
        """Ask the others for their states, and give them a moment to answer."""
        self._replica.tell(Word(KIND, id=self._me, text="want"))
        await asyncio.sleep(MOMENT)


def _sum(one: Statistics, other: Statistics) -> Statistics:
    """The sum of two. Percentiles cannot be added, so the larger ones are shown."""
    return Statistics(
        one.count + other.count,
        one.errors + other.errors,
        max(one.p50, other.p50),
        max(one.p95, other.p95),
        max(one.p99, other.p99),
        [*one.last, *other.last][-LAST:],
    )
