"""Tools: what is declared, what is listed, how a call finds its handler."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest

from redstart import Context, Header, Parameter, RegistrationError, Server, SyncContext, Tool, ToolError
from support import ERAS, ask, exchange, refused

ERA = "2026-07-28"


def entry(server: Server, era: str = ERA) -> dict[str, Any]:
    [listed] = ask(server, era, "tools/list")["tools"]
    found: dict[str, Any] = listed
    return found


def text(server: Server, tool: str, era: str = ERA, **arguments: Any) -> str:
    result = ask(server, era, "tools/call", name=tool, arguments=arguments)
    assert "isError" not in result, result
    found: str = result["content"][0]["text"]
    return found


# ---------------------------------------------------------------- declaring


@pytest.mark.requirement("35", "37", "38", "39", "T26", "T36")
def test_name_description_and_arguments_come_from_the_function() -> None:
    server = Server("tools")

    @server.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers.

        Args:
            a: The first number.
        """
        return a + b

    assert entry(server) == {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first number."},
                "b": {"type": "integer", "default": 2},
            },
            "required": ["a"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "integer"}},
            "required": ["result"],
            "x-fastmcp-wrap-result": True,
        },
    }


@pytest.mark.requirement("49", "T33")
def test_a_tool_without_arguments_has_no_properties_and_requires_none() -> None:
    server = Server("tools", tools=[lambda_free, Tool("explicit", handler=lambda: "", parameters=[])])
    for listed in ask(server, ERA, "tools/list")["tools"]:
        assert listed["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": False}


def lambda_free() -> str:
    return ""


@dataclasses.dataclass
class Point:
    x: int


class Movie(TypedDict):
    title: str


class Model(pydantic.BaseModel):
    n: int


class Colour(enum.Enum):
    RED = "red"


STRING = {"type": "string"}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
KINDS: list[Any] = [
    *[
        pytest.param(*row, marks=pytest.mark.requirement("44"))
        for row in (
            (int, {"type": "integer"}, 1, [True, "x", 1.5]),
            (float, {"type": "number"}, 1.5, [True, "x"]),
            (bool, {"type": "boolean"}, True, [1, "x"]),
        )
    ],
    *[
        pytest.param(*row, marks=pytest.mark.requirement("46"))
        for row in (
            (list, {"type": "array"}, [1, "x"], [5]),
            (list[int], NUMBERS, [1], [["x"], 5]),
            (set[int], NUMBERS, [1], [["x"], 5]),
            (tuple[int, ...], NUMBERS, [1], [["x"], 5]),
        )
    ],
    *[
        pytest.param(*row, marks=pytest.mark.requirement("47"))
        for row in (
            (dict, {"type": "object"}, {"a": 1}, [5]),
            (Point, {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"x": 1}, [{}, 5]),
            (
                Movie,
                {"type": "object", "properties": {"title": STRING}, "required": ["title"]},
                {"title": "a"},
                [{}, 5],
            ),
            (Model, {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"n": 1}, [{}, 5]),
        )
    ],
    *[
        pytest.param(*row, marks=pytest.mark.requirement("48"))
        for row in (
            (Colour, {**STRING, "enum": ["red"]}, "red", ["blue"]),
            (Literal["a", "b"], {**STRING, "enum": ["a", "b"]}, "a", ["c"]),
            (Path, {**STRING, "format": "path"}, "/a", [5]),
            (uuid.UUID, {**STRING, "format": "uuid"}, "12345678-1234-5678-1234-567812345678", ["x"]),
            (dt.datetime, {**STRING, "format": "date-time"}, "2025-01-31T12:00:00Z", ["x"]),
            (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, ["x"]),
        )
    ],
]


@pytest.mark.parametrize(("kind", "schema", "good", "bad"), KINDS)
def test_the_type_of_an_argument(kind: Any, schema: dict[str, Any], good: Any, bad: list[Any]) -> None:
    def take(value):  # type: ignore[no-untyped-def]
        return "taken"

    take.__annotations__ = {"value": kind, "return": str}
    server = Server("tools", tools=[take])
    assert entry(server)["inputSchema"]["properties"] == {"value": schema}
    assert text(server, "take", value=good) == "taken"
    for value in bad:
        assert ask(server, ERA, "tools/call", name="take", arguments={"value": value})["isError"] is True


@pytest.mark.requirement("48")
def test_an_optional_argument_is_not_required() -> None:
    def take(value: int | None = None) -> str:
        return repr(value)

    server = Server("tools", tools=[take])
    assert "required" not in entry(server)["inputSchema"]
    assert entry(server)["inputSchema"]["properties"] == {"value": {"type": "integer"}}
    assert text(server, "take") == text(server, "take", value=None) == "None"


def test_null_for_an_optional_property_of_a_given_schema_means_absent() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
    server = Server("tools", tools=[Tool("t", input_schema=schema, handler=lambda args: dict(args))])
    assert text(server, "t", a=1, b=None) == '{"a":1}'
    refusal = ask(server, ERA, "tools/call", name="t", arguments={"a": None, "b": None})
    assert refusal["isError"] is True
    assert refusal["content"][0]["text"] == 'Argument "a" must be an integer, got null.'


@pytest.mark.requirement("39")
def test_a_parameter_without_a_default_is_required_and_one_with_a_default_is_not() -> None:
    server = Server("tools")

    @server.tool
    def sum_of(a: int, b: int, c: int = 3, *, d: int, e: int | None = None) -> int:
        return a + b + c + d + (e or 0)

    schema = entry(server)["inputSchema"]
    assert (list(schema["properties"]), schema["required"]) == (["a", "b", "c", "d", "e"], ["a", "b", "d"])
    assert text(server, "sum_of", a=1, b=2, d=4) == "10"
    assert text(server, "sum_of", a=1, b=2, c=0, d=4, e=5) == "12"
    for lacking in ("a", "b", "d"):
        given = {name: 1 for name in "abd" if name != lacking}
        told = ask(server, ERA, "tools/call", name="sum_of", arguments=given)
        assert told["isError"] is True
        assert f'"{lacking}"' in told["content"][0]["text"]


@pytest.mark.requirement("36", "37", "42", "115", "T36")
def test_options_override_and_one_function_may_be_several_tools() -> None:
    server = Server("tools")

    def run() -> str:
        return "ran"

    hints = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
    server.tool(name="one", title="One", description="Mine", annotations=hints)(run)
    server.tool(name="two")(run)
    one, two = ask(server, ERA, "tools/list")["tools"]
    assert (one["title"], one["description"], one["annotations"]) == ("One", "Mine", hints)
    assert set(two) == {"name", "inputSchema"}
    assert [text(server, name) for name in ("one", "two")] == ["ran", "ran"]


@pytest.mark.requirement("34")
def test_decorators_return_the_function_itself() -> None:
    def fn() -> None: ...

    server = Server("tools")
    assert server.tool(fn) is fn
    assert server.tool(name="other")(fn) is fn


@pytest.mark.parametrize("name", ["", "with space", "x" * 129, "ümlaut"])
def test_a_bad_name_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(RegistrationError, match=r"test_tools\.py:\d+"):
        Server("tools").register(Tool(name, handler=lambda: None))


@pytest.mark.requirement("108", "T39")
def test_the_same_name_replaces_with_a_warning_or_as_told(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("tools")
    for word in ("first", "second"):
        server.register(Tool("same", handler=lambda word=word: word, parameters=[]))
    assert "registered twice" in caplog.text
    assert len(list(server.tools)) == 1
    assert text(server, "same") == "second"
    strict = Server("strict", on_duplicate="error", tools=[Tool("same", handler=lambda: "", parameters=[])])
    with pytest.raises(RegistrationError, match="registered twice"):
        strict.register(Tool("same", handler=lambda: "", parameters=[]))


@pytest.mark.requirement("107")
def test_a_tool_may_be_registered_with_two_servers() -> None:
    tool = Tool("t", handler=lambda args: args["n"], parameters=[Parameter("n", int, required=True)], return_type=int)
    servers = Server("one", tools=tool), Server("two", tools=[tool])
    assert entry(servers[0]) == entry(servers[1])
    assert [text(server, "t", n=1) for server in servers] == ["1", "1"]


# ---------------------------------------------------------------- explicit schemas


@pytest.mark.requirement("93", "94", "95", "96", "T34")
def test_parameters_make_the_schema_and_defaults_are_filled_in() -> None:
    seen: list[Any] = []
    tool = Tool(
        "calculate",
        description="Perform basic arithmetic",
        parameters=[
            Parameter("expression", "string", "Math expression", required=True),
            Parameter("digits", "integer", default=2),
            Parameter("note"),
        ],
        handler=lambda args: seen.append(args),
    )
    server = Server("tools", tools=tool)
    schema = entry(server)["inputSchema"]
    assert schema["required"] == ["expression"]
    assert schema["properties"]["digits"] == {"type": "integer", "default": 2}
    text(server, "calculate", expression="1+1")
    assert seen == [{"expression": "1+1", "digits": 2}]


@pytest.mark.requirement("97", "98", "T34")
def test_a_raw_schema_is_verbatim_hides_parameters_and_applies_no_defaults() -> None:
    schema = {
        "type": "object",
        "properties": {
            "field": {"type": "string", "enum": ["name", "date"], "description": "Field to sort by"},
            "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
        },
        "required": ["field"],
    }
    seen: list[Any] = []
    tool = Tool("sort", input_schema=schema, parameters=[Parameter("hidden")], handler=lambda p: seen.append(p))
    server = Server("tools", tools=tool)
    assert entry(server)["inputSchema"] == schema
    text(server, "sort", field="name")
    assert seen == [{"field": "name"}]
    wrong = ask(server, ERA, "tools/call", name="sort", arguments={"field": "size"})
    assert wrong["isError"] is True
    assert len(seen) == 1


@pytest.mark.requirement("93")
def test_a_handler_for_the_arguments_gets_all_of_them_whatever_the_only_one_is_called() -> None:
    def plain(args):  # type: ignore[no-untyped-def]
        return repr(args)

    def annotated(args: dict[str, Any]) -> str:
        return repr(args)

    def with_context(args, ctx):  # type: ignore[no-untyped-def]
        return f"{args!r} {type(ctx).__name__}"

    def by_type(args: str) -> str:
        return args

    def by_keyword(*, args):  # type: ignore[no-untyped-def]
        return args

    server = Server("tools")
    for handler in (plain, annotated, with_context, by_type, by_keyword):
        server.register(Tool(handler=handler, parameters=[Parameter("args", required=True)]))
    assert text(server, "plain", args="x") == text(server, "annotated", args="x") == "{'args': 'x'}"
    assert text(server, "with_context", args="x") == "{'args': 'x'} SyncContext"
    assert text(server, "by_type", args="x") == text(server, "by_keyword", args="x") == "x"


@pytest.mark.requirement("99")
def test_defaults_of_a_raw_schema_are_applied_on_request_only() -> None:
    schema = {
        "type": "object",
        "properties": {
            "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"},
            "page": {"$ref": "#/$defs/page"},
            "pages": {"type": "array", "items": {"$ref": "#/$defs/page"}, "default": []},
            "first": {"$ref": "#/$defs/page", "default": {}},  # a default is taken as it is written
            "note": {"type": "string"},
        },
        "$defs": {"page": {"type": "object", "properties": {"size": {"type": "integer", "default": 10}}}},
    }
    seen: list[Any] = []

    def keep(arguments: dict[str, Any]) -> None:
        seen.append(arguments)

    plain = Server("plain", tools=Tool("find", input_schema=schema, handler=keep))
    filled = Server("filled", tools=Tool("find", input_schema=schema, handler=keep, apply_defaults=True))
    calls: list[dict[str, Any]] = [{}, {"page": {}, "pages": [{}, {"size": 1}]}]
    for given in calls:
        text(plain, "find", **given)
        text(filled, "find", **given)
    assert seen[::2] == calls
    assert seen[1::2] == [
        {"order": "asc", "pages": [], "first": {}},
        {"order": "asc", "page": {"size": 10}, "pages": [{"size": 10}, {"size": 1}], "first": {}},
    ]
    seen[1]["pages"].append("mine")  # each call has its own
    text(filled, "find")
    assert seen[-1] == {"order": "asc", "pages": [], "first": {}}
    assert entry(filled)["inputSchema"] == entry(plain)["inputSchema"] == schema
    assert ask(filled, ERA, "tools/call", name="find", arguments={"order": "up"})["isError"] is True
    with pytest.raises(RegistrationError, match=r"test_tools.py:\d+: apply_defaults of find needs an input_schema"):
        Tool("find", handler=lambda a: a, apply_defaults=True)


@pytest.mark.requirement("50", "93", "116", "T38")
def test_a_handler_takes_its_arguments_by_name_as_a_dict_or_with_a_context() -> None:
    def by_name(a: int, b: int = 5) -> str:
        return f"{a} {b}"

    def rest(**arguments: Any) -> str:
        return str(arguments["a"])

    def with_context(args, ctx):  # type: ignore[no-untyped-def]
        return f"{args['a']} {type(ctx).__name__} {ctx.request_id}"

    async def with_async_context(args, ctx):  # type: ignore[no-untyped-def]
        return type(ctx).__name__

    def annotated(args: dict[str, Any], context: SyncContext) -> str:
        return type(context).__name__

    server = Server("tools")
    for handler in (by_name, rest, with_context, with_async_context, annotated, lambda: "none"):
        name = getattr(handler, "__name__", "").strip("<>") or "x"
        server.register(Tool(name, handler=handler, parameters=[Parameter("a", "integer", required=True)]))
    assert text(server, "by_name", a=1) == "1 5"
    assert text(server, "rest", a=1) == "1"
    assert text(server, "with_context", a=1) == "1 SyncContext 1"
    assert text(server, "with_async_context", a=1) == "Context"
    assert text(server, "annotated", a=1) == "SyncContext"
    assert text(server, "lambda", a=1) == "none"


@pytest.mark.requirement("43")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Tool("t", handler=lambda x, y, z: 0, parameters=[]),
        lambda: Tool("t", handler=lambda x: 0, input_schema={"type": "array"}),
        lambda: Tool("t", handler=lambda a: 0, parameters=[Parameter("a"), Parameter("b")]),
    ],
)
def test_an_explicit_tool_that_cannot_work_is_refused_with_its_place(make: Any) -> None:
    with pytest.raises(RegistrationError, match=r"test_tools\.py:\d+"):
        Server("tools").register(make())


@pytest.mark.requirement("43")
def test_signatures_that_json_cannot_fill_are_refused() -> None:
    def stars(*args: int) -> None: ...
    def keywords(**kwargs: int) -> None: ...
    def positional(a: int, /) -> None: ...

    for fn in (stars, keywords, positional):
        with pytest.raises(TypeError, match=next(iter(inspect.signature(fn).parameters))):
            Server("tools").tool(fn)


# ---------------------------------------------------------------- calling


@pytest.mark.requirement("64", "T22")
@pytest.mark.parametrize("era", ERAS)
def test_an_unknown_tool_is_a_protocol_error_with_a_hint(era: str) -> None:
    server = Server("tools")
    server.tool(name="forecast")(lambda: "rain")
    error = refused(server, era, "tools/call", name="forcast", arguments={})
    assert error["code"] == -32602
    assert 'Did you mean "forecast"?' in error["message"]


@pytest.mark.requirement("65")
@pytest.mark.parametrize("era", ERAS)
def test_bad_arguments_are_for_the_model_to_read(era: str) -> None:
    server = Server("tools")
    ran: list[int] = []

    @server.tool
    def add(a: int, b: int) -> int:
        ran.append(1)
        return a + b

    for arguments in ({"a": "x", "b": 1}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": True, "b": 1}):
        result = ask(server, era, "tools/call", name="add", arguments=arguments)
        assert result["isError"] is True
        assert '"' in result["content"][0]["text"]
    assert not ran


@pytest.mark.requirement("T25")
def test_two_calls_on_one_connection() -> None:
    server = Server("tools")

    @server.tool
    async def double(n: int) -> int:
        return 2 * n

    calls = [("tools/call", {"name": "double", "arguments": {"n": n}}) for n in (1, 2)]
    assert [answer["result"]["structuredContent"]["result"] for answer in exchange(server, ERA, calls)] == [2, 4]


def test_needs_in_a_handshake_are_told_to_the_model() -> None:
    server = Server("tools")

    @server.tool(needs=["elicitation"])
    async def asks(ctx: Context) -> str:
        return "asked"

    result = ask(server, "2025-11-25", "tools/call", name="asks", arguments={})
    assert result["isError"] is True
    assert "elicitation" in result["content"][0]["text"]


def test_a_tool_error_from_anywhere_reaches_the_model() -> None:
    server = Server("tools")

    @server.tool
    def fails() -> int:
        raise ToolError("No such city")

    assert ask(server, ERA, "tools/call", name="fails")["content"] == [{"type": "text", "text": "No such city"}]


# ---------------------------------------------------------------- x-mcp-header


@pytest.mark.requirement("T98")
def test_header_annotations_are_listed_and_compiled() -> None:
    server = Server("tools")

    @server.tool
    def query(region: Annotated[str, Header("Region")], sql: str) -> str:
        return region

    assert entry(server)["inputSchema"]["properties"]["region"] == {"type": "string", "x-mcp-header": "Region"}
    [tool] = server.tools.items.values()
    assert [rule.path for rule in tool.header_rules] == [("region",)]


@pytest.mark.requirement("T98")
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"a": {"type": "string", "x-mcp-header": "not a token"}}, "must be a header name"),
        ({"a": {"type": "string", "x-mcp-header": 7}}, "must be a header name"),
        ({"a": {"type": "array", "x-mcp-header": "A"}}, "needs the type string, integer or boolean"),
        ({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}, "same header"),
        ({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}, "clients must refuse the tool"),
        ({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}, "clients must refuse the tool"),
    ],
)
def test_invalid_header_annotations_are_refused_at_registration(properties: dict[str, Any], words: str) -> None:
    schema = {"type": "object", "properties": properties}
    with pytest.raises(RegistrationError, match=words):
        Server("tools").register(Tool("t", handler=lambda args: "", input_schema=schema))


def test_a_header_inside_of_a_list_is_refused_at_registration() -> None:
    def query(regions: list[Annotated[str, Header("Region")]]) -> str:
        return "".join(regions)

    with pytest.raises(RegistrationError, match=r"x-mcp-header 'Region' is not reachable .*: put it on an argument"):
        Server("tools").tool(query)


@pytest.mark.parametrize(("is_async", "kind"), [(True, "Context"), (False, "SyncContext")])
def test_a_context_without_an_annotation_is_mentioned(
    is_async: bool, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def plain(a: int, ctx) -> int:  # type: ignore[no-untyped-def]
        return a

    async def waiting(a: int, ctx) -> int:  # type: ignore[no-untyped-def]
        return a

    Server("s").tool(waiting if is_async else plain)
    assert f"is an argument of the tool, because it has no annotation; write `ctx: {kind}`" in caplog.text
    assert "test_tools.py:" in caplog.text
    caplog.clear()
    Server("s").tool(lambda ctx: ctx, name="explicit", parameters=[Parameter("ctx")])
    assert not caplog.text
