"""What clients have yet to take, counted for all connections together: no number of clients that do not read takes
more memory than that."""

from __future__ import annotations

from typing import Protocol

from redstart.transports.options import MAX_UNSENT


class Reader(Protocol):
    """A client that is behind."""

    taken: float
    """When it last took something."""

    def waiting(self) -> int:
        """The bytes that wait for it now; notes whether it has taken some."""

    def give_up(self) -> None:
        """Hang up on it, and let go of what waits for it."""


class Backlog:
    """The clients that are behind. Where too much waits, whoever has taken nothing for longest is hung up on."""

    def __init__(self, limit: int = MAX_UNSENT) -> None:
        self._limit = limit
        self._sizes: dict[Reader, int] = {}
        self._total = 0

    def put(self, reader: Reader) -> None:
        """More waits for this client. It is not hung up on for that: it had no time to take anything."""
        self._note(reader)
        if self._total > self._limit:
            for other in tuple(self._sizes):
                self._note(other)
            for other in sorted(self._sizes, key=lambda found: found.taken):
                if self._total > self._limit and other is not reader:
                    self.drop(other)
                    other.give_up()

    def drop(self, reader: Reader) -> None:
        """It has caught up, or has gone."""
        self._total -= self._sizes.pop(reader, 0)

    def _note(self, reader: Reader) -> None:
        size = reader.waiting()
        self._total += size - self._sizes.get(reader, 0)
        self._sizes[reader] = size
