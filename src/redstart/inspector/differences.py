"""What is different between two servers: the entries of their lists, before and after."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec import Struct

from redstart.features.registry import Catalog, Compiled
from redstart.protocol.dialect import Dialect
from redstart.server.runtime import Description
from redstart.wire.jsonrpc import decode, encode

T = TypeVar("T", bound=Compiled[Any])

LISTS: Final = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"}
"""The registries of a server, and the list whose change clients are told of."""


class EntryChange(Struct, frozen=True, rename="camel"):
    """An entry of a list, before and after."""

    name: str
    before: object
    after: object


class Diff(Struct, frozen=True, rename="camel"):
    """What is different in a list: the names or URIs of its entries."""

    added: list[str]
    removed: list[str]
    changed: list[EntryChange]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare(before: Description, after: Description, dialect: Dialect) -> dict[str, Diff]:
    """What is different in each of the lists of two servers."""
    return {name: _diff(getattr(before, name), getattr(after, name), dialect) for name in LISTS}


def _diff(before: Catalog[T], after: Catalog[T], dialect: Dialect) -> Diff:
    old, new = (_entries(catalog, dialect) for catalog in (before, after))
    both = [key for key in new if key in old]
    return Diff(
        [key for key in new if key not in old],
        [key for key in old if key not in new],
        [EntryChange(key, old[key], new[key]) for key in both if old[key] != new[key]],
    )


def _entries(catalog: Catalog[T], dialect: Dialect) -> dict[str, object]:
    return {key: decode(encode(item.entry(dialect))) for key, item in catalog.items.items()}
