"""From what a handler returned to content blocks: one table of conversions.

A value becomes JSON once; the same bytes serve as the text block and as the structured content.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET, Raw

from redstart.features.encode import Unencodable, to_json
from redstart.features.errors import ToolError
from redstart.features.foreign_values import convert, is_loaded_type
from redstart.wire import types as t
from redstart.wire.check import InvalidShape, checked
from redstart.wire.jsonrpc import decode

__all__ = [
    "BLOCK_TYPES",
    "Unencodable",
    "block",
    "blocks",
    "finished",
    "free_result",
    "is_content",
    "is_media",
    "media",
    "one_body",
    "size",
    "sound",
    "speaks_blocks",
    "to_json",
]

S = TypeVar("S", bound=msgspec.Struct)
Block = t.Text | t.Image | t.Audio | t.EmbeddedResource | t.ResourceLink
SUCCESS: Final = "Success"


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
    return t.EmbeddedResource(t.ResourceContents(f"urn:uuid:{uuid4()}", mime_type, blob=data))


def block(value: Any) -> Block:
    """One content block from anything: content as it is, text for strings, JSON text for the rest."""
    if isinstance(value, t.Content):
        return sound(value)  # type: ignore[return-value]
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
    found = convert(value)
    return found if found is not None else t.Text(to_json(value).decode())


BLOCK_TYPES: Final[dict[str, Any]] = {
    "text": t.Text,
    "image": t.Image,
    "audio": t.Audio,
    "resource": t.EmbeddedResource,
    "resource_link": t.ResourceLink,
}
_BODY: Final = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}


def _from_dict(value: dict[str, Any]) -> Block:
    if _BODY[value["type"]] not in value:  # a dict of the user's own that happens to have a type
        return t.Text(to_json(value).decode())
    try:
        found: Block = msgspec.convert(value, BLOCK_TYPES[value["type"]])
    except msgspec.ValidationError as error:
        raise Unencodable(f"not a valid {value['type']} block: {error}") from None
    return found


def sound(value: S) -> S:
    """A shape that the application has made, with its fields checked."""
    try:
        if isinstance(value, t.EmbeddedResource):
            one_body(value.resource)
        return checked(value)
    except InvalidShape as error:
        raise Unencodable(str(error)) from None


def one_body(contents: Any) -> None:
    """Contents of a resource hold text or a blob, and not both."""
    if isinstance(contents, t.ResourceContents) and isinstance(contents.text, str) == isinstance(contents.blob, bytes):
        raise Unencodable("ResourceContents without exactly one of text (str) and blob (bytes)")


def is_content(value: Any) -> bool:
    """Whether `value` speaks in blocks rather than in data."""
    return isinstance(value, t.Content | ToolError) or is_media(value) or is_loaded_type(type(value))


def speaks_blocks(value: Any) -> bool:
    """Whether `value` is content, a result or a list that holds content."""
    if isinstance(value, t.ToolResult | bytes | bytearray) or is_content(value):
        return True
    return isinstance(value, list | tuple) and any(is_content(item) for item in value)


def blocks(values: list[Any]) -> tuple[list[Block], bool]:
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


def free_result(value: Any) -> t.ToolResult:
    """The result of a tool that has no output schema."""
    if isinstance(value, str):
        return t.ToolResult(content=[t.Text(value)])
    if isinstance(value, t.ToolResult):
        return finished(value)
    if isinstance(value, ToolError):
        return finished(value.result())
    if type(value) is Raw:
        value = decode(value)
        return free_result(value) if value is None or isinstance(value, str) else t.ToolResult(content=[block(value)])
    if value is None:
        return t.ToolResult(content=[t.Text(SUCCESS)])
    if isinstance(value, list | tuple) and not is_media(value) and any(is_content(item) for item in value):
        content, failed = blocks(list(value))
        return t.ToolResult(content=content, is_error=True if failed else None)
    return t.ToolResult(content=[block(value)])


def finished(result: t.ToolResult) -> t.ToolResult:
    """A hand-made result, with its blocks checked and its structured content encoded."""
    given: Any = result.content  # of a class that takes anything
    given = [] if given is None else given
    content, failed = blocks(list(given) if isinstance(given, list | tuple) else [given])
    made = sound(t.ToolResult(content=content, is_error=True if failed else result.is_error, meta=result.meta))
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
