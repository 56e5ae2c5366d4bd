"""From what a handler returned to content blocks: one table of conversions, one JSON encoder.

A value becomes JSON once; the same bytes serve as the text block and as the structured content.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from redstart.features.errors import ToolError
from redstart.wire import types as t

Block = t.Text | t.Image | t.Audio | t.EmbeddedResource | t.ResourceLink
SUCCESS: Final = "Success"

_plain = msgspec.json.Encoder(decimal_format="number")


def _foreign(value: Any) -> Any:
    """Objects of libraries that we never import ourselves, told by the methods they have."""
    for name, kwargs in (("model_dump", {"mode": "json"}), ("tolist", {}), ("item", {})):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            return method(**kwargs)
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise NotImplementedError(f"a value of type {type(value).__name__} has no JSON form")


_encoder = msgspec.json.Encoder(enc_hook=_foreign, decimal_format="number")


class Unencodable(Exception):
    """A returned value that JSON cannot carry."""


def to_json(value: Any) -> bytes:
    """`value` as compact JSON; NaN and Infinity are refused, because JSON would turn them into null."""
    try:
        raw = _encoder.encode(value)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise Unencodable(str(error)) from None
    if b"null" in raw and _has_non_finite(value):
        raise Unencodable("JSON has no NaN and no Infinity")
    return raw


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, str | bytes | int) or value is None:
        return False
    if isinstance(value, dict):
        return any(_has_non_finite(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_has_non_finite(item) for item in value)
    try:
        return _has_non_finite(msgspec.to_builtins(value, enc_hook=_foreign))
    except (TypeError, NotImplementedError):
        return False


# ---------------------------------------------------------------- blocks


def is_media(value: Any) -> bool:
    """Whether `value` is `(bytes, "image/png")`."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], bytes) and isinstance(value[1], str)


def media(data: bytes, mime_type: str) -> Block:
    """Bytes with their MIME type as the block that fits."""
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return t.Image(data, mime_type)
    if kind == "audio":
        return t.Audio(data, mime_type)
    uri = f"data:{mime_type};base64,{b64encode(data[:24]).decode()}"
    return t.EmbeddedResource(t.ResourceContents(uri, mime_type, blob=data))


def block(value: Any) -> Block:
    """One content block from anything: content as it is, text for strings, JSON text for the rest."""
    if isinstance(value, t.Content):
        return _checked(value)
    if isinstance(value, str):
        return t.Text(value)
    if isinstance(value, dict) and value.get("type") in BLOCK_TYPES:
        return _from_dict(value)
    if is_media(value):
        return media(*value)
    for known, convert in CONVERTERS:
        if known(value):
            return convert(value)
    return t.Text(to_json(value).decode())


BLOCK_TYPES: Final[dict[str, Any]] = {
    "text": t.Text,
    "image": t.Image,
    "audio": t.Audio,
    "resource": t.EmbeddedResource,
    "resource_link": t.ResourceLink,
}
CONVERTERS: list[tuple[Callable[[Any], bool], Callable[[Any], Block]]] = []
"""Further conversions: (is it one?, make the block). Libraries that are loaded add theirs."""


def _from_dict(value: dict[str, Any]) -> Block:
    try:
        found: Block = msgspec.convert(value, BLOCK_TYPES[value["type"]])
    except msgspec.ValidationError as error:
        raise Unencodable(f"not a valid {value['type']} block: {error}") from None
    return found


def _checked(value: t.Content) -> Block:
    """Structs do not check their own fields; a wrong one would reach the client."""
    text = getattr(value, "text", "")
    data = getattr(value, "data", b"")
    if not isinstance(text, str) or not isinstance(data, bytes):
        raise Unencodable(f"{type(value).__name__} holds a {type(text if data == b'' else data).__name__}")
    return value  # type: ignore[return-value]


def is_content(value: Any) -> bool:
    """Whether `value` speaks in blocks rather than in data."""
    return isinstance(value, t.Content | ToolError) or is_media(value) or any(known(value) for known, _ in CONVERTERS)


def blocks(values: list[Any]) -> tuple[list[Block], bool]:
    """Blocks from a list, and whether an error is among them."""
    failed = False
    made: list[Block] = []
    for value in values:
        if isinstance(value, ToolError):
            failed = True
            made += [t.Text(str(value)), *value.content]  # type: ignore[list-item]
        else:
            made.append(block(value))
    return made, failed


def free_result(value: Any) -> t.ToolResult:
    """The result of a tool that has no output schema."""
    if isinstance(value, str):
        return t.ToolResult(content=[t.Text(value)])
    if isinstance(value, t.ToolResult):
        return finished(value)
    if isinstance(value, ToolError):
        return value.result()
    if value is None:
        return t.ToolResult(content=[t.Text(SUCCESS)])
    if isinstance(value, list | tuple) and not is_media(value) and any(is_content(item) for item in value):
        content, failed = blocks(list(value))
        return t.ToolResult(content=content, is_error=True if failed else UNSET)
    return t.ToolResult(content=[block(value)])


def finished(result: t.ToolResult) -> t.ToolResult:
    """A hand-made result, with its blocks checked and its structured content encoded."""
    content, failed = blocks(list(result.content))
    made = t.ToolResult(content=content, is_error=True if failed else result.is_error, meta=result.meta)
    if result.structured is not UNSET:
        raw = to_json(result.structured)
        made.structured = Raw(raw)
        if not content:
            made.content = [t.Text(raw.decode())]
    return made
