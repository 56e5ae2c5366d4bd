"""Constraints and notes in `Annotated[...]`, read by duck type, and the one table of what each constraint means.

Whatever has `ge`, `max_length`, `pattern`, `description`, … is understood: msgspec.Meta, annotated_types,
pydantic's Field and StringConstraints, or a user's own class.  Must not know: any of those libraries.
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any

import msgspec

from redstart.schema.errors import one_of

# Family of a node -> its constraints and their JSON Schema keywords; None: checked, but there is no keyword.
NUMERIC = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
TEXT = {"min_length": "minLength", "max_length": "maxLength"}
ITEMS = {"min_length": "minItems", "max_length": "maxItems"}
FAMILIES: dict[str, dict[str, str | None]] = {
    "number": {**NUMERIC, "one_of": None},
    "decimal": dict.fromkeys(NUMERIC),
    "moment": dict.fromkeys(("ge", "gt", "le", "lt")),
    "string": {**TEXT, "pattern": "pattern", "format": "format", "one_of": None},
    "bytes": {**TEXT},
    "array": {**ITEMS},
    "choices": {**ITEMS, "unique": "uniqueItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
    "": {},
}
UNITS = {
    "string": "characters long",
    "bytes": "bytes long",
    "array": "items long",
    "choices": "of the choices",
    "object": "entries long",
}


def _is_date(text: str) -> bool:
    return date.fromisoformat(text) is not None


def _is_moment(text: str) -> bool:
    return datetime.fromisoformat(text) is not None


def _is_uri(text: str) -> bool:
    from urllib.parse import urlsplit  # loaded here because few servers need it

    return bool(urlsplit(text).scheme) and not re.search(r"\s", text)


# The formats that are checked in forms; elsewhere a format is only published.
FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "email": (lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None, "an e-mail address"),
    "uri": (_is_uri, "a URI such as https://…"),
    "date": (_is_date, "a date such as 2025-01-31"),
    "date-time": (_is_moment, "a date and time such as 2025-01-31T12:00:00Z"),
}


def _longest(pattern: str) -> int | None:
    from redstart.schema.patterns import longest  # loaded here because few servers have a pattern

    return longest(pattern)


def _has_format(text: str, name: str) -> bool:
    try:
        return FORMATS[name][0](text)
    except ValueError:
        return False


def _is_unique(values: Sequence[object], wanted: bool) -> bool:
    return not wanted or len(set(values)) == len(values)


class Constraint(msgspec.Struct, frozen=True):
    """What one constraint means: whether a value fits a bound, and the words for it."""

    fits: Callable[[Any, Any], bool]
    words: str


CONSTRAINTS = {
    "ge": Constraint(operator.ge, "at least {}"),
    "gt": Constraint(operator.gt, "more than {}"),
    "le": Constraint(operator.le, "at most {}"),
    "lt": Constraint(operator.lt, "less than {}"),
    "multiple_of": Constraint(lambda value, bound: value % bound == 0, "a multiple of {}"),
    "min_length": Constraint(lambda value, bound: len(value) >= bound, "at least {} {unit}"),
    "max_length": Constraint(lambda value, bound: len(value) <= bound, "at most {} {unit}"),
    "pattern": Constraint(lambda value, bound: re.search(bound, value) is not None, "text matching the pattern {}"),
    "one_of": Constraint(lambda value, bound: value in bound, "{}"),
    "format": Constraint(_has_format, "{}"),
    "unique": Constraint(_is_unique, "a list without repeats"),
}
READ = CONSTRAINTS.keys() - {"format", "unique"}  # the attributes that are read from an item of `Annotated`


class Notes(msgspec.Struct):
    """Everything that the metadata of one `Annotated[...]` says."""

    bounds: dict[str, object] = {}
    predicates: tuple[Callable[[object], object], ...] = ()
    words: dict[str, object] = {}  # title, description, examples
    extra: dict[str, object] = {}
    plain: bool = True  # only msgspec.Meta and objects without a meaning here: msgspec reads the annotation as we do

    @property
    def schema(self) -> dict[str, Any]:
        words = {keyword: self.words[keyword] for keyword, _ in WORDS.values() if self.words.get(keyword)}
        return {**words, **self.extra}


def read_notes(metadata: Iterable[object]) -> Notes:
    notes = Notes()
    for item in metadata:
        _read_item(item, notes)
    return notes


def _read_item(item: object, notes: Notes) -> None:
    if isinstance(item, str):
        notes.words["description"] = item
    if isinstance(item, str | type):
        return
    for name in CONSTRAINTS:
        bound = getattr(item, name, None)
        if name not in READ or bound is None or callable(bound) or isinstance(bound, bool):
            continue
        notes.bounds[name] = bound.pattern if isinstance(bound, re.Pattern) else bound
        notes.plain = notes.plain and isinstance(item, msgspec.Meta)
    _read_words(item, notes)
    if callable(predicate := getattr(item, "func", None)) and type(item).__name__ == "Predicate":
        notes.predicates = (*notes.predicates, predicate)
        notes.plain = False
    nested = getattr(item, "metadata", None)  # pydantic's FieldInfo keeps its constraints one level down
    if isinstance(nested, list | tuple):
        for inner in nested:
            _read_item(inner, notes)


WORDS = {
    "title": ("title", str),
    "description": ("description", str),
    "documentation": ("description", str),
    "examples": ("examples", list),
}


def _read_words(item: object, notes: Notes) -> None:
    for name, (keyword, kind) in WORDS.items():
        if isinstance(content := getattr(item, name, None), kind):
            notes.words[keyword] = content
    for name in ("json_schema_extra", "extra_json_schema"):
        if isinstance(extra := getattr(item, name, None), dict):
            notes.extra = {**notes.extra, **extra}


class Constraints(msgspec.Struct, frozen=True):
    """The bounds that hold for one node, and its family."""

    family: str
    bounds: dict[str, Any]
    predicates: tuple[Callable[[object], object], ...] = ()
    plain: bool = True  # all of it is in msgspec.Meta

    def over(self, other: "Constraints | None") -> "Constraints":
        """Both, where an outer `Annotated` narrows an inner one; ValueError for a pattern that is not safe.

        A pattern that may be slow in `re` limits the length of the text.
        """
        bounds, predicates, plain = self.bounds, self.predicates, self.plain
        if other is not None:
            bounds = {**other.bounds, **bounds}
            predicates, plain = (*other.predicates, *predicates), plain and other.plain
        most = _longest(bounds["pattern"]) if "pattern" in bounds else None
        if most is not None and not bounds.get("max_length", most + 1) <= most:
            bounds = {"max_length": most, **{name: bound for name, bound in bounds.items() if name != "max_length"}}
            plain = False  # the user's own annotation does not have that limit, so msgspec must not read it
        return Constraints(self.family, bounds, predicates, plain)

    def broken(self, value: object) -> str | None:
        """What the value should have been, or None if it is within its bounds."""
        for name, bound in self.bounds.items():
            if not CONSTRAINTS[name].fits(value, bound):
                shown = one_of(bound) if name == "one_of" else FORMATS[bound][1] if name == "format" else bound
                return CONSTRAINTS[name].words.format(shown, unit=UNITS.get(self.family, ""))
        for predicate in self.predicates:
            if not predicate(value):
                return f"such that {getattr(predicate, '__name__', 'its predicate')} holds"
        return None

    def schema(self) -> dict[str, Any]:
        words = FAMILIES[self.family]
        out: dict[str, Any] = {}
        for name, bound in self.bounds.items():
            keyword = words[name]
            if self.family == "bytes" and keyword is not None:
                bound = -(-bound // 3) * 4  # base64: four characters for each three bytes, the last group padded
            if keyword is not None and isinstance(bound, int | float | str):
                out[keyword] = bound
        return out

    def native(self) -> msgspec.Meta | None:
        """The same bounds for msgspec, or None if it cannot express them."""
        if self.predicates or self.family in ("decimal", "moment"):
            return None
        try:
            return msgspec.Meta(**self.bounds)
        except (TypeError, ValueError):
            return None
