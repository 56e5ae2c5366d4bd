"""Sampling and roots: questions to the client's model and about its folders. The spec has deprecated both.

Spec: /specification/2026-07-28/client/sampling and /client/roots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypedDict, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw

from redstart.asking.questions import BadAnswer, Question, check_client
from redstart.features.results import block
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect
from redstart.wire.check import checked
from redstart.wire.jsonrpc import encode, plain
from redstart.wire.types import EmbeddedResource, ListedTool, Message, ResourceLink, Shape, Text

T = TypeVar("T")
Json = dict[str, object]

ROLES: Final = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the client's model answered; `text` joins its text blocks, `tool_uses` are the tools it wants called."""

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
    """A tool that the model wants to be called."""

    id: str
    name: str
    input: Json
    meta: Json | None = msgspec.field(name="_meta", default=None)


class ToolAnswer(Shape, tag_field="type", tag="tool_result"):
    """The result of a tool, for the model."""

    tool_use_id: str
    content: list[object]
    structured_content: object = msgspec.UNSET
    is_error: bool | None = None
    meta: Json | None = msgspec.field(name="_meta", default=None)


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
    metadata: Json | None = None
    tool_choice: ToolChoice | None = None


class SampleQuestion(Question[Sampled]):
    """A request to the client's model."""

    kind = "sample"
    method = "sampling/createMessage"
    need = "sampling"

    def read(self, result: object) -> Sampled:
        answer = result if isinstance(result, dict) else {}
        role, content = answer.get("role", "assistant"), answer.get("content")
        if not isinstance(content, dict | list) or role not in ROLES:
            raise BadAnswer("The answer of a model is {role, content, model}.")
        model, stop_reason = str(answer.get("model") or ""), str(answer.get("stopReason") or "")
        return Sampled(role, _copied(_parts(content)), model, stop_reason)


class RootsQuestion(Question[list[Root]]):
    """A request for the client's roots."""

    kind = "roots"
    method = "roots/list"
    need = "roots"

    def read(self, result: object) -> list[Root]:
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list) or not all(isinstance(r, dict) and isinstance(r.get("uri"), str) for r in roots):
            raise BadAnswer('Roots are {"roots": [{"uri": "file:///…"}, …]}.')
        return [Root(r["uri"], str(r.get("name") or ""), _copied(r.get("_meta") or {})) for r in roots]


class SampleOptions(TypedDict, total=False):
    """What `ctx.sample(messages, max_tokens, ...)` takes."""

    system: str | None
    temperature: float | None
    stop_sequences: Sequence[str] | None
    model_preferences: Mapping[str, object] | None
    include_context: str | None
    metadata: Mapping[str, object] | None
    tools: Sequence[object]
    tool_choice: Mapping[str, object] | None
    key: str | None


def sampling_question(
    call: Call,
    messages: Any,
    max_tokens: int,
    *,
    system: str | None = None,
    tools: Sequence[object] = (),
    key: str | None = None,
    **others: Any,
) -> SampleQuestion:
    """A request to the client's model."""
    settings = SamplingSettings(max_tokens=max_tokens, system_prompt=system, **others)
    given = [messages] if _is_one(messages) else messages
    sent = [message for one in given for message in _messages(one, call.dialect)]
    params: Json = {"messages": sent}
    params |= msgspec.to_builtins(checked(settings, "ctx.sample()"))
    needs = ["sampling"]
    if tools:
        params["tools"] = [_tool(call, tool) for tool in tools]
    if tools or "toolChoice" in params:
        needs.append("sampling.tools")
    if params.get("includeContext") in ("thisServer", "allServers") and call.dialect.sampling_parts:
        needs.append("sampling.context")
    last = _parts(sent[-1]["content"]) if sent else []
    message = str(last[0].get("text", "")) if last else ""
    check_client(call, needs, message)
    encoded = encode(params)
    return SampleQuestion(message, key, Raw(encoded), crc32(encoded))


def roots_question(call: Call, key: str | None = None) -> RootsQuestion:
    """A request for the client's roots."""
    message = "the client's roots"
    check_client(call, [RootsQuestion.need], message)
    return RootsQuestion(message, key, Raw(b"{}"), 0)


def _is_one(messages: object) -> bool:
    return isinstance(messages, str | Message | Mapping) or (
        isinstance(messages, tuple) and len(messages) == 2 and messages[0] in ROLES
    )


def _messages(message: object, dialect: Dialect) -> list[Json]:
    """One message, or one for each block where a revision has no lists of blocks."""
    role: object = "user"
    content: object = message
    if isinstance(message, Message):
        role, content = message.role, message.content
    elif isinstance(message, Mapping):
        role, content = message.get("role", "user"), message.get("content", "")
    elif isinstance(message, tuple):
        role, content = message
    if role not in ROLES:
        raise ValueError(f'a message is from "user" or "assistant", not from {role!r}')
    parts = [_part(part, dialect) for part in (content if isinstance(content, list) else [content])]
    if isinstance(content, list) and dialect.sampling_parts:
        return [{"role": role, "content": parts}]
    return [{"role": role, "content": part} for part in parts]


def _part(content: object, dialect: Dialect) -> object:
    part: object
    if isinstance(content, Mapping) and content.get("type") in ("tool_use", "tool_result"):
        part = _tool_part(content)
        if not dialect.sampling_parts:
            part = Text(f"[{content['type']}: this client's protocol revision has no tools in sampling]")
    else:
        if isinstance(content, dict):
            content = {key: plain(value) if isinstance(value, str) else value for key, value in content.items()}
        part = block(content)
        if isinstance(part, EmbeddedResource | ResourceLink):
            part = Text(_in_words(part))
        part = dialect.block(part)
    return msgspec.to_builtins(part, enc_hook=plain)


def _tool_part(content: Mapping[str, object]) -> ToolUse | ToolAnswer:
    """A use of a tool by the model, or its result, as the handler gives it."""
    fields = dict(content)
    kind: type[ToolUse | ToolAnswer] = ToolUse
    if fields["type"] == "tool_result":
        kind = ToolAnswer
        inner = fields.get("content", [])
        fields["content"] = [block(item) for item in (inner if isinstance(inner, list) else [inner])]
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a valid {fields['type']} block: {error}") from None


def _in_words(resource: EmbeddedResource | ResourceLink) -> str:
    """Sampling has no resources in any revision: their text, or what was left out."""
    if isinstance(resource, ResourceLink):
        return f"[resource link] {resource.name}: {resource.uri}"
    contents = resource.resource
    if contents.text is not None:
        return f"[resource {contents.uri}]\n{contents.text}"
    size = len(contents.blob or b"")
    return f"[resource {contents.uri}, {contents.mime_type or 'binary'}, {size} bytes: sampling has no resources]"


def _tool(call: Call, tool: object) -> object:
    entry = getattr(tool, "entry", None)
    if callable(entry):
        return entry(call.dialect)
    try:
        return call.dialect.entry(msgspec.convert(tool, ListedTool))
    except msgspec.ValidationError as error:
        raise ValueError(f"ctx.sample(): tools: {error}") from None


def _copied(answer: T) -> T:
    """A copy of the answer, which the handler may change: the recorded one is used again in the next round."""
    copy: T = msgspec.to_builtins(answer)
    return copy


def _parts(content: object) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else [content]
    return [part for part in parts if isinstance(part, dict)]
