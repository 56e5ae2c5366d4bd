"""The choices of a field: how a schema lists them, what a client may answer, and how older clients answer several.

Must not know: annotations, dialects, other fields.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from redstart.features.rules import OptionError, Rule, caller, wrong
from redstart.schema.errors import one_of, show

T = TypeVar("T")
LISTINGS: Final[tuple[str, ...]] = ("oneOf", "anyOf", "enum", "const")
"""The ways to list choices."""
MAX_CHOICES: Final = 1_000
"""Of a list that a handler gives: nobody can choose from more, and to make them takes the time of all others."""


class FormError(TypeError):
    """A form that no client could be asked to fill in; the message names the field."""


class Option(NamedTuple):
    """One choice: its form on the wire, its words, and the value it stands for."""

    wire: Any
    title: str
    value: Any


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """One of several answers to choose from: any value, and the words that the user sees.

    >>> Choice("eu-west", "Europe (Ireland)").title
    'Europe (Ireland)'
    """

    value: T
    title: str = ""


class SchemaMarker:
    """Something in an `Annotated` that adds to the schema of a field, in a pydantic model too."""

    json_schema_extra: dict[str, Any]

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(schema), **self.json_schema_extra}


class Choices(SchemaMarker):
    """The choices of one field of a form, with titles.

    >>> from typing import Annotated
    >>> Region = Annotated[str, Choices(("eu", "Europe"), ("us", "United States"))]
    """

    def __init__(self, *choices: Choice[Any] | tuple[str, str] | str) -> None:
        if not choices:
            raise OptionError(f'{caller()}: Choices needs a choice; write Choices(("eu", "Europe"), ("us", "America"))')
        for choice in choices:
            Rule(_choice, optional=False).check("a choice", choice)
        listed = [{"const": value, "title": title or wire_text(value)} for value, title in map(pair_of, choices)]
        self.json_schema_extra = {"oneOf": listed}
        self.one_of = tuple(choice["const"] for choice in listed)
        """What the checks of arguments read."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        check = {"type": "no-info", "function": self._check}
        return {"type": "function-after", "function": check, "schema": handler(source)}

    def _check(self, value: Any) -> Any:
        if value not in self.one_of and value is not None:
            raise ValueError(f"must be {one_of(self.one_of)}")
        return value


def _choice(label: str, value: Any) -> Any:
    pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str)
    if not pair and not isinstance(value, Choice | str | int | float | enum.Enum):
        wrong(label, "a text, (value, title) or a Choice", value)
    return value


def pair_of(choice: Any) -> tuple[Any, str]:
    """The value of a choice, and the words for it, which may be none."""
    if isinstance(choice, Choice):
        return choice.value, choice.title
    if isinstance(choice, enum.Enum):
        return choice, title_of(choice)
    if isinstance(choice, tuple) and len(choice) == 2 and isinstance(choice[1], str):
        return choice
    return choice, ""


def title_of(member: enum.Enum) -> str:
    """The words for a member of an Enum: its label, or its name where that says more than its value."""
    label = getattr(member, "label", None)
    if isinstance(label, str):
        return label
    said = str(member.value).casefold().replace("-", "_").replace(" ", "_")
    return "" if said == member.name.casefold() else member.name.replace("_", " ").capitalize()


def options_from(choices: list[Any] | tuple[Any, ...] | range) -> tuple[tuple[Option, ...], list[Any]]:
    """The choices that a handler lists, and their values: these may be anything, so an option knows its place only."""
    if not choices:
        raise FormError("there is nothing to choose from: the list of choices is empty")
    if choices[MAX_CHOICES : MAX_CHOICES + 1]:  # len() of a range may be more than it can say
        raise FormError(f"there are more than {MAX_CHOICES:,} choices, too many for a form: ask for a text or a number")
    options, values = list[Option](), list[Any]()
    for at, (value, title) in enumerate(map(pair_of, choices)):
        wire = wire_text(value.value if isinstance(value, enum.Enum) else value)
        options.append(Option(wire, str(title) if title else "", at))
        values.append(value)
    return tuple(options), values


def options_of(name: str, schema: dict[str, Any], *, as_text: bool) -> tuple[Option, ...]:
    """The choices that a schema lists, in whichever of its ways."""
    way = next(word for word in LISTINGS if word in schema)
    listed = [schema["const"]] if way == "const" else schema[way]
    if not isinstance(listed, list):
        raise FormError(f'the field "{name}" has {way}: {show(listed)}; it needs a list of choices')
    if not listed:
        raise FormError(f'the field "{name}" has nothing to choose from: {way} is empty')
    if way in ("oneOf", "anyOf"):
        if not all(isinstance(one, dict) and "const" in one for one in listed):
            raise FormError(f'the field "{name}" has alternatives in {way} that are not choices: each needs a "const"')
        values, titles = [one["const"] for one in listed], [one.get("title", "") for one in listed]
    else:
        values, titles = listed, schema.get("enumNames", [""] * len(listed))
        if not isinstance(titles, list) or len(titles) != len(values):
            raise FormError(f'the field "{name}" needs as many names in enumNames as choices in {way}')
    for value, title in zip(values, titles, strict=True):
        if not isinstance(value, str | int | float):
            raise FormError(
                f'the field "{name}" has the choice {show(value)} in {way}, which is neither text nor number'
            )
        if not isinstance(title, str):
            word = "enumNames" if way == "enum" else f"a title in {way}"
            raise FormError(f'the field "{name}" has {show(title)} in {word}, which is not a text')
    return tuple(Option(wire_text(v) if as_text else v, title, v) for v, title in zip(values, titles, strict=True))


def known_by(name: str, options: tuple[Option, ...]) -> dict[str, Any]:
    """What may be answered, as text: the choices, and their titles where one title belongs to one choice."""
    wires = Counter(wire_text(option.wire) for option in options)
    if same := [show(wire) for wire, count in wires.items() if count > 1]:
        raise FormError(f'the field "{name}" has choices that look the same: {", ".join(same)}')
    titles = Counter(option.title for option in options if option.title)
    known: dict[str, Any] = {o.title: o.value for o in options if titles[o.title] == 1}
    return known | {wire_text(option.wire): option.value for option in options}


def default_of(name: str, options: tuple[Option, ...], default: Any) -> Any:
    """The default in the words of the wire."""
    if isinstance(default, list):
        return [default_of(name, options, one) for one in default]
    for option in options:
        if wire_text(option.value) == wire_text(default):
            return option.wire
    raise FormError(f'the field "{name}" has the default {show(default)}, which is not one of its choices')


def wire_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of number: 2 and 2.0 are the same choice
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def split(text: str, known: Collection[str]) -> list[str]:
    """The choices in a text with commas; at each place the longest one, since a choice may have commas itself.

    >>> split("Bern, CH, Rome", {"Bern, CH", "Bern", "Rome"})
    ['Bern, CH', 'Rome']
    """
    names = {",".join(_parts(name)): name for name in known}
    longest = 1 + max(name.count(",") for name in names)
    parts, found, at = _parts(text), list[str](), 0
    while at < len(parts):
        sizes = range(min(longest, len(parts) - at), 1, -1)
        size = next((size for size in sizes if ",".join(parts[at : at + size]) in names), 1)
        if name := ",".join(parts[at : at + size]):
            found.append(names.get(name, name))
        at += size
    return found


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]
