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
        raise ValueError(f"no store is known for {_shown(store)!r}; known: memory://")
    if not callable(getattr(store, "kv_get", None)):
        raise TypeError(f"store= is a URL (known: memory://) or a store, not {type(store).__name__}")
    return store


def _shown(url: str) -> str:
    """The URL without its user and its query, which may be secret."""
    user, at, rest = url.rpartition("@")
    scheme, mark, _ = (user or rest).partition("://")
    place, question, _ = rest.partition("?")
    return (f"{scheme}{mark}" if at and mark else "") + (f"***{at}" if at else "") + place + ("?…" if question else "")
