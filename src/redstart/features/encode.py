"""One JSON encoder for what handlers return. It accepts most Python values and refuses what JSON cannot represent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw


class Unencodable(Exception):
    """A returned value that JSON cannot carry."""


_OTHERS: Final = ("mcp", "mcp_types", "fastmcp")
_OURS: Final = {
    "CallToolResult": "ToolResult",
    "ToolResult": "ToolResult",
    "TextContent": "Text",
    "ImageContent": "Image",
    "Image": "Image",
    "AudioContent": "Audio",
    "Audio": "Audio",
    "EmbeddedResource": "EmbeddedResource",
    "File": "EmbeddedResource",
    "ResourceLink": "ResourceLink",
    "PromptMessage": "Message",
    "UserMessage": "Message",
    "AssistantMessage": "Message",
}
"""Result classes of other frameworks, and ours. Sent as plain data, theirs would lose their `is_error`."""


def ours_for(kind: Any) -> str:
    """What to write for a result of another framework; nothing for any other type."""
    name = _OURS.get(getattr(kind, "__name__", ""), "")
    if not name or kind.__module__.partition(".")[0] not in _OTHERS:
        return ""
    return f"{kind.__module__}.{kind.__name__} belongs to another framework: write redstart.{name}"


def _foreign(value: Any) -> Any:
    """Convert what msgspec does not know: objects of other libraries, recognised by their methods, and containers."""
    if not isinstance(value, type):
        if words := ours_for(type(value)):
            raise NotImplementedError(words)
        for name, options in (("model_dump", {"mode": "json", "by_alias": True}), ("tolist", {}), ("item", {})):
            method = getattr(value, name, None)
            if callable(method):
                return method(**options)
        if hasattr(value, "__fspath__"):
            return value.__fspath__()
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Iterable) and hasattr(value, "__len__"):
            return list(value)
    forgotten = ": was `await` forgotten?" if hasattr(type(value), "__await__") else ""
    raise NotImplementedError(f"a value of type {type(value).__name__} has no JSON form{forgotten}")


_encode: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_foreign, decimal_format="number").encode


def to_json(value: Any) -> bytes:
    """`value` as compact JSON; a NamedTuple is an object; NaN and Infinity are refused, not turned into null."""
    kind = type(value)
    if kind is Raw:
        return bytes(value)
    try:
        if kind not in LEAVES and _holds_named(value):
            value = _unnamed(value)
        raw = _encode(value)
    except (TypeError, ValueError, OverflowError, NotImplementedError, RecursionError) as error:
        raise Unencodable(str(error)) from None
    if (b"null" in raw or b"NaN" in raw or b"Inf" in raw) and _has_non_finite(value):
        raise Unencodable("JSON has no NaN and no Infinity")
    return raw


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Decimal):
        return not value.is_finite()
    if isinstance(value, str | bytes | int) or value is None:
        return False
    if isinstance(value, dict):
        return any(_has_non_finite(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_has_non_finite(item) for item in value)
    if value is UNSET or isinstance(value, Raw):
        return False
    if dataclasses.is_dataclass(value):
        return any(_has_non_finite(getattr(value, field.name)) for field in dataclasses.fields(value))
    try:
        plain = msgspec.to_builtins(value, enc_hook=_foreign)
    except (TypeError, NotImplementedError):
        return False
    return plain is not value and _has_non_finite(plain)


# ---------------------------------------------------------------- NamedTuple

# msgspec writes a NamedTuple as an array; here it is an object. Checking the types of leaves is fast.
LEAVES: Final = frozenset({str, int, float, bool, type(None), bytes, Decimal})


def _holds_named(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return _any_named(value.values())
    if kind in (list, tuple, set, frozenset):
        return _any_named(value)
    if hasattr(kind, "_fields") and isinstance(value, tuple):
        return True
    return any(_holds_named(getattr(value, name, None)) for name in _fields(kind))


def _any_named(values: Iterable[Any]) -> bool:
    return not LEAVES.issuperset(map(type, values)) and any(
        _holds_named(item) for item in values if type(item) not in LEAVES
    )


def _fields(kind: Any) -> Iterable[str]:
    return getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None) or ()


def _unnamed(value: Any) -> Any:
    """The same value with dicts in place of NamedTuples, and of the records that hold them."""
    kind: Any = type(value)
    if kind in LEAVES:
        return value
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return {name: _unnamed(getattr(value, name)) for name in kind._fields}
    if kind is dict:
        return {key: _unnamed(item) for key, item in value.items()}
    if kind in (list, tuple, set, frozenset):
        return [_unnamed(item) for item in value]
    if not _holds_named(value):
        return value
    if hasattr(kind, "__struct_fields__"):
        config = kind.__struct_config__
        plain = {config.tag_field: config.tag} if config.tag is not None else {}
        for field in msgspec.structs.fields(kind):
            if (item := getattr(value, field.name)) is not UNSET:
                plain[field.encode_name] = _unnamed(item)
        return plain
    return {field.name: _unnamed(getattr(value, field.name)) for field in dataclasses.fields(value)}
