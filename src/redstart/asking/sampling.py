"""Sampling and roots: questions to the client's model and about its folders. The spec has deprecated both.

Spec: /specification/2026-07-28/client/sampling and /client/roots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal
from zlib import crc32

import msgspec
from msgspec import Raw

from redstart.asking.questions import BadAnswer, Question
from redstart.features.results import block
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect
from redstart.wire.check import checked
from redstart.wire.types import EmbeddedResource, ListedTool, Message, ResourceLink, Shape, Text

ROLES: Final = ("user", "assistant")


def _plain(value: Any) -> str:
    """A text of a subclass of str, as the encoder needs it."""
    if not isinstance(value, str):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return str.__str__(value)


_encode: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_plain).encode


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the client's model said; `text` joins its text blocks, `tool_uses` are the tools it wants called."""

    role: str
    content: list[dict[str, Any]]
    model: str = ""
    stop_reason: str = ""

    @property
    def text(self) -> str:
        return "\n".join(part["text"] for part in self.content if isinstance(part.get("text"), str))

    @property
    def tool_uses(self) -> list[dict[str, Any]]:
        return [part for part in self.content if part.get("type") == "tool_use"]


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or file that the client shares; informational, never a permission."""

    uri: str
    name: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


class ToolUse(Shape, tag_field="type", tag="tool_use"):
    """What the model wants called."""

    id: str
    name: str
    input: dict[str, Any]
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class ToolAnswer(Shape, tag_field="type", tag="tool_result"):
    """What came of it, told to the model."""

    tool_use_id: str
    content: list[Any]
    structured_content: Any = msgspec.UNSET
    is_error: bool | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ModelHint(Shape):
    name: str | None = None


class ModelPreferences(Shape):
    hints: list[ModelHint] | None = None
    cost_priority: _Share | None = None
    speed_priority: _Share | None = None
    intelligence_priority: _Share | None = None


class ToolChoice(Shape):
    mode: Literal["auto", "required", "none"] | None = None


class SamplingSettings(Shape):
    """The parameters of a request to the client's model, but for its messages and tools."""

    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    metadata: dict[str, Any] | None = None
    tool_choice: ToolChoice | None = None


_SETTINGS: Final = [(field.name, field.encode_name) for field in msgspec.structs.fields(SamplingSettings)]


class SampleQuestion(Question):
    """A request to the client's model."""

    kind = "sample"
    method = "sampling/createMessage"

    def read(self, result: Any) -> Sampled:
        content = result.get("content") if isinstance(result, dict) else None
        if not isinstance(content, dict | list) or result.get("role", "assistant") not in ROLES:
            raise BadAnswer("The answer of a model is {role, content, model}.")
        return Sampled(
            result.get("role", "assistant"),
            _copied(_parts(content)),
            str(result.get("model") or ""),
            str(result.get("stopReason") or ""),
        )


class RootsQuestion(Question):
    """A request for the client's roots."""

    kind = "roots"
    method = "roots/list"

    def read(self, result: Any) -> list[Root]:
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list) or not all(isinstance(r, dict) and isinstance(r.get("uri"), str) for r in roots):
            raise BadAnswer('Roots are {"roots": [{"uri": "file:///…"}, …]}.')
        return [Root(r["uri"], str(r.get("name") or ""), _copied(r.get("_meta") or {})) for r in roots]


def sampling_question(
    call: Call,
    messages: Any,
    max_tokens: int,
    *,
    tools: Sequence[Any] = (),
    key: str | None = None,
    **options: Any,
) -> Question:
    """A request to the client's model."""
    given = [messages] if _is_one(messages) else messages
    said = [message for one in given for message in _messages(one, call.dialect)]
    settings: dict[str, Any] = {name: options.get(wire) for name, wire in _SETTINGS}
    settings["max_tokens"] = max_tokens
    params: dict[str, Any] = {"messages": said}
    params |= msgspec.to_builtins(checked(SamplingSettings(**settings), "ctx.sample()"))
    needs = ["sampling"]
    if tools:
        params["tools"] = [_tool(call, tool) for tool in tools]
    if tools or "toolChoice" in params:
        needs.append("sampling.tools")
    if params.get("includeContext") in ("thisServer", "allServers") and call.dialect.sampling_parts:
        needs.append("sampling.context")
    words = next((part.get("text", "") for part in _parts(said[-1]["content"])), "") if said else ""
    encoded = _encode(params)
    return SampleQuestion(words, key, Raw(encoded), crc32(encoded), needs)


def roots_question(key: str | None = None) -> Question:
    """A request for the client's roots."""
    return RootsQuestion("the client's roots", key, Raw(b"{}"), 0, ("roots",))


def _is_one(messages: Any) -> bool:
    return isinstance(messages, str | Message | Mapping) or (
        isinstance(messages, tuple) and len(messages) == 2 and messages[0] in ROLES
    )


def _messages(message: Any, dialect: Dialect) -> list[dict[str, Any]]:
    """One message, or one for each block where a revision has no lists of blocks."""
    if isinstance(message, Message):
        role, content = message.role, message.content
    elif isinstance(message, Mapping):
        role, content = message.get("role", "user"), message.get("content", "")
    elif isinstance(message, tuple):
        role, content = message
    else:
        role, content = "user", message
    if role not in ROLES:
        raise ValueError(f'a message is from "user" or "assistant", not from {role!r}')
    parts = [_part(part, dialect) for part in (content if isinstance(content, list) else [content])]
    if isinstance(content, list) and dialect.sampling_parts:
        return [{"role": role, "content": parts}]
    return [{"role": role, "content": part} for part in parts]


def _part(content: Any, dialect: Dialect) -> Any:
    if isinstance(content, Mapping) and content.get("type") in ("tool_use", "tool_result"):
        made: Any = _tool_part(content)
        if not dialect.sampling_parts:
            made = Text(f"[{content['type']}: this client's protocol revision has no tools in sampling]")
    else:
        if isinstance(content, dict):
            content = {key: _plain(value) if isinstance(value, str) else value for key, value in content.items()}
        made = block(content)
        if isinstance(made, EmbeddedResource | ResourceLink):
            made = Text(_in_words(made))
        made = dialect.block(made)
    return msgspec.to_builtins(made, enc_hook=_plain)


def _tool_part(content: Mapping[str, Any]) -> Any:
    """A use of a tool by the model, or its result, as the handler gives it."""
    fields = dict(content)
    if fields["type"] == "tool_result":
        inner = fields.get("content", [])
        fields["content"] = [block(item) for item in (inner if isinstance(inner, list) else [inner])]
    try:
        return msgspec.convert(fields, ToolUse if fields["type"] == "tool_use" else ToolAnswer)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a valid {fields['type']} block: {error}") from None


def _in_words(made: EmbeddedResource | ResourceLink) -> str:
    """Sampling has no resources in any revision: their text, or what was left out."""
    if isinstance(made, ResourceLink):
        return f"[resource link] {made.name}: {made.uri}"
    contents = made.resource
    if contents.text is not None:
        return f"[resource {contents.uri}]\n{contents.text}"
    size = len(contents.blob or b"")
    return f"[resource {contents.uri}, {contents.mime_type or 'binary'}, {size} bytes: sampling has no resources]"


def _tool(call: Call, tool: Any) -> Any:
    entry = getattr(tool, "entry", None)
    if callable(entry):
        return entry(call.dialect)
    try:
        return call.dialect.entry(msgspec.convert(tool, ListedTool))
    except msgspec.ValidationError as error:
        raise ValueError(f"ctx.sample(): tools: {error}") from None


def _copied(answer: Any) -> Any:
    """The answer for a handler to change as it likes: the recorded one is met again in the next round."""
    return msgspec.to_builtins(answer)


def _parts(content: Any) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else [content]
    return [part for part in parts if isinstance(part, dict)]
