"""From a store's URL to the store. An engine is loaded when a URL names it."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Final, Protocol
from urllib.parse import unquote

from redstart.store.memory import MemoryStore
from redstart.store.shared import SharedState
from redstart.store.tasks import TaskStore

ENGINES: Final = {
    "sqlite": ("sqlite", "SqliteStore", ""),
    "redis": ("redis", "RedisStore", "redis"),
    "rediss": ("redis", "RedisStore", "redis"),
    "valkey": ("redis", "RedisStore", "redis"),
    "postgresql": ("postgresql", "PostgresStore", "postgres"),
}
"""The module and the class of an engine, and the extra of redstart that it needs."""
KNOWN: Final = "memory://, sqlite:///file.db, redis://host, rediss://host, valkey://host, postgresql://host/database"


class Store(TaskStore, SharedState, Protocol):
    """What every engine is: tasks and shared state in one object."""


def open_state(store: str | SharedState | None) -> SharedState:
    """The shared state that `Server(store=…)` names.

    >>> type(open_state("memory://")).__name__
    'MemoryStore'
    """
    if store is None:
        return MemoryStore()
    if isinstance(store, str):
        return open_store(store)
    if not callable(getattr(store, "kv_get", None)):
        raise TypeError(f"store= is a URL (known: {KNOWN}) or a store, not {type(store).__name__}")
    return store


def is_shared(store: SharedState) -> bool:
    """Whether other processes may use the same store.

    >>> is_shared(open_store("memory://"))
    False
    """
    return not isinstance(store, MemoryStore)


def open_store(url: str) -> Store:
    """The store that a URL names. It connects when it is first used.

    >>> type(open_store("memory://")).__name__
    'MemoryStore'
    """
    if url == "memory://":
        return MemoryStore()
    scheme, mark, place = url.partition("://")
    if not mark or scheme not in ENGINES:
        near = get_close_matches(scheme.partition(":")[0].lower(), ("memory", *ENGINES), 1)
        hint = f"; did you mean {near[0]}://?" if near else ""
        raise ValueError(f"no store is known for {shown_url(url)!r}{hint} (known: {KNOWN})")
    if scheme == "sqlite" and (len(place) < 2 or place[0] != "/" or "?" in place):
        right = "sqlite:///relative/file.db or sqlite:////absolute/file.db"
        raise ValueError(f"{shown_url(url)!r} does not name a file alone: write {right}")
    module, name, extra = ENGINES[scheme]
    try:
        engine: Callable[[str], Store] = getattr(import_module(f"redstart.store.{module}"), name)
    except ModuleNotFoundError as error:
        install = f'pip install "redstart[{extra}]"'
        raise ImportError(f"the store {scheme}:// needs the package {error.name}: {install}") from None
    return engine(unquote(place[1:]) if scheme == "sqlite" else url)


def shown_url(url: str) -> str:
    """The URL without its user and its query, which may be secret."""
    user, at, rest = url.rpartition("@")
    scheme, mark, _ = (user or rest).partition("://")
    place, question, _ = rest.partition("?")
    return (f"{scheme}{mark}" if at and mark else "") + (f"***{at}" if at else "") + place + ("?…" if question else "")
