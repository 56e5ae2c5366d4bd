"""The contract of a node, and the nodes without parts: scalars, choices, any value.

A node reads a JSON value (`read`), writes its schema (`emit`) and knows whether msgspec can do the reading
(`native`: the annotation to give it; `plain`: msgspec reads the user's own annotation as we do).
Must not know: annotations, functions.
"""

import datetime
import decimal
import enum
import math
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, ParamSpec
from weakref import WeakSet

import msgspec

from redstart.schema import errors
from redstart.schema.constraints import Constraints
from redstart.schema.document import Defs, Schema, any_of
from redstart.schema.errors import ENOUGH, SHOWN_PROBLEMS, Problem, ShapeError, ValuePath

P = ParamSpec("P")


class Sentinel:
    """A value that no user code can have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


INVALID = Sentinel("INVALID")  # what `read` returns after it recorded a problem
ABSENT: Any = Sentinel("ABSENT")  # no default, no native form


class Walk:
    """One pass over one value: how strict it is, the first few problems, and the number of all.

    A lax pass converts values such as "5". With `nulls`, null for an optional field that is not nullable means absent.
    A union tries its branches on the same value. `memo` is what keeps that linear: inside of a union no node reads
    the same array or object twice with the same strictness. `enough` problems in an array or object end its reading.
    A problem is kept as the function that writes it and what that needs: most are found while a branch of a union is
    tried, and are never read.
    """

    __slots__ = ("count", "enough", "first", "lax", "memo", "nulls")

    def __init__(
        self, lax: bool, memo: dict[Any, Any] | None = None, enough: int = ENOUGH, nulls: bool | None = None
    ) -> None:
        self.lax = lax
        self.memo = memo
        self.enough = enough
        self.nulls = lax if nulls is None else nulls
        self.count = 0
        self.first: list[tuple[Callable[..., Problem], tuple[Any, ...]]] = []

    def refuse(self, make: Callable[P, Problem], *args: P.args, **kwargs: P.kwargs) -> Sentinel:
        self.count += 1
        if self.count <= SHOWN_PROBLEMS:
            self.first.append((make, args))
        return INVALID

    def include(self, other: "Walk") -> None:
        self.first += other.first[: max(SHOWN_PROBLEMS - self.count, 0)]
        self.count += other.count

    def error(self, noun: str = "argument") -> ShapeError:
        made = [make(*args) for make, args in self.first]
        return ShapeError(made, noun=noun, more=self.count - len(made))


class Node:
    """One type."""

    __slots__ = ("constraints", "plain")
    rank = 50  # in a union the lower rank is tried first
    family = ""  # which constraints fit
    words = "a value"
    children: "Sequence[Node]" = ()

    def __init__(self, *, plain: bool = False, constraints: Constraints | None = None) -> None:
        self.plain = plain
        self.constraints = constraints

    @property
    def brief(self) -> str:
        """The name without its article: "integer" of "an integer"."""
        return self.words.removeprefix("an ").removeprefix("a ")

    @property
    def native(self) -> Any:
        return ABSENT

    def read(self, value: Any, path: ValuePath, walk: Walk) -> Any:
        raise NotImplementedError

    def emit(self, defs: Defs) -> Schema:
        raise NotImplementedError

    # ------------------------------------------------------------ constraints

    def limited(self, constraints: Constraints) -> "Node":
        """The same node with further constraints."""
        from copy import copy  # slow to load, and most types have no constraints

        made = copy(self)
        made.constraints = constraints.over(self.constraints)
        made.plain = self.plain and made.constraints.plain
        return made

    def within(self, out: object, value: object, path: ValuePath, walk: Walk) -> object:
        """What was read, if it keeps the constraints; `value` is what it was read from."""
        if self.constraints is not None and (words := self.constraints.broken(out)) is not None:
            return walk.refuse(errors.wrong_value, path, words, value)
        return out

    def narrowed(self, native: Any) -> Any:
        """The annotation for msgspec with the constraints in it, or ABSENT."""
        if self.constraints is None or native is ABSENT:
            return native
        meta = self.constraints.native()
        return ABSENT if meta is None else Annotated[native, meta]

    def limits(self) -> Schema:
        """The constraints in the words of JSON Schema."""
        return {} if self.constraints is None else self.constraints.schema()


spoiled: Final[WeakSet[object]] = WeakSet()
"""Classes that msgspec must not read any more: see `native_decoder`."""


def contained(*nodes: Node) -> Iterator[Node]:
    """The nodes, and all that they contain."""
    seen = {id(node) for node in nodes}
    queue = [*nodes]
    while queue:
        current = queue.pop()
        yield current
        fresh = [child for child in current.children if id(child) not in seen]
        seen.update(map(id, fresh))
        queue += fresh


def msgspec_agrees(node: Node) -> bool:
    """Whether msgspec reads the user's own class, and all that it contains, as we do."""
    return all(inner.plain and class_of(inner) not in spoiled for inner in contained(node))


def class_of(node: Node) -> object:
    """The user's class that a record is made of, without its type arguments; another node has none."""
    cls = getattr(node, "cls", None)
    return getattr(cls, "__origin__", cls)


class AnyNode(Node):
    """Any JSON value."""

    rank = 99

    def __init__(self) -> None:
        super().__init__(plain=True)

    @property
    def brief(self) -> str:
        return ""

    @property
    def native(self) -> Any:
        return Any

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        return value

    def emit(self, defs: Defs) -> Schema:
        return {}


class Kind(msgspec.Struct, frozen=True):
    """One row of the table of scalars. `strict` and `lax` raise ValueError for a value they do not take."""

    words: str
    schema: Schema
    native: Any
    rank: int
    family: str
    strict: Callable[[Any], object]
    lax: Callable[[Any], object] | None = None


def _exactly(*kinds: type) -> Callable[[object], object]:
    def strict(value: object) -> object:
        if type(value) not in kinds:
            raise ValueError
        return value

    return strict


def _float(value: object) -> float:
    if type(value) is not int and type(value) is not float:
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


# A number that only Python accepts, such as 1_0, is refused.
NUMERAL = r"(?ai)\s*[+-]?(\d+|\d+\.\d*|\.\d+)(e[+-]?\d+)?\s*"
DIGITS = 4300  # CPython does not read or print longer integers


def numeral(value: object) -> int | float:
    """The number in a text, or the number itself."""
    if type(value) is int or type(value) is float:
        return value
    match = re.fullmatch(NUMERAL, value) if type(value) is str else None
    if match is None:
        raise ValueError
    return int(match[0]) if match[1].isdigit() and not match[2] else float(match[0])


def is_whole(value: object) -> bool:
    """Whether a number is an integer in JSON, where 1.0 is one too."""
    return type(value) is int or (type(value) is float and value.is_integer())


def _lax_int(value: object) -> int:
    number = numeral(value)
    if not is_whole(number):
        raise ValueError
    return int(number)


def _json_int(value: object) -> object:
    if not is_whole(value):
        raise ValueError
    return value


def _lax_float(value: object) -> float:
    return _float(numeral(value))


def _lax_bool(value: object) -> bool:
    text = value.strip().casefold() if type(value) is str else ""
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _parsed(kind: type) -> Callable[[object], object]:
    def strict(value: object) -> object:
        if type(value) is not str:
            raise ValueError
        return msgspec.convert(value, kind)

    return strict


def _decimal(value: object) -> decimal.Decimal:
    if type(value) is bool:
        raise ValueError
    return msgspec.convert(value, decimal.Decimal)


def _text(words: str, kind: type, rank: int, family: str, **schema: str) -> Kind:
    return Kind(words, {"type": "string", **schema}, kind, rank, family, _parsed(kind))


def path_kind(cls: type) -> Kind:
    """The row of a class of pathlib, which is used only if the user's code has imported it."""
    return derived(msgspec.structs.replace(KINDS[str], words="a path string", rank=61), cls, format="path")


def derived(kind: Kind, cls: Callable[[Any], object], **schema: str) -> Kind:
    """The row of a class that is made from a value of another row."""
    strict, lax = kind.strict, kind.lax
    return msgspec.structs.replace(
        kind,
        schema={**kind.schema, **schema},
        native=ABSENT,
        strict=lambda value: cls(strict(value)),
        lax=(lambda value: cls(lax(value))) if lax is not None else None,
    )


MOMENT = "a date-time string such as 2025-01-31T12:00:00Z"
KINDS: dict[object, Kind] = {
    type(None): Kind("null", {"type": "null"}, None, 0, "", _exactly(type(None))),
    bool: Kind("a boolean", {"type": "boolean"}, bool, 1, "", _exactly(bool), _lax_bool),
    uuid.UUID: _text("a UUID string", uuid.UUID, 10, "", format="uuid"),
    datetime.datetime: _text(MOMENT, datetime.datetime, 11, "moment", format="date-time"),
    datetime.date: _text("a date string such as 2025-01-31", datetime.date, 12, "moment", format="date"),
    datetime.time: _text("a time string such as 12:00:00", datetime.time, 13, "moment", format="time"),
    datetime.timedelta: _text("a duration string such as PT1H30M", datetime.timedelta, 14, "moment", format="duration"),
    int: Kind("an integer", {"type": "integer"}, int, 20, "number", _exactly(int), _lax_int),
    float: Kind("a number", {"type": "number"}, float, 21, "number", _float, _lax_float),
    decimal.Decimal: _text("a decimal number in a string", decimal.Decimal, 22, "decimal", format="decimal"),
    bytes: _text("a base64 string", bytes, 60, "bytes", contentEncoding="base64"),
    bytearray: _text("a base64 string", bytearray, 60, "bytes", contentEncoding="base64"),
    str: Kind("a string", {"type": "string"}, str, 90, "string", _exactly(str)),
}
KINDS[decimal.Decimal] = msgspec.structs.replace(KINDS[decimal.Decimal], native=ABSENT, lax=_decimal)
# The types of JSON, and what Python has for them.
JSON_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
# Those without parts, as JSON Schema has them: numbers stay as they were written.
JSON_KINDS: dict[str, Kind] = {
    "string": KINDS[str],
    "integer": msgspec.structs.replace(KINDS[int], strict=_json_int),
    "number": msgspec.structs.replace(KINDS[float], strict=_exactly(int, float)),
    "boolean": KINDS[bool],
    "null": KINDS[type(None)],
}


class ScalarNode(Node):
    """One value without parts, by a row of the table."""

    __slots__ = ("family", "kind", "rank", "words")

    def __init__(self, kind: Kind, constraints: Constraints | None = None) -> None:
        plain = kind.native is not ABSENT and (constraints is None or constraints.plain)
        super().__init__(plain=plain, constraints=constraints)
        self.kind = kind
        self.rank = kind.rank
        self.family = kind.family
        self.words = kind.words

    @property
    def native(self) -> Any:
        return self.narrowed(self.kind.native)

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        try:
            out = self.kind.strict(value)
        except (ValueError, OverflowError):
            out = self._mended(value) if walk.lax and self.kind.lax is not None else INVALID
        if out is INVALID:
            return walk.refuse(errors.wrong_type, path, self._expected(value), value)
        return self.within(out, value, path, walk)

    def _mended(self, value: object) -> object:
        try:
            return self.kind.lax(value)  # type: ignore[misc]
        except (ValueError, OverflowError):
            return INVALID

    def _expected(self, value: object) -> str:
        long = self.family == "number" and isinstance(value, str) and len(value) > DIGITS
        return f"{self.words} with fewer digits" if long else self.words

    def emit(self, defs: Defs) -> Schema:
        return {**self.kind.schema, **self.limits()}


JSON_NAMES = {JSON_TYPES[name]: name for name in JSON_KINDS}


def frozen(value: object) -> tuple[type, object]:
    """A key that is equal for what is equal in JSON: 1 is 1.0, but not true."""
    if isinstance(value, list):
        return list, tuple(map(frozen, value))
    if isinstance(value, dict):
        return dict, frozenset((key, frozen(inner)) for key, inner in value.items())
    return (float if type(value) is int else type(value)), value


def text_of(value: object) -> str:
    """A choice as a text: JSON has one kind of number, so 2 and 2.0 are the same choice."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def by_value(kind: type[enum.Enum]) -> bool:
    """Whether the members of an Enum are sent by their values: by their names if JSON has no word for one of them."""
    return all(type(member.value) in JSON_NAMES for member in kind)


def member_title(member: enum.Enum) -> str:
    """The words for a member of an Enum: its label, or its name where that says more than its value."""
    label = getattr(member, "label", None)
    if isinstance(label, str):
        return label
    value = str(member.value).casefold().replace("-", "_").replace(" ", "_")
    return "" if value == member.name.casefold() else member.name.replace("_", " ").capitalize()


def _spellings(value: object) -> tuple[str, ...]:
    try:
        text = text_of(value)
    except ValueError:  # an integer that CPython does not print
        return ()
    return text, text.strip(), text.strip().casefold()


class ChoiceNode(Node):
    """Literal, Enum or `enum`: a JSON value from a list, and what Python holds for it.

    A lax reading takes a choice as a text, or by its title where it has one.
    """

    __slots__ = ("_deep", "cls", "keys", "name", "shown", "table", "texts", "words")
    rank = 5

    def __init__(
        self,
        pairs: Sequence[tuple[object, object]],
        *,
        titles: Sequence[str] = (),
        name: str = "",
        cls: object = None,
        plain: bool = False,
    ) -> None:
        super().__init__(plain=plain)
        self.keys = [key for key, _ in pairs]
        self.table = {frozen(key): value for key, value in pairs}
        self._deep = any(isinstance(key, list | dict) for key in self.keys)
        uses = Counter(titles)
        titled = {title: value for title, (_, value) in zip(titles, pairs, strict=False) if uses[title] == 1}
        self.texts = titled | {text_of(key): value for key, value in pairs}
        # A choice may be given by its title, unless two choices have the same title.
        self.shown = [
            title if title and self.texts.get(title, INVALID) == value else key
            for title, (key, value) in zip(titles or [""] * len(pairs), pairs, strict=True)
        ]
        self.words = errors.one_of(self.shown)
        self.name = name
        self.cls = cls

    @property
    def native(self) -> Any:
        return self.cls if self.plain else ABSENT

    def read(self, value: object, path: ValuePath, walk: Walk) -> object:
        if self._deep or not isinstance(value, list | dict):
            key = frozen(value)
            if key in self.table:
                return self.table[key]
        if walk.lax and isinstance(value, str | int | float):
            for text in _spellings(value):
                if text in self.texts:
                    return self.texts[text]
        return walk.refuse(errors.not_a_choice, path, self.words, value, self.shown)

    def emit(self, defs: Defs) -> Schema:
        return defs.ref(self.cls, self.name, lambda: self._body(defs)) if self.name else self._body(defs)

    def _body(self, defs: Defs) -> Schema:
        values = [key for key in self.keys if key is not None]
        members = self.table.values() if defs.titled else ()
        titles = [member_title(member) for member in members if isinstance(member, enum.Enum)]
        if any(titles) and len(titles) == len(values):
            pairs = zip(values, titles, strict=True)
            return {"oneOf": [{"const": value, "title": title or text_of(value)} for value, title in pairs]}
        kinds = {JSON_NAMES[type(value)] for value in values}
        listed: Schema = {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": values}
        if len(values) == len(self.keys):
            return listed
        return any_of([*([listed] if values else []), {"type": "null"}])
