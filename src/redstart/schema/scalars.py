"""The leaves of the intermediate form: scalars, choices, anything.

A node reads a JSON value (`read`), writes its schema (`emit`) and knows whether msgspec can do the reading
(`native`: the annotation to give it; `plain`: msgspec reads the user's own annotation as we do).
Must not know: annotations, functions.
"""

import datetime
import decimal
import math
import uuid
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from redstart.schema.document import Defs, Schema, any_of
from redstart.schema.errors import ENOUGH, Findings, P, Place, Problem, not_a_choice, one_of, wrong_type, wrong_value
from redstart.schema.limits import Limits


class Sentinel:
    """A value that no user can have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


INVALID = Sentinel("INVALID")  # what `read` returns after it wrote down a problem
ABSENT: Any = Sentinel("ABSENT")  # no default, no native form


class Walk(Findings):
    """One pass over one value: how strict it is, and what it found wrong.

    A union tries its branches on the same value. `memo` is what keeps that linear: inside of a union no node reads
    the same array or object twice with the same strictness. `enough` problems in an array or object end its reading.
    """

    __slots__ = ("enough", "lax", "memo")

    def __init__(self, lax: bool, memo: dict[Any, Any] | None = None, enough: int = ENOUGH) -> None:
        super().__init__()
        self.lax = lax
        self.memo = memo
        self.enough = enough

    def refuse(self, make: Callable[P, Problem], *args: P.args, **kwargs: P.kwargs) -> Any:
        self.add(make, *args, **kwargs)
        return INVALID


class Node:
    """One type in the intermediate form."""

    __slots__ = ()
    rank = 50  # in a union the lower rank is tried first
    family = ""  # which limits fit
    plain = False
    children: "tuple[Node, ...]" = ()

    @property
    def words(self) -> str:
        raise NotImplementedError

    @property
    def brief(self) -> str:
        """The words without their article: "integer" of "an integer"."""
        return self.words.removeprefix("an ").removeprefix("a ")

    @property
    def native(self) -> Any:
        return ABSENT

    def read(self, value: Any, path: Place, walk: Walk) -> Any:
        raise NotImplementedError

    def emit(self, defs: Defs) -> Schema:
        raise NotImplementedError

    def limited(self, limits: Limits) -> "Node":
        raise NotImplementedError


def faithful(node: Node) -> bool:
    """Whether msgspec reads the user's own class, and all that it contains, as we do."""
    seen = {id(node)}
    queue = [node]
    while queue:
        current = queue.pop()
        if not current.plain:
            return False
        fresh = [child for child in current.children if id(child) not in seen]
        seen.update(map(id, fresh))
        queue += fresh
    return True


def narrowed(native: Any, limits: Limits | None) -> Any:
    """The annotation for msgspec with the limits in it, or ABSENT."""
    if limits is None or native is ABSENT:
        return native
    meta = limits.native()
    return ABSENT if meta is None else Annotated[native, meta]


class Anything(Node):
    __slots__ = ()
    rank = 99
    plain = True

    @property
    def words(self) -> str:
        return "any JSON value"

    @property
    def native(self) -> Any:
        return Any

    def read(self, value: Any, path: Place, walk: Walk) -> Any:
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
    strict: Callable[[Any], Any]
    lax: Callable[[Any], Any] | None = None


def _exactly(kind: type) -> Callable[[Any], Any]:
    def strict(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError
        return value

    return strict


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError
    return _finite(float(value))


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError
    return number


def _lax_int(value: Any) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str:
        text = value.strip()
        digits = text.removeprefix("-").removesuffix(".0")
        if digits.isascii() and digits.isdigit():
            return int(text.removesuffix(".0"))
    raise ValueError


def _lax_float(value: Any) -> float:
    if type(value) is not str or not value.isascii() or "_" in value:
        raise ValueError
    return _finite(float(value))


def _lax_bool(value: Any) -> bool:
    if type(value) is not str:
        raise ValueError
    return {"true": True, "false": False}[value.strip().casefold()]


def _parsed(kind: Any) -> Callable[[Any], Any]:
    def strict(value: Any) -> Any:
        if type(value) is not str:
            raise ValueError
        return msgspec.convert(value, kind)

    return strict


def _decimal(value: Any) -> decimal.Decimal:
    if type(value) is bool:
        raise ValueError
    return msgspec.convert(value, decimal.Decimal)


def path_kind(cls: type) -> Kind:
    """The row of a class of pathlib, which is imported only where the user did."""

    def strict(value: Any) -> Any:
        if type(value) is not str:
            raise ValueError
        return cls(value)

    return Kind("a path string", {"type": "string", "format": "path"}, ABSENT, 61, "string", strict)


def _text(words: str, fmt: str, kind: Any, rank: int, family: str) -> Kind:
    return Kind(words, {"type": "string", "format": fmt}, kind, rank, family, _parsed(kind))


KINDS: dict[Any, Kind] = {
    type(None): Kind("null", {"type": "null"}, None, 0, "", _exactly(type(None))),
    bool: Kind("a boolean", {"type": "boolean"}, bool, 1, "", _exactly(bool), _lax_bool),
    uuid.UUID: _text("a UUID string", "uuid", uuid.UUID, 10, ""),
    datetime.datetime: _text(
        "a date-time string such as 2025-01-31T12:00:00Z", "date-time", datetime.datetime, 11, "moment"
    ),
    datetime.date: _text("a date string such as 2025-01-31", "date", datetime.date, 12, "moment"),
    datetime.time: _text("a time string such as 12:00:00", "time", datetime.time, 13, "moment"),
    datetime.timedelta: _text("a duration string such as PT1H30M", "duration", datetime.timedelta, 14, "moment"),
    int: Kind("an integer", {"type": "integer"}, int, 20, "number", _exactly(int), _lax_int),
    float: Kind("a number", {"type": "number"}, float, 21, "number", _float, _lax_float),
    decimal.Decimal: Kind(
        "a decimal number in a string",
        {"type": "string", "format": "decimal"},
        decimal.Decimal,
        22,
        "decimal",
        _parsed(decimal.Decimal),
        _decimal,
    ),
    bytes: Kind(
        "a base64 string",
        {"type": "string", "contentEncoding": "base64"},
        bytes,
        60,
        "bytes",
        _parsed(bytes),
    ),
    str: Kind("a string", {"type": "string"}, str, 90, "string", _exactly(str)),
}
KINDS[bytearray] = msgspec.structs.replace(KINDS[bytes], native=bytearray, strict=_parsed(bytearray))

NULL = KINDS[type(None)]


class Scalar(Node):
    __slots__ = ("kind", "limits", "plain")

    def __init__(self, kind: Kind, limits: Limits | None = None) -> None:
        self.kind = kind
        self.limits = limits
        self.plain = kind.native is not ABSENT and (limits is None or limits.plain)

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.kind.rank

    @property
    def family(self) -> str:  # type: ignore[override]
        return self.kind.family

    @property
    def words(self) -> str:
        return self.kind.words

    @property
    def native(self) -> Any:
        return narrowed(self.kind.native, self.limits)

    def read(self, value: Any, path: Place, walk: Walk) -> Any:
        try:
            out = self.kind.strict(value)
        except (ValueError, OverflowError):
            out = self._loosely(value) if walk.lax and self.kind.lax else INVALID
        if out is INVALID:
            return walk.refuse(wrong_type, path, self.words, value)
        if self.limits is not None and (words := self.limits.broken(out)) is not None:
            return walk.refuse(wrong_value, path, words, value)
        return out

    def _loosely(self, value: Any) -> Any:
        try:
            return self.kind.lax(value)  # type: ignore[misc]
        except (ValueError, KeyError, OverflowError):
            return INVALID

    def emit(self, defs: Defs) -> Schema:
        limits = self.limits.schema() if self.limits is not None else {}
        return {**self.kind.schema, **limits}

    def limited(self, limits: Limits) -> Node:
        return Scalar(self.kind, limits.over(self.limits))


JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class Choice(Node):
    """Literal or Enum: a JSON value from a list, and what Python holds for it."""

    __slots__ = ("cls", "keys", "name", "pairs", "plain", "said", "table")
    rank = 5

    def __init__(self, pairs: list[tuple[Any, Any]], *, name: str = "", cls: Any, plain: bool) -> None:
        self.pairs = pairs
        self.keys = [key for key, _ in pairs]
        self.said = one_of(self.keys)
        self.table = {(type(key), key): value for key, value in pairs}  # so that 1 is not true
        self.name = name
        self.cls = cls
        self.plain = plain

    @property
    def words(self) -> str:
        return self.said

    @property
    def native(self) -> Any:
        return self.cls if self.plain else ABSENT

    def read(self, value: Any, path: Place, walk: Walk) -> Any:
        found = self._find(value)
        if found is INVALID and walk.lax:
            for loosely in (_lax_int, _lax_bool):
                try:
                    found = self._find(loosely(value)) if found is INVALID else found
                except (ValueError, KeyError):
                    continue
        if found is not INVALID:
            return found
        return walk.refuse(not_a_choice, path, self.words, value, self.keys)

    def _find(self, value: Any) -> Any:
        try:
            return self.table.get((type(value), value), INVALID)
        except TypeError:  # a list or an object
            return INVALID

    def emit(self, defs: Defs) -> Schema:
        return defs.ref(self.cls, self.name, self._body) if self.name else self._body()

    def _body(self) -> Schema:
        values = [key for key in self.keys if key is not None]
        kinds = {JSON_NAMES[type(value)] for value in values}
        listed: Schema = {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": values}
        if len(values) == len(self.keys):
            return listed
        return any_of([*([listed] if values else []), {"type": "null"}])
