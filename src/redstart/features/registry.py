"""The things of one kind that a server offers: tools, prompts, resources or templates.

A Registry changes when something is registered or removed. A Catalog is the registry at one moment: calls use this.
Lists are encoded once per catalog and dialect.
"""

from __future__ import annotations

import logging
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import UNSET, Raw, Struct

from redstart.features.errors import RegistrationError
from redstart.features.options import Cache, Declared
from redstart.features.rules import did_you_mean
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError
from redstart.wire.types import ListResult

log = logging.getLogger("redstart")

Function: TypeAlias = Callable[..., Any]
"""A function of the application, such as a handler."""
Arguments: TypeAlias = dict[str, Any]
"""Keyword arguments of a function, or annotations of its parameters."""
Invoke = Callable[[Call, Arguments], Awaitable[Any]]
"""Runs a handler for a call with these keyword arguments."""
OnDuplicate = Literal["warn", "error", "replace"]

D = TypeVar("D", bound=Declared)

_HIDDEN: Final = (
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What a person does not see in a text that a model reads: control, zero-width, direction and tag characters.

The joiners of some scripts and of emoji, and the marks of direction that writing needs, are not among them.
"""


def not_equipped(call: Call, arguments: Arguments) -> Awaitable[object]:
    """The value of `invoke` until a Compiler has set it."""
    raise RuntimeError("no Compiler has decided how this handler runs")


class Compiled(Struct, Generic[D], eq=False, kw_only=True):
    """The compiled form of what is declared, with all that its calls need. A registry holds these."""

    declared: D
    description: str | None
    handler: Function | None = None
    """The function that runs. It is not always the one that the user wrote."""
    executor: str | None = None
    injected: Arguments = {}
    """The annotations of the parameters that the server fills."""
    invoke: Invoke = not_equipped
    """Runs the handler within its limits."""
    sees: Callable[[Call], bool] | None = None
    """Whether it is in the lists that the client of a call gets. None means that it is in all of them."""
    admits: Callable[[Call], bool] | None = None
    """Whether the client of a call may use it. None means that everybody may."""
    refusal: Callable[[Call], ProtocolError | None] | None = None
    """The error for a client that may know of it, but whose token lacks a scope."""
    number: int = 0
    """Its place in the list: what is registered later has a higher one."""

    @property
    def key(self) -> str:
        return self.declared.key

    def entry(self, dialect: Dialect) -> object:
        """The entry of its list, in one dialect."""
        raise NotImplementedError

    def texts(self) -> Iterator[tuple[str, object]]:
        """What clients show to people and models: the name of each text, and the text or a schema that has texts."""
        yield from (("name", self.key), ("title", self.declared.title), ("description", self.description))

    def facts(self) -> Arguments:
        """The fields that the entries of all lists have in common."""
        declared = self.declared
        return {
            "title": declared.title or None,
            "description": self.description or None,
            "icons": list(declared.icons) if declared.icons else None,
            "meta": dict(declared.meta) if declared.meta else None,
        }


Injected: TypeAlias = Callable[[object, object], bool]
"""Whether a parameter with this annotation and default is filled by the server."""


class Compiler(Protocol):
    """Decides how a handler runs, in the thread or process and within the limits that it has."""

    def injected(self, annotation: object, default: object) -> bool:
        """Whether a parameter is filled by the server, not by the client."""

    def equip(self, compiled: Any, invoke: Invoke | None = None) -> None:
        """Give a compiled form the function that runs its handler, or runs `invoke` in place of it."""

    def context_for(self, fn: Function) -> Callable[[Call], Any]:
        """The kind of context that suits `fn`."""

    def compose(
        self,
        fn: Function,
        injected: Arguments,
        *,
        executor: str | None = None,
        cut: Any = None,
        typed: bool = True,
        convert: Callable[[Any], object] | None = None,
    ) -> Invoke:
        """The function that runs `fn`, without limits."""


T = TypeVar("T", bound=Compiled[Any])


class Registry(Generic[T]):
    """The items of one kind, in the order in which they were registered."""

    def __init__(
        self,
        kind: str,
        on_duplicate: OnDuplicate = "warn",
        page_size: int | None = None,
        *,
        cache: Cache | None = None,
        include_tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] = (),
    ) -> None:
        self.kind = kind
        self.items: dict[str, T] = {}
        self.changed: list[Callable[[], None]] = []
        """Functions that are called after each change."""
        self._cache = cache or Cache()
        self._page_size = page_size
        self._include = None if include_tags is None else frozenset(include_tags)
        self._exclude = frozenset(exclude_tags)
        self._left_out: dict[str, T] = {}
        self._next_number = count(1)
        self._hidden = 0
        """How many things do not exist for everybody."""
        self._on_duplicate = on_duplicate

    def __iter__(self) -> Iterator[Any]:
        """What was declared."""
        return iter([item.declared for item in self.items.values()])

    def __getitem__(self, key: str) -> Any:
        """What was declared under `key`."""
        return self.items[key].declared

    def __len__(self) -> int:
        return len(self.items)

    def add(self, item: T, *, replace: bool = False) -> None:
        """Add `item`, or replace the one with the same key. An item that its tags exclude is kept, but not served."""
        self._refuse_hidden(item)
        tags = item.declared.tags
        if tags & self._exclude or (self._include is not None and not tags & self._include):
            self._left_out[item.key] = item
            return
        other = self.items.get(item.key)
        if other is not None and other.declared is not item.declared and not replace:
            self._report_duplicate(item, other)
        self._hidden += item.sees is not None  # before: another thread may make a catalog meanwhile
        if other is None:
            item.number = next(self._next_number)
            self.items[item.key] = item
        else:
            item.number = other.number
            self.items[item.key] = item
            self._hidden -= other.sees is not None
        self._tell()

    def remove(self, key: str) -> T:
        """Remove the item with this key."""
        if key in self._left_out and key not in self.items:
            return self._left_out.pop(key)
        try:
            item = self.items.pop(key)
        except KeyError:
            raise KeyError(f"no {self.kind} is called {key!r}") from None
        self._hidden -= item.sees is not None
        self._tell()
        return item

    def keys_of(self, thing: object) -> list[str]:
        """The keys of `thing`, which is a declared object, its handler, the provider that lists it, or a key itself."""
        known = {key: item.declared for key, item in {**self._left_out, **self.items}.items()}
        return [
            key
            for key, declared in known.items()
            if thing is declared
            or thing is getattr(declared, "source", self)
            or thing in (key, declared.handler or key)
        ]

    def catalog(self) -> Catalog[T]:
        """The things that are registered now."""
        return Catalog(self.kind, self.items.copy(), self._hidden > 0, self._cache, self._page_size)

    def _tell(self) -> None:
        for listener in self.changed:
            listener()

    def _refuse_hidden(self, item: T) -> None:
        """A text must be for a model what it is for the person who allows its use."""
        for what, text in item.texts():
            if (found := hidden_character(text)) is not None:
                raise RegistrationError(
                    f"{item.declared.place}: the {what} of the {self.kind} {item.key!r} has the character "
                    f"U+{ord(found):04X}, which people do not see and models read; remove it"
                )

    def _report_duplicate(self, item: T, other: T) -> None:
        message = (
            f"the {self.kind} {item.key!r} is registered twice: at {other.declared.place} and at {item.declared.place}"
        )
        if self._on_duplicate == "error":
            raise RegistrationError(message)
        if self._on_duplicate == "warn" and not _is_cell(item.declared.place):  # a cell that is run again means it
            log.warning("%s; the second one is served", message)


def _is_cell(place: str) -> bool:
    """Whether a place is in a cell of a notebook: IPython and its kernel name the code of cells so."""
    return place.startswith("<ipython-input") or "ipykernel_" in place


def hidden_character(value: object) -> str | None:
    """The first hidden character of a text, or of the titles and descriptions in a schema.

    >>> hidden_character({"type": "string", "description": "a\u202eb"})
    '\\u202e'
    """
    parts: Iterable[object] = ()
    if isinstance(value, str):
        hidden = None if value.isprintable() else re.search(_HIDDEN, value)
        return None if hidden is None else hidden[0]
    if isinstance(value, Mapping):
        data = ("default", "enum", "const", "examples")  # values for programs: a separator may be a control character
        shown = ("title", "description")
        parts = (v for k, v in value.items() if k in shown or (k not in data and not isinstance(v, str)))
    elif isinstance(value, list | tuple):
        parts = (part for part in value if not isinstance(part, str))
    return next((found for part in parts if (found := hidden_character(part)) is not None), None)


class Catalog(Generic[T]):
    """A registry at one moment. Its items do not change: the next change of the registry makes another catalog."""

    def __init__(self, kind: str, items: Mapping[str, T], private: bool, cache: Cache, page_size: int | None) -> None:
        self.items = items
        self.cache = cache
        self._kind = kind
        self._private = private
        """Whether the list depends on who asks."""
        self._page_size = page_size
        self._pages: dict[tuple[Dialect, str | None], Raw | None] = {}
        """The encoded pages, by dialect and cursor. None: its cursor was given out, but not used yet."""

    # ------------------------------------------------------------ visibility

    def find(self, key: str, call: Call) -> T | None:
        """The item with this key, if the client of `call` may use it."""
        item = self.items.get(key)
        return item if item is None or item.admits is None or item.admits(call) else None

    def usable(self, call: Call) -> list[T]:
        """All items that the client of `call` may use."""
        return [item for item in list(self.items.values()) if item.admits is None or item.admits(call)]

    def visible(self, call: Call) -> list[T]:
        """All items that the client of `call` may see in lists."""
        items = list(self.items.values())
        return [item for item in items if item.sees is None or item.sees(call)] if self._private else items

    def unknown(self, key: str, call: Call) -> ProtocolError:
        """The error for a key that does not exist, or that the client of `call` may not see or use."""
        item = self.items.get(key)
        if item is not None and item.refusal is not None and (refusal := item.refusal(call)) is not None:
            return refusal
        hint = did_you_mean(key, (item.key for item in self.visible(call)))
        return ProtocolError(INVALID_PARAMS, f"Unknown {self._kind}: {key[:200]}{hint}")

    # ------------------------------------------------------------ pages

    def page(self, call: Call) -> Raw:
        """The page that a list request asks for, encoded once for each dialect unless it depends on who asks.

        Only the pages that a client reaches from the first one are kept: a client can make up any number of cursors.
        """
        cursor = None if call.params.cursor is UNSET else call.params.cursor
        body = self._pages.get((call.dialect, cursor))
        if body is None:
            result = self.result(call)
            body = Raw(call.dialect.dress(result))
            if not self._private and (cursor is None or (call.dialect, cursor) in self._pages):
                self._pages[call.dialect, cursor] = body
                if result.next_cursor:
                    self._pages[call.dialect, result.next_cursor] = None
        return body

    def result(self, call: Call) -> ListResult:
        """The same page as an object."""
        cursor = call.params.cursor
        items = self.visible(call)
        start = 0 if cursor is UNSET or cursor is None else self._start(items, cursor)
        end = len(items) if not self._page_size else start + self._page_size
        result = ListResult()
        setattr(result, call.method.list_of or "", [item.entry(call.dialect) for item in items[start:end]])
        if end < len(items):
            last = items[end - 1]
            result.next_cursor = urlsafe_b64encode(f"{last.number}:{last.key}".encode()).decode()
        if call.dialect.modern:
            result.ttl_ms = int(self.cache.ttl * 1000)
            result.cache_scope = "private" if self._private else self.cache.scope
        return result

    def _start(self, items: list[T], cursor: str) -> int:
        """The position after the key that the cursor names; if it was removed since, after its number."""
        try:
            at, _, key = b64decode(cursor.encode(), b"-_", validate=True).decode().partition(":")
            number = self.items[key].number if key in self.items else int(at)
        except ValueError:
            raise ProtocolError(INVALID_PARAMS, "Unknown cursor; start the list again without one") from None
        from bisect import bisect_right

        return bisect_right(items, number, key=lambda item: item.number)
