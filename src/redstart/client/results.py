"""What the client's methods return: the shapes of `redstart.wire`, read from bytes.

A content block of an unknown type stays a dict, so that a newer server does not break an older client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.client.errors import InvalidReply
from redstart.schema.errors import ShapeError
from redstart.schema.types import compile_type
from redstart.wire import types as t
from redstart.wire.jsonrpc import JsonObject, decode, encode

Block: TypeAlias = t.Text | t.Image | t.Audio | t.EmbeddedResource | t.ResourceLink
"""A block of content of a known type."""

T = TypeVar("T")


class CallResult(Struct, Generic[T], kw_only=True):
    """What a tool returned. `data` has the type that `call_tool(…, returns=…)` names, unless `is_error` is set.

    >>> CallResult(content=[t.Text("3")], structured={"result": 3}, wrapped=True).data
    3
    """

    content: list[Block | JsonObject]
    structured: Any = None
    is_error: bool = False
    meta: JsonObject = {}
    wrapped: bool = False
    """Whether the server put the value into `{"result": …}` because many clients know objects only."""

    has_structured: bool = False
    """Whether there was a structured value; it may be null."""

    typed: T | UnsetType = UNSET
    """The value as the type that was asked for."""

    @property
    def data(self) -> T:
        """The structured value as the tool returned it."""
        if self.typed is not UNSET:
            return self.typed
        return self.structured["result"] if self.wrapped else self.structured  # type: ignore[no-any-return]

    def read(self, method: str, returns: Any) -> None:
        """Read the value as the type that was asked for."""
        value = self.text if returns is str and not self.has_structured else self.data
        try:
            self.typed = compile_type(returns, where="returns").convert(value, lax=False)
        except ShapeError as error:
            raise InvalidReply(f"{method}: the result is not of the type that returns= names: {error}") from error

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, t.Text))


class _KnownBlocks(t.ToolResult, kw_only=True):
    """A tool result without unknown blocks, as nearly all are: it needs one decoding only."""

    content: list[Block]


class _ReadResult(t.ReadResourceResult, kw_only=True):
    contents: list[t.ResourceContents]


_USER_DATA: Final = frozenset({"inputSchema", "outputSchema", "structuredContent", "_meta", "content"})
"""Members in which a null is a value, and not an absent member."""

_decoder: Callable[[object], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)


def decoded(method: str, kind: type[T], raw: Raw) -> T:
    """A result as `kind`. If that fails, its nulls are left out: many servers write them for absent members."""
    try:
        try:
            result: T = _decoder(kind).decode(raw)
        except msgspec.ValidationError:
            result = msgspec.json.decode(encode(_without_nulls(decode(raw))), type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidReply(f"{method}: the result is not valid: {why}") from error
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: item if name in _USER_DATA else _without_nulls(item)
        for name, item in value.items()
        if item is not None or name in _USER_DATA
    }


def call_result(raw: Raw) -> CallResult[Any]:
    """The result of `tools/call`."""
    result: t.ToolResult
    try:
        result = _decoder(_KnownBlocks).decode(raw)
    except msgspec.ValidationError:
        result = decoded("tools/call", t.ToolResult, raw)
        result.content = [_block(block) for block in result.content]
    return CallResult(
        content=result.content,
        structured=None if result.structured is UNSET else result.structured,
        has_structured=result.structured is not UNSET,
        is_error=bool(result.is_error),
        meta=result.meta if isinstance(result.meta, dict) else {},
    )


def _block(block: object) -> object:
    """A block by its type, or as it came if its type is unknown."""
    if not isinstance(block, dict):
        return block
    try:
        return msgspec.convert(_without_nulls(block), Block)
    except msgspec.ValidationError:
        return block


def prompt_result(raw: Raw) -> t.GetPromptResult:
    """The result of `prompts/get`, its messages as `Message` with content blocks."""
    result = decoded("prompts/get", t.GetPromptResult, raw)
    messages = [m for m in result.messages if isinstance(m, dict)]
    result.messages = [t.Message(m.get("role", "user"), _block(m.get("content"))) for m in messages]
    return result


def resource_result(raw: Raw) -> t.ReadResourceResult:
    """The result of `resources/read`, its contents as `ResourceContents`."""
    return decoded("resources/read", _ReadResult, raw)
