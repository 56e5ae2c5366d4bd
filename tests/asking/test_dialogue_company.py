"""Dialogues in company: middleware, inner tools, task groups, pages to visit, servers that stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from asking.player import (
    DECLINE,
    KEYS,
    Player,
    accept,
    again,
    every,
    first_round,
    handshakes,
    play_tool,
    script,
    serve,
    text,
)
from redstart import Context, Server, SyncContext, ToolError, UrlElicitationRequired, current_context
from redstart.store.memory import MemoryStore
from support import MODERN, NOVEMBER, initialize, message, run
from transports.support import Http

ADA = accept(answer="Ada")
MODES = [(revision, False) for revision in (NOVEMBER, MODERN)] + [(NOVEMBER, True)]
each_mode = pytest.mark.parametrize(("revision", "replay"), MODES)


# ---------------------------------------------------------------- inner handlers


@each_mode
@pytest.mark.parametrize("kind", ["step", "question"])
def test_two_uses_of_a_tool_keep_apart_whichever_is_faster(revision: str, replay: bool, kind: str) -> None:
    runs: list[int] = []

    async def book(what: str, ctx: Context) -> str:
        slow = (what == "a") == (len(runs) % 2 == 1)
        for _ in range(20 if slow else 0):
            await asyncio.sleep(0)
        if kind == "step":
            return str(await ctx.step("charge", lambda: f"receipt of {what}"))
        return await ctx.ask(f"Who takes {what}?", key="name")

    async def t(ctx: Context) -> str:
        runs.append(1)
        uses = (ctx.call_tool("book", {"what": what}) for what in ("a", "b"))
        a, b = await asyncio.gather(*uses)
        await ctx.ask("Sure?")
        return f"{a.content[0].text} | {b.content[0].text}"

    server = serve(t, book)
    server.runtime.force_replay = replay
    expected = "receipt of a | receipt of b" if kind == "step" else "Who takes a? | Who takes b?"
    reply = lambda method, params: accept(answer=params["message"])  # noqa: E731
    assert play_tool(server, revision, reply)[0] == expected


@each_mode
def test_a_task_group_around_a_tool_in_a_thread_that_asks(revision: str, replay: bool) -> None:
    def inner(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    async def t(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(ctx.call_tool("inner"))
        return str(asked.result().content[0].text)

    server = serve(t, inner)
    server.runtime.force_replay = replay
    assert play_tool(server, revision, script(ADA))[0] == "Ada"


class Boom(BaseException):
    """No Exception."""


@every
@pytest.mark.parametrize("blocking", [False, True])
def test_what_is_no_exception_is_answered_too(revision: str, blocking: bool) -> None:
    async def t() -> str:
        raise Boom

    def sync() -> str:
        raise Boom

    server = serve(t, sync)

    async def play() -> Any:
        player = await Player(server, revision).open()
        return await player.request("tools/call", {"name": "sync" if blocking else "t", "arguments": {}})

    answer = run(play(), server)
    assert "error" in answer or answer["result"]["isError"]


# ---------------------------------------------------------------- middleware


def greet(server: Server, **options: Any) -> None:
    @server.tool(**options)
    async def t(ctx: Context, city: str = "Bern") -> str:
        return f"{city} {await ctx.ask('Name?')}"


@each_mode
def test_middleware_that_changes_what_the_client_sent(revision: str, replay: bool) -> None:
    server = Server("s")
    greet(server)

    @server.add_middleware
    async def travel(call: Any, next: Any) -> Any:
        if call.method.name == "tools/call":
            call.params.arguments = Raw(b'{"city":"Rome"}')
        return await next(call)

    server.runtime.force_replay = replay
    assert play_tool(server, revision, script(ADA))[0] == "Rome Ada"


@every
def test_middleware_that_asks_after_the_handler(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    greet(server)

    @server.add_middleware
    async def survey(call: Any, next: Any) -> Any:
        result = await next(call)
        if call.method.name == "tools/call" and not getattr(result, "request_state", None):
            assert await current_context().confirm("Content?")
        return result

    assert play_tool(server, revision, script(ADA, accept(answer=True)))[0] == "Bern Ada"
    assert "no longer asked" not in caplog.text


@pytest.mark.parametrize("of", ["server", "tool"])
def test_a_round_that_middleware_refused_may_come_again_but_no_other(of: str) -> None:
    server = Server("s", keys=KEYS, store=MemoryStore(), single_use=of == "server")
    greet(server, single_use=of == "tool")
    refusals = [True]

    @server.add_middleware
    async def limit(call: Any, next: Any) -> Any:
        if call.params.request_state and refusals and refusals.pop():
            raise ToolError("too fast")
        return await next(call)

    first = first_round(server)["result"]
    assert "too fast" in str(again(server, first, {"q1": ADA}))
    assert text(again(server, first, {"q1": ADA})) == "Bern Ada"
    assert again(server, first, {"q1": ADA})["error"]["code"] == -32602


# ---------------------------------------------------------------- pages to visit


def test_a_page_that_must_be_visited_has_a_name_and_mutes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    visited: list[int] = []

    async def t(ctx: Context) -> str:
        await ctx.progress(1)
        if not visited:
            raise UrlElicitationRequired("https://example.com/sign-in", "Please sign in")
        return "in"

    def reply(method: str, params: Any) -> Any:
        visited.append(1)
        return {"action": "accept"}

    said, player = play_tool(serve(t), MODERN, reply, meta={"progressToken": 7})
    assert said == "in"
    assert [question["key"] for question in player.asked] == ["url"]
    assert len(player.notices) == 2
    assert "no longer asked" not in caplog.text


def test_a_page_that_is_not_visited() -> None:
    async def t() -> str:
        raise UrlElicitationRequired("https://example.com/sign-in", "Please sign in")

    assert "declined" in play_tool(serve(t), MODERN, script(DECLINE))[0]


@pytest.mark.parametrize("first", ["page", "question"])
@pytest.mark.parametrize("answer", [ADA, DECLINE])
def test_a_page_to_visit_and_a_question_with_the_key_url_keep_apart(first: str, answer: Any) -> None:
    visited: list[int] = []

    def sign_in() -> None:
        if not visited:
            raise UrlElicitationRequired("https://example.com/sign-in", "Please sign in")

    async def t(ctx: Context) -> str:
        if first == "page":
            sign_in()
        told = await ctx.elicit("Which page?", key="url")
        sign_in()
        return repr(told)

    def reply(method: str, params: Any) -> Any:
        if params["mode"] == "url":
            visited.append(1)
            return {"action": "accept"}
        return answer

    said, player = play_tool(serve(t), MODERN, reply)
    assert said == ("Accepted(data='Ada')" if answer is ADA else "Declined()")
    assert [question["params"]["mode"] for question in player.asked] == (
        ["url", "form"] if first == "page" else ["form", "url"]
    )


# ---------------------------------------------------------------- handlers that catch


def test_a_broken_dialogue_stays_broken() -> None:
    runs: list[int] = []

    async def t(ctx: Context) -> str:
        runs.append(1)
        try:
            await ctx.ask(f"Run {len(runs)}?")
        except Exception:
            return await ctx.ask("Something else?")
        return "never"

    server = serve(t)
    first = first_round(server)["result"]
    assert again(server, first, {"q1": ADA})["error"]["code"] == -32603


@handshakes
def test_a_rehearsal_speaks_after_a_refusal_that_was_caught(revision: str) -> None:
    async def t(ctx: Context) -> str:
        try:
            await ctx.sample("Hi")
        except Exception:
            await ctx.progress(1)
        return "done"

    server = serve(t)
    server.runtime.force_replay = True
    _, player = play_tool(server, revision, script(ValueError("no")), meta={"progressToken": 1})
    assert len(player.notices) == 1


# ---------------------------------------------------------------- HTTP


@handshakes
@pytest.mark.parametrize("blocking", [False, True])
def test_a_question_is_taken_back_before_the_stream_ends(revision: str, blocking: bool) -> None:
    async def t(ctx: Context) -> str:
        return await ctx.ask("Name?")

    def sync(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    server = serve(t, sync)

    async def play() -> bytes:
        http = Http(server.asgi())
        opened = await http.send(initialize(revision, elicitation={}))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": revision}
        calling = message(1, "tools/call", {"name": "sync" if blocking else "t", "arguments": {}})
        response = http.start(calling, headers=session)
        while b"elicitation/create" not in response.body:
            await asyncio.sleep(0)
        await http.send(message(None, "notifications/cancelled", {"requestId": 1}), headers=session)
        await response.done()
        return response.body

    assert b"notifications/cancelled" in run(play(), server)


# ---------------------------------------------------------------- completion


@every
def test_a_completion_may_have_steps(revision: str) -> None:
    server = Server("s")

    @server.prompt
    async def hello(name: str) -> str:
        return name

    @server.completion("hello", "name")
    async def names(prefix: str) -> list[str]:
        return [str(await current_context().step("load", lambda: "Ada"))]

    async def play() -> Any:
        player = await Player(server, revision).open()
        ref = {"type": "ref/prompt", "name": "hello"}
        answer = await player.request("completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})
        return answer["result"]["completion"]["values"]

    assert run(play(), server) == ["Ada"]


@each_mode
def test_middleware_that_tries_again_repeats_neither_keyed_questions_nor_steps(revision: str, replay: bool) -> None:
    done: list[str] = []

    async def book(ctx: Context) -> str:
        await ctx.step("charge", lambda: done.append("charged"))
        return await ctx.ask("Seat?", key="seat")

    async def t(ctx: Context) -> str:
        await ctx.step("reserve", lambda: done.append("reserved"))
        name = await ctx.ask("Name?", key="name")
        booked = await ctx.call_tool("book")
        done.append("run")
        if done.count("run") == 1:
            raise ToolError("try again")
        return f"{name} sits at {booked.content[0].text}"

    server = serve(book, t)
    server.runtime.force_replay = replay

    @server.add_middleware
    async def persistent(call: Any, next: Any) -> Any:
        result = await next(call)
        return await next(call) if getattr(result, "is_error", False) else result

    said, player = play_tool(server, revision, lambda method, params: accept(answer=params["message"]))
    assert said == "Name? sits at Seat?"
    assert [question["params"]["message"] for question in player.asked] == ["Name?", "Seat?"]
    assert done == ["reserved", "charged", "run", "run"]


@pytest.mark.parametrize("replay", [False, True])
def test_who_gets_no_answer_does_not_take_it_from_others(replay: bool) -> None:
    async def t(ctx: Context) -> str:
        told = await asyncio.gather(ctx.sample("Say"), ctx.elicit("Name?"), return_exceptions=True)
        return " ".join(type(one).__name__ for one in told)

    def reply(method: str, params: Any) -> Any:
        return ADA if method == "elicitation/create" else ValueError("no model")

    server = serve(t)
    server.runtime.force_replay = replay
    assert play_tool(server, NOVEMBER, reply)[0] == "Unanswered Accepted"
