"""Predicates: named outputs, failure, one solution or many."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Annotated, Any, NamedTuple

import pytest

from redstart import Context, Progress, RegistrationError, Server, SyncContext, Text, ToolError, predicate
from redstart.features.predicates import CAP
from support import ask

ERA = "2026-07-28"


def call(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    result = ask(server, ERA, "tools/call", name=tool, arguments=arguments)
    return {key: value for key, value in result.items() if key not in ("_meta", "resultType")}


def entry(server: Server) -> dict[str, Any]:
    [listed] = ask(server, ERA, "tools/list")["tools"]
    found: dict[str, Any] = listed
    return found


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


# ---------------------------------------------------------------- outputs


@pytest.mark.requirement("40", "51", "K1", "T18", "T19")
def test_named_outputs_are_lines_of_text_and_an_object() -> None:
    server = Server("logic")

    @server.predicate(mode="greet(+atom, -atom)", outputs=["Greeting"])
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    result = call(server, "greet", name="world")
    assert texts(result) == ["Greeting: Hello, world!"]
    assert result["structuredContent"] == {"Greeting": "Hello, world!"}
    listed = entry(server)
    assert listed["inputSchema"]["required"] == ["name"]
    assert listed["outputSchema"]["properties"] == {"Greeting": {"type": "string"}}


class Divided(NamedTuple):
    Q: int
    R: int


@pytest.mark.requirement("51", "K1")
@pytest.mark.parametrize(
    ("annotation", "value", "options"),
    [
        (tuple[int, int], (3, 1), {"outputs": ["Q", "R"]}),
        (tuple[Annotated[int, "Q"], Annotated[int, "R"]], (3, 1), {}),
        (Divided, Divided(3, 1), {"outputs": ["Q", "R"]}),
        (dict[str, int], {"Q": 3, "R": 1, "rest": 9}, {"outputs": ["Q", "R"]}),
    ],
)
def test_several_outputs_in_every_form(annotation: Any, value: Any, options: dict[str, Any]) -> None:
    server = Server("logic")

    def divide() -> Any:
        return value

    divide.__annotations__ = {"return": annotation}
    server.tool(**options)(divide)
    result = call(server, "divide")
    assert texts(result) == ["Q: 3\nR: 1"]
    assert result["structuredContent"] == {"Q": 3, "R": 1}
    assert entry(server)["outputSchema"]["required"] == ["Q", "R"]


@pytest.mark.requirement("K1")
def test_a_wrong_number_of_outputs_is_an_error() -> None:
    server = Server("logic")

    @server.tool(outputs=["Q", "R"])
    def divide() -> tuple[int, ...]:
        return (1, 2, 3)

    assert call(server, "divide")["isError"] is True


# ---------------------------------------------------------------- failure


def empty() -> Iterator[int]:
    yield from ()


async def async_empty() -> AsyncIterator[int]:
    for _ in ():
        yield 1


@pytest.mark.requirement("61", "K3", "T20")
@pytest.mark.parametrize("fn", [lambda: None, lambda: False, empty, async_empty])
def test_none_false_and_no_solution_are_failure_in_a_predicate(fn: Callable[[], Any]) -> None:
    server = Server("logic")
    server.predicate(name="always_fails")(fn)
    assert call(server, "always_fails") == {"content": [{"type": "text", "text": "Tool failed"}], "isError": True}


@pytest.mark.requirement("K3")
def test_a_tool_error_gives_the_reason() -> None:
    server = Server("logic")

    @server.predicate()
    def fails() -> None:
        raise ToolError("no path from a to b")

    assert texts(call(server, "fails")) == ["no path from a to b"]


@pytest.mark.requirement("51", "K2")
def test_a_predicate_without_outputs_succeeds_or_fails() -> None:
    server = Server("logic")

    @server.predicate(mode="even(+integer)")
    def even(n: int) -> bool:
        return n % 2 == 0

    assert call(server, "even", n=2) == {"content": [{"type": "text", "text": "Success"}]}
    assert call(server, "even", n=3)["isError"] is True


# ---------------------------------------------------------------- many


def numbers(closed: list[bool], n: int) -> Callable[[], Iterator[int]]:
    def generate() -> Iterator[int]:
        try:
            yield from range(n)
        finally:
            closed.append(True)

    return generate


@pytest.mark.requirement("K4")
@pytest.mark.parametrize(
    ("solutions", "available", "expected", "truncated"),
    [("all", 3, 3, False), ("all", CAP, CAP, False), ("all", CAP + 1, CAP, True), (2, 2, 2, False), (2, 9, 2, True)],
)
def test_each_solution_is_a_content_item_and_an_entry(
    solutions: Any, available: int, expected: int, truncated: bool
) -> None:
    server = Server("logic")
    closed: list[bool] = []
    server.tool(name="numbers", solutions=solutions)(numbers(closed, available))
    result = call(server, "numbers")
    assert result["structuredContent"]["solutions"] == list(range(expected))
    assert result["structuredContent"].get("truncated", False) is truncated
    assert texts(result)[:expected] == [str(n) for n in range(expected)]
    assert ("truncated: true" in texts(result)[-1]) is truncated
    assert closed == [True]
    schema = entry(server)["outputSchema"]
    assert schema["properties"]["solutions"] == {"type": "array", "items": {"type": "integer"}}
    assert schema["required"] == ["solutions"]


@pytest.mark.requirement("K4")
def test_the_first_solution_is_the_result_and_the_generator_is_closed() -> None:
    server = Server("logic")
    closed: list[bool] = []
    server.tool(name="numbers", solutions="first")(numbers(closed, 9))
    assert call(server, "numbers") == {"content": [{"type": "text", "text": "0"}], "structuredContent": {"result": 0}}
    assert closed == [True]


@pytest.mark.requirement("K1", "K4")
def test_many_solutions_with_named_outputs_and_progress_between() -> None:
    server = Server("logic")

    @server.predicate(mode="append(-list, -list, +list)", outputs=["Front", "Back"], proofs="zero_or_more")
    async def split(whole: list[int]) -> AsyncIterator[tuple[list[int], list[int]]]:
        for i in range(len(whole) + 1):
            yield Progress(i)  # type: ignore[misc]
            yield whole[:i], whole[i:]

    result = call(server, "append", whole=[1])
    assert result["structuredContent"] == {"solutions": [{"Front": [], "Back": [1]}, {"Front": [1], "Back": []}]}
    assert texts(result) == ["Front: []\nBack: [1]", "Front: [1]\nBack: []"]


@pytest.mark.requirement("K7")
def test_proofs_set_the_defaults(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("logic")
    for proofs in ("one", "zero_or_one", "one_or_more", "zero_or_more"):
        server.predicate(name=proofs, proofs=proofs)(empty)

    def log_of(name: str) -> tuple[Any, int]:
        caplog.clear()
        with caplog.at_level(logging.ERROR, "redstart"):
            return call(server, name).get("isError"), len(caplog.records)

    assert log_of("one") == (True, 1)
    assert log_of("zero_or_one") == (True, 0)
    assert log_of("one_or_more") == (True, 1)
    assert log_of("zero_or_more") == (None, 0)
    assert call(server, "zero_or_more")["structuredContent"] == {"solutions": []}


@pytest.mark.requirement("K5")
def test_a_generator_may_return_data_behind_its_content() -> None:
    server = Server("stream")

    @server.tool
    def stream() -> Generator[Any, None, dict[str, int]]:
        yield "one"
        yield Text("two")
        return {"n": 2}

    result = call(server, "stream")
    assert texts(result) == ["one", "two", '{"n":2}']
    assert result["structuredContent"] == {"n": 2}


@pytest.mark.requirement("K5", "56")
def test_a_yielded_error_sets_is_error() -> None:
    server = Server("stream")

    @server.tool
    def stream() -> Iterator[Any]:
        yield "one"
        yield ToolError("two failed")

    assert call(server, "stream")["isError"] is True


# ---------------------------------------------------------------- modes


@pytest.mark.requirement("38", "39", "45")
def test_a_mode_types_what_python_does_not() -> None:
    server = Server("logic")

    @server.predicate(mode="many(+integer, ++float, @boolean, +atom, +list(integer), +compound, +term, -integer)")
    def many(a, b, c, d, e, f, g):  # type: ignore[no-untyped-def]
        return 1

    properties = entry(server)["inputSchema"]["properties"]
    kinds = ["integer", "number", "boolean", "string", "array", "object", "string"]
    assert [properties[name]["type"] for name in "abcdefg"] == kinds
    assert entry(server)["inputSchema"]["required"] == list("abcdefg")


def untyped(limit, word):  # type: ignore[no-untyped-def]
    return (limit or 10, word * 2)


def typed(limit: int, word: str):  # type: ignore[no-untyped-def]
    return (limit or 10, word * 2)


def defaulted(word: str, limit: int = 10):  # type: ignore[no-untyped-def]
    return (limit, word * 2)


@pytest.mark.requirement("41")
@pytest.mark.parametrize(
    ("fn", "mode"),
    [
        (untyped, "p(?integer, +atom, --atom)"),
        (typed, "p(?integer, ++atom, -atom)"),
        (defaulted, "p(@atom, ?integer, -atom)"),
    ],
)
def test_a_question_mark_is_an_optional_input_and_an_output(fn: Any, mode: str) -> None:
    server = Server("logic")
    server.predicate(mode=mode, outputs=["Limit", "Word"])(fn)
    schema = entry(server)["inputSchema"]
    assert schema["required"] == ["word"]
    assert schema["properties"]["limit"]["type"] == "integer"
    assert call(server, "p", word="x")["structuredContent"] == {"Limit": 10, "Word": "xx"}
    assert call(server, "p", word="x", limit=3)["structuredContent"] == {"Limit": 3, "Word": "xx"}
    assert call(server, "p", word="x", limit="many")["isError"] is True


def test_a_mode_types_the_outputs_of_a_function_that_does_not() -> None:
    server = Server("logic")

    @server.predicate(mode="split(+atom, -integer, -list, -term)", outputs=["Count", "Parts", "Rest"])
    def split(text):  # type: ignore[no-untyped-def]
        return (len(text) if text != "wrong" else "many", list(text), None)

    @server.predicate(mode="double(+integer, -integer)", outputs=["N"])
    def double(n) -> str:  # type: ignore[no-untyped-def]
        return str(2 * n)

    listed = {
        tool["name"]: tool["outputSchema"]["properties"] for tool in ask(server, "2026-07-28", "tools/list")["tools"]
    }
    assert listed["split"] == {"Count": {"type": "integer"}, "Parts": {"type": "array"}, "Rest": {}}
    assert listed["double"] == {"N": {"type": "string"}}  # the annotation knows better
    assert call(server, "split", text="ab")["structuredContent"] == {"Count": 2, "Parts": ["a", "b"], "Rest": None}
    assert call(server, "split", text="wrong")["isError"] is True


@pytest.mark.requirement("43")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "fact(integer)"}, "is not an argument"),
        ({"mode": "Fact(+integer"}, "is not a mode"),
        ({"mode": "fact(+integer, +integer)"}, "2 inputs, the function takes"),
        ({"mode": "fact(+integer, -integer)", "outputs": ["A", "B"]}, "1 outputs, outputs= names 2"),
        ({"proofs": "some"}, "proofs must be one of"),
        ({"solutions": 0}, "solutions must be"),
        ({"solutions": "many"}, "solutions must be"),
    ],
)
def test_a_wrong_declaration_fails_at_registration(options: dict[str, Any], words: str) -> None:
    def fact(n: int) -> int:
        return n

    with pytest.raises(RegistrationError, match=words.replace("(", r"\(")) as caught:
        Server("logic").predicate(**options)(fact)
    assert "test_predicates.py:" in str(caught.value)


@pytest.mark.requirement("38")
def test_contexts_do_not_count_as_inputs() -> None:
    server = Server("logic")

    @server.predicate(mode="one(+integer, -integer)", outputs=["N"])
    def one(n: int, ctx: SyncContext) -> int:
        return n

    @server.predicate(mode="two(+integer, -integer)", outputs=["N"])
    async def two(ctx: Context, n: int) -> int:
        return n

    assert call(server, "one", n=1)["structuredContent"] == call(server, "two", n=1)["structuredContent"] == {"N": 1}


@pytest.mark.requirement("35")
def test_the_mark_leaves_the_function_as_it_is_and_register_serves_it() -> None:
    @predicate(mode="fact(+integer, -integer)", outputs=["F"])
    def factorial(n: int) -> int | None:
        return None if n < 0 else 1 if n < 2 else n * (factorial(n - 1) or 0)

    server = Server("logic", tools=[factorial])
    assert factorial(3) == 6
    assert texts(call(server, "fact", n=5)) == ["F: 120"]
    assert call(server, "fact", n=-1)["isError"] is True
