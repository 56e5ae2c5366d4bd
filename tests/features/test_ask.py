"""Asking the user: one body per behaviour, the same in every revision."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from features.asking import (
    ALL,
    CANCEL,
    DECLINE,
    JUNE,
    MODERN,
    NOVEMBER,
    REVISIONS,
    Player,
    accept,
    play_tool,
    run,
    script,
)

from redstart import (
    Accepted,
    Ask,
    Cancelled,
    Context,
    Declined,
    ProtocolError,
    Server,
    SyncContext,
    Tool,
    Unanswered,
    UrlElicitationRequired,
    current_context,
)
from redstart.server.context import elicit_callable
from redstart.server.deadline import Deadline

every = pytest.mark.parametrize("revision", REVISIONS)
handshakes = pytest.mark.parametrize("revision", (JUNE, NOVEMBER))


def serve(*tools: Any, **options: Any) -> Server:
    server = Server("asking", **options)
    for tool in tools:
        server.tool(tool)
    return server


async def ask_name(ctx: Context) -> str:
    """The acceptance test of the specifying documents."""
    match await ctx.elicit("What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}}):
        case Accepted({"name": name}):
            return f"Hello, {name}!"
        case Accepted() | Declined() | Cancelled():
            return "No name provided."


def ask_name_blocking(ctx: SyncContext) -> str:
    match ctx.elicit("What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}}):
        case Accepted({"name": name}):
            return f"Hello, {name}!"
    return "No name provided."


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
@pytest.mark.requirement("70", "T41")
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

    replies = [accept(answer=word) for word in "to be or not".split()] + [accept(answer="2b")]
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


@handshakes
def test_a_handshake_client_that_never_gets_it_right_is_given_up(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return type(await ctx.elicit("Age?", int)).__name__

    text, player = play_tool(serve(t), revision, script(accept(answer="x"), accept(answer="y")))
    assert (text, len(player.asked)) == ("Cancelled", 2)


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
    result = run(server, play)
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
    assert run(server, play)["isError"] is True


@every
def test_confirm_and_choose(revision: str) -> None:
    async def t(ctx: Context) -> str:
        sure = await ctx.confirm("Delete?")
        size = await ctx.choose("Which size?", [(10, "small"), (20, "large")])
        return f"{sure} {size!r}"

    assert play_tool(serve(t), revision, script(accept(answer=True), accept(answer="20")))[0] == "True 20"
    assert play_tool(serve(t), revision, script(DECLINE, accept(answer="10")))[0] == "False 10"
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
    assert play_tool(serve(t), revision, script(reply))[0] == "['add']"

    async def play() -> Any:
        player = await Player(server, revision, capabilities={"sampling": {}}).open()
        return await player.call("tools/call", name="t", arguments={}), player

    server = serve(t)
    answer, player = run(server, play)
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
@pytest.mark.requirement("71", "T42")
def test_a_client_that_cannot_be_asked(revision: str) -> None:
    seen = []

    async def t(ctx: Context) -> str:
        seen.append(ctx.can_elicit)
        return await ctx.ask("Name?")

    async def play() -> Any:
        player = await Player(server, revision, capabilities={}).open()
        return await player.call("tools/call", name="t", arguments={}), player

    server = serve(t)
    answer, player = run(server, play)
    assert not player.asked
    assert seen == [False]
    if revision == MODERN:
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
    else:
        assert answer["result"]["isError"]
        assert "elicitation" in answer["result"]["content"][0]["text"]


@every
@pytest.mark.parametrize(
    ("declared", "form", "url"),
    [({}, True, False), ({"form": {}}, True, False), ({"url": {}}, False, True), ({"form": None}, False, False)],
)
@pytest.mark.requirement("T91")
def test_the_modes_that_a_client_declares(revision: str, declared: Any, form: bool, url: bool) -> None:
    async def t(ctx: Context) -> str:
        return f"{ctx.can_elicit} {ctx.can_elicit_url}"

    text, _ = play_tool(serve(t), revision, None, capabilities={"elicitation": declared})
    assert text == f"{form} {url and revision != JUNE}"


@every
@pytest.mark.requirement("T44")
def test_url_mode(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return type(await ctx.elicit_url("https://example.com/in", "Please sign in")).__name__

    text, player = play_tool(serve(t), revision, script({"action": "accept"}))
    if revision == JUNE:
        assert "cannot send a user to a web page" in text
        return
    assert text == "Accepted"
    params = player.asked[0]["params"]
    assert (params["mode"], params["url"]) == ("url", "https://example.com/in")
    assert ("elicitationId" in params) == (revision == NOVEMBER)


@every
def test_a_tool_that_needs_a_page_to_be_visited_first(revision: str) -> None:
    signed_in = []

    async def t() -> str:
        if not signed_in:
            signed_in.append(True)
            raise UrlElicitationRequired("https://example.com/in", "Please sign in.")
        return "done"

    async def play() -> Any:
        player = await Player(server, revision, script({"action": "accept"})).open()
        return await player.call("tools/call", name="t", arguments={}), player

    server = serve(t)
    answer, player = run(server, play)
    if revision == JUNE:
        assert answer["result"]["isError"]
    elif revision == NOVEMBER:
        assert answer["error"]["code"] == -32042
        (wanted,) = answer["error"]["data"]["elicitations"]
        assert wanted["url"] == "https://example.com/in"
    else:
        assert player.asked[0]["params"]["url"] == "https://example.com/in"
        assert answer["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https://user:pw@example.com", "x"])
def test_a_user_is_never_sent_anywhere_odd(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        UrlElicitationRequired(url, "Go")


@every
def test_prompts_and_resources_ask_too(revision: str) -> None:
    server = Server("asking")

    @server.prompt
    async def review(ctx: Context) -> str:
        return f"Use {await ctx.ask('Which style?')}"

    @server.resource("notes://{name}")
    async def note(name: str, ctx: Context) -> str:
        return f"{name}: {await ctx.ask('Which part?')}"

    async def play() -> Any:
        player = await Player(server, revision, script(accept(answer="PEP 8"), accept(answer="end"), DECLINE)).open()
        return (
            await player.call("prompts/get", name="review"),
            await player.call("resources/read", uri="notes://a"),
            await player.call("prompts/get", name="review"),
        )

    prompt, note_, refused = run(server, play)
    assert prompt["result"]["messages"][0]["content"]["text"] == "Use PEP 8"
    assert note_["result"]["contents"][0]["text"] == "a: end"
    assert refused["error"]["message"] == "The user declined to answer: Which style?"


@every
def test_a_refusal_can_be_caught(revision: str) -> None:
    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?")
        except Unanswered:
            return "anonymous"

    assert play_tool(serve(t), revision, script(DECLINE))[0] == "anonymous"


@every
def test_generators_ask_with_yield(revision: str) -> None:
    async def t(ctx: Context) -> Any:
        answer = yield Ask("Name?", str)
        yield f"Hello, {answer.data}!"

    def blocking() -> Any:
        answer = yield Ask("Name?", str)
        yield f"Hello, {answer.data}!"

    server = serve(t, blocking)
    for name in ("t", "blocking"):
        assert play_tool(server, revision, script(accept(answer="Ada")), name)[0] == "Hello, Ada!"


@every
@pytest.mark.requirement("58")
def test_providers_get_a_callable(revision: str) -> None:
    async def t(ctx: Context) -> str:
        elicit = elicit_callable(ctx)
        return repr(await elicit("Name?", str))

    def blocking(ctx: SyncContext) -> str:
        return repr(elicit_callable(ctx)("Name?", str))

    server = serve(t, blocking)
    for name in ("t", "blocking"):
        assert play_tool(server, revision, script(accept(answer="Ada")), name)[0] == repr(Accepted("Ada"))


@every
def test_deep_code_finds_the_context(revision: str) -> None:
    async def t() -> str:
        return await current_context().ask("Name?")  # type: ignore[no-any-return]

    def blocking() -> str:
        return current_context().ask("Name?")  # type: ignore[no-any-return]

    server = serve(t, blocking)
    for name in ("t", "blocking"):
        assert play_tool(server, revision, script(accept(answer="Ada")), name)[0] == "Ada"


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
    result = run(server, play)
    assert result["isError"]
    assert "'a'" in result["content"][0]["text"]


# ---------------------------------------------------------------- handshake era


@handshakes
@pytest.mark.requirement("67")
def test_an_error_reply_is_no_answer(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return repr(await ctx.elicit("Name?"))

    async def s(ctx: Context) -> str:
        return (await ctx.sample("Hi")).text

    server = serve(t, s)
    assert play_tool(server, revision, script(RuntimeError("no")))[0] == "Cancelled()"
    text, _ = play_tool(server, revision, script(RuntimeError("rejected by the user")), "s")
    assert text == "The client did not answer sampling/createMessage: rejected by the user"


@handshakes
@pytest.mark.parametrize("tool", [ask_name, ask_name_blocking])
def test_a_client_that_never_answers_does_not_hang_the_call(revision: str, tool: Any) -> None:
    server = serve(tool, ask_timeout=0.01)
    text, player = play_tool(server, revision, lambda method, params: None, tool.__name__)
    assert text == "No name provided."
    (note,) = player.notes
    assert note["method"] == "notifications/cancelled"
    assert note["params"]["requestId"] == player.asked[0]["id"]
    assert not player.peer.link.pending


@handshakes
def test_answers_in_any_order(revision: str) -> None:
    async def t(ctx: Context) -> str:
        return repr(await asyncio.gather(*(ctx.ask(f"{n}?", int) for n in range(3))))

    async def play() -> Any:
        player = await Player(server, revision).open()
        player.start("tools/call", {"name": "t", "arguments": {}})
        questions = [await player.receive() for _ in range(3)]
        for question in reversed(questions):
            number = int(question["params"]["message"][0])
            player.send({"id": question["id"], "result": accept(answer=number)})
        return (await player.receive())["result"]["content"][0]["text"]

    server = serve(t)
    assert run(server, play) == "[0, 1, 2]"


@handshakes
@pytest.mark.parametrize("blocking", [False, True])
def test_a_cancelled_call_ends_its_questions(revision: str, blocking: bool) -> None:
    ended = asyncio.Event()

    async def t(ctx: Context) -> str:
        try:
            return await ctx.ask("Name?")
        finally:
            ended.set()

    def sync(ctx: SyncContext) -> str:
        try:
            return ctx.ask("Name?")
        finally:
            server.host.loop.call_soon_threadsafe(ended.set)  # type: ignore[union-attr]

    async def play() -> Any:
        player = await Player(server, revision).open()
        id = player.start("tools/call", {"name": "sync" if blocking else "t", "arguments": {}})
        question = await player.receive()
        player.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        await ended.wait()
        player.send({"id": question["id"], "result": accept(answer="late")})
        answer = await player.request("ping", {})
        return answer["result"], dict(player.peer.link.pending), len(player.sent)

    server = serve(t, sync)
    assert run(server, play) == ({}, {}, 3)


@handshakes
def test_a_waiting_thread_gives_its_place_away(revision: str) -> None:
    def t(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    def quick() -> str:
        return "quick"

    async def play() -> Any:
        player = await Player(server, revision).open()
        player.start("tools/call", {"name": "t", "arguments": {}})
        question = await player.receive()
        text = await player.text("quick")
        player.send({"id": question["id"], "result": accept(answer="Ada")})
        return text, (await player.receive())["result"]["content"][0]["text"]

    server = serve(t, quick, threads=1)
    assert run(server, play) == ("quick", "Ada")


@handshakes
@pytest.mark.parametrize("blocking", [False, True])
def test_a_time_limit_does_not_count_the_human(revision: str, blocking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[Deadline] = []
    monkeypatch.setattr(Deadline, "pause", lambda deadline: paused.append(deadline))
    monkeypatch.setattr(Deadline, "resume", lambda deadline: paused.remove(deadline))
    waiting = []

    async def t(ctx: Context) -> str:
        return await ctx.ask("Name?")

    def sync(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    def reply(method: str, params: dict[str, Any]) -> Any:
        waiting.append(len(paused))
        return accept(answer="Ada")

    server = Server("asking", tools=[Tool(handler=t, timeout=30), Tool(handler=sync, timeout=30)])
    assert play_tool(server, revision, reply, "sync" if blocking else "t")[0] == "Ada"
    assert (waiting, paused) == ([1], [])


# ---------------------------------------------------------------- modern era


def test_missing_needs_are_refused_before_the_handler() -> None:
    ran = []
    server = Server("asking")

    @server.tool(needs=["elicitation"])
    async def t(ctx: Context) -> str:
        ran.append(1)
        return ""

    async def play() -> Any:
        player = Player(server, capabilities={})
        return await player.call("tools/call", name="t", arguments={})

    assert run(server, play)["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
    assert not ran


def test_a_protocol_error_in_a_handler_stays_one() -> None:
    async def t(ctx: Context) -> str:
        await ctx.ask("Name?")
        raise ProtocolError(-32602, "no")

    async def play() -> Any:
        player = Player(server, MODERN, script(accept(answer="x")), capabilities=ALL)
        return await player.call("tools/call", name="t", arguments={})

    server = serve(t)
    assert run(server, play)["error"]["message"] == "no"
