"""Containers of the intermediate form: arrays, fixed tuples, maps.

Same contract as `scalars.py`.  Must not know: annotations, functions.
"""

import datetime
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from redstart.schema.document import Defs, Schema
from redstart.schema.errors import Place, bad_key, join, refused, wrong_type, wrong_value
from redstart.schema.limits import Limits
from redstart.schema.scalars import ABSENT, INVALID, Choice, Node, Scalar, Walk, narrowed


def opened(value: Any, kind: type, walk: Walk) -> Any:
    """The value, or in a lax walk the array or object that hosts put into a string."""
    if walk.lax and type(value) is str:
        inner = _opened(value) if walk.memo is None else _known(walk.memo, value)
        return inner if type(inner) is kind else value
    return value


def _opened(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text


def _known(memo: dict[Any, Any], text: str) -> Any:
    """One object for one string, however often it is opened: the memo knows objects by their identity."""
    if id(text) not in memo:
        memo[id(text)] = (_opened(text), text)
    return memo[id(text)][0]


def checked(out: Any, limits: Limits | None, value: Any, path: Place, walk: Walk) -> Any:
    if limits is not None and (words := limits.broken(out)) is not None:
        return walk.refuse(wrong_value, path, words, value)
    return out


ALIKE = 40  # different values with one hash; floats that differ by a power of two come to 34
SALTED = (str, bytes, bool, type(None), datetime.datetime, datetime.date, datetime.time)
CROWDED = "too many of its values have one hash, and would take too long to tell apart"


def is_salted(node: Node) -> bool:
    """Whether no client can write many values of this type that have the same hash."""
    return isinstance(node, Choice) or (isinstance(node, Scalar) and node.kind.native in SALTED)


def is_crowded(values: Iterable[Any]) -> bool:
    """Whether a set or dict of the values takes time that grows with the square of their number.

    The hash of a number, a UUID or a tuple of them is known beforehand, so a client can choose such values.
    """
    found: dict[int, list[Any]] = {}
    for value in values:
        alike = found.setdefault(hash(value), [])
        if value not in alike:
            alike.append(value)
            if len(alike) > ALIKE:
                return True
    return False


class Container(Node):
    """A node that reads an array or an object, and each value in it. `holds` is what JSON has for it."""

    __slots__ = ()
    holds: type

    def read(self, value: Any, path: Place, walk: Walk) -> Any:
        value = opened(value, self.holds, walk)
        if type(value) is not self.holds:
            return walk.refuse(wrong_type, path, self.words, value)
        return remembered(self, self.fill, value, path, walk)

    def fill(self, value: Any, path: Place, walk: Walk) -> Any:
        raise NotImplementedError


def remembered(node: Node, fill: Callable[[Any, Place, Walk], Any], value: Any, path: Place, walk: Walk) -> Any:
    """What `fill` makes of an array or object, from the memo if another branch of a union has asked before."""
    if walk.memo is None:
        return fill(value, path, walk)
    key = (id(node), id(value), walk.lax)
    if key not in walk.memo:
        inner = Walk(walk.lax, walk.memo, walk.enough)
        walk.memo[key] = (fill(value, path, inner), inner)
    out, found = walk.memo[key]
    walk.take(found)
    return out


class Array(Container):
    """list, set, frozenset, tuple[T, ...], deque: `build` makes it from a list."""

    __slots__ = ("build", "children", "guarded", "item", "limits", "origin", "plain")
    rank = 40
    family = "array"
    holds = list

    def __init__(self, item: Node, build: Any, origin: Any, plain: bool, limits: Limits | None = None) -> None:
        self.item = item
        self.children = (item,)
        self.build = build
        self.guarded = build in (set, frozenset) and not is_salted(item)
        self.origin = ABSENT if self.guarded else origin  # what msgspec knows this container as, or ABSENT
        self.plain = plain and not self.guarded and (limits is None or limits.plain)
        self.limits = limits

    @property
    def words(self) -> str:
        return "an array"

    @property
    def native(self) -> Any:
        inner = self.item.native
        if inner is ABSENT or self.origin is ABSENT:
            return ABSENT
        return narrowed(self.origin[(inner, ...) if self.origin is tuple else inner], self.limits)

    def fill(self, value: Any, path: Place, walk: Walk) -> Any:
        before = walk.count
        read, out = self.item.read, []
        for index, inner in enumerate(value):
            out.append(read(inner, join(path, index), walk))
            if walk.count - before >= walk.enough:
                break
        if walk.count > before:
            return INVALID
        try:
            if self.guarded and is_crowded(out):
                return walk.refuse(refused, path, CROWDED)
            built = out if self.build is list else self.build(out)
        except TypeError:
            return walk.refuse(wrong_type, path, "an array of plain values", value)
        return checked(built, self.limits, value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        item = self.item.emit(defs)
        limits = self.limits.schema() if self.limits is not None else {}
        return {"type": "array", **({"items": item} if item else {}), **limits}

    def limited(self, limits: Limits) -> Node:
        return Array(self.item, self.build, self.origin, self.plain, limits.over(self.limits))


class Row(Container):
    """tuple[A, B]: as many items as it says."""

    __slots__ = ("children",)
    rank = 39
    plain = True
    holds = list

    def __init__(self, items: Sequence[Node]) -> None:
        self.children = tuple(items)

    @property
    def words(self) -> str:
        return f"an array of {len(self.children)} items"

    @property
    def native(self) -> Any:
        inner = tuple(item.native for item in self.children)
        return ABSENT if ABSENT in inner else types.GenericAlias(tuple, inner)

    def fill(self, value: Any, path: Place, walk: Walk) -> Any:
        if len(value) != len(self.children):
            return walk.refuse(wrong_type, path, self.words, value)
        before = walk.count
        pairs = zip(self.children, value, strict=True)
        out = tuple(item.read(inner, join(path, index), walk) for index, (item, inner) in enumerate(pairs))
        return INVALID if walk.count > before else out

    def emit(self, defs: Defs) -> Schema:
        count = len(self.children)
        prefix = {"prefixItems": [item.emit(defs) for item in self.children]} if count else {}
        return {"type": "array", **prefix, "minItems": count, "maxItems": count}


class Map(Container):
    """dict[K, V]; the keys are read from strings."""

    __slots__ = ("build", "children", "guarded", "key", "limits", "plain", "value")
    rank = 45
    family = "object"
    holds = dict

    def __init__(self, key: Node, value: Node, build: Any, plain: bool, limits: Limits | None = None) -> None:
        self.children = (key, value)
        self.key = key
        self.value = value
        self.build = build
        self.guarded = not is_salted(key)
        self.plain = plain and not self.guarded and (limits is None or limits.plain)
        self.limits = limits

    @property
    def words(self) -> str:
        return "an object"

    @property
    def native(self) -> Any:
        key, value = self.key.native, self.value.native
        if key is ABSENT or value is ABSENT or self.build is not dict or self.guarded:
            return ABSENT
        return narrowed(types.GenericAlias(dict, (key, value)), self.limits)

    def fill(self, value: Any, path: Place, walk: Walk) -> Any:
        before = walk.count
        keys = Walk(lax=True)  # 5 as a key can only be written "5"
        names = [self.key.read(key, join(path, key), keys) for key in value]
        if self.guarded and is_crowded(names):
            return walk.refuse(refused, path, CROWDED)
        out = {}
        for name, (key, inner) in zip(names, value.items(), strict=True):
            out[name] = self.value.read(inner, join(path, key), walk)
            if walk.count - before >= walk.enough:
                break
        keys.first = [(bad_key, entry) for entry in keys.first]
        walk.take(keys)
        if walk.count > before:
            return INVALID
        built = out if self.build is dict else self.build(out)
        return checked(built, self.limits, value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        key, value = self.key.emit(defs), self.value.emit(defs)
        limits = self.limits.schema() if self.limits is not None else {}
        out: Schema = {"type": "object", **({"additionalProperties": value} if value else {}), **limits}
        if key not in ({}, {"type": "string"}):
            out["propertyNames"] = KEY_SCHEMAS.get(key.get("type", ""), key)
        return out

    def limited(self, limits: Limits) -> Node:
        return Map(self.key, self.value, self.build, self.plain, limits.over(self.limits))


KEY_SCHEMAS = {
    "integer": {"pattern": "^-?[0-9]+$"},
    "number": {"pattern": "^-?[0-9.eE+-]+$"},
    "boolean": {"enum": ["true", "false"]},
}
