"""What the client's methods return: the shapes of `redstart.wire`, read from bytes.

A content block of a type that nobody here knows stays the dict it came as: new servers must not break old clients.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.client.errors import InvalidReply
from redstart.schema.errors import ShapeError
from redstart.schema.types import compile_type
from redstart.wire import types as t

Block: TypeAlias = t.Text | t.Image | t.Audio | t.EmbeddedResource | t.ResourceLink
"""A block of content of a known type."""


T = TypeVar("T")


class CallResult(Struct, Generic[T], kw_only=True):
    """What a tool returned. `data` has the type that `call_tool(…, returns=…)` names, unless `is_error` is set.

    >>> CallResult(content=[t.Text("3")], structured={"result": 3}, wrapped=True).data
    3
    """

    content: list[Block | dict[str, Any]]
    structured: Any = None
    is_error: bool = False
    meta: dict[str, Any] = {}
    wrapped: bool = False
    """Whether the server put the value into `{"result": …}` because many clients know objects only."""

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
        try:
            self.typed = compile_type(returns, where="returns").convert(self.data, lax=False)
        except ShapeError as error:
            raise InvalidReply(f"{method}: the result is not of the type that returns= names: {error}") from error

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, t.Text))


class _Outcome(Struct, rename="camel"):
    """What every result has in common in the modern era."""

    result_type: str | None = None
    input_requests: dict[str, Any] | None = None
    request_state: str | None = None


class _Call(Struct, rename="camel"):
    content: list[Block]
    structured_content: Any = None
    is_error: bool = False
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _OddCall(_Call):
    """The same with blocks that have to be looked at one by one."""

    content: list[Any] = []


_MEANINGFUL: Final = frozenset({"inputSchema", "outputSchema", "structuredContent", "_meta", "content"})
_outcome: Final = msgspec.json.Decoder(_Outcome)
_call: Final = msgspec.json.Decoder(_Call)
_odd_call: Final = msgspec.json.Decoder(_OddCall)
_list: Final = msgspec.json.Decoder(t.ListResult)
_prompt: Final = msgspec.json.Decoder(t.GetPromptResult)
_resource: Final = msgspec.json.Decoder(t.ReadResourceResult)
_completion: Final = msgspec.json.Decoder(t.CompleteResult)
_any: Final = msgspec.json.Decoder()


def decoded(method: str, decoder: Any, raw: Raw) -> Any:
    """A result by its decoder, once more without its nulls where that fails."""
    try:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(_any.decode(raw)), decoder.type, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReply(f"{method}: the result is not what it should be: {error}") from error


def _without_nulls(value: Any) -> Any:
    """Many servers write an absent member as null. A null inside a schema or a user's value means something."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: item if name in _MEANINGFUL else _without_nulls(item)
        for name, item in value.items()
        if item is not None or name in _MEANINGFUL
    }


def call_result(raw: Raw) -> CallResult[Any]:
    """The result of `tools/call`."""
    try:
        call = _call.decode(raw)
    except msgspec.ValidationError:
        call = decoded("tools/call", _odd_call, raw)
    return CallResult(
        content=[_block(block) for block in call.content],
        structured=call.structured_content,
        is_error=call.is_error,
        meta=call.meta or {},
    )


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    try:
        return msgspec.convert(_without_nulls(block), Block)
    except msgspec.ValidationError:
        return block


def page(method: str, raw: Raw) -> t.ListResult:
    """One page of a list."""
    found: t.ListResult = decoded(method, _list, raw)
    return found


def prompt_result(raw: Raw) -> t.GetPromptResult:
    """The result of `prompts/get`, its messages as `Message` with content blocks."""
    result: t.GetPromptResult = decoded("prompts/get", _prompt, raw)
    messages = [m for m in result.messages if isinstance(m, dict)]
    result.messages = [t.Message(m.get("role", "user"), _block(m.get("content"))) for m in messages]
    return result


def resource_result(raw: Raw) -> t.ReadResourceResult:
    """The result of `resources/read`, its contents as `ResourceContents`."""
    result: t.ReadResourceResult = decoded("resources/read", _resource, raw)
    try:
        result.contents = msgspec.convert(result.contents, list[t.ResourceContents])
    except msgspec.ValidationError as error:
        raise InvalidReply(f"resources/read: the result is not what it should be: {error}") from error
    return result


def completion(raw: Raw) -> t.Completion:
    """The values of `completion/complete`."""
    result: t.CompleteResult = decoded("completion/complete", _completion, raw)
    return result.completion


def outcome(method: str, raw: Raw) -> _Outcome:
    """Whether a modern result is complete or asks for input."""
    found: _Outcome = decoded(method, _outcome, raw)
    return found


def as_dict(method: str, raw: Raw) -> dict[str, Any]:
    """Any result as it came."""
    found = decoded(method, _any, raw)
    if not isinstance(found, dict):
        raise InvalidReply(f"{method}: the result is not an object")
    return found
