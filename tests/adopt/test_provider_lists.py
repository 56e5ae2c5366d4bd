"""Providers of prompts and resources, what their capabilities offer, and several of them in one server."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from adopt.sums import Custom, Factorial
from redstart import (
    Client,
    Context,
    Prompt,
    PromptProvider,
    PromptResult,
    RegistrationError,
    Resource,
    ResourceProvider,
    Server,
    ToolProvider,
)
from redstart.client import RequestError
from support import ERAS, call, use

pytestmark = pytest.mark.parametrize("era", ERAS)


class Desk:
    """All three at once."""

    def capabilities(self) -> list[str]:
        return ["prompts", "resources"]

    def tools(self) -> list[Any]:
        return []

    def prompts(self) -> list[Any]:
        return [
            ("debate", "Debates a topic", [("topic", "The topic", True), ("tone", "The tone", False)]),
            ("plain", "No arguments"),
            Prompt("given", messages="As it is"),
            "method",
        ]

    def prompt_get(self, name: str, arguments: dict[str, str]) -> Any:
        if name == "debate":
            opening = f"Let us debate: {arguments['topic']}{arguments.get('tone', '')}"
            return [("user", opening), ("assistant", "What is your position?")]
        return NotImplemented if "plain" not in name else PromptResult("Just now", "Say something.")

    def method(self, code: str) -> str:
        """A prompt by its signature."""
        return f"Review {code}"

    def resources(self) -> list[Any]:
        return [
            ("app://logs", "logs", "Log entries", "text/plain"),
            ("app://card/{id}", "card", "A card", "text/plain"),
            ("app://gone", "gone"),
            Resource("app://own", handler=lambda: "own"),
        ]

    async def resource_read(self, uri: str, arguments: dict[str, str]) -> Any:
        if uri == "app://logs":
            return [(uri, "text/plain", "Log entry 1"), (uri, "text/plain", "Log entry 2"), (uri, None, b"\x00")]
        return f"card {arguments['id']}" if "card" in uri else NotImplemented


@pytest.mark.requirement("74", "75", "76", "77", "78", "79", "80", "81", "T46", "T48", "T49")
def test_prompts(era: str) -> None:
    async def script(c: Client) -> None:
        debate, plain, given, method = await c.list_prompts()
        assert (debate.name, debate.description) == ("debate", "Debates a topic")
        assert [(a.name, a.description, a.required) for a in debate.arguments or ()] == [
            ("topic", "The topic", True),
            ("tone", "The tone", False),
        ]
        assert plain.arguments == []
        assert (given.name, method.description) == ("given", "A prompt by its signature.")
        result = await c.get_prompt("debate", {"topic": "tea"})
        assert [(m.role, m.content.text) for m in result.messages] == [
            ("user", "Let us debate: tea"),
            ("assistant", "What is your position?"),
        ]
        assert not result.description
        result = await c.get_prompt("plain")
        assert (result.description, result.messages[0].content.text) == ("Just now", "Say something.")
        assert (await c.get_prompt("given")).messages[0].content.text == "As it is"
        assert (await c.get_prompt("method", {"code": "x"})).messages[0].content.text == "Review x"
        with pytest.raises(RequestError, match="topic") as caught:
            await c.get_prompt("debate")
        assert caught.value.code == -32602

    use(Desk(), era, script)


@pytest.mark.requirement("82")
def test_a_prompt_that_nobody_answers_for(era: str) -> None:
    class Silent:
        def prompts(self) -> list[Any]:
            return [("quiet", "Never answered")]

        async def prompt_get(self, name: str, arguments: dict[str, str]) -> Any:
            return NotImplemented

    async def script(c: Client) -> None:
        with pytest.raises(RequestError, match="does not answer") as caught:
            await c.get_prompt("quiet")
        assert caught.value.code == -32603

    use(Silent(), era, script)


@pytest.mark.requirement("85", "86", "87", "88", "89", "90", "92", "T52")
def test_resources(era: str) -> None:
    async def script(c: Client) -> None:
        logs, gone, own = await c.list_resources()
        assert (logs.uri, logs.name, logs.description, logs.mime_type) == (
            "app://logs",
            "logs",
            "Log entries",
            "text/plain",
        )
        assert (gone.uri, own.uri) == ("app://gone", "app://own")
        (card,) = await c.list_resource_templates()
        assert card.uri_template == "app://card/{id}"
        found = (await c.read_resource("app://logs")).contents
        assert [one.text for one in found[:2]] == ["Log entry 1", "Log entry 2"]
        assert found[2].blob == b"\x00"
        assert (await c.read_resource("app://card/7")).contents[0].text == "card 7"
        with pytest.raises(RequestError, match="not found") as caught:
            await c.read_resource("app://gone")
        assert caught.value.code == (-32602 if era == ERAS[1] else -32002)

    use(Desk(), era, script)


@pytest.mark.requirement("26", "27", "28", "29", "31", "32", "T12", "T13", "T14", "T15", "T16")
def test_capabilities(era: str, caplog: pytest.LogCaptureFixture) -> None:
    class Empty(Desk):
        def capabilities(self) -> list[str]:
            return []

    class Whatever(Desk):
        capabilities = None  # type: ignore[assignment]

    class Early:
        def capabilities(self) -> tuple[str, ...]:
            return ("prompts", "elicitation")

        def tools(self) -> tuple[()]:
            return ()

    async def offered(c: Client) -> set[str]:
        assert await c.list_tools() == []
        return set(c.server_capabilities)

    assert use(Desk(), era, offered) == {"tools", "prompts", "resources"}
    assert use(Whatever(), era, offered) == {"tools", "prompts", "resources", "logging"}  # whatever there is
    assert use(Early(), era, offered) == {"tools", "prompts"}
    assert caplog.text == ""
    assert use(Empty(), era, offered) == {"tools"}
    assert "has prompts(), but its capabilities() do not name prompts" in caplog.text

    async def undeclared(c: Client) -> None:
        if era == ERAS[0]:
            assert (await c.request("resources/list"))["resources"] == []
        else:
            with pytest.raises(RequestError) as caught:
                await c.request("resources/list")
            assert caught.value.code == -32601

    use(Empty(), era, undeclared)
    with pytest.raises(ValueError, match="'telepathy' is not a capability"):
        Server.from_object(type("Odd", (Empty,), {"capabilities": lambda self: ["telepathy"]})())


def test_a_provider_that_does_not_declare_logging_does_not_log(era: str) -> None:
    class Talking:
        def __init__(self, *declared: str) -> None:
            self.declared = declared

        def capabilities(self) -> tuple[str, ...]:
            return self.declared

        def tools(self) -> list[str]:
            return ["talk"]

        async def talk(self, ctx: Context) -> bool:
            return await ctx.error("hello")

    async def script(c: Client) -> tuple[bool, bool]:
        return "logging" in c.server_capabilities, (await c.call_tool("talk")).data

    assert use(Talking(), era, script) == (False, False)
    assert use(Talking("logging"), era, script)[0] is True


# ---------------------------------------------------------------- several, and the protocols


@pytest.mark.requirement("84")
def test_one_object_provides_tools_prompts_and_resources(era: str) -> None:
    class Library:
        """One count for all three: they are of one object."""

        def __init__(self) -> None:
            self.lent: list[str] = []

        def tools(self) -> list[str]:
            return ["lend"]

        def lend(self, title: str) -> int:
            """Lend a book."""
            self.lent.append(title)
            return len(self.lent)

        def prompts(self) -> list[Any]:
            return [("remind", "Reminds of a book", [("title", "The title", True)])]

        def prompt_get(self, name: str, arguments: dict[str, str]) -> Any:
            return [("user", f"Remind of {arguments['title']}, one of {len(self.lent)}")]

        def resources(self) -> list[Any]:
            return [("books://lent", "lent", "The books that are lent", "text/plain")]

        def resource_read(self, uri: str, arguments: dict[str, str]) -> Any:
            return [(uri, "text/plain", ", ".join(self.lent))]

    library = Library()
    assert isinstance(library, ToolProvider)
    assert isinstance(library, PromptProvider)
    assert isinstance(library, ResourceProvider)

    async def script(c: Client) -> None:
        assert [[entry.name for entry in await ask()] for ask in (c.list_tools, c.list_prompts, c.list_resources)] == [
            ["lend"], ["remind"], ["lent"],
        ]  # fmt: skip
        assert (await c.call_tool("lend", {"title": "Owls"})).data == 1
        assert (await c.call_tool("lend", {"title": "Wrens"})).data == 2
        prompt = await c.get_prompt("remind", {"title": "Owls"})
        assert prompt.messages[0].content.text == "Remind of Owls, one of 2"
        assert (await c.read_resource("books://lent")).contents[0].text == "Owls, Wrens"

    use(library, era, script)


def test_several_providers_in_one_server(era: str) -> None:
    server = Server("both", tools=[lambda_tool])
    desk, sums = Desk(), Custom()
    server.register(desk)
    server.register(sums)

    async def script(c: Client) -> None:
        assert [entry.name for entry in await c.list_tools()] == ["lambda_tool", "factorial", "plain", "nothing"]
        assert len(await c.list_prompts()) == 4
        async with c.listen(tools=True) as events:
            server.remove(sums)
            assert (await anext(events)).kind == "tools"
        assert [entry.name for entry in await c.list_tools()] == ["lambda_tool"]
        assert len(await c.list_prompts()) == 4

    use(server, era, script)
    with pytest.raises(KeyError):
        server.remove(sums)
    with pytest.raises(RegistrationError, match="is not a function, a Tool, a Prompt, a Resource or a provider"):
        server.register(object())


def lambda_tool() -> str:
    return "own"


def test_protocols(era: str) -> None:
    class Inheriting(ToolProvider, PromptProvider, ResourceProvider):
        def tools(self) -> list[str]:
            return ["one"]

        def one(self) -> int:
            return 1

    assert isinstance(Factorial(), ToolProvider)
    assert not isinstance(Factorial(), PromptProvider | ResourceProvider)
    assert isinstance(Desk(), PromptProvider)
    assert isinstance(Desk(), ResourceProvider)
    assert call(Inheriting(), era, "one").data == 1  # type: ignore[abstract] # at run time a list that is not there is empty


def test_lists_that_are_none(era: str) -> None:
    class Late:
        async def tools(self) -> list[str]:
            return []

    class Text_:
        def tools(self) -> str:
            return "factorial"

    with pytest.raises(RegistrationError, match="asked once, at registration"):
        Server.from_object(Late())
    with pytest.raises(RegistrationError, match="returns a list, not 'factorial'"):
        Server.from_object(Text_())


def test_a_method_of_that_name_with_parameters_is_no_list(era: str, caplog: pytest.LogCaptureFixture) -> None:
    class Shop:
        def tools(self, category: str) -> list[str]:
            return [f"{category} hammer"]

    with caplog.at_level(logging.WARNING, logger="redstart"):
        assert call(Shop(), era, "tools", {"category": "red"}).data == ["red hammer"]
