"""What callbacks return, what goes back to the server, and what a client declares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redstart.client import ElicitRequest, RequestError
from redstart.client.handlers import QuestionHandlers, SampleRequest, elicited

FORM = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 5}}}
ACTION_FORM = {"type": "object", "properties": {"action": {"type": "string"}}}


@dataclass
class Answer:
    name: str


ANSWERS: list[tuple[dict[str, Any], str, Any, dict[str, Any]]] = [
    ({}, "form", {"name": "Ada"}, {"action": "accept", "content": {"name": "Ada"}}),
    ({}, "form", {}, {"action": "accept", "content": {}}),
    ({}, "form", None, {"action": "decline"}),
    ({}, "form", "decline", {"action": "decline"}),
    ({}, "form", "cancel", {"action": "cancel"}),
    ({}, "form", "accept", {"action": "accept", "content": {}}),
    ({}, "form", Answer("Ada"), {"action": "accept", "content": {"name": "Ada"}}),
    ({}, "form", {"action": "decline"}, {"action": "decline"}),
    ({}, "form", {"action": "accept", "content": {"a": 1}}, {"action": "accept", "content": {"a": 1}}),
    ({}, "form", {"action": "cancel", "content": {"a": 1}}, {"action": "cancel"}),
    ({}, "form", {"action": "jump"}, {"action": "accept", "content": {"action": "jump"}}),
    (FORM, "form", {"name": "Ada"}, {"action": "accept", "content": {"n": 5, "name": "Ada"}}),
    (FORM, "form", {"n": 1}, {"action": "accept", "content": {"n": 1}}),
    (FORM, "form", None, {"action": "decline"}),
    (ACTION_FORM, "form", {"action": "accept"}, {"action": "accept", "content": {"action": "accept"}}),
    (ACTION_FORM, "form", {"action": "accept", "content": {}}, {"action": "accept", "content": {}}),
    ({}, "url", {}, {"action": "accept"}),
    ({}, "url", True, {"action": "accept"}),
    ({}, "url", None, {"action": "decline"}),
]


@pytest.mark.parametrize(("schema", "mode", "answer", "result"), ANSWERS)
def test_answers(schema: dict[str, Any], mode: str, answer: Any, result: dict[str, Any]) -> None:
    assert elicited(ElicitRequest(message="?", mode=mode, schema=schema), answer) == result


@pytest.mark.parametrize("answer", ["yes", 7, ["a"]])
def test_answers_that_mean_nothing(answer: Any) -> None:
    with pytest.raises(TypeError, match="on_elicit returned"):
        elicited(ElicitRequest(message="?"), answer)


def _nothing(request: Any) -> None:
    return None


CAPABILITIES: list[tuple[QuestionHandlers, str, dict[str, Any]]] = [
    (QuestionHandlers(), "2026-07-28", {}),
    (QuestionHandlers(on_elicit=_nothing), "2026-07-28", {"elicitation": {"form": {}, "url": {}}}),
    (QuestionHandlers(on_elicit=_nothing), "2025-11-25", {"elicitation": {"form": {}, "url": {}}}),
    (QuestionHandlers(on_elicit=_nothing), "2025-06-18", {"elicitation": {}}),
    (QuestionHandlers(on_elicit=_nothing), "2025-03-26", {}),
    (QuestionHandlers(on_sample=_nothing, roots=[]), "2024-11-05", {"sampling": {}, "roots": {}}),
    (
        QuestionHandlers(on_sample=_nothing, extra={"sampling": {"tools": {}}}),
        "2026-07-28",
        {"sampling": {"tools": {}}},
    ),
    (QuestionHandlers(extra={"extensions": {"a/b": {}}}), "2026-07-28", {"extensions": {"a/b": {}}}),
]


@pytest.mark.parametrize(("handlers", "version", "declared"), CAPABILITIES)
def test_capabilities_follow_from_the_callbacks(
    handlers: QuestionHandlers, version: str, declared: dict[str, Any]
) -> None:
    assert handlers.capabilities(version) == declared


def test_sampling_and_roots() -> None:
    async def sample(request: SampleRequest) -> str:
        return f"{request.max_tokens} {request.system_prompt}"

    async def roots() -> list[Any]:
        return ["file:///a", Path("/b"), {"uri": "file:///c", "name": "C"}]

    async def main() -> None:
        handlers = QuestionHandlers(on_sample=sample, roots=roots)
        params = {"messages": [], "maxTokens": 5, "systemPrompt": "be brief"}
        sampled = await handlers.answer("sampling/createMessage", params)
        assert sampled["content"] == {"type": "text", "text": "5 be brief"}
        assert sampled["role"] == "assistant"
        listed = await handlers.answer("roots/list", None)
        assert listed == {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}, {"uri": "file:///c", "name": "C"}]}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("handlers", "method", "params", "code"),
    [
        (QuestionHandlers(), "elicitation/create", {"message": "?"}, -32601),
        (QuestionHandlers(), "x/y", {}, -32601),
        (QuestionHandlers(on_elicit=_nothing), "elicitation/create", {}, -32602),
        (QuestionHandlers(on_sample=_nothing), "sampling/createMessage", {"messages": [], "maxTokens": 1}, -1),
    ],
)
def test_questions_without_an_answer(
    handlers: QuestionHandlers, method: str, params: dict[str, Any], code: int
) -> None:
    with pytest.raises(RequestError) as caught:
        asyncio.run(handlers.answer(method, params))
    assert caught.value.code == code
