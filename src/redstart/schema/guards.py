"""The schemas that pydantic's engine runs, rewritten so that a client cannot choose values that take it for ever.

Knows: the form of pydantic's core schemas.  Must not know: TypeAdapter, nodes, JSON Schema.
"""

import sys
from collections.abc import Mapping
from typing import Any

from redstart.schema.containers import CROWDED, is_crowded

SALTED = {"str", "bytes", "bool", "none", "datetime", "date", "time", "literal", "enum"}
NOT_SCHEMAS = {"metadata", "default", "expected", "config", "serialization", "cls", "ctx", "custom_error_context"}
BY_NAME = {"fields", "choices"}  # a schema for each name, or a list of them
LENGTHS = ("min_length", "max_length")
REPEATS = {"list", "tuple", "set", "frozenset", "deque", "dict", "frozendict", "ordered-dict", "counter"}


class Apart:
    """A value that is equal to nothing else, so that a set or dict of many is built in linear time."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _joined(found: Any) -> Any:
    """The set or dict of the values themselves, once it is known that they can be told apart quickly."""
    values = [item.value for item in found]
    try:
        if is_crowded(values):
            raise ValueError(CROWDED)
    except TypeError:
        raise ValueError("it has a value that a set cannot hold") from None
    kind = type(found)
    return kind(dict(zip(values, found.values(), strict=True)) if isinstance(found, Mapping) else values)


def _after(function: Any, schema: Any) -> dict[str, Any]:
    return {"type": "function-after", "function": {"type": "no-info", "function": function}, "schema": schema}


def _hashed(schema: Mapping[str, Any]) -> str | None:
    """The part of a schema whose values are hashed, if a client can choose them to have one hash."""
    part = "items_schema" if schema.get("type") in ("set", "frozenset") else "keys_schema"
    inner = schema.get(part, {"type": "any" if part == "items_schema" else "str"})
    return part if isinstance(inner, Mapping) and inner.get("type") not in SALTED else None


def _rewritten(schema: Any, hasty: bool) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_rewritten(inner, hasty) for inner in schema)
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, content in schema.items():
        if key in BY_NAME and isinstance(content, Mapping):
            out[key] = {name: _rewritten(inner, hasty) for name, inner in content.items()}
        else:
            out[key] = content if key in NOT_SCHEMAS else _rewritten(content, hasty)
    if hasty and out.get("type") in REPEATS:
        out["fail_fast"] = True
    part = _hashed(schema)
    if part is None:
        return out
    outer = {key: out.pop(key) for key in LENGTHS if key in out}  # counted when equal values are one
    ref = {"ref": out.pop("ref")} if "ref" in out else {}
    out[part] = _after(Apart, out.get(part, {"type": "any"}))
    return {"type": "chain", "steps": [_after(_joined, out), {"type": out["type"], **outer}], **ref}


def engine(schema: Any, *, hasty: bool) -> Any:
    """What validates by the schema, and refuses values which were chosen to have one hash.

    A hasty one ends the reading of an array or dict at the first item that is wrong.
    """
    build = sys.modules["pydantic_core"].SchemaValidator
    try:
        return build(_rewritten(schema, hasty), _use_prebuilt=False)
    except TypeError:  # before pydantic 2.12: models inside of models keep the engines they were built with
        return build(_rewritten(schema, hasty))
