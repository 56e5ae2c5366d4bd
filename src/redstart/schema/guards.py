"""The schemas of pydantic's engine, rewritten so that a client cannot choose values that take very long to read.

Knows: the form of pydantic's core schemas.  Must not know: TypeAdapter, nodes, JSON Schema.
"""

import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from redstart.schema.document import Schema
from redstart.schema.nodes import ALIKE, MANY_COLLISIONS, has_many_collisions

SALTED = {"str", "bytes", "bool", "none", "datetime", "date", "time", "literal", "enum"}
NOT_SCHEMAS = {"metadata", "default", "expected", "config", "serialization", "cls", "ctx", "custom_error_context"}
BY_NAME = {"fields", "choices"}  # a schema for each name, or a list of them
LENGTHS = ("min_length", "max_length")
LONG = 4400  # characters of a number; longer ones do not fit into a message often enough to matter
REPEATS = {"list", "tuple", "set", "frozenset", "deque", "dict", "frozendict", "ordered-dict", "counter"}


class Apart:
    """A value that is equal only to itself, so that a set or dict of many is built in linear time."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def _joined(items: Any) -> object:
    """The set or dict of the values themselves, after the check that few of them have the same hash."""
    values = [item.value for item in items]
    try:
        if has_many_collisions(values):
            raise ValueError(MANY_COLLISIONS)
    except TypeError:
        raise ValueError("it has a value that a set cannot hold") from None
    kind = type(items)
    return kind(dict(zip(values, items.values(), strict=True)) if isinstance(items, Mapping) else values)


def _as_number(text: str) -> object:
    try:
        number = Decimal(text) if len(text) < LONG else None
    except ArithmeticError:
        return text
    return number if number is not None and number.is_finite() else text


def _as_uuid(text: str) -> object:
    try:
        return UUID(text) if 32 <= len(text) <= 45 else text
    except ValueError:
        return text


def _standing_in(value: object, read: Callable[[str], object]) -> object:
    """A value with the hash that the engine's own value may have; ValueError if many values have the same hash."""
    if isinstance(value, str):
        return read(value)
    if isinstance(value, dict):
        keys = [read(key) for key in value]
        _check_apart(keys)
        return tuple(zip(keys, [_standing_in(inner, read) for inner in value.values()], strict=True))
    if not isinstance(value, list):
        return value
    items = [_standing_in(inner, read) for inner in value]
    _check_apart(items)
    return tuple(items)


def _check_apart(values: list[object]) -> None:
    if len(values) > ALIKE and has_many_collisions(values):
        raise ValueError(MANY_COLLISIONS)


def _checked(value: object) -> object:
    """The input of a model with an `__init__` of its own. That leads to the engine that the class was made with, which
    is not rewritten, so the whole input is looked at before, whatever its types are."""
    _standing_in(value, _as_number)
    _standing_in(value, _as_uuid)
    return value


def _after(function: Callable[[Any], object], schema: object) -> Schema:
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": schema}


def _hashed(schema: Mapping[str, object]) -> str | None:
    """The part of a schema whose values are hashed, if a client can choose values with the same hash."""
    part = "items_schema" if schema.get("type") in ("set", "frozenset") else "keys_schema"
    inner = schema.get(part, {"type": "any" if part == "items_schema" else "str"})
    return part if isinstance(inner, Mapping) and inner.get("type") not in SALTED else None


def _rewritten(schema: object, fail_fast: bool) -> object:
    if isinstance(schema, list | tuple):
        return type(schema)(_rewritten(inner, fail_fast) for inner in schema)
    if not isinstance(schema, Mapping):
        return schema
    out: Schema = {}
    for key, content in schema.items():
        if key in BY_NAME and isinstance(content, Mapping):
            out[key] = {name: _rewritten(inner, fail_fast) for name, inner in content.items()}
        else:
            out[key] = content if key in NOT_SCHEMAS else _rewritten(content, fail_fast)
    if fail_fast and out.get("type") in REPEATS:
        out["fail_fast"] = True
    part = _hashed(schema)
    own = out.get("type") == "model" and out.get("custom_init")
    ref = {"ref": out.pop("ref")} if "ref" in out and (own or part) else {}
    if own:
        before = {"type": "no-info", "function": _checked}
        return {"type": "function-before", "function": before, "schema": out, **ref}
    if part is None:
        return out
    outer = {key: out.pop(key) for key in LENGTHS if key in out}  # counted after equal values have become one
    out[part] = _after(Apart, out.get(part, {"type": "any"}))
    return {"type": "chain", "steps": [_after(_joined, out), {"type": out["type"], **outer}], **ref}


def engine(schema: object, *, fail_fast: bool) -> Any:
    """A validator for the schema that refuses many values with the same hash.

    With `fail_fast` it stops reading an array or dict at the first wrong item.
    """
    build = sys.modules["pydantic_core"].SchemaValidator
    try:
        return build(_rewritten(schema, fail_fast), _use_prebuilt=False)
    except TypeError:  # before pydantic 2.13: models inside of models keep the engines they were built with
        return build(_rewritten(schema, fail_fast))
