"""Asking the user: one body per behaviour, the same in every revision."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from asking.player import CANCEL, DECLINE, Player, accept, ask_name, ask_name_blocking, every, play_tool, script, serve
from redstart import Accepted, Cancelled, Context, SyncContext
from support import JUNE, MODERN, NOVEMBER, run


@every
@pytest.mark.parametrize("tool", [ask_name, ask_name_blocking])
@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (accept(name="Ada"), "Hello, Ada!"),
        ({"action": "accept"}, "No name provided."),
        (DECLINE, "No name provided."),
        (CANCEL, "No name provided."),
        ({"action": "shrug"}, "No name provided."),
    ],
)
@pytest.mark.requirement("66", "67", "72", "T40")
def test_each_answer_has_its_own_end(revision: str, tool: Any, reply: Any, text: str) -> None:
    assert play_tool(serve(tool), revision, script(reply), tool.__name__)[0] == text


@every
@pytest.mark.requirement("70", "T41", "23")
def test_the_question_on_the_wire(revision: str) -> None:
    _, player = play_tool(serve(ask_name), revision, script(DECLINE), "ask_name")
    (question,) = player.asked
    assert question["key"]
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "What is your name?"
    assert question["params"]["requestedSchema"] == {"type": "object", "properties": {"name": {"type": "string"}}}
    assert question["params"].get("mode") == (None if revision == JUNE else "form")


@every
@pytest.mark.requirement("70")
def test_several_questions_come_one_after_the_other(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return " ".join([await ctx.ask(f"Word {n}?") for n in range(5)])

    replies = [accept(answer=word) for word in ("to", "be", "or", "not", "2b")]
    text, player = play_tool(serve(t), revision, script(*replies))
    assert text == "to be or not 2b"
    assert [q["params"]["message"] for q in player.asked] == [f"Word {n}?" for n in range(5)]
    assert len({q["key"] for q in player.asked}) == 5


@dataclass
class Person:
    name: str
    age: int
    team: Literal["red", "blue"] = "red"


@every
@pytest.mark.requirement("68", "69")
def test_a_typed_answer(revision: str) -> None:
    async def t(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", Person)
        assert isinstance(answer, Accepted)
        return repr(answer.data)

    text, _ = play_tool(serve(t), revision, script(accept(name="Ada", age="36")))
    assert text == repr(Person("Ada", 36))


@every
@pytest.mark.requirement("69")
def test_a_bad_answer_is_asked_again_with_the_reason(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return f"age {await ctx.ask('Age?', int)}"

    text, player = play_tool(serve(t), revision, script(accept(answer="old"), accept(answer=7)))
    assert text == "age 7"
    again = player.asked[1]["params"]["message"]
    assert again.startswith("Age?\n\n")
    assert "must be an integer" in again


@every
@pytest.mark.parametrize("reply", [DECLINE, CANCEL])
def test_ask_ends_the_call_politely(revision: str, reply: Any) -> None:
    reached = []

    async def t(ctx: Context) -> str:
        name = await ctx.ask("Your name?")
        reached.append(name)
        return name

    async def play() -> Any:
        return await (await Player(server, revision, script(reply)).open()).tool("t")

    server = serve(t)
    result = run(play(), server)
    verb = "declined to answer" if reply is DECLINE else "did not answer"
    assert result["content"] == [{"type": "text", "text": f"The user {verb}: Your name?"}]
    assert "isError" not in result
    assert not reached


@every
def test_a_promise_of_data_that_a_refusal_breaks_is_an_error(revision: str) -> None:
    async def t(ctx: Context) -> dict[str, int]:
        return {"age": await ctx.ask("Age?", int)}

    async def play() -> Any:
        return await (await Player(server, revision, script(DECLINE)).open()).tool("t")

    server = serve(t)
    assert run(play(), server)["isError"] is True


@every
def test_confirm_and_choose(revision: str) -> None:
    async def t(ctx: Context) -> str:
        sure = await ctx.confirm("Delete?")
        size = await ctx.choose("Which size?", [(10, "small"), (20, "large")])
        return f"{sure} {size!r}"

    assert play_tool(serve(t), revision, script(accept(answer=True), accept(answer="20")))[0] == "True 20"
    assert play_tool(serve(t), revision, script(DECLINE, accept(answer="10")))[0] == "False 10"
    _, player = play_tool(serve(t), revision, script(DECLINE, DECLINE))
    answer = {"type": "boolean", "default": False}  # so that a form can be submitted as it is
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    assert player.asked[0]["params"]["requestedSchema"] == schema
    assert play_tool(serve(t), revision, script(CANCEL, DECLINE))[0] == "The user declined to answer: Which size?"


@every
@pytest.mark.requirement("66")
def test_def_handlers_have_every_question(revision: str) -> None:
    def t(ctx: SyncContext) -> str:
        everything = [
            ctx.confirm("Sure?"),
            ctx.choose("Which?", ["a", "b"]),
            ctx.ask_all(name=("Name?", str), age=("Age?", int)),
            ctx.sample("Say hi", 10).text,
            [root.uri for root in ctx.roots()],
        ]
        return repr(everything)

    def reply(method: str, params: dict[str, Any]) -> Any:
        return {
            "Sure?": accept(answer=True),
            "Which?": accept(answer="b"),
            "Name?": accept(answer="Ada"),
            "Age?": accept(answer=3),
        }.get(params.get("message", ""), SAMPLE if method.startswith("sampling") else ROOTS)

    expected = [True, "b", {"name": "Ada", "age": 3}, "hi", ["file:///home"]]
    assert play_tool(serve(t), revision, reply)[0] == repr(expected)


SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m", "stopReason": "endTurn"}
ROOTS = {"roots": [{"uri": "file:///home", "name": "home"}]}


def answers(method: str, params: dict[str, Any]) -> Any:
    by_method = {"sampling/createMessage": SAMPLE, "roots/list": ROOTS, "elicitation/create": accept(answer="Ada")}
    return by_method[method]


@every
def test_sampling_and_roots(revision: str) -> None:
    async def t(ctx: Context) -> str:
        said = await ctx.sample([("user", "Hello"), ("assistant", "Yes?")], 50, system="Be brief", temperature=0.5)
        roots = await ctx.roots()
        return f"{said.text} {said.model} {said.stop_reason} {roots[0].uri} {roots[0].name}"

    text, player = play_tool(serve(t), revision, answers)
    assert text == "hi m endTurn file:///home home"
    assert player.asked[0]["params"] == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello"}},
            {"role": "assistant", "content": {"type": "text", "text": "Yes?"}},
        ],
        "maxTokens": 50,
        "systemPrompt": "Be brief",
        "temperature": 0.5,
    }


@every
@pytest.mark.requirement("T91")
def test_sampling_with_tools_needs_its_own_capability(revision: str) -> None:
    async def t(ctx: Context) -> str:
        tools = [{"name": "add", "inputSchema": {"type": "object"}}]
        said = await ctx.sample("2+2?", tools=tools, tool_choice={"mode": "auto"})
        return repr([use["name"] for use in said.tool_uses])

    use = {"type": "tool_use", "id": "1", "name": "add", "input": {}}
    reply = {"role": "assistant", "content": [use], "model": "m", "stopReason": "toolUse"}
    if revision in (NOVEMBER, MODERN):  # older ones have no tools in sampling, whatever a client declares
        assert play_tool(serve(t), revision, script(reply))[0] == "['add']"
    else:
        assert "sampling.tools" in play_tool(serve(t), revision, script(reply))[0]

    async def play() -> Any:
        player = await Player(server, revision, capabilities={"sampling": {}}).open()
        return await player.call("tools/call", name="t", arguments={}), player

    server = serve(t)
    answer, player = run(play(), server)
    assert not player.asked
    if revision == MODERN:
        assert answer["error"]["data"] == {"requiredCapabilities": {"sampling": {"tools": {}}}}
    else:
        assert answer["result"]["isError"]


@every
def test_questions_together_make_one_round(revision: str) -> None:
    async def t(ctx: Context) -> str:
        name, said, roots = await asyncio.gather(ctx.elicit("Name?"), ctx.sample("Hi"), ctx.roots())
        return f"{name} {said.text} {len(roots)}"

    text, player = play_tool(serve(t), revision, answers)
    assert text == f"{Accepted('Ada')} hi 1"
    assert [q["method"] for q in player.asked] == ["elicitation/create", "sampling/createMessage", "roots/list"]
    if revision == MODERN:
        assert len(player.rounds) == 1


@every
def test_ask_all(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return repr(await ctx.ask_all(name=("Name?", str), color=("Color?", Literal["red", "blue"])))

    text, player = play_tool(serve(t), revision, script(accept(answer="Ada"), accept(answer="blue")))
    assert text == repr({"name": "Ada", "color": "blue"})
    if revision == MODERN:
        assert [q["key"] for q in player.asked] == ["name", "color"]
        assert len(player.rounds) == 1


@every
@pytest.mark.requirement("T45")
def test_sixty_four_cancels_end_a_dialogue(revision: str) -> None:
    async def t(ctx: Context) -> str:
        for n in range(64):
            assert await ctx.elicit(f"Question {n}?") == Cancelled()
        return "gave up"

    assert play_tool(serve(t), revision, lambda method, params: CANCEL)[0] == "gave up"


@every
def test_a_key_is_used_once(revision: str) -> None:
    async def t(ctx: Context) -> str:
        await ctx.elicit("One?", key="a")
        await ctx.elicit("Two?", key="a")
        return "never"

    async def play() -> Any:
        return await (await Player(server, revision, script(CANCEL)).open()).tool("t")

    server = serve(t, expose_errors=True)
    result = run(play(), server)
    assert result["isError"]
    assert "'a'" in result["content"][0]["text"]
