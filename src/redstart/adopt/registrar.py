"""What adopted code is registered with: all that this package knows of a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Registrar(Protocol):
    """The server that adopted code is registered with."""

    def register(self, thing: object, *, replace: bool = False) -> None:
        """Serve `thing` from now on."""

    def remove(self, thing: object) -> None:
        """Serve `thing` no longer."""

    def declare(self, capabilities: Iterable[str]) -> None:
        """Offer these capabilities even while nothing of them is registered."""
