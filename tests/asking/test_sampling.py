"""Sampling and roots at their edges: what a handler gets is its own, and what it gives may be any kind of text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asking.player import accept, every, play_tool, script, serve
from redstart import (
    Accepted,
    Annotations,
    Audio,
    Context,
    EmbeddedResource,
    Message,
    ResourceContents,
    ResourceLink,
    Text,
)
from spec_facts import REVISIONS, problems
from support import MODERN


class Words(str):
    """Text of a class of its own, as templates and translations make it."""


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m", **more}


# ---------------------------------------------------------------- an answer is the handler's own


@every
@pytest.mark.parametrize("listed", [False, True])
def test_a_handler_may_change_what_a_model_said(revision: str, listed: bool) -> None:
    async def t(ctx: Context) -> str:
        answer = await ctx.sample("Say hi")
        answer.content[0]["text"] += "!"
        answer.content[0].setdefault("annotations", {})["seen"] = True
        for n in range(3):
            await ctx.confirm(f"Go on {n}?")
        return answer.text

    reply = said("hi")
    reply["content"] = [reply["content"]] if listed else reply["content"]
    assert play_tool(serve(t), revision, script(reply, *[accept(answer=True)] * 3))[0] == "hi!"


@every
def test_a_handler_may_change_roots(revision: str) -> None:
    async def t(ctx: Context) -> str:
        (root,) = await ctx.roots()
        root.meta["tags"].append("seen")
        root.meta["n"] += 1
        for n in range(3):
            await ctx.confirm(f"Go on {n}?")
        return str(root.meta)

    roots = {"roots": [{"uri": "file:///home", "_meta": {"tags": [], "n": 0}}]}
    text = play_tool(serve(t), revision, script(roots, *[accept(answer=True)] * 3))[0]
    assert text == "{'tags': ['seen'], 'n': 1}"


MANY = {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"tags": MANY}}])
def test_a_handler_may_change_the_content_of_a_form(schema: Any) -> None:
    async def t(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", schema)
        assert isinstance(answer, Accepted)
        answer.data["tags"].append("more")
        answer.data["own"] = 1
        for n in range(3):
            await ctx.confirm(f"Go on {n}?")
        return str(answer.data)

    text = play_tool(serve(t), MODERN, script(accept(tags=["y"]), *[accept(answer=True)] * 3))[0]
    assert text == "{'tags': ['y', 'more'], 'own': 1}"


# ---------------------------------------------------------------- words


@every
def test_a_model_without_a_name_has_none(revision: str) -> None:
    async def t(ctx: Context) -> str:
        answer = await ctx.sample("Say hi")
        return repr((answer.model, answer.stop_reason))

    assert play_tool(serve(t), revision, script(said("hi", model=None, stopReason=None)))[0] == "('', '')"
    assert play_tool(serve(t), revision, script(said("hi", stopReason="endTurn")))[0] == "('m', 'endTurn')"


@every
@pytest.mark.parametrize(
    "messages",
    [
        Words("hi"),
        [Words("hi")],
        ("user", Words("hi")),
        (Words("user"), "hi"),
        {"role": Words("user"), "content": Words("hi")},
        {"content": {"type": "text", "text": Words("hi")}},
        Message("user", Text(Words("hi"))),
    ],
    ids=["text", "list", "pair", "role", "mapping", "block", "message"],
)
def test_text_of_any_class_can_be_said_to_a_model(revision: str, messages: Any) -> None:
    async def t(ctx: Context) -> str:
        return (await ctx.sample(messages, system=Words("Be brief"), metadata={"a": Words("b")})).text

    text, player = play_tool(serve(t), revision, script(said("hello")))
    assert text == "hello"
    params = player.asked[0]["params"]
    assert params["messages"] == [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    assert (params["systemPrompt"], params["metadata"]) == ("Be brief", {"a": "b"})


def test_what_no_json_can_carry_is_still_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        return (await ctx.sample("hi", metadata={"a": object()})).text

    assert "failed" in play_tool(serve(t), MODERN, None)[0]
    assert "ctx.sample(): metadata must be a dict that JSON can carry" in caplog.text


# ---------------------------------------------------------------- what a revision knows

NOTES = Annotations(priority=1, last_modified="2026-01-01")
PARTS = [
    Text("a", annotations=NOTES, meta={"k": 1}),
    Audio(b"RIFF"),
    EmbeddedResource(ResourceContents("notes://a", text="the note")),
    EmbeddedResource(ResourceContents("notes://b", "application/pdf", blob=b"x")),
    ResourceLink("notes://c", "c"),
    {"type": "tool_use", "id": "1", "name": "add", "input": {}, "own": 1},
    {"type": "tool_result", "toolUseId": "1", "content": "3"},
]


@pytest.mark.parametrize("revision", REVISIONS)
def test_messages_are_gated_like_results(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return (await ctx.sample([Message("user", list(PARTS)), Message("user", Audio(b"RIFF"))])).text

    text, player = play_tool(serve(t), revision, script(said("hi")))
    params = player.asked[0]["params"]
    assert problems(params, "CreateMessageRequestParams", revision) == []
    shown = json.dumps(params)
    assert "the note" in shown
    assert "notes://b" in shown
    assert ("lastModified" in shown) is (revision >= "2025-06-18")
    assert ("audio/wav" in shown) is True
    assert len(params["messages"]) == (2 if revision >= "2025-11-25" else 8)
    assert text == "hi"


@every
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": "hot"}, "ctx.sample(): temperature must be a number, not 'hot'"),
        ({"max_tokens": "many"}, "ctx.sample(): max_tokens must be an integer, not 'many'"),
        ({"model_preferences": {"costPriority": 5}}, "model_preferences must be a ModelPreferences"),
        ({"include_context": "everything"}, "include_context must be 'none' or 'thisServer'"),
    ],
)
def test_settings_are_checked(revision: str, options: dict[str, Any], words: str) -> None:
    async def t(ctx: Context) -> str:
        with pytest.raises(TypeError) as problem:
            await ctx.sample("hi", **options)
        return str(problem.value)

    assert words in play_tool(serve(t), revision, script(said("hi")))[0]
