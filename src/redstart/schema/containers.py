"""Containers of the intermediate form: arrays, fixed tuples, maps.

Same contract as `scalars.py`.  Must not know: annotations, functions.
"""

import datetime
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from redstart.schema.constraints import Constraints
from redstart.schema.document import Defs, Schema
from redstart.schema.errors import ValuePath, bad_key, join, refused, wrong_type
from redstart.schema.scalars import ABSENT, INVALID, ChoiceNode, Node, ScalarNode, Walk


def parsed_string(value: object, kind: type, walk: Walk) -> object:
    """The value, or in a lax walk the array or object that hosts put into a string."""
    if not walk.lax or type(value) is not str:
        return value
    memo: dict[Any, Any] = {} if walk.memo is None else walk.memo
    if id(value) not in memo:  # one object for one string: the memo knows objects by their identity
        try:
            memo[id(value)] = (msgspec.json.decode(value), value)
        except (ValueError, RecursionError):
            memo[id(value)] = (value, value)
    inner: object = memo[id(value)][0]
    return inner if type(inner) is kind else value


ALIKE = 40  # different values with one hash; floats that differ by a power of two come to 34
SALTED = (str, bytes, bool, type(None), datetime.datetime, datetime.date, datetime.time)
MANY_COLLISIONS = "too many of its values have one hash, and would take too long to tell apart"


def has_salted_hash(node: Node) -> bool:
    """Whether no client can write many values of this type that have the same hash."""
    return isinstance(node, ChoiceNode) or (isinstance(node, ScalarNode) and node.kind.native in SALTED)


def has_many_collisions(values: Sequence[object]) -> bool:
    """Whether a set or dict of the values takes time that grows with the square of their number.

    The hash of a number, a UUID or a tuple of them is known beforehand, so a client can choose such values.
    """
    if len(values) - len(set(map(hash, values))) < ALIKE:
        return False  # as nearly always
    same_hash: dict[int, list[object]] = {}
    for value in values:
        alike = same_hash.setdefault(hash(value), [])
        if value not in alike:
            alike.append(value)
            if len(alike) > ALIKE:
                return True
    return False


class ContainerNode(Node):
    """A node that reads an array or an object, and each value in it. `holds` is what JSON has for it."""

    __slots__ = ()
    holds: type

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        value = parsed_string(value, self.holds, walk)
        if type(value) is not self.holds:
            return walk.refuse(wrong_type, path, self.words, value)
        return remembered(self, self.fill, value, path, walk)

    def fill(self, value: Any, path: ValuePath, walk: Walk) -> object:
        raise NotImplementedError


def remembered(
    node: Node, fill: Callable[[Any, ValuePath, Walk], object], value: object, path: ValuePath, walk: Walk
) -> object:
    """What `fill` makes of an array or object, from the memo if another branch of a union has asked before."""
    if walk.memo is None:
        return fill(value, path, walk)
    key = (id(node), id(value), walk.lax)
    if key not in walk.memo:
        inner = Walk(walk.lax, walk.memo, walk.enough, walk.nulls)
        walk.memo[key] = (fill(value, path, inner), inner)
    out, inner = walk.memo[key]
    walk.include(inner)
    return out


class ArrayNode(ContainerNode):
    """list, set, frozenset, tuple[T, ...], deque: `build` makes it from a list."""

    __slots__ = ("build", "children", "guarded", "origin")
    rank = 40
    family = "array"
    words = "an array"
    holds = list

    def __init__(
        self,
        item: Node,
        build: Callable[[list[object]], object] = list,
        origin: Any = list,
        plain: bool = True,
        constraints: Constraints | None = None,
    ) -> None:
        self.children = (item,)
        self.build = build
        self.guarded = build in (set, frozenset) and not has_salted_hash(item)
        self.origin = ABSENT if self.guarded else origin  # what msgspec knows this container as, or ABSENT
        super().__init__(plain=plain and not self.guarded, constraints=constraints)

    @property
    def native(self) -> Any:
        inner = self.children[0].native
        if inner is ABSENT or self.origin is ABSENT:
            return ABSENT
        return self.narrowed(self.origin[(inner, ...) if self.origin is tuple else inner])

    def fill(self, value: list[object], path: ValuePath, walk: Walk) -> object:
        before = walk.count
        read, out = self.children[0].read, []
        for index, inner in enumerate(value):
            out.append(read(inner, join(path, index), walk))
            if walk.count - before >= walk.enough:
                break
        if walk.count > before:
            return INVALID
        try:
            if self.guarded and has_many_collisions(out):
                return walk.refuse(refused, path, MANY_COLLISIONS)
            built = unchanged(value, out) if self.build is list else self.build(out)
        except TypeError:
            return walk.refuse(wrong_type, path, "an array of plain values", value)
        return self.within(built, value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        item = self.children[0].emit(defs)
        return {"type": "array", **({"items": item} if item else {}), **self.limits()}


def unchanged(value: list[object], out: list[object]) -> list[object]:
    """What was read, or the array itself if it is the same: then the memo knows it by its identity."""
    return value if all(map(operator.is_, value, out)) else out


class TupleNode(ContainerNode):
    """tuple[A, B]: as many items as it says."""

    __slots__ = ("children", "words")
    rank = 39
    holds = list

    def __init__(self, items: Sequence[Node]) -> None:
        super().__init__(plain=True)
        self.children = tuple(items)
        self.words = f"an array of {len(items)} items"

    @property
    def native(self) -> Any:
        inner = tuple(item.native for item in self.children)
        return ABSENT if ABSENT in inner else types.GenericAlias(tuple, inner)

    def fill(self, value: list[object], path: ValuePath, walk: Walk) -> object:
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


class MapNode(ContainerNode):
    """dict[K, V]; the keys are read from strings."""

    __slots__ = ("build", "children", "guarded")
    rank = 45
    family = "object"
    words = "an object"
    holds = dict

    def __init__(self, key: Node, value: Node, build: Callable[[dict[Any, Any]], object], plain: bool) -> None:
        self.children = (key, value)
        self.build = build
        self.guarded = not has_salted_hash(key)
        super().__init__(plain=plain and not self.guarded)

    @property
    def native(self) -> Any:
        key, value = (child.native for child in self.children)
        if key is ABSENT or value is ABSENT or self.build is not dict or self.guarded:
            return ABSENT
        return self.narrowed(types.GenericAlias(dict, (key, value)))

    def fill(self, value: dict[str, object], path: ValuePath, walk: Walk) -> object:
        before = walk.count
        key_node, value_node = self.children
        keys = Walk(lax=True)  # 5 as a key can only be written "5"
        names = [key_node.read(key, join(path, key), keys) for key in value]
        if self.guarded and has_many_collisions(names):
            return walk.refuse(refused, path, MANY_COLLISIONS)
        out = {}
        for name, (key, inner) in zip(names, value.items(), strict=True):
            out[name] = value_node.read(inner, join(path, key), walk)
            if walk.count - before >= walk.enough:
                break
        keys.first = [(bad_key, entry) for entry in keys.first]
        walk.include(keys)
        if walk.count > before:
            return INVALID
        return self.within(out if self.build is dict else self.build(out), value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        key, value = (child.emit(defs) for child in self.children)
        out: Schema = {"type": "object", **({"additionalProperties": value} if value else {}), **self.limits()}
        if key not in ({}, {"type": "string"}):
            out["propertyNames"] = KEY_SCHEMAS.get(key.get("type", ""), key)
        return out


KEY_SCHEMAS = {
    "integer": {"pattern": "^-?[0-9]+$"},
    "number": {"pattern": "^-?[0-9.eE+-]+$"},
    "boolean": {"enum": ["true", "false"]},
}
