"""Who can be asked, in which mode, from where."""

from __future__ import annotations

from typing import Any

import pytest

from asking.player import ALL, DECLINE, Player, accept, every, play_tool, script, serve
from redstart import (
    Accepted,
    Ask,
    Context,
    ProtocolError,
    Server,
    Tool,
    Unanswered,
    UrlElicitationRequired,
    current_context,
)
from support import JUNE, MODERN, NOVEMBER, run


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
    answer, player = run(play(), server)
    assert not player.asked
    assert seen == [False]
    if revision == MODERN:
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
        assert answer["error"]["message"].endswith("The question was: Name?")
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
    signed_in: list[bool] = []

    async def t() -> str:
        if not signed_in:
            signed_in.append(True)
            raise UrlElicitationRequired("https://example.com/in", "Please sign in.")
        return "done"

    async def play() -> Any:
        player = await Player(server, revision, script({"action": "accept"})).open()
        return await player.call("tools/call", name="t", arguments={}), player

    server = serve(t)
    answer, player = run(play(), server)
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

    prompt, note_, refused = run(play(), server)
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
@pytest.mark.requirement("K6")
def test_generators_ask_with_yield(revision: str) -> None:
    async def t(ctx: Context) -> Any:
        answer = yield Ask("Name?", str)
        yield f"Hello, {answer.data}!"

    def blocking() -> Any:
        answer = yield Ask("Name?", str)
        yield f"Hello, {answer.data}!"

    server = serve(t, blocking, Tool("inline", handler=blocking, executor="inline"))
    for name in ("t", "blocking", "inline"):
        assert play_tool(server, revision, script(accept(answer="Ada")), name)[0] == "Hello, Ada!"


@every
@pytest.mark.requirement("58")
def test_providers_get_a_callable(revision: str) -> None:
    class Asks:
        def tools(self) -> list[str]:
            return ["later"]

        async def tool_call(self, name: str, arguments: dict[str, Any], elicit: Any) -> str:
            return repr(await elicit("Name?", str))

    class AsksAndWaits:
        def tools(self) -> list[str]:
            return ["blocking"]

        def tool_call(self, name: str, arguments: dict[str, Any], elicit: Any) -> str:
            return repr(elicit("Name?", str))

    server = serve(Asks(), AsksAndWaits())
    for name in ("later", "blocking"):
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

    assert run(play(), server)["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
    assert not ran


def test_a_protocol_error_in_a_handler_stays_one() -> None:
    async def t(ctx: Context) -> str:
        await ctx.ask("Name?")
        raise ProtocolError(-32602, "no")

    async def play() -> Any:
        player = Player(server, MODERN, script(accept(answer="x")), capabilities=ALL)
        return await player.call("tools/call", name="t", arguments={})

    server = serve(t)
    assert run(play(), server)["error"]["message"] == "no"
