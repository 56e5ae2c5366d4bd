"""Sampling and roots at their edges: what a handler gets is its own, and what it gives may be any kind of text."""

from __future__ import annotations

from typing import Any

import pytest

from features.asking import MODERN, accept, every, play_tool, script, serve
from redstart import Accepted, Context
from redstart.wire.types import Message, Text


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

    assert "TypeError" in play_tool(serve(t), MODERN, None)[0]
    assert "Encoding objects of type object is unsupported" in caplog.text
