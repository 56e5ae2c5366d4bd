"""An ordered set of named things, with pages, a version that every change moves, and a signal for it.

Tools, prompts, resources and templates each have one. Lists are encoded once per version and dialect.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import UNSET, Raw, Struct

from redstart.features.errors import RegistrationError
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError
from redstart.wire.types import ListResult

log = logging.getLogger("redstart")

OnDuplicate = Literal["warn", "error", "replace"]


class Listed(Protocol):
    """What a registry holds: something with a key, a place in the source, and an entry for each dialect."""

    @property
    def key(self) -> str: ...
    @property
    def place(self) -> str: ...
    def entry(self, dialect: Any) -> Any: ...


T = TypeVar("T", bound=Listed)


class Cache(Struct, frozen=True):
    """How long, and for whom, a modern client may keep a result.

    >>> Cache(ttl=60, scope="private").ttl
    60
    """

    ttl: float = 0
    scope: Literal["public", "private"] = "private"


class Registry(Generic[T]):
    """The things of one kind, in the order in which they were registered."""

    def __init__(self, kind: str, on_duplicate: OnDuplicate = "warn", page_size: int | None = None) -> None:
        self.kind = kind
        self.items: dict[str, T] = {}
        self.version = 0
        self.changed: list[Callable[[], None]] = []
        self.cache = Cache()
        self.page_size = page_size
        self._on_duplicate = on_duplicate
        self._pages: dict[tuple[Any, str], Raw] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self.items.values())

    def __len__(self) -> int:
        return len(self.items)

    def add(self, item: T) -> None:
        """Add `item`, or put it in the place of the one with the same key."""
        other = self.items.get(item.key)
        if other is not None and other is not item:
            self._report_duplicate(item, other)
        self.items[item.key] = item
        self._touch()

    def remove(self, key: str) -> T:
        """Take out what `key` names."""
        try:
            item = self.items.pop(key)
        except KeyError:
            raise KeyError(f"no {self.kind} is called {key!r}") from None
        self._touch()
        return item

    def _touch(self) -> None:
        self.version += 1
        self._pages.clear()
        for listener in self.changed:
            listener()

    def _report_duplicate(self, item: T, other: T) -> None:
        message = f"the {self.kind} {item.key!r} is registered twice: at {other.place} and at {item.place}"
        if self._on_duplicate == "error":
            raise RegistrationError(message)
        if self._on_duplicate == "warn":
            log.warning("%s; the second one is served", message)

    # ------------------------------------------------------------ pages

    def page(self, call: Call) -> Raw:
        """The page that a list request asks for, encoded once for each dialect."""
        cursor = call.params.cursor
        cursor = "" if cursor is UNSET or cursor is None else f"c{cursor}"
        key = (call.dialect, cursor)
        body = self._pages.get(key)
        if body is None:
            result = self._page(call, cursor)
            body = Raw(call.dialect.dress(result))
            if len(self._pages) < 1024:
                self._pages[key] = body
        return body

    def _page(self, call: Call, cursor: str) -> ListResult:
        keys = list(self.items)
        start = self._start(keys, cursor) if cursor else 0
        end = len(keys) if not self.page_size else start + self.page_size
        entries = [self.items[key].entry(call.dialect) for key in keys[start:end]]
        result = ListResult()
        setattr(result, call.method.list_of or "", entries)
        if end < len(keys):
            result.next_cursor = urlsafe_b64encode(keys[end - 1].encode()).decode()
        if call.dialect.modern:
            result.ttl_ms = int(self.cache.ttl * 1000)
            result.cache_scope = self.cache.scope
        return result

    def _start(self, keys: list[str], cursor: str) -> int:
        """After the key that the cursor names: an item that was removed since does not break the walk."""
        try:
            return keys.index(urlsafe_b64decode(cursor[1:].encode()).decode()) + 1
        except ValueError:
            raise ProtocolError(INVALID_PARAMS, "Unknown cursor; start the list again without one") from None
