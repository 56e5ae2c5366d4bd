"""Provider objects: what they list, who answers a call, and what of it is offered to clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adopt.sums import Custom, Factorial
from redstart import (
    Accepted,
    Client,
    Context,
    RegistrationError,
    Server,
    Text,
    Tool,
    ToolError,
    ToolResult,
    predicate,
    tool,
)
from redstart.client import RequestError
from support import ERAS, call, use

PROMISE: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

pytestmark = pytest.mark.parametrize("era", ERAS)


# ---------------------------------------------------------------- tools


@pytest.mark.requirement("1", "34", "35", "37", "38", "50", "52")
def test_auto_dispatch(era: str) -> None:
    async def script(c: Client) -> None:
        (listed,) = await c.list_tools()
        assert (listed.name, listed.description) == (
            "factorial",
            "Computes the factorial of a non-negative integer.",
        )
        assert listed.input_schema["properties"] == {"n": {"type": "integer", "description": "The integer."}}
        assert (await c.call_tool("factorial", {"n": 5})).data == 120
        assert c.instructions == "Sums, and nothing else."
        assert (c.server_info.name, c.server_info.version) == ("Factorial", "1.0.0")

    use(Factorial(), era, script)


@pytest.mark.requirement("52", "53", "57", "60")
def test_tool_call_comes_first_and_only_not_implemented_falls_through(era: str) -> None:
    provider = Custom()
    assert call(provider, era, "factorial", {"n": 5}).text == "The factorial is: 120"
    # The lax "3" is a number by the time that anybody sees it; what was not sent is not there.
    assert call(provider, era, "plain", {"b": "3"}).text == "13"
    assert provider.asked == [("factorial", {"n": 5}), ("plain", {"b": 3}), "plain itself"]


@pytest.mark.requirement("52")
def test_arguments_come_in_the_order_in_which_they_were_sent(era: str) -> None:
    provider = Custom()
    call(provider, era, "plain", {"a": 2, "b": 1})
    call(provider, era, "plain", {"b": 1, "a": 2})
    assert [list(seen[1]) for seen in provider.asked if seen != "plain itself"] == [["a", "b"], ["b", "a"]]


@pytest.mark.requirement("60", "61", "62", "T21")
def test_a_failure_ends_the_call(era: str, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Custom):
        def tool_call(self, name: str, arguments: dict[str, Any]) -> Any:
            raise NotImplementedError("this is an error, and no NotImplemented")

    provider = Failing()
    server = Server.from_object(provider, expose_errors=True)
    result = call(server, era, "plain", {"b": 1})
    assert result.is_error
    assert result.text == "NotImplementedError: this is an error, and no NotImplemented"
    assert provider.asked == []


@pytest.mark.requirement("60")
def test_a_tool_without_a_method_needs_its_tool_call(era: str, caplog: pytest.LogCaptureFixture) -> None:
    result = call(Custom(), era, "nothing", {"any": ["thing"]})
    assert result.is_error
    assert "does not answer" in result.text
    assert "nothing" in caplog.text

    class Alone:
        def tools(self) -> list[str]:
            return ["nothing"]

    with pytest.raises(RegistrationError, match=r"test_providers\.py:\d+: Alone has no method nothing"):
        Server.from_object(Alone())


@pytest.mark.requirement("53", "54", "55", "56", "T23")
@pytest.mark.parametrize(
    ("value", "texts", "failed"),
    [
        ("one", ["one"], False),
        (Text("one"), ["one"], False),
        (ToolError("bad"), ["bad"], True),
        (["one", "two"], ["one", "two"], False),
        (["one", ToolError("bad"), Text("three")], ["one", "bad", "three"], True),
        (ToolResult(content=[Text("one")], is_error=True), ["one"], True),
        ([1, 2], ["[1,2]"], False),
        ({"a": 1}, ['{"a":1}'], False),
        (None, ["Success"], False),
    ],
)
def test_what_tool_call_may_return(era: str, value: Any, texts: list[str], failed: bool) -> None:
    class Any_:
        def tools(self) -> list[str]:
            return ["it"]

        async def tool_call(self, name: str, arguments: dict[str, Any]) -> Any:
            return value

    result = call(Any_(), era, "it")
    assert [block.text for block in result.content] == texts
    assert result.is_error is failed


@pytest.mark.requirement("34", "35", "36", "42", "93")
def test_descriptors(era: str) -> None:
    def shout(text: str) -> str:
        return text.upper()

    class Many:
        def tools(self) -> list[Any]:
            return [
                "one",
                ("uno", "one"),
                ("two", self.pair),
                shout,
                Tool("three", handler=lambda args: f"{args['n']}!", input_schema=COUNT),
                "marked",
            ]

        def one(self) -> str:
            return "1"

        def pair(self, a: int) -> int:
            return a

        @tool(name="renamed", title="Renamed")
        def marked(self) -> str:
            return "marked"

    COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def script(c: Client) -> None:
        listed = await c.list_tools()
        assert [entry.name for entry in listed] == ["one", "uno", "two", "shout", "three", "renamed"]
        assert listed[-1].title == "Renamed"
        assert listed[4].input_schema == COUNT
        assert (await c.call_tool("uno")).text == "1"
        assert (await c.call_tool("two", {"a": 4})).data == 4
        assert (await c.call_tool("shout", {"text": "hi"})).text == "HI"
        assert (await c.call_tool("three", {"n": 3})).text == "3!"

    use(Many(), era, script)


@pytest.mark.requirement("43")
@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (("f", "f", 2), "leave the arity out"),
        (7, "a tool is"),
        (("a", "b", "c"), "a tool is"),
        ("starred", r'parameter "rest": \*rest has no place'),
    ],
)
def test_descriptors_that_mean_nothing(era: str, listed: Any, message: str) -> None:
    class Wrong:
        def tools(self) -> list[Any]:
            return [listed]

        def starred(self, *rest: int) -> None: ...

    with pytest.raises(TypeError, match=message):
        Server.from_object(Wrong())


@pytest.mark.requirement("45", "48")
def test_a_type_that_nobody_knows_is_a_string(era: str) -> None:
    class Opaque:
        pass

    class Lenient:
        def tools(self) -> list[str]:
            return ["show"]

        def show(self, thing: Opaque, free, times: int = 2) -> Opaque:  # type: ignore[no-untyped-def]
            """Shows.

            Args:
                thing: What to show.
            """
            return f"{thing} {free} {times}"  # type: ignore[return-value]

    async def script(c: Client) -> None:
        (listed,) = await c.list_tools()
        assert listed.description == "Shows."
        assert listed.input_schema["properties"] == {
            "thing": {"type": "string", "description": "What to show."},
            "free": {},
            "times": {"type": "integer", "default": 2},
        }
        assert listed.input_schema["required"] == ["thing", "free"]
        assert (await c.call_tool("show", {"thing": "x", "free": [1]})).text == "x [1] 2"
        assert (await c.call_tool("show", {"thing": 7, "free": 1})).is_error

    use(Lenient(), era, script)


@pytest.mark.requirement("112", "113")
def test_what_tool_call_formats_keeps_no_promise_of_the_method(era: str) -> None:
    explicit = Tool("given", handler=lambda args: {"n": 1}, input_schema={"type": "object"}, output_schema=PROMISE)

    class Formatting(Custom):
        def tools(self) -> list[Any]:
            return ["factorial", explicit]

    async def script(c: Client) -> None:
        listed = await c.list_tools()
        assert [bool(entry.output_schema) for entry in listed] == [False, True]
        assert (await c.call_tool("given")).structured == {"n": 1}

    use(Formatting(), era, script)


@pytest.mark.requirement("51", "T18")
def test_predicates_of_a_provider(era: str) -> None:
    class Logic(Custom):
        def tools(self) -> list[Any]:
            return ["greet"]

        @predicate(mode="greet(+atom, -atom)", outputs=["Greeting"])
        def greet(self, name: str) -> str | None:
            return f"Hello, {name}!" if name else None

    result = call(Logic(), era, "greet", {"name": "world"})
    assert result.text == "Greeting: Hello, world!"
    assert result.structured == {"Greeting": "Hello, world!"}
    assert call(Logic(), era, "greet", {"name": ""}).is_error


def test_limits_hold_for_both_ways(era: str) -> None:
    """A single place must do for tool_call and the method together, or the call would wait for itself."""
    server = Server.from_object(Custom(), max_concurrency=1, timeout=10)
    assert call(server, era, "plain", {"b": 1}).text == "11"


def test_a_context_in_tool_call(era: str) -> None:
    class Telling(Custom):
        async def tool_call(  # type: ignore[override]
            self, name: str, arguments: dict[str, Any], ctx: Context[Any]
        ) -> Any:
            return f"{name} by {ctx.protocol_version}"

    assert call(Telling(), era, "plain", {"b": 1}).text == f"plain by {era}"


# ---------------------------------------------------------------- asking


class Asking(Factorial):
    def capabilities(self) -> list[str]:
        return ["elicitation"]

    def tools(self) -> list[Any]:
        return ["ask_name", "factorial"]

    def ask_name(self) -> str:  # type: ignore[empty-body]
        """Asks the user for their name and greets them."""

    def tool_call(self, name: str, arguments: dict[str, Any], elicit: Callable[..., Any]) -> Any:
        if name != "ask_name":
            return NotImplemented
        match elicit("What is your name?", SCHEMA):
            case Accepted({"name": str(given)}):
                return f"Hello, {given}!"
        return "No name provided."


class AskingLater(Asking):
    async def tool_call(self, name: str, arguments: dict[str, Any], elicit: Callable[..., Any]) -> Any:
        if name != "ask_name":
            return NotImplemented
        match await elicit("What is your name?", SCHEMA):
            case Accepted({"name": str(given)}):
                return f"Hello, {given}!"
        return "No name provided."


@pytest.mark.requirement("58", "66", "67", "72", "T24", "T40")
@pytest.mark.parametrize("kind", [Asking, AskingLater])
@pytest.mark.parametrize(
    ("answer", "text"),
    [({"name": "Ada"}, "Hello, Ada!"), ("decline", "No name provided."), ("cancel", "No name provided.")],
)
def test_ask_name(era: str, kind: type, answer: Any, text: str) -> None:
    asked: list[Any] = []

    def on_elicit(request: Any) -> Any:
        asked.append((request.message, request.schema["required"]))
        return answer

    async def script(c: Client) -> None:
        assert (await c.call_tool("ask_name")).text == text
        assert (await c.call_tool("factorial", {"n": 4})).text == "24"
        assert "elicitation" not in c.server_capabilities

    use(kind(), era, script, on_elicit=on_elicit)
    assert asked == [("What is your name?", ["name"])]


@pytest.mark.requirement("59", "71", "T42")
@pytest.mark.parametrize("kind", [Asking, AskingLater])
def test_a_client_that_cannot_be_asked(era: str, kind: type) -> None:
    async def script(c: Client) -> None:
        assert (await c.call_tool("factorial", {"n": 4})).text == "24"
        if era == ERAS[0]:
            result = await c.call_tool("ask_name")
            assert result.is_error
            assert "elicitation" in result.text
        else:
            with pytest.raises(RequestError, match="elicitation") as caught:
                await c.call_tool("ask_name")
            assert caught.value.data == {"requiredCapabilities": {"elicitation": {}}}

    use(kind(), era, script)


@pytest.mark.requirement("59", "30")
def test_elicit_only_where_it_is_declared(era: str) -> None:
    seen: list[Any] = []

    class Undeclared(Factorial):
        def tool_call(self, name: str, arguments: dict[str, Any], elicit: Any = None) -> Any:
            seen.append(elicit)
            return NotImplemented

    class Declared(Undeclared):
        def capabilities(self) -> list[str]:
            return ["elicitation"]

    answering = {"on_elicit": lambda request: "decline"}
    assert call(Undeclared(), era, "factorial", {"n": 3}, **answering).text == "6"
    assert call(Declared(), era, "factorial", {"n": 3}).text == "6"
    assert seen == [None, None]
    call(Declared(), era, "factorial", {"n": 3}, **answering)
    assert callable(seen[2])


class Deleting:
    """A provider whose `tool_call` asks for consent before the method may run."""

    def tools(self) -> list[str]:
        return ["delete"]

    def delete(self, name: str) -> str:
        return f"deleted {name}"

    def tool_call(self, name: str, arguments: dict[str, Any], elicit: Callable[..., Any]) -> Any:
        return NotImplemented if elicit("Really?", bool) == Accepted(True) else "kept"


class DeletingDeclared(Deleting):
    def capabilities(self) -> list[str]:
        return ["elicitation"]


@pytest.mark.parametrize("provider", [Deleting(), DeletingDeclared()])
def test_nothing_is_done_without_the_consent_that_tool_call_asks_for(era: str, provider: Any) -> None:
    arguments = {"name": "x"}
    assert call(provider, era, "delete", arguments, on_elicit=lambda request: {"answer": True}).text == "deleted x"
    assert call(provider, era, "delete", arguments, on_elicit=lambda request: "decline").text == "kept"

    async def unasked(c: Client) -> str:
        try:
            return (await c.call_tool("delete", arguments)).text
        except RequestError as error:
            return str(error)

    assert "elicitation" in use(provider, era, unasked)


def test_a_provider_that_takes_elicit_and_says_it_has_none(era: str, caplog: pytest.LogCaptureFixture) -> None:
    class Contradicting(Deleting):
        def capabilities(self) -> list[str]:
            return []

    assert call(Contradicting(), era, "delete", {"name": "x"}).text == "deleted x"
    assert "tool_call takes elicit, but capabilities() do not name elicitation" in caplog.text
    assert "test_providers.py:" in caplog.text
