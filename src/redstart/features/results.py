"""What a handler returned, as JSON and as content blocks.

A value becomes JSON once; the same bytes serve as the text block and as the structured content. The encoder accepts
most Python values and refuses what JSON cannot represent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from operator import is_not
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET, Raw

from redstart.features.errors import ToolError, Unencodable
from redstart.schema.scalars import by_value
from redstart.wire import types as t
from redstart.wire.check import InvalidShape, checked
from redstart.wire.jsonrpc import decode, plain

S = TypeVar("S", bound=msgspec.Struct)
Block = t.Text | t.Image | t.Audio | t.EmbeddedResource | t.ResourceLink
SUCCESS: Final = "Success"


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
"""Result classes of other frameworks, and ours. If theirs were sent as plain data, `is_error` would be lost."""


def ours_for(kind: Any) -> str:
    """What to write instead of a result class of another framework; "" for any other type."""
    name = _OURS.get(getattr(kind, "__name__", ""), "")
    if not name or kind.__module__.partition(".")[0] not in _OTHERS:
        return ""
    return f"{kind.__module__}.{kind.__name__} belongs to another framework: write redstart.{name}"


def _foreign(value: object) -> object:
    """Convert a value that msgspec does not know: an object of another library, told by its methods, or a container."""
    if isinstance(value, str | int | float | bytes):
        return plain(value)
    if not isinstance(value, type):
        if words := ours_for(type(value)):
            raise NotImplementedError(words)
        for name in ("model_dump", "isoformat", "tolist", "item"):
            method = getattr(value, name, None)
            if callable(method):
                return method(mode="json", by_alias=True) if name == "model_dump" else method()
        if hasattr(value, "__fspath__"):
            return value.__fspath__()
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Iterable) and hasattr(value, "__len__"):
            return list(value)
    forgotten = ": was `await` forgotten?" if hasattr(type(value), "__await__") else ""
    raise NotImplementedError(f"a value of type {type(value).__name__} has no JSON form{forgotten}")


_encode: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_foreign).encode


def to_json(value: object) -> bytes:
    """`value` as compact JSON; a NamedTuple is an object; NaN and Infinity are refused, not turned into null."""
    kind = type(value)
    if isinstance(value, Raw):
        return bytes(value)
    try:
        if kind not in LEAVES:
            value = _unnamed(value)
        raw = _encode(value)
    except (TypeError, ValueError, OverflowError, NotImplementedError, RecursionError) as error:
        raise Unencodable(str(error)) from None
    if (b"null" in raw or b"NaN" in raw or b"Inf" in raw) and _has_non_finite(value):
        raise Unencodable("JSON has no NaN and no Infinity")
    return raw


def _has_non_finite(value: object) -> bool:
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
    if hasattr(value, "__dataclass_fields__"):
        return any(map(_has_non_finite, _fields(value).values()))
    try:
        plain = msgspec.to_builtins(value, enc_hook=_foreign)
    except (TypeError, NotImplementedError):
        return False
    return plain is not value and _has_non_finite(plain)


# ---------------------------------------------------------------- NamedTuple

# msgspec writes a NamedTuple as an array; here it is an object. Values of these types hold none, and are skipped.
# And it writes the value of a member of an Enum, also where the schema has its name.
LEAVES: Final = frozenset({str, int, float, bool, type(None), bytes, Decimal})


def _unnamed(value: Any) -> object:
    """The value with dicts in place of NamedTuples, and of the records that hold them; itself if it holds none."""
    kind: Any = type(value)
    if kind in (list, tuple, set, frozenset):
        if LEAVES.issuperset(map(type, value)):
            return value
        items = [item if type(item) in LEAVES else _unnamed(item) for item in value]
        return items if any(map(is_not, items, value)) else value
    if isinstance(value, Enum):
        return value if by_value(kind) else value.name
    fields = value if kind is dict else _fields(value)
    changed = {}
    for name, item in fields.items():
        if type(item) not in LEAVES:
            plain = _unnamed(item)
            if plain is not item:
                changed[name] = plain
    named = isinstance(value, tuple) and hasattr(kind, "_fields")
    return {**fields, **changed} if changed or named else value


def _fields(value: Any) -> dict[str, object]:
    """The fields of a Struct, a NamedTuple or a dataclass, under the names that they are sent with."""
    kind: Any = type(value)
    if hasattr(kind, "__struct_fields__"):
        config = kind.__struct_config__
        tag = {} if config.tag is None else {config.tag_field: config.tag}
        names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
        return tag | {sent: item for sent, name in names if (item := getattr(value, name)) is not UNSET}
    if isinstance(value, tuple):
        return {name: getattr(value, name) for name in getattr(kind, "_fields", ())}
    if not hasattr(kind, "__dataclass_fields__"):
        return {}
    from dataclasses import fields  # slow to load, unless the application has a dataclass

    return {field.name: getattr(value, field.name) for field in fields(value) if hasattr(value, field.name)}


# ---------------------------------------------------------------- content


LOADED_TYPES: Final = {
    ("pandas", "DataFrame"): "pandas_frame",
    ("pandas", "Series"): "pandas_series",
    ("polars", "DataFrame"): "polars_frame",
    ("polars", "Series"): "polars_series",
    ("matplotlib", "Figure"): "figure",
}
"""Classes of libraries that the user has loaded, and the function of `foreign_values` that makes a block of them."""


def _loaded_type(kind: type) -> str | None:
    for base in kind.__mro__:
        name = LOADED_TYPES.get((base.__module__.partition(".")[0], base.__name__))
        if name is not None:
            return name
    return None


def is_loaded_type(kind: object) -> bool:
    """Whether `kind` is a class of one of these libraries: its values become a table or a picture, without a schema."""
    return isinstance(kind, type) and _loaded_type(kind) is not None


def is_media(value: object) -> bool:
    """Whether `value` is `(bytes, "image/png")`."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], bytes) and isinstance(value[1], str)


def media(data: bytes, mime_type: str) -> Block:
    """Bytes with their MIME type as the block that fits."""
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return t.Image(data, mime_type)
    if kind == "audio":
        return t.Audio(data, mime_type)
    return t.EmbeddedResource(t.ResourceContents(f"urn:uuid:{uuid4()}", mime_type, blob=data))


def block(value: Any) -> Block:
    """One content block from anything: content as it is, text for strings, JSON text for the rest."""
    if isinstance(value, t.Content):
        return valid(value)  # type: ignore[return-value]
    if isinstance(value, str):
        return t.Text(value)
    if type(value) is Raw:
        return block(decode(value))
    if isinstance(value, dict) and value.get("type") in BLOCK_TYPES:
        return _from_dict(value)
    if is_media(value):
        return media(*value)
    if isinstance(value, bytes | bytearray):
        return media(bytes(value), "application/octet-stream")
    name = None if type(value).__module__ == "builtins" else _loaded_type(type(value))
    if name is None:
        return t.Text(to_json(value).decode())
    from redstart.features import foreign_values

    made: Block = getattr(foreign_values, name)(value)
    return made


BLOCK_TYPES: Final[dict[str, tuple[type[Block], str]]] = {
    "text": (t.Text, "text"),
    "image": (t.Image, "data"),
    "audio": (t.Audio, "data"),
    "resource": (t.EmbeddedResource, "resource"),
    "resource_link": (t.ResourceLink, "uri"),
}
"""The class of each type of block, and the key that a dict of that type must have."""


def _from_dict(value: dict[str, Any]) -> Block:
    kind, key = BLOCK_TYPES[value["type"]]
    if key not in value:  # a dict of the user's own that happens to have a type
        return t.Text(to_json(value).decode())
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Unencodable(f"not a valid {value['type']} block: {error}") from None


def valid(value: S) -> S:
    """A wire shape that the application has made, after a check of its fields."""
    try:
        if isinstance(value, t.EmbeddedResource):
            one_body(value.resource)
        return checked(value)
    except InvalidShape as error:
        raise Unencodable(str(error)) from None


def one_body(contents: object) -> None:
    """Contents of a resource hold text or a blob, and not both."""
    if isinstance(contents, t.ResourceContents) and isinstance(contents.text, str) == isinstance(contents.blob, bytes):
        raise Unencodable("ResourceContents without exactly one of text (str) and blob (bytes)")


def is_content(value: object) -> bool:
    """Whether `value` is content, and not data."""
    return isinstance(value, t.Content | ToolError) or is_media(value) or is_loaded_type(type(value))


def has_blocks(value: object) -> bool:
    """Whether `value` is content, a result or a list that holds content."""
    if isinstance(value, t.ToolResult | bytes | bytearray) or is_content(value):
        return True
    return isinstance(value, list | tuple) and any(is_content(item) for item in value)


def blocks(values: Iterable[object]) -> tuple[list[Block], bool]:
    """Blocks from a list, and whether an error is among them."""
    failed = False
    made: list[Block] = []
    for value in values:
        if isinstance(value, ToolError):
            failed = True
            made += [t.Text(str(value)), *map(block, value.content)]
        elif isinstance(value, t.ToolResult):  # from a process: a ToolError or content among what was yielded
            inner, bad = blocks(list(value.content))
            made += inner
            failed = failed or bad or value.is_error is True
        else:
            made.append(block(value))
    return made, failed


def free_result(value: object) -> t.ToolResult:
    """The result of a tool that has no output schema."""
    if isinstance(value, str):
        return t.ToolResult(content=[t.Text(value)])
    if isinstance(value, ToolError):
        value = value.result()
    if isinstance(value, t.ToolResult):
        return finished(value)
    if isinstance(value, Raw):
        value = decode(value)
    if value is None:
        value = SUCCESS
    items: Iterable[object] = [value]
    if isinstance(value, list | tuple) and not is_media(value) and any(is_content(item) for item in value):
        items = value
    content, failed = blocks(items)
    return t.ToolResult(content=content, is_error=True if failed else None)


def finished(result: t.ToolResult) -> t.ToolResult:
    """A ToolResult of the application, with its blocks checked and its structured content encoded."""
    given: object = result.content  # the class does not check it
    given = [] if given is None else given
    content, failed = blocks(list(given) if isinstance(given, list | tuple) else [given])
    made = valid(t.ToolResult(content=content, is_error=True if failed else result.is_error, meta=result.meta))
    if result.structured is not UNSET:
        raw = to_json(result.structured)
        made.structured = Raw(raw)
        if not content:
            made.content = [t.Text(raw.decode())]
    return made


def size(result: t.ToolResult) -> int:
    """The bytes of a result's content, about as they will be on the wire."""
    total = 0 if result.structured is UNSET else len(result.structured)
    for item in result.content:
        if type(item) is t.Text:
            total += len(item.text) if item.text.isascii() else len(item.text.encode())
        elif isinstance(item, t.Image | t.Audio):
            total += len(item.data) * 4 // 3
        else:
            total += len(to_json(item))
    return total
