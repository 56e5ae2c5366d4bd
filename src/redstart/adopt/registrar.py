"""The part of a server that this package uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Registrar(Protocol):
    """The server that adopted code is registered with."""

    def register(self, thing: object, *, replace: bool = False) -> None:
        """Serve `thing` from now on."""

    def remove(self, thing: object) -> None:
        """Stop serving `thing`."""

    def declare(self, capabilities: Iterable[str]) -> None:
        """Offer these capabilities even if nothing is registered for them."""
