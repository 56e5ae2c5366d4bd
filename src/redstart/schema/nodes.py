"""The nodes with parts: arrays, fixed tuples, maps, records, unions, references.

Same contract as `scalars.py`.  Must not know: annotations, functions.
"""

import datetime
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, Union

import msgspec

from redstart.schema import errors
from redstart.schema.constraints import Constraints
from redstart.schema.document import Defs, Schema, any_of, noted, without_null
from redstart.schema.errors import ValuePath, join
from redstart.schema.scalars import ABSENT, INVALID, ChoiceNode, Node, ScalarNode, Walk, msgspec_agrees


def parsed_string(value: object, kind: type, walk: Walk) -> object:
    """The value, or in a lax walk the array or object that some clients put into a string."""
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
    """Whether building a set or dict of the values may take quadratic time.

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
            return walk.refuse(errors.wrong_type, path, self.words, value)
        return remembered(self, self.fill, value, path, walk)

    def fill(self, value: Any, path: ValuePath, walk: Walk) -> object:
        raise NotImplementedError


def remembered(
    node: Node, fill: Callable[[Any, ValuePath, Walk], object], value: object, path: ValuePath, walk: Walk
) -> object:
    """The result of `fill` for an array or object, from the memo if another branch of a union has read it."""
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
        self.origin = ABSENT if self.guarded else origin  # the type that msgspec has for this container, or ABSENT
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
                return walk.refuse(errors.refused, path, MANY_COLLISIONS)
            built = unchanged(value, out) if self.build is list else self.build(out)
        except TypeError:
            return walk.refuse(errors.wrong_type, path, "an array of plain values", value)
        return self.within(built, value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        item = self.children[0].emit(defs)
        return {"type": "array", **({"items": item} if item else {}), **self.limits()}


def unchanged(value: list[object], out: list[object]) -> list[object]:
    """What was read, or the array itself if nothing changed, so that the memo finds it by its identity."""
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
            return walk.refuse(errors.wrong_type, path, self.words, value)
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
        keys = Walk(lax=True)  # in JSON the key 5 is written "5"
        names = [key_node.read(key, join(path, key), keys) for key in value]
        if self.guarded and has_many_collisions(names):
            return walk.refuse(errors.refused, path, MANY_COLLISIONS)
        out = {}
        for name, (key, inner) in zip(names, value.items(), strict=True):
            out[name] = value_node.read(inner, join(path, key), walk)
            if walk.count - before >= walk.enough:
                break
        keys.first = [(errors.bad_key, entry) for entry in keys.first]
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


# ---------------------------------------------------------------- records, unions, references


class Slot(msgspec.Struct):
    """One field of a record. `key` is its name in Python, `wire` its name in JSON."""

    key: str
    wire: str
    node: Node
    required: bool
    default: Any = ABSENT  # for the schema only; the class fills in its own default
    notes: Schema = {}

    def emit(self, defs: Defs) -> Schema:
        out = noted(self.node.emit(defs), self.notes)
        if self.default is None and defs.arguments:
            return without_null(out)
        if self.default is not ABSENT and "default" not in out:
            default = plain_json(self.default)
            value = read_strictly(self.node, default)
            if value is not INVALID:
                lean = _without_nulls(default) if defs.arguments else default
                out["default"] = lean if read_strictly(self.node, lean) == value else default
        return out


def read_strictly(node: Node, value: object) -> object:
    """The result of a strict reading, or INVALID."""
    walk = Walk(False)
    out = INVALID if value is ABSENT else node.read(value, "", walk)
    return INVALID if walk.count else out


def _without_nulls(value: object) -> object:
    """A default without its fields that are None, because their schemas do not allow null."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def plain_json(value: object) -> object:
    """The value as JSON builtins, or ABSENT if JSON cannot carry it."""
    try:
        raw = msgspec.json.encode(value, enc_hook=_encoded)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        return ABSENT
    return msgspec.json.decode(raw)


def _encoded(value: Any) -> Any:
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError


class RecordNode(ContainerNode):
    """An object with named fields: dataclass, TypedDict, NamedTuple, attrs, Struct, or a tool's arguments."""

    __slots__ = ("build", "closed", "cls", "key", "name", "slots", "tag")
    rank = 30
    words = "an object"
    holds = dict

    def __init__(self, name: str, cls: object, build: Callable[..., object], slots: Sequence[Slot] = ()) -> None:
        super().__init__()
        self.name = name
        self.cls = cls
        self.key: object = cls  # its identity in a document
        self.build = build
        self.slots = tuple(slots)
        self.closed = False
        self.tag: tuple[str, Any] | None = None

    @property
    def native(self) -> Any:
        return self.cls if msgspec_agrees(self) else ABSENT

    @property
    def children(self) -> Sequence[Node]:  # type: ignore[override]
        return [slot.node for slot in self.slots]

    def fill(self, value: dict[str, object], path: ValuePath, walk: Walk) -> object:
        before = walk.count
        kept = self.read_slots(value, path, walk)
        if self.closed and walk.count - before < walk.enough:
            self.refuse_unknown(value, path, walk)
        if walk.count > before:
            return INVALID
        try:
            return self.build(**kept)
        except (ValueError, TypeError) as error:  # the class's own checks, in __post_init__ or a validator
            return walk.refuse(errors.refused, path, error)

    def refuse_unknown(self, value: dict[str, object], path: ValuePath, walk: Walk) -> None:
        names = [slot.wire for slot in self.slots]
        known = {*names, self.tag[0]} if self.tag else {*names}
        for key in value:
            if key not in known:
                walk.refuse(errors.unknown, join(path, key), key, names)

    def read_slots(self, value: dict[str, object], path: ValuePath, walk: Walk) -> dict[str, object]:
        kept: dict[str, object] = {}
        full = walk.count + walk.enough
        if self.tag is not None and value.get(self.tag[0]) != self.tag[1]:
            walk.refuse(errors.wrong_value, join(path, self.tag[0]), f'"{self.tag[1]}"', value.get(self.tag[0]))
        for slot in self.slots:
            if walk.count >= full:
                break
            if slot.wire in value:
                given = value[slot.wire]
                if given is None and walk.nulls and not slot.required and read_strictly(slot.node, None) is INVALID:
                    continue  # many clients write null for an absent value
                kept[slot.key] = slot.node.read(given, join(path, slot.wire), walk)
            elif slot.required:
                walk.refuse(errors.missing, join(path, slot.wire), slot.node.brief)
        return kept

    def emit(self, defs: Defs) -> Schema:
        return defs.ref(self.key, self.name, lambda: self.body(defs))

    def body(self, defs: Defs) -> Schema:
        properties = {slot.wire: slot.emit(defs) for slot in self.slots}
        required = [slot.wire for slot in self.slots if slot.required]
        if self.tag is not None:
            properties = {self.tag[0]: {"const": self.tag[1]}, **properties}
            required = [self.tag[0], *required]
        out: Schema = {"type": "object", "properties": properties}
        if required:
            out["required"] = required
        if self.closed:
            out["additionalProperties"] = False
        return out

    def known_keys(self, value: object) -> int:
        """How many of the value's keys are fields of this record."""
        return sum(slot.wire in value for slot in self.slots) if isinstance(value, dict) else 0


class UnionNode(Node):
    """A union: the most specific branch that accepts the value; of records, the one that has most of its keys."""

    __slots__ = ("children",)

    def __init__(self, branches: Sequence[Node]) -> None:
        self.children = tuple(branches)
        # msgspec 0.22 looks in the wrong place for the limits of a branch when another branch is a fixed tuple
        # or a TypedDict, and crashes; so a union with limits or fixed tuples goes to it only if the rest is null.
        risky = any(isinstance(branch, TupleNode) or branch.constraints for branch in branches)
        # And for an integer that is not in a Literal or an Enum, it does not try float.
        keys = [key for branch in branches if isinstance(branch, ChoiceNode) for key in branch.keys]
        floats = any(isinstance(branch, ScalarNode) and branch.native is float for branch in branches)
        risky = risky or (floats and any(type(key) is int for key in keys))
        super().__init__(plain=not risky or len([branch for branch in branches if branch.rank > 0]) == 1)

    @property
    def rank(self) -> int:  # type: ignore[override]
        return max(branch.rank for branch in self.children)

    @property
    def words(self) -> str:  # type: ignore[override]
        return errors.any_word([branch.words for branch in self.children])

    @property
    def native(self) -> Any:
        inner = tuple(branch.native for branch in self.children)
        if not self.plain or any(branch is ABSENT for branch in inner):
            return ABSENT
        return Union[inner]  # noqa: UP007 - a tuple known at run time only

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        memo = {} if walk.memo is None else walk.memo
        branches = self._ordered(value)
        attempts: list[Walk] = []
        for lax in (False, True) if walk.lax else (False,):
            attempts = []
            for branch in branches:
                # If a lax reading follows, the strict one need not explain its problems.
                attempt = Walk(lax, memo, walk.enough if lax is walk.lax else 1)
                out = branch.read(value, path, attempt)
                if not attempt.count:
                    return out
                attempts.append(attempt)
        return self._explain(value, path, walk, list(zip(branches, attempts, strict=True)))

    def _ordered(self, value: object) -> list[Node]:
        def order(branch: Node) -> tuple[int, int]:
            target = referred(branch)
            return (target.rank, -target.known_keys(value) if isinstance(target, RecordNode) else 0)

        return sorted(self.children, key=order)

    def _explain(self, value: object, path: ValuePath, walk: Walk, attempts: list[tuple[Node, Walk]]) -> object:
        # The problems of the branch that could read a part of the value, or one problem for the whole union.
        real = [(branch, attempt) for branch, attempt in attempts if branch.rank > 0]
        if self._refuse_tag(value, path, walk, real):
            return INVALID
        fitting = [
            attempt for branch, attempt in real if attempt.first[0] != (errors.wrong_type, (path, branch.words, value))
        ]
        best = min(fitting, key=lambda attempt: attempt.count, default=None)
        if best is not None:
            make, (inner, *_) = best.first[0]
            limits = len(fitting) == 1 and make is errors.wrong_value  # of the one branch that has the right type
            if len(real) == 1 or inner != path or limits:
                walk.include(best)
                return INVALID
        return walk.refuse(errors.wrong_type, path, self.words, value)

    def _refuse_tag(self, value: object, path: ValuePath, walk: Walk, real: list[tuple[Node, Walk]]) -> bool:
        """Whether the problem is explained by a field that selects the branch: it is wrong, or selects one branch."""
        real = sorted(real, key=lambda pair: self.children.index(pair[0]))
        tagged = [_tags(branch) for branch, _ in real]
        if type(value) is not dict or len(real) < 2:
            return False
        for name in (name for name in tagged[0] if name in value and all(name in tags for tags in tagged)):
            known = [key for tags in tagged for key in tags[name]]
            if len(set(known)) < len(known):
                continue
            if value[name] not in known:
                walk.refuse(errors.not_a_choice, join(path, name), errors.one_of(known), value[name], known)
                return True
            walk.include(
                next(attempt for tags, (_, attempt) in zip(tagged, real, strict=True) if value[name] in tags[name])
            )
            return True
        return False

    def emit(self, defs: Defs) -> Schema:
        return any_of([branch.emit(defs) for branch in self.children])


def _tags(branch: Node) -> dict[str, list[Any]]:
    """The fields of a record that identify it among others, and their possible values."""
    record = referred(branch)
    if not isinstance(record, RecordNode):
        return {}
    own = {record.tag[0]: [record.tag[1]]} if record.tag else {}
    return own | {slot.wire: slot.node.keys for slot in record.slots if isinstance(slot.node, ChoiceNode)}


class RefNode(Node):
    """A type that contains itself, a named alias or a `$ref`; `target` is set when it is known."""

    __slots__ = ("name", "target")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.target: Node = self

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a value" if isinstance(self.target, RefNode | UnionNode) else self.target.words

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        return self.target.read(value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        return defs.ref(self.target, self.name, lambda: self.target.emit(defs))


def referred(node: Node) -> Node:
    """The node itself, or the node that it refers to."""
    return node.target if isinstance(node, RefNode) else node


class NotedNode(Node):
    """An item of a container with notes in its annotation: `list[Annotated[str, "a tag"]]`."""

    __slots__ = ("children", "inner", "notes")

    def __init__(self, inner: Node, notes: Schema) -> None:
        super().__init__(plain=True)
        self.inner = inner
        self.notes = notes
        self.children = (inner,)

    @property
    def words(self) -> str:  # type: ignore[override]
        return self.inner.words

    @property
    def native(self) -> Any:
        return self.inner.native

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        return self.inner.read(value, path, walk)

    def emit(self, defs: Defs) -> Schema:
        return noted(self.inner.emit(defs), self.notes)
