"""From a store's URL to the store."""

from __future__ import annotations

from redstart.store.memory import MemoryState
from redstart.store.shared import SharedState


def open_state(store: str | SharedState | None) -> SharedState:
    """The shared state that `Server(store=…)` names.

    >>> type(open_state("memory://")).__name__
    'MemoryState'
    """
    if store is None or store == "memory://":
        return MemoryState()
    if isinstance(store, str):
        raise ValueError(f"no store is known for {store!r}; known: memory://")
    return store
