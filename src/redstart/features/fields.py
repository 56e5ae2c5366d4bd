"""One field of a form: its words on the wire, old and new, and the check of what came back.

Must not know: Python types, dialects, messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from redstart.schema.problems import Problem, ShapeError, missing, not_a_choice, one_of, wrong_type, wrong_value

WORDS: Final[tuple[str, ...]] = ("title", "description")
ANNOTATIONS: Final = frozenset({*WORDS, "default", "examples", "deprecated", "$comment", "type"})
SCALARS: Final = ("string", "integer", "number", "boolean")


class FormError(TypeError):
    """A form that no client could be asked to fill in; the message names the field."""


class Option(NamedTuple):
    """One choice: its form on the wire, its words, and the value it stands for."""

    wire: Any
    title: str
    value: Any


def _is_date(text: str) -> bool:
    date.fromisoformat(text)
    return True


def _is_moment(text: str) -> bool:
    return datetime.fromisoformat(text) is not None


FORMATS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "email": (lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None, "an e-mail address"),
    "uri": (lambda text: bool(urlsplit(text).scheme) and not re.search(r"\s", text), "a URI such as https://…"),
    "date": (_is_date, "a date such as 2025-01-31"),
    "date-time": (_is_moment, "a date and time such as 2025-01-31T12:00:00Z"),
}

# keyword: (what it measures, whether the measure fits, how to say it)
LIMITS: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], bool], str]]] = {
    "minLength": (len, lambda size, bound: size >= bound, "at least {} characters long"),
    "maxLength": (len, lambda size, bound: size <= bound, "at most {} characters long"),
    "pattern": (lambda v: v, lambda text, bound: re.search(bound, text) is not None, "text that matches {}"),
    "minimum": (lambda v: v, lambda number, bound: number >= bound, "at least {}"),
    "maximum": (lambda v: v, lambda number, bound: number <= bound, "at most {}"),
    "exclusiveMinimum": (lambda v: v, lambda number, bound: number > bound, "more than {}"),
    "exclusiveMaximum": (lambda v: v, lambda number, bound: number < bound, "less than {}"),
    "minItems": (len, lambda size, bound: size >= bound, "at least {} of the choices"),
    "maxItems": (len, lambda size, bound: size <= bound, "at most {} of the choices"),
}
FITTING: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "boolean": (),
    "array": ("minItems", "maxItems", "uniqueItems", "items"),
}
# What the spec lets a form say; the rest is checked by us and not sent.
SENT: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
}


class Field:
    """One field. `wire` is its schema in the newer dialects."""

    __slots__ = ("kind", "limits", "many", "name", "nullable", "options", "required", "wire")

    def __init__(self, name: str, kind: str, wire: dict[str, Any], *, required: bool, nullable: bool = False) -> None:
        self.name = name
        self.kind = kind
        self.wire = wire
        self.required = required
        self.nullable = nullable
        self.options: tuple[Option, ...] = ()
        self.many = kind == "array"
        self.limits = {key: wire[key] for key in (*LIMITS, "format") if key in wire}

    # ------------------------------------------------------------ making

    @classmethod
    def plain(
        cls, name: str, schema: dict[str, Any], words: dict[str, Any], default: Any, *, required: bool, nullable: bool
    ) -> Field:
        """A field for text, a number or a boolean."""
        kind = schema.get("type")
        if kind not in SCALARS:
            raise FormError(f'the field "{name}" is {_said(kind)}; a form carries text, numbers, booleans and choices')
        wire = {"type": kind, **words, **{key: schema[key] for key in SENT[kind] if key in schema}}
        if kind == "integer":
            for key, ours, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
                if key in schema:
                    wire.setdefault(ours, schema[key] + step)
        if schema.get("format") in FORMATS:
            wire["format"] = schema["format"]
        if default is not None:
            wire["default"] = default
        return cls(name, kind, wire, required=required, nullable=nullable)

    @classmethod
    def choosing(
        cls,
        name: str,
        words: dict[str, Any],
        options: tuple[Option, ...],
        *,
        required: bool,
        many: bool = False,
        default: Any = None,
        nullable: bool = False,
    ) -> Field:
        """A field for one or several of `options`."""
        titled = any(option.title for option in options)
        listed: dict[str, Any]
        if titled:
            word = "anyOf" if many else "oneOf"
            listed = {word: [{"const": o.wire, "title": o.title or o.wire} for o in options]}
        else:
            listed = {"enum": [o.wire for o in options]}
        if many:
            items = listed if titled else {"type": "string", **listed}
            wire = {"type": "array", **words, "items": items}
        else:
            wire = {"type": "string", **words, **listed}
        wire_of = {_hashable(o.value): o.wire for o in options}
        if many and isinstance(default, list):
            wire["default"] = [wire_of[_hashable(value)] for value in default]
        elif default is not None and _hashable(default) in wire_of:
            wire["default"] = wire_of[_hashable(default)]
        field = cls(name, "array" if many else "string", wire, required=required, nullable=nullable)
        field.options = options
        return field

    @classmethod
    def from_raw(cls, name: str, schema: Any, *, required: bool) -> Field:
        """A field of a schema that was written by hand: sent as it stands."""
        kind = schema.get("type") if isinstance(schema, dict) else None
        if kind not in FITTING:
            raise FormError(f'the field "{name}" is {_said(kind)}; a form carries text, numbers, booleans and choices')
        known = {*ANNOTATIONS, *FITTING[kind], "enum", "enumNames", "oneOf", "const"}
        foreign = [key for key in schema if key not in known and not key.startswith("x-")]
        if foreign:
            raise FormError(f'the field "{name}" has {", ".join(foreign)}, which no form can carry')
        field = cls(name, kind, schema, required=required)
        inner = schema.get("items", {}) if kind == "array" else schema
        if any(key in inner for key in ("enum", "oneOf", "const", "anyOf")):
            field.options = options_of(name, inner, as_text=False)
        elif kind == "array":
            raise FormError(f'the field "{name}" is an array; a form carries an array only of choices from a list')
        return field

    # ------------------------------------------------------------ older dialects

    def older(self) -> dict[str, Any]:
        """The field for a revision without titled choices, without several of them, and with few defaults."""
        words = {key: self.wire[key] for key in WORDS if key in self.wire}
        if self.many:
            listed = ", ".join(f"{o.wire} ({o.title})" if o.title else str(o.wire) for o in self.options)
            text = f"One or more of the following, separated by commas: {listed}"
            said = f"{words['description']} {text}" if "description" in words else text
            return {"type": "string", **words, "description": said}
        if "oneOf" in self.wire:
            names = [option.title or str(option.wire) for option in self.options]
            return {"type": "string", **words, "enum": [o.wire for o in self.options], "enumNames": names}
        if "default" in self.wire and self.kind != "boolean":
            return {key: value for key, value in self.wire.items() if key != "default"}
        return self.wire

    # ------------------------------------------------------------ reading

    def read(self, value: Any, checks: bool) -> Any:
        """The value that was meant, or a Problem is raised in a ShapeError."""
        if self.many:
            value = self._split(value)
            chosen = [self._option(one) for one in value]
            self._check(value, True)
            return chosen
        if self.options:
            return self._option(value)
        out = READERS[self.kind](value)
        if out is None:
            raise _refusal(wrong_type(self.name, KIND_WORDS[self.kind], value))
        if self.limits:
            self._check(out, checks)
        return out

    def _split(self, value: Any) -> list[Any]:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list):
            raise _refusal(wrong_type(self.name, "a list of choices", value))
        return value

    def _option(self, value: Any) -> Any:
        for option in self.options:
            if option.wire == value and type(option.wire) is type(value):
                return option.value
        for option in self.options:
            if isinstance(value, str) and value and value == option.title:
                return option.value
            if str(option.wire) == str(value) and not isinstance(value, bool):
                return option.value
        wires = [option.wire for option in self.options]
        raise _refusal(not_a_choice(self.name, one_of(wires), value, wires))

    def _check(self, value: Any, checks: bool) -> None:
        """The limits; those of a Python type are checked by the type itself, formats are always ours."""
        for word, bound in self.limits.items():
            if word == "format":
                if bound in FORMATS and not _fits_format(value, bound):
                    raise _refusal(wrong_value(self.name, FORMATS[bound][1], value))
            elif checks:
                measure, fits, words = LIMITS[word]
                if not fits(measure(value), bound):
                    raise _refusal(wrong_value(self.name, words.format(bound), value))


def read_fields(fields: list[Field], content: dict[str, Any], *, checks: bool) -> dict[str, Any]:
    """The content with each field read; all problems at once."""
    out: dict[str, Any] = {}
    problems: list[Problem] = []
    for field in fields:
        value = content.get(field.name)
        if value is None:
            if field.required:
                problems.append(missing(field.name, KIND_WORDS[field.kind].removeprefix("a ").removeprefix("an ")))
            continue
        try:
            out[field.name] = field.read(value, checks)
        except ShapeError as error:
            problems += error.problems
    if problems:
        raise ShapeError(problems, noun="field")
    return out


def options_of(name: str, schema: dict[str, Any], *, as_text: bool) -> tuple[Option, ...]:
    """The choices that a schema lists, in whichever of its ways."""
    listed = schema.get("oneOf") or schema.get("anyOf")
    if listed is not None:
        if not all(isinstance(one, dict) and "const" in one for one in listed):
            raise FormError(f'the field "{name}" has alternatives that are no choices: each needs a "const"')
        pairs = [(one["const"], str(one.get("title", ""))) for one in listed]
    else:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        names = schema.get("enumNames") or [""] * len(values)
        if len(names) != len(values):
            raise FormError(f'the field "{name}" has {len(values)} choices and {len(names)} names for them')
        pairs = list(zip(values, names, strict=True))
    if not all(isinstance(value, str | int | float) for value, _ in pairs):
        raise FormError(f'the field "{name}" has choices that are neither text nor numbers')
    return tuple(Option(_text(value) if as_text else value, title, value) for value, title in pairs)


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _hashable(value: Any) -> Any:
    return (type(value), value) if not isinstance(value, list | dict) else (list, str(value))


def _refusal(problem: Problem) -> ShapeError:
    return ShapeError([problem], noun="field")


def _said(kind: Any) -> str:
    if kind is None:
        return "of no type"
    return "an object" if kind == "object" else f"of type {kind}"


def _fits_format(value: str, name: str) -> bool:
    try:
        return FORMATS[name][0](value)
    except ValueError:
        return False


def _integer(value: Any) -> int | None:
    if type(value) is int:
        return value
    number = _number(value)
    return None if number is None or number != int(number) else int(number)


def _number(value: Any) -> int | float | None:
    if isinstance(value, str) and value.isascii():
        try:
            value = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().casefold())
    return value if isinstance(value, bool) else None


READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": lambda value: value if isinstance(value, str) else None,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
KIND_WORDS: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "a list of choices",
}
