"""Dialogues where things go wrong: strange answers, strange handlers, questions from where none are expected."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from asking.player import Player, accept, every, handshakes, play_tool, script, serve
from redstart import Context, Server, SyncContext, ToolError, current_context
from support import JUNE, MODERN, NOVEMBER, initialize, message, run
from transports.support import Http

ADA = accept(answer="Ada")


@dataclass
class Picky:
    """A form whose class fails in a way that no form expects."""

    name: str

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise KeyError(self.name)


@every
def test_a_round_whose_answers_cannot_be_read_ends(revision: str) -> None:
    async def t(ctx: Context) -> str:
        told = await ctx.ask_all(number=("How much?", float), who=("Who?", Picky))
        return f"{told['number']} {told['who'].name}"

    def reply(method: str, params: dict[str, Any]) -> Any:
        first = params["message"] in ("How much?", "Who?")
        if "How much?" in params["message"]:
            return accept(answer="9" * 400 if first else 7)
        return accept(name="bad" if first else "Ada")

    assert play_tool(serve(t), revision, reply)[0] == "7.0 Ada"


@every
@pytest.mark.parametrize("before", ["step", "question", "nothing"])
def test_a_cancelled_helper_is_a_failure_and_no_silence(revision: str, before: str) -> None:
    async def t(ctx: Context) -> str:
        if before == "step":
            await ctx.step("a", lambda: 1)
        if before == "question":
            await ctx.ask("Name?")
        helper = asyncio.create_task(asyncio.sleep(60))
        helper.cancel()
        await helper
        return "never"

    assert "CancelledError" in play_tool(serve(t), revision, script(ADA))[0]


@every
def test_a_cancelled_helper_of_a_prompt_is_answered_too(revision: str) -> None:
    server = Server("s")

    @server.prompt
    async def hello(ctx: Context) -> str:
        await ctx.ask("Name?")
        raise asyncio.CancelledError

    async def play() -> Any:
        player = await Player(server, revision, script(ADA)).open()
        return await player.call("prompts/get", name="hello", arguments={})

    assert run(play(), server)["error"]["code"] == -32603


# ---------------------------------------------------------------- where questions come from


@every
def test_middleware_asks_before_the_handler(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def t(ctx: Context) -> str:
        return f"Hello, {await ctx.ask('Name?')}!"

    @server.add_middleware
    async def guard(call: Any, next: Any) -> Any:
        if call.method.name == "tools/call" and not await current_context().confirm("Sure?"):
            raise PermissionError
        return await next(call)

    said, player = play_tool(server, revision, script(accept(answer=True), ADA))
    assert said == "Hello, Ada!"
    assert [question["params"]["message"] for question in player.asked] == ["Sure?", "Name?"]


@every
def test_only_tools_prompts_and_resources_can_ask(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def t() -> str:
        return ""

    @server.add_middleware
    async def curious(call: Any, next: Any) -> Any:
        if call.method.name == "tools/list":
            await current_context().ask("Which?")
        return await next(call)

    async def play() -> Any:
        player = await Player(server, revision).open()
        answer = await player.request("tools/list", {})
        return answer["error"]["code"], player.asked

    assert run(play(), server) == (-32603, [])
    assert "tools/list cannot ask: only tools, prompts and resources can" in caplog.text


@every
@pytest.mark.parametrize("blocking", [False, True])
def test_a_tool_that_is_called_twice_keeps_its_keys_apart(revision: str, blocking: bool) -> None:
    charged: list[str] = []

    async def book(what: str, ctx: Context) -> str:
        name = await ctx.ask(f"{what} for whom?", key="name")
        await ctx.step("charge", lambda: charged.append(what))
        return f"{what}: {name}"

    def booked(what: str, ctx: SyncContext) -> str:
        name = ctx.ask(f"{what} for whom?", key="name")
        ctx.step("charge", lambda: charged.append(what))
        return f"{what}: {name}"

    async def t(ctx: Context) -> str:
        who = await ctx.ask("Who pays?", key="name")
        results = [await ctx.call_tool("booked" if blocking else "book", {"what": w}) for w in ("Train", "Hotel")]
        return ", ".join([who, *(result.content[0].text for result in results)])

    reply = script(ADA, accept(answer="Ben"), accept(answer="Cy"))
    said, player = play_tool(serve(t, book, booked), revision, reply)
    assert said == "Ada, Train: Ben, Hotel: Cy"
    assert charged == ["Train", "Hotel"]
    if revision == MODERN:
        inner = "booked" if blocking else "book"
        assert [question["key"] for question in player.asked] == ["name", f"{inner}/name", f"{inner}#2/name"]


@every
def test_a_key_that_looks_like_a_number_is_only_a_key(revision: str) -> None:
    async def t(ctx: Context) -> str:
        told = await ctx.ask_all(q1="One?", q2=("Two?", int))
        return f"{told['q1']} {told['q2']} {await ctx.ask('Three?')}"

    replies = {"One?": accept(answer="a"), "Two?": accept(answer=2), "Three?": accept(answer="c")}
    assert play_tool(serve(t), revision, lambda method, params: replies[params["message"]])[0] == "a 2 c"


# ---------------------------------------------------------------- what handlers do with questions


def test_a_handler_that_fails_on_its_way_out_says_how() -> None:
    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?")
        finally:
            raise ValueError("broken clean-up")

    said = play_tool(serve(t, expose_errors=True), MODERN, script())[0]
    assert "broken clean-up" in said
    assert "BaseException" not in said


def test_a_handler_cannot_catch_that_it_has_changed() -> None:
    runs: list[int] = []

    async def t(ctx: Context) -> str:
        runs.append(1)
        try:
            await ctx.ask(f"Run {len(runs)}?")
        except Exception:
            return "default"
        return "never"

    server = serve(t)

    async def play() -> Any:
        return await Player(server, MODERN, script(ADA)).call("tools/call", name="t", arguments={})

    error = run(play(), server)["error"]
    assert error["code"] == -32603
    assert "did not ask the same question" in error["message"]


@every
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"message": 5}, "the message of a question is text, not 5"),
        ({"message": "?", "key": 5}, "the key of a question or step is a name, not 5"),
        ({"message": "?", "key": ""}, "the key of a question or step is a name, not ''"),
    ],
)
def test_a_question_that_is_none(revision: str, wrong: Any, words: str, caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        return str(await ctx.ask(**wrong))

    said, player = play_tool(serve(t), revision, script(ADA))
    assert "Error" in said
    assert player.asked == []
    assert words in caplog.text


class Word(str):
    """Text of a class of its own, as of a library for translations."""


@every
def test_words_of_a_class_of_their_own_are_words(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return await ctx.ask(Word("Name?"), key=Word("name"))

    assert play_tool(serve(t), revision, script(ADA))[0] == "Ada"


def test_ask_all_says_what_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> str:
        return str(await ctx.ask_all(name=("Name?", str, "more")))  # type: ignore[arg-type]

    play_tool(serve(t), MODERN, script())
    assert "ask_all: name= is a message, or a message and a schema, not ('Name?', str, 'more')" in caplog.text.replace(
        "<class 'str'>", "str"
    )


# ---------------------------------------------------------------- clients of the handshake


@handshakes
def test_a_number_that_nobody_can_hold_is_asked_again(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return str(await ctx.ask("How much?", float))

    server = serve(t)

    async def play() -> Any:
        player = await Player(server, revision).open()
        player.start("tools/call", {"name": "t", "arguments": {}})
        first = await player.receive()
        raw = b'{"jsonrpc":"2.0","id":"%b","result":{"action":"accept","content":{"answer":1e999}}}'
        player.wire.send(raw % first["id"].encode())
        second = await player.receive()
        player.send({"id": second["id"], "result": accept(answer=7)})
        return second["params"]["message"], (await player.receive())["result"]["content"][0]["text"]

    message, said = run(play(), server)
    assert message.startswith("How much?\n\nThis could not be read")
    assert said == "7.0"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_a_client_of_a_revision_without_elicitation_is_never_asked(revision: str) -> None:
    async def t(ctx: Context) -> str:
        assert not ctx.can_elicit
        return await ctx.ask("Name?")

    said, player = play_tool(serve(t), revision, script(ADA))
    assert "the client does not support it" in said
    assert player.asked == []


@pytest.mark.parametrize(("revision", "declared"), [(JUNE, {}), (NOVEMBER, {"context": {}}), (MODERN, {"context": {}})])
def test_the_context_of_servers_is_declared_where_it_can_be(revision: str, declared: Any) -> None:
    async def t(ctx: Context) -> str:
        return (await ctx.sample("Hi", include_context="thisServer")).text

    def sampled(method: str, params: Any) -> Any:
        return {"role": "assistant", "content": {"type": "text", "text": "Ho"}, "model": "m"}

    assert play_tool(serve(t), revision, sampled, capabilities={"sampling": declared})[0] == "Ho"


@handshakes
def test_a_rehearsal_lets_the_handler_catch_what_it_catches_live(revision: str) -> None:
    async def t(ctx: Context) -> str:
        try:
            return (await ctx.sample("Hi")).text
        except Exception as error:
            return f"caught: {error}"

    for replay in (False, True):
        server = serve(t)
        server.runtime.force_replay = replay
        said = play_tool(server, revision, script(ValueError("no model today")))[0]
        assert said == "caught: The client did not answer sampling/createMessage: no model today"


@handshakes
def test_a_client_that_takes_no_stream_is_told_that_it_cannot_be_asked(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return f"{ctx.can_elicit} {await ctx.ask('Name?')}"

    async def play() -> Any:
        http = Http(server.asgi())
        opened = await http.send(initialize(revision, elicitation={}))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": revision}
        calling = message(1, "tools/call", {"name": "t", "arguments": {}})
        return (await http.send(calling, headers={**session, "accept": "application/json"})).json()["result"]

    server = serve(t)
    result = run(play(), server)
    assert result["isError"]
    assert "the client accepts no messages before the result. The question was: Name?" in result["content"][0]["text"]


@every
@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        (["q1", None, None], ["q1", "q2", "q3"]),
        (["q2", None, None], ["q2", "q1", "q3"]),
        ([None, "q3", None, None], ["q1", "q3", "q2", "q4"]),
        (["a", "a"], "two questions of one call have the key 'a'"),
        ([None, None, "q2"], "two questions of one call have the key 'q2'"),
    ],
)
def test_numbers_keep_out_of_the_way_of_keys(revision: str, keys: list[str | None], outcome: Any) -> None:
    async def t(ctx: Context) -> list[str]:
        try:
            return [await ctx.ask(f"No. {number}?", key=key) for number, key in enumerate(keys)]
        except ValueError as error:
            raise ToolError(str(error)) from None

    said, player = play_tool(serve(t), revision, lambda method, params: accept(answer=params["message"]))
    if isinstance(outcome, str):
        assert outcome in said
    else:
        assert json.loads(said) == [f"No. {number}?" for number in range(len(keys))]
        if revision == MODERN:
            assert [question["key"] for question in player.asked] == outcome


@every
@pytest.mark.parametrize("beside", ["wait_for", "task group", "swallowed"])
def test_a_question_beside_something_that_loses_a_cancellation(revision: str, beside: str) -> None:
    async def at_once() -> str:
        return "Hello"

    async def t(ctx: Context) -> str:
        question = asyncio.create_task(ctx.ask("Name?"))
        if beside == "wait_for":
            word = await asyncio.wait_for(at_once(), 60)
        elif beside == "task group":
            async with asyncio.TaskGroup():
                word = await asyncio.wait_for(at_once(), 60)
        else:
            word = "Hello"
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                word = "swallowed"
        return f"{word}, {await question}!"

    assert play_tool(serve(t), revision, script(ADA))[0] == "Hello, Ada!"


@every
def test_a_confirmation_that_is_not_awaited_is_no_yes(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    deleted: list[str] = []

    async def t(ctx: Context) -> str:
        if ctx.confirm("Delete?"):  # type: ignore[truthy-bool]
            deleted.append("all")
        return "done"

    said, player = play_tool(serve(t), revision, script(ADA))
    assert "TypeError" in said
    assert "write `if await ctx.confirm" in caplog.text
    assert not deleted
    assert not player.asked


@every
@pytest.mark.parametrize("way", ["await", "task", "gather", "group"])
def test_a_confirmation_is_awaited_in_any_way(revision: str, way: str) -> None:
    async def t(ctx: Context) -> str:
        question = ctx.confirm("Delete?")
        if way == "await":
            sure = await question
        elif way == "task":
            sure = await asyncio.create_task(question)
        elif way == "gather":
            (sure,) = await asyncio.gather(question)
        else:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(question)
            sure = task.result()
        return str(sure)

    assert play_tool(serve(t), revision, script(accept(answer=True)))[0] == "True"


def test_what_was_not_awaited_is_said_to_be_so(caplog: pytest.LogCaptureFixture) -> None:
    async def t(ctx: Context) -> Any:
        return ctx.progress(1)

    with pytest.warns(RuntimeWarning, match="never awaited"):
        play_tool(serve(t), MODERN, script())
    assert "was `await` forgotten?" in caplog.text
