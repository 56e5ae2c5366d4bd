"""Constraints and notes in `Annotated[...]`, read by duck type.

Whatever has `ge`, `max_length`, `pattern`, `description`, … is understood: msgspec.Meta, annotated_types,
pydantic's Field and StringConstraints, or a user's own class.  Must not know: any of those libraries.
"""

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from redstart.schema.errors import one_of
from redstart.schema.patterns import longest

# Family of a node -> the limits that fit it, with the schema keyword; None: checked, but JSON Schema has no word.
NUMERIC = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
FAMILIES: dict[str, dict[str, str | None]] = {
    "number": {**NUMERIC, "one_of": None},
    "decimal": dict.fromkeys(NUMERIC),
    "moment": dict.fromkeys(("ge", "gt", "le", "lt")),
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern", "one_of": None},
    "bytes": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
    "": {},
}
UNITS = {"string": "characters", "bytes": "bytes", "array": "items", "object": "entries"}


def _multiple(value: Any, bound: Any) -> bool:
    return bool(value % bound == 0)


TESTS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "ge": (operator.ge, "at least {}"),
    "gt": (operator.gt, "more than {}"),
    "le": (operator.le, "at most {}"),
    "lt": (operator.lt, "less than {}"),
    "multiple_of": (_multiple, "a multiple of {}"),
    "min_length": (lambda value, bound: len(value) >= bound, "at least {} {unit} long"),
    "max_length": (lambda value, bound: len(value) <= bound, "at most {} {unit} long"),
    "pattern": (lambda value, bound: re.search(bound, value) is not None, "text matching the pattern {}"),
    "one_of": (lambda value, bound: value in bound, "{}"),
}


class Notes(msgspec.Struct):
    """Everything that the metadata of one `Annotated[...]` says."""

    bounds: dict[str, Any] = {}
    predicates: tuple[Any, ...] = ()
    title: str = ""
    description: str = ""
    examples: list[Any] | None = None
    extra: dict[str, Any] = {}
    plain: bool = True  # only msgspec.Meta and inert objects: msgspec itself reads it as we do

    @property
    def schema(self) -> dict[str, Any]:
        words = {"title": self.title, "description": self.description}
        out = {word: text for word, text in words.items() if text}
        if self.examples:
            out["examples"] = self.examples  # type: ignore[assignment]
        return {**out, **self.extra}


def read_notes(metadata: Iterable[Any]) -> Notes:
    notes = Notes()
    for item in metadata:
        _read_one(item, notes)
    return notes


def _read_one(item: Any, notes: Notes) -> None:
    if isinstance(item, str):
        notes.description = item
        return
    if isinstance(item, type):
        return
    own = isinstance(item, msgspec.Meta)
    for name in TESTS:
        bound = getattr(item, name, None)
        if bound is None or callable(bound) or _flag(bound):
            continue
        notes.bounds[name] = bound.pattern if isinstance(bound, re.Pattern) else bound
        notes.plain = notes.plain and own
    _read_words(item, notes)
    if callable(predicate := getattr(item, "func", None)) and type(item).__name__ == "Predicate":
        notes.predicates = (*notes.predicates, predicate)
        notes.plain = False
    nested = getattr(item, "metadata", None)  # pydantic's FieldInfo keeps its constraints one level down
    if isinstance(nested, list | tuple):
        for inner in nested:
            _read_one(inner, notes)


def _read_words(item: Any, notes: Notes) -> None:
    if isinstance(title := getattr(item, "title", None), str):
        notes.title = title
    for name in ("description", "documentation"):
        if isinstance(text := getattr(item, name, None), str):
            notes.description = text
    if isinstance(examples := getattr(item, "examples", None), list):
        notes.examples = examples
    for name in ("json_schema_extra", "extra_json_schema"):
        if isinstance(extra := getattr(item, name, None), dict):
            notes.extra = {**notes.extra, **extra}


def _flag(bound: Any) -> bool:
    return isinstance(bound, bool)


class Limits(msgspec.Struct, frozen=True):
    """The bounds that hold for one node, and its family."""

    family: str
    bounds: dict[str, Any]
    predicates: tuple[Any, ...] = ()
    plain: bool = True  # written as msgspec.Meta

    def over(self, other: "Limits | None") -> "Limits":
        """Both, where an outer `Annotated` narrows an inner one; ValueError for a pattern that is not safe.

        A pattern that `re` may need long for gets a limit of the length.
        """
        bounds, predicates, plain = self.bounds, self.predicates, self.plain
        if other is not None:
            bounds = {**other.bounds, **bounds}
            predicates, plain = (*other.predicates, *predicates), plain and other.plain
        most = longest(bounds["pattern"]) if "pattern" in bounds else None
        if most is not None and not bounds.get("max_length", most + 1) <= most:
            bounds = {"max_length": most, **{name: bound for name, bound in bounds.items() if name != "max_length"}}
            plain = False  # msgspec would read the user's own annotation without that limit
        return Limits(self.family, bounds, predicates, plain)

    def broken(self, value: Any) -> str | None:
        """What the value should have been, or None if it is within its limits."""
        for name, bound in self.bounds.items():
            test, words = TESTS[name]
            if not test(value, bound):
                return words.format(one_of(bound) if name == "one_of" else bound, unit=UNITS.get(self.family, ""))
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
        """The same limits for msgspec, or None where it cannot say them."""
        if self.predicates or self.family in ("decimal", "moment"):
            return None
        try:
            return msgspec.Meta(**self.bounds)
        except (TypeError, ValueError):
            return None
