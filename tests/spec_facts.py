"""Reads `spec_facts.txt`, the table of what a server may send in each revision, and judges values by it.

A shape is closed: a field that its revision does not define is a problem, as are null where a value is expected and
a value of another JSON kind.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
_LINE: Final = re.compile(r"(?P<indent> *)(?P<row>.+?)(?: @(?P<ages>[-+,0-9]+))?:?")
_FIELD: Final = re.compile(r"(?P<name>\S+?)(?P<optional>\?)?: (?P<kind>.+)")
_ARROWS: Final = (" => ", " -> ", " !> ", " = ")


class Shape(NamedTuple):
    """The fields of a JSON object with their kinds, those that must be there, and whether others may be."""

    kinds: dict[str, str]
    required: set[str]
    is_open: bool


class Facts(NamedTuple):
    """What holds in one revision."""

    results: dict[str, str]
    params: dict[str, str]
    faults: dict[str, str]
    names: dict[str, str]
    shapes: dict[str, Shape]


@cache
def facts(revision: str) -> Facts:
    found = Facts({}, {}, {}, {}, {})
    tables = dict(zip(_ARROWS, (found.results, found.params, found.faults, found.names), strict=True))
    shape = Shape({}, set(), False)
    for is_field, row, holds in _rows(REVISIONS.index(revision)):
        if is_field:
            field = _FIELD.fullmatch(row)
            assert field, row
            if holds:
                shape.kinds[field["name"]] = field["kind"]
                shape.required.update(() if field["optional"] else (field["name"],))
        elif arrow := next((arrow for arrow in _ARROWS if arrow in row), None):
            left, right = row.split(arrow)
            if holds:
                tables[arrow][left] = right
        else:
            name, _, rest = row.partition(" ")
            shape = Shape({}, set(), rest == "...")
            if holds:
                found.shapes[name] = shape
    return found


def _rows(age: int) -> Iterator[tuple[bool, str, bool]]:
    for text in Path(__file__).with_suffix(".txt").read_text().splitlines():
        line = _LINE.fullmatch(text)
        if line and not text.startswith("#"):
            yield bool(line["indent"]), line["row"], _holds(line["ages"], age)


def _holds(ages: str | None, age: int) -> bool:
    if ages is None:
        return True
    first, _, last = ages.rstrip("+").partition("-")
    if "," in ages:
        return str(age) in ages.split(",")
    return int(first) <= age <= (len(REVISIONS) if ages.endswith("+") else int(last or first))


# ---------------------------------------------------------------- judging


def problems(value: Any, kind: str, revision: str, path: str = "$") -> list[str]:
    """What is wrong with `value` as a `kind`, which is written as in the table."""
    known = facts(revision)
    if kind in known.names:
        return problems(value, known.names[kind], revision, path)
    options = _options(kind)
    if len(options) > 1:
        found = [problems(value, option, revision, path) for option in options]
        return [] if [] in found else min(found, key=lambda bad: (f"{path}.type: " in "".join(bad), len(bad)))
    if kind in known.shapes:
        return _shape_problems(value, known.shapes[kind], revision, path)
    if kind[0] == "[" and isinstance(value, list):
        return [p for n, item in enumerate(value) for p in problems(item, kind[1:-1], revision, f"{path}[{n}]")]
    if kind[0] == "{" and isinstance(value, dict):
        return [p for key, item in value.items() for p in problems(item, kind[1:-1], revision, f"{path}.{key}")]
    return [] if _is_plain(value, kind) else [f"{path}: {json.dumps(value)[:80]} is not {kind} in {revision}"]


def _shape_problems(value: Any, shape: Shape, revision: str, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {json.dumps(value)[:80]} is not an object in {revision}"]
    found = [f"{path}.{name} is missing in {revision}" for name in sorted(shape.required - set(value))]
    for name, item in value.items():
        if name in shape.kinds:
            found += problems(item, shape.kinds[name], revision, f"{path}.{name}")
        elif not shape.is_open:
            found.append(f"{path}.{name} does not exist in {revision}")
    return found


@cache
def _options(kind: str) -> list[str]:
    """`A | [B | C]` as `A` and `[B | C]`."""
    parts, depth = [""], 0
    for token in re.split(r"( \| |[\[\]{}])", kind):
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if token == " | " and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _is_plain(value: Any, kind: str) -> bool:
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    if ".." in kind:
        low, high = kind.split("..")
        return _is_number(value) and float(low) <= value <= float(high)
    if ">=" in kind:
        inner, _, low = kind.partition(" >= ")
        return _is_plain(value, inner) and value >= float(low)
    try:
        literal = json.loads(kind)
    except ValueError:
        return False  # a shape that this revision does not have, or a list or map that it is not
    return type(value) is type(literal) and bool(value == literal)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and binascii.a2b_base64(value, strict_mode=True) is not None
    except binascii.Error:
        return False


_PLAIN: Final[dict[str, Callable[[Any], bool]]] = {
    "any": lambda value: True,
    "null": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "base64": _is_base64,
}
