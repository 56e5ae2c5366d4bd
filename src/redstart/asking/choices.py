"""The choices of a field: how a schema lists them, what a client may answer, and how older clients answer several.

Must not know: annotations, dialects, other fields.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from redstart.features.rules import OptionError, Rule, caller, wrong
from redstart.schema.constraints import FORMATS
from redstart.schema.document import Schema, noted
from redstart.schema.errors import one_of, show
from redstart.schema.scalars import member_title, text_of

T = TypeVar("T")
LISTINGS: Final[tuple[str, ...]] = ("oneOf", "anyOf", "enum", "const")
"""The ways to list choices."""
MAX_CHOICES: Final = 1_000
"""The limit for a list that a handler gives: users cannot choose from more, and compiling more blocks the loop."""


class FormError(TypeError):
    """A form that clients cannot show; the message names the field."""


class Option(NamedTuple):
    """One choice: its form on the wire, its title, and the value that it stands for."""

    wire: object
    title: str
    value: object


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """One of several answers to choose from: any value, and the title that the user sees.

    >>> Choice("eu-west", "Europe (Ireland)").title
    'Europe (Ireland)'
    """

    value: T
    title: str = ""


class SchemaMarker:
    """Something in an `Annotated` that adds to the schema of a field, in a pydantic model too."""

    json_schema_extra: Schema

    def __get_pydantic_json_schema__(self, schema: object, handler: Callable[[object], Schema]) -> Schema:
        return noted(handler(schema), self.json_schema_extra)


class Format(SchemaMarker):
    """The format of a text field: `Annotated[str, Format("email")]`; also "uri", "date" and "date-time".

    >>> Format("email").json_schema_extra
    {'format': 'email'}
    """

    def __init__(self, name: str) -> None:
        if name not in FORMATS:
            raise FormError(f"{name!r} is not a format of a form; these are: {', '.join(FORMATS)}")
        self.json_schema_extra = {"format": name}


class Choices(SchemaMarker):
    """The choices of one field of a form, with titles.

    >>> from typing import Annotated
    >>> Region = Annotated[str, Choices(("eu", "Europe"), ("us", "United States"))]
    """

    def __init__(self, *choices: Choice[object] | tuple[str, str] | str) -> None:
        if not choices:
            raise OptionError(f'{caller()}: Choices needs a choice; write Choices(("eu", "Europe"), ("us", "America"))')
        for choice in choices:
            Rule(_choice, optional=False).check("a choice", choice)
        listed = [{"const": value, "title": title or text_of(value)} for value, title in map(_pair, choices)]
        self.json_schema_extra = {"oneOf": listed}
        self.one_of = tuple(choice["const"] for choice in listed)
        """The values that are allowed, for the validation of arguments."""

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], object]) -> Schema:
        check = {"type": "no-info", "function": self._check}
        return {"type": "function-after", "function": check, "schema": handler(source)}

    def _check(self, value: object) -> object:
        if value not in self.one_of and value is not None:
            raise ValueError(f"must be {one_of(self.one_of)}")
        return value


def _choice(label: str, value: object) -> object:
    pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str)
    if not pair and not isinstance(value, Choice | str | int | float | enum.Enum):
        wrong(label, "a text, (value, title) or a Choice", value)
    return value


def _pair(choice: object) -> tuple[object, str]:
    """The value of a choice, and its title, which may be empty."""
    if isinstance(choice, Choice):
        return choice.value, choice.title
    if isinstance(choice, enum.Enum):
        return choice, member_title(choice)
    if isinstance(choice, tuple) and len(choice) == 2 and isinstance(choice[1], str):
        return choice
    return choice, ""


def options_from(choices: Sequence[object]) -> tuple[list[Option], list[object]]:
    """The choices that a handler lists, and their values. A value may be any object, so an option has its index."""
    if not choices:
        raise FormError("there is nothing to choose from: the list of choices is empty")
    if choices[MAX_CHOICES : MAX_CHOICES + 1]:  # len() fails for a very long range
        raise FormError(f"there are more than {MAX_CHOICES:,} choices, too many for a form: ask for a text or a number")
    pairs = [_pair(choice) for choice in choices]
    wires = [text_of(value.value if isinstance(value, enum.Enum) else value) for value, _ in pairs]
    options = [Option(wire, str(title), at) for at, (wire, (_, title)) in enumerate(zip(wires, pairs, strict=True))]
    return options, [value for value, _ in pairs]


def options_of(name: str, schema: Mapping[str, object]) -> list[Option]:
    """The choices that a schema lists, by one of the keywords in LISTINGS."""
    where = f'the field "{name}"'
    way = next(word for word in LISTINGS if word in schema)
    listed = [schema["const"]] if way == "const" else schema[way]
    if not isinstance(listed, list):
        raise FormError(f"{where} has {way}: {show(listed)}; it needs a list of choices")
    if not listed:
        raise FormError(f"{where} has nothing to choose from: {way} is empty")
    values, titles = listed, schema.get("enumNames", [""] * len(listed))
    if way in ("oneOf", "anyOf"):
        if not all(isinstance(one, dict) and "const" in one for one in listed):
            raise FormError(f'{where} has alternatives in {way} that are not choices: each needs a "const"')
        values, titles = [one["const"] for one in listed], [one.get("title", "") for one in listed]
    if not isinstance(titles, list) or len(titles) != len(values):
        raise FormError(f"{where} needs as many names in enumNames as choices in {way}")
    for value, title in zip(values, titles, strict=True):
        if not isinstance(value, str | int | float):
            raise FormError(f"{where} has the choice {show(value)} in {way}, which is neither text nor number")
        if not isinstance(title, str):
            word = "enumNames" if way == "enum" else f"a title in {way}"
            raise FormError(f"{where} has {show(title)} in {word}, which is not a text")
    return [Option(value, title, value) for value, title in zip(values, titles, strict=True)]


def refuse_alike(name: str, options: Sequence[Option]) -> None:
    """Refuse choices that look the same to a client."""
    wires = Counter(text_of(option.wire) for option in options)
    if same := [show(wire) for wire, count in wires.items() if count > 1]:
        raise FormError(f'the field "{name}" has choices that look the same: {", ".join(same)}')


def split(text: str, known: Collection[str]) -> list[str]:
    """The choices in a text with commas; at each place the longest one, since a choice may have commas itself.

    >>> split("Bern, CH, Rome", {"Bern, CH", "Bern", "Rome"})
    ['Bern, CH', 'Rome']
    """
    names = {",".join(_parts(name)): name for name in known}
    longest = 1 + max(name.count(",") for name in names)
    parts, chosen, at = _parts(text), list[str](), 0
    while at < len(parts):
        sizes = range(min(longest, len(parts) - at), 1, -1)
        size = next((size for size in sizes if ",".join(parts[at : at + size]) in names), 1)
        if name := ",".join(parts[at : at + size]):
            chosen.append(names.get(name, name))
        at += size
    return chosen


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]
