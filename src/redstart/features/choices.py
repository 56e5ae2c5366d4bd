"""The choices of a field: how a schema lists them, what a client may answer, and how older clients answer several.

Must not know: Python types, dialects, other fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from redstart.schema.problems import show

LISTINGS: Final[tuple[str, ...]] = ("oneOf", "anyOf", "enum", "const")
"""The ways to list choices."""


class FormError(TypeError):
    """A form that no client could be asked to fill in; the message names the field."""


class Option(NamedTuple):
    """One choice: its form on the wire, its words, and the value it stands for."""

    wire: Any
    title: str
    value: Any


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
            raise FormError(f'the field "{name}" has alternatives in {way} that are no choices: each needs a "const"')
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
            raise FormError(f'the field "{name}" has {show(title)} in {word}, which is no text')
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
