"""Readable lines in the terminal: one for each call, reload and client. In colour on terminals only."""

from __future__ import annotations

import time
from typing import Final, TextIO

from redstart.cli.output import one_line, styled
from redstart.inspector.clients import Clients
from redstart.inspector.differences import LISTS
from redstart.inspector.events import AnyEvent, CallEvent, ClientEvent, ReloadEvent

OUTCOMES: Final = {"ok": "green", "tool_error": "red", "error": "red", "cancelled": "yellow", "input_required": "cyan"}
QUIET: Final = frozenset(("ping", "notifications/initialized"))


class Lines:
    """Writes a line for each event that has one."""

    def __init__(self, out: TextIO, clients: Clients) -> None:
        self._out = out
        self._clients = clients

    def paint(self, text: str, colour: str) -> str:
        return styled(text, colour, self._out)

    def show(self, event: AnyEvent) -> None:
        """Write the line of an event, if it has one."""
        if isinstance(event, CallEvent) and event.state == "done" and event.method not in QUIET:
            self._write(self._call(event))
        elif isinstance(event, ReloadEvent):
            self._write(self._reload(event))
        elif isinstance(event, ClientEvent):
            self._write(self._client(event))

    def _write(self, line: str) -> None:
        clock = self.paint(time.strftime("%H:%M:%S"), "dim")
        self._out.write(f"{clock}  {line}\n")
        self._out.flush()

    def _call(self, event: CallEvent) -> str:
        known = next((record for record in self._clients if record.id == event.client), None)
        client = _safe(known.name) if known is not None and known.name else event.client
        what = event.method if event.name is None else f"{event.method} {_safe(event.name)}"
        outcome = event.outcome or ""
        said = f"{outcome} {event.code}" if event.code is not None else outcome
        line = f"{client}  {what}  {self.paint(said, OUTCOMES.get(outcome, 'dim'))}  {event.ms:.1f} ms"
        if event.human:
            line += f" (and {event.human / 1000:.1f} s of a human)"
        if event.error is not None:
            where = f" at {event.error.place.shown}" if event.error.place is not None else ""
            line += "  " + self.paint(f"{event.error.type}{where}", "red")
        return line

    def _reload(self, event: ReloadEvent) -> str:
        files = ", ".join(event.files)
        if event.error is not None:
            kept = "what was served before goes on being served"
            return f"{self.paint('not reloaded', 'red')}  {files}: {kept}\n{_indented(event.error.traceback)}"
        changes = []
        for name in LISTS:
            found = getattr(event, name)
            for mark, keys in (("+", found.added), ("-", found.removed), ("~", [one.name for one in found.changed])):
                changes += [f"{mark}{name[:-1]} {_safe(key)}" for key in keys]
        shown = ", ".join(changes[:8]) + (f" and {len(changes) - 8} more" if len(changes) > 8 else "")
        return f"{self.paint('reloaded', 'green')}  {files}  {event.ms:.0f} ms  {shown or 'the lists are the same'}"

    def _client(self, event: ClientEvent) -> str:
        record = event.client
        about = f"{_safe(record.name)} {_safe(record.version)}".strip() or record.id
        return self.paint(f"{about} {event.change} ({record.transport}, {record.revision})", "dim")


def _safe(text: str) -> str:
    return one_line(text[:100])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())
