"""One field of a form: its words on the wire, old and new, and the check of what came back.

Must not know: Python types, dialects, messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from redstart.asking.choices import FormError as FormError
from redstart.asking.choices import Option, default_of, known_by, split, wire_text
from redstart.features.errors import log
from redstart.schema.errors import (
    Problem,
    ShapeError,
    missing,
    not_a_choice,
    one_of,
    wrong_type,
    wrong_value,
)

WORDS: Final[tuple[str, ...]] = ("title", "description")
SCALARS: Final = ("string", "integer", "number", "boolean")
SECRETS: Final = frozenset(
    {"password", "passwd", "passphrase", "secret", "token", "apikey", "accesstoken", "privatekey"}
)
"""The names of secrets, without the ways to write them: api_key, apiKey, API-Key."""


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
    "uniqueItems": (lambda v: v, lambda v, bound: not bound or len(set(v)) == len(v), "a list without repeats"),
}
# What the spec lets a form say; the rest is checked by us and not sent.
SENT: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
LISTED: Final = ("enum", "enumNames", "oneOf", "const", "items")  # choices, in whichever way they are written


def sent(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """What a client gets of a field's schema: the keywords that the spec has for one of this type."""
    wire = {key: schema[key] for key in ("type", *WORDS, *SENT[kind], *LISTED, "default") if key in schema}
    if schema.get("format") in FORMATS:
        wire["format"] = schema["format"]
    if kind == "integer":
        for key, ours, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if key in schema:
                wire.setdefault(ours, int(schema[key]) + step)
    return wire


class Field:
    """One field. `wire` is its schema in the newer dialects, `limits` are the keywords that answers are checked by."""

    __slots__ = (
        "_known",
        "_reader",
        "blank",
        "kind",
        "limits",
        "many",
        "name",
        "nullable",
        "options",
        "required",
        "wire",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        wire: dict[str, Any],
        *,
        required: bool,
        nullable: bool = False,
        options: tuple[Option, ...] = (),
        limits: dict[str, Any] | None = None,
        text: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.wire = wire
        self.required = required
        self.nullable = nullable
        self.options = options
        self.many = kind == "array"
        self.limits = limits or {}
        self._reader = READERS.get(kind)
        self._known = known_by(name, options)
        # Whether an empty text says that there is no answer: a client's text box cannot say it in another way.
        # In place of a list that is required it says that none was chosen.
        self.blank = not (required if self.many else text or "" in self._known)

    # ------------------------------------------------------------ making

    @classmethod
    def plain(
        cls, name: str, schema: dict[str, Any], words: dict[str, Any], default: Any, *, required: bool, nullable: bool
    ) -> Field:
        """A field for text, a number or a boolean."""
        kind = schema.get("type")
        if kind not in SCALARS:
            raise FormError(f'the field "{name}" is {_said(kind)}; a form carries text, numbers, booleans and choices')
        wire = sent(kind, {**{key: schema[key] for key in schema if key not in (*WORDS, "default")}, **words})
        # The type itself checks its limits; a format is only ours to check.
        limits = {"format": schema["format"]} if schema.get("format") in FORMATS else {}
        if default is not None:
            wire["default"] = default
        text = kind == "string" and "format" not in schema and "contentEncoding" not in schema
        return cls(name, kind, wire, required=required, nullable=nullable, limits=limits, text=text)

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
        if default is not None:
            wire["default"] = default_of(name, options, default)
        limits = {key: words[key] for key in LIMITS if key in words}
        kind = "array" if many else "string"
        return cls(name, kind, wire, required=required, nullable=nullable, options=options, limits=limits)

    # ------------------------------------------------------------ older dialects

    def older(self) -> dict[str, Any]:
        """The field for a revision without titled choices, without several of them, and with few defaults."""
        words = {key: self.wire[key] for key in WORDS if key in self.wire}
        if self.many:
            names = [f"{wire_text(o.wire)} ({o.title})" if o.title else wire_text(o.wire) for o in self.options]
            listed = ("; " if any("," in name for name in names) else ", ").join(names)
            text = f"One or more of the following, separated by commas: {listed}"
            said = f"{words['description']} {text}" if "description" in words else text
            return {"type": "string", **words, "description": said}
        if self.options:
            titles = [o.title or wire_text(o.wire) for o in self.options]
            named = {"enumNames": titles} if any(o.title for o in self.options) else {}
            return {"type": "string", **words, "enum": [wire_text(o.wire) for o in self.options], **named}
        if "default" in self.wire and self.kind != "boolean":
            return {key: value for key, value in self.wire.items() if key != "default"}
        return self.wire

    # ------------------------------------------------------------ reading

    def read(self, value: Any) -> Any:
        """The value that was meant, or a Problem is raised in a ShapeError."""
        if self._reader is None:
            return self._several(value)
        if self.options:
            return self._option(value)
        out = self._reader(value)
        if out is None:
            raise _refusal(wrong_type(self.name, KIND_WORDS[self.kind], value))
        if self.limits:
            self._check(out)
        return out

    def _several(self, value: Any) -> list[Any]:
        if isinstance(value, str):
            value = split(value, self._known)
        if not isinstance(value, list):
            raise _refusal(wrong_type(self.name, KIND_WORDS[self.kind], value))
        chosen = [self._option(one) for one in value]
        if self.limits:
            self._check(chosen)
        return chosen

    def _option(self, value: Any) -> Any:
        name = value if type(value) is str else wire_text(value) if isinstance(value, int | float) else None
        if name in self._known:
            return self._known[name]
        shown = self._shown()
        raise _refusal(not_a_choice(self.name, one_of(shown), value, shown))

    def _shown(self) -> list[Any]:
        """The choices as people know them: by their titles, except where two have the same one."""
        return [o.title if o.title and self._known.get(o.title) == o.value else o.wire for o in self.options]

    @property
    def brief(self) -> str:
        """What is wanted, in the fewest words."""
        if self.options and not self.many:
            return one_of(self._shown())
        return KIND_WORDS[self.kind].removeprefix("an ").removeprefix("a ")

    def _check(self, value: Any) -> None:
        for word, bound in self.limits.items():
            if word == "format":
                if not _fits_format(value, bound):
                    raise _refusal(wrong_value(self.name, FORMATS[bound][1], value))
                continue
            measure, fits, words = LIMITS[word]
            if not fits(measure(value), bound):
                raise _refusal(wrong_value(self.name, words.format(bound), value))


def read_fields(fields: list[Field], content: dict[str, Any]) -> dict[str, Any]:
    """The content with each field read; all problems at once."""
    out: dict[str, Any] = {}
    problems: list[Problem] = []
    for field in fields:
        value = content.get(field.name)
        if value is None or (value == "" and field.blank):
            if field.required:
                problems.append(missing(field.name, field.brief))
            continue
        try:
            out[field.name] = field.read(value)
        except ShapeError as error:
            problems += error.problems
        except (ValueError, OverflowError):  # CPython reads and shows no integer of more than 4300 digits
            problems.append(Problem(field.name, "must be a number with fewer digits"))
    if problems:
        raise ShapeError(problems, noun="field")
    return out


def is_secret(schema: dict[str, Any]) -> bool:
    """Whether a schema is that of a password or the like, such as pydantic's SecretStr."""
    return schema.get("format") == "password" or schema.get("writeOnly") is True


def secret(name: str) -> FormError:
    """Why it is refused. Spec: servers MUST NOT ask for sensitive information in a form."""
    return FormError(f'the field "{name}" is a secret, and no form may ask for one: use ctx.elicit_url')


def warn_of_secrets(form: str, fields: list[Field]) -> None:
    """Say in the log which fields look like secrets: a name is no proof, so they are not refused."""
    for field in fields:
        name = field.name.casefold().replace("_", "").replace("-", "")
        if name in SECRETS and field.kind == "string" and not field.options and "format" not in field.wire:
            log.warning(
                '%s: the field "%s" asks for a secret in a form, where the client and its model may see it: '
                "use ctx.elicit_url",
                form,
                field.name,
            )


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


NUMERAL: Final = re.compile(r"\s*[+-]?(\d+|\d+\.\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


def _numeral(value: Any) -> int | float | None:
    """A number, or the number in a text; what only Python writes, such as 1_0, is none."""
    if isinstance(value, str) and (found := NUMERAL.fullmatch(value)):
        return int(value) if found[1].isdigit() and not found[2] else float(value)
    return value if type(value) in (int, float) else None


def _integer(value: Any) -> int | None:
    if type(value) is int:
        return value
    number = _numeral(value)
    return int(number) if number is not None and number == number // 1 else None


def _number(value: Any) -> int | float | None:
    number = _numeral(value)
    return None if number is None or not math.isfinite(number) else number


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
