"""Sampling and roots: questions to the client's model and about its folders. The spec has deprecated both.

Spec: /specification/2026-07-28/client/sampling and /client/roots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import Raw

from redstart.features.ask import BadAnswer, Question
from redstart.features.results import block
from redstart.protocol.call import Call
from redstart.wire.types import Message

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
    said = [_message(message) for message in ([messages] if _is_one(messages) else messages)]
    params: dict[str, Any] = {"messages": said, "maxTokens": max_tokens}
    params.update({name: value for name, value in options.items() if value is not None})
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


def _message(message: Any) -> dict[str, Any]:
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
    if isinstance(content, list):
        return {"role": role, "content": [_block(part) for part in content]}
    return {"role": role, "content": _block(content)}


def _block(content: Any) -> Any:
    if isinstance(content, Mapping) and content.get("type") in ("tool_use", "tool_result"):
        return dict(content)
    if isinstance(content, dict):
        content = {key: _plain(value) if isinstance(value, str) else value for key, value in content.items()}
    return msgspec.to_builtins(block(content), enc_hook=_plain)


def _tool(call: Call, tool: Any) -> Any:
    entry = getattr(tool, "entry", None)
    return entry(call.dialect) if callable(entry) else tool


def _copied(answer: Any) -> Any:
    """The answer for a handler to change as it likes: the recorded one is met again in the next round."""
    return msgspec.to_builtins(answer)


def _parts(content: Any) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else [content]
    return [part for part in parts if isinstance(part, dict)]
