"""What a handler returns, and what the client reads: one table."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import logging
import math
import sys
import uuid
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jsonschema
import msgspec
import pydantic
import pytest

from redstart import (
    Audio,
    Context,
    EmbeddedResource,
    Image,
    ResourceContents,
    ResourceLink,
    Server,
    Text,
    Tool,
    ToolError,
    ToolResult,
)
from redstart.features.errors import Unencodable
from redstart.features.results import to_json
from support import ask

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN = REVISIONS[-1]


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: Any


@dataclasses.dataclass
class Place:
    name: str
    pair: Pair | None = None


class Model(pydantic.BaseModel):
    n: int
    when: dt.date


class Record(msgspec.Struct, rename="camel"):
    some_name: int


class Tagged(msgspec.Struct, tag="pair", rename="camel"):
    the_pair: Pair
    left_out: int | msgspec.UnsetType = msgspec.UNSET


class Row(tuple[int, ...]):
    """A tuple without names."""


class Markup(str):
    """A text of a library, as those of BeautifulSoup and markupsafe."""


class Metres(float):
    pass


class Count(int):
    pass


class Data(bytes):
    pass


class Moment(dt.datetime):
    """A time of a library, as those of pandas, pendulum and freezegun."""


class Planet(enum.Enum):
    EARTH = (5.97, 6371)
    MARS = (0.64, 3389)


@dataclasses.dataclass
class Item:
    price: Decimal = Decimal("9.90")
    seen: dt.datetime | None = None


class Sold(NamedTuple):
    to: str
    planets: list[Planet]


def serve(value: Any, annotation: Any = None, *, server: dict[str, Any] | None = None, **options: Any) -> Server:
    def handler() -> Any:
        return value() if callable(value) else value

    handler.__annotations__ = {} if annotation is None else {"return": annotation}
    made = Server("results", **(server or {}))
    made.tool(name="tool", **options)(handler)
    return made


def call(value: Any, annotation: Any = None, era: str = MODERN, **options: Any) -> dict[str, Any]:
    result = ask(serve(value, annotation, **options), era, "tools/call", name="tool", arguments={})
    return {key: found for key, found in result.items() if key not in ("_meta", "resultType")}


def text(value: Any, annotation: Any = None, **options: Any) -> str:
    [block] = call(value, annotation, **options)["content"]
    found: str = block["text"]
    return found


PNG = base64.b64encode(b"\x89PNG").decode()
CONTENT: list[tuple[Any, list[dict[str, Any]]]] = [
    (Text("hello"), [{"type": "text", "text": "hello"}]),
    ("hello", [{"type": "text", "text": "hello"}]),
    ((b"\x89PNG", "image/png"), [{"type": "image", "data": PNG, "mimeType": "image/png"}]),
    ((b"\x89PNG", "audio/wav"), [{"type": "audio", "data": PNG, "mimeType": "audio/wav"}]),
    (Audio(b"\x89PNG", "audio/wav"), [{"type": "audio", "data": PNG, "mimeType": "audio/wav"}]),
    (
        ResourceLink("file:///o.png", "o.png", mime_type="image/png", size=123_456),
        [{"type": "resource_link", "uri": "file:///o.png", "name": "o.png", "mimeType": "image/png", "size": 123456}],
    ),
    (ResourceLink("file:///o", "o"), [{"type": "resource_link", "uri": "file:///o", "name": "o"}]),
    (
        EmbeddedResource(ResourceContents("notes://a", text="hi")),
        [{"type": "resource", "resource": {"uri": "notes://a", "text": "hi"}}],
    ),
    ({"type": "text", "text": "from a dict"}, [{"type": "text", "text": "from a dict"}]),
    (
        [Text("a"), Image(b"\x89PNG"), "b", {"c": 1}],
        [
            {"type": "text", "text": "a"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "text", "text": "b"},
            {"type": "text", "text": '{"c":1}'},
        ],
    ),
]


@pytest.mark.requirement("53", "55", "100", "101", "103", "104", "120", "121", "T23", "T29", "T30", "T31", "T37")
@pytest.mark.parametrize(("value", "content"), CONTENT)
def test_content(value: Any, content: list[dict[str, Any]]) -> None:
    assert call(value) == {"content": content}


@pytest.mark.requirement("104")
def test_bytes_of_another_kind_are_an_embedded_blob() -> None:
    [block] = call((b"%PDF", "application/pdf"))["content"]
    assert block["resource"]["mimeType"] == "application/pdf"
    assert base64.b64decode(block["resource"]["blob"]) == b"%PDF"
    assert uuid.UUID(block["resource"]["uri"]).urn == block["resource"]["uri"]  # a name, and nothing of the content
    assert call(b"raw")["content"][0]["resource"]["mimeType"] == "application/octet-stream"


@pytest.mark.requirement("102", "106")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, "7"),
        (1.5, "1.5"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([1, 2], "[1,2]"),
        ((1, 2), "[1,2]"),
        ({3}, "[3]"),
        (frozenset({3}), "[3]"),
        (deque([1]), "[1]"),
        (range(3), "[0,1,2]"),
        (Colour.RED, '"red"'),
        (dt.datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02T03:04:05"'),
        (dt.date(2026, 1, 2), '"2026-01-02"'),
        (Path("/tmp/x"), '"/tmp/x"'),
        (uuid.UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (Decimal("1.10"), '"1.10"'),
        ([Markup("a"), Count(1), Metres(1.5), Moment(2026, 1, 2)], '["a",1,1.5,"2026-01-02T00:00:00"]'),
        (Markup("a text"), "a text"),
        ([Data(b"a")], '["YQ=="]'),
        (Place("here"), '{"name":"here","pair":null}'),
        (Model(n=1, when=dt.date(2026, 1, 2)), '{"n":1,"when":"2026-01-02"}'),
        (Record(1), '{"someName":1}'),
        (Pair(1, "x"), '{"left":1,"right":"x"}'),
        ([Pair(1, {"p": Pair(2, None)})], '[{"left":1,"right":{"p":{"left":2,"right":null}}}]'),
        (Tagged(Pair(1, 2)), '{"type":"pair","thePair":{"left":1,"right":2}}'),
        (Row((1, 2)), "[1,2]"),
        ([Row(())], "[[]]"),
        (Place("here", Pair(1, 2)), '{"name":"here","pair":{"left":1,"right":2}}'),
        ({"type": "text", "note": "a dict of the user's own"}, '{"type":"text","note":"a dict of the user\'s own"}'),
    ],
)
def test_data_without_an_annotation_is_json_text(value: Any, expected: str) -> None:
    assert call(value) == {"content": [{"type": "text", "text": expected}]}


@pytest.mark.requirement("51", "K2")
def test_none_is_success_or_null() -> None:
    assert text(None, None) == "Success"
    assert text(None, type(None)) == "Success"
    assert call(None, int | None) == {
        "content": [{"type": "text", "text": "null"}],
        "structuredContent": {"result": None},
    }


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {"a": [math.nan]}, Pair(1, math.nan), Decimal("NaN"), [Decimal("Infinity")]]
)
def test_what_json_lacks_is_an_error_and_never_null(value: Any) -> None:
    result = call(value)
    assert result["isError"] is True
    assert "failed" in result["content"][0]["text"]


def test_nulls_and_the_words_themselves_are_fine() -> None:
    assert to_json({"NaN": None, "Infinity": "Inf"}) == b'{"NaN":null,"Infinity":"Inf"}'
    with pytest.raises(Unencodable):
        to_json({"deep": [{"x": -math.inf}]})
    with pytest.raises(Unencodable):
        to_json(object())


# ---------------------------------------------------------------- structured content


@pytest.mark.requirement("112", "113", "114", "T27", "T28")
@pytest.mark.parametrize("era", REVISIONS)
@pytest.mark.parametrize(
    ("annotation", "value", "raw"),
    [(int, 7, 7), (list[int], [1], [1]), (Place, Place("x"), {"name": "x", "pair": None})],
)
def test_structured_content_in_every_revision(era: str, annotation: Any, value: Any, raw: Any) -> None:
    server = serve(value, annotation)
    [listed] = ask(server, era, "tools/list")["tools"]
    result = ask(server, era, "tools/call", name="tool", arguments={})
    assert json.loads(result["content"][0]["text"]) == raw
    if era < "2025-06-18":
        assert "outputSchema" not in listed
        assert "structuredContent" not in result
        return
    wrapped = not isinstance(raw, dict)
    assert result["structuredContent"] == ({"result": raw} if wrapped else raw)
    assert listed["outputSchema"]["type"] == "object"
    assert (list(listed["outputSchema"]["properties"]) == ["result"]) is wrapped
    assert listed["outputSchema"].get("x-fastmcp-wrap-result", False) is wrapped
    jsonschema.validate(result["structuredContent"], listed["outputSchema"])


@pytest.mark.parametrize(
    ("annotation", "value", "raw"),
    [
        (Decimal, Decimal("1.10"), "1.10"),
        (list[Decimal], [Decimal(5)], ["5"]),
        (Item, Item(seen=Moment(2026, 1, 2)), {"price": "9.90", "seen": "2026-01-02T00:00:00"}),
        (list[str], [Markup("ab")], ["ab"]),
        (int, Count(3), 3),
        (list[float], [Metres(1.5)], [1.5]),
        (list[bytes], [Data(b"a")], ["YQ=="]),
        (dt.datetime, Moment(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02T00:00:00+00:00"),
        (Planet, Planet.MARS, "MARS"),
        (dict[str, Planet], {"home": Planet.EARTH}, {"home": "EARTH"}),
        (Sold, Sold("me", [Planet.EARTH]), {"to": "me", "planets": ["EARTH"]}),
    ],
)
def test_values_are_sent_as_their_schema_says(annotation: Any, value: Any, raw: Any) -> None:
    server = serve(value, annotation)
    [listed] = ask(server, MODERN, "tools/list")["tools"]
    sent = ask(server, MODERN, "tools/call", name="tool", arguments={})["structuredContent"]
    assert sent == (raw if isinstance(raw, dict) else {"result": raw})
    jsonschema.validate(sent, listed["outputSchema"])


@pytest.mark.parametrize("era", REVISIONS)
def test_a_text_of_a_library_is_a_text(era: str) -> None:
    assert call(Markup("ab"), str, era)["content"] == [{"type": "text", "text": "ab"}]
    server = Server("texts")
    server.resource("a://b")(lambda: Markup("ab"))
    server.prompt(lambda: Markup("ab"), name="p")
    assert ask(server, era, "resources/read", uri="a://b")["contents"][0]["text"] == "ab"
    assert ask(server, era, "prompts/get", name="p")["messages"][0]["content"]["text"] == "ab"


def test_a_whole_number_is_no_decimal() -> None:
    """As in `sum(prices)` without a price: its schema promises a text."""
    assert call(0, Decimal)["isError"] is True


@pytest.mark.parametrize("era", [era for era in REVISIONS if era >= "2025-06-18"])
@pytest.mark.parametrize("schema", [None, {"type": "integer"}, {"type": "object"}, {}])
def test_a_bare_value_in_a_tool_result_stays_bare_where_it_may(era: str, schema: dict[str, Any] | None) -> None:
    server = Server("t", tools=[Tool("t", handler=lambda: ToolResult(structured=42), output_schema=schema)])
    [listed] = ask(server, era, "tools/list")["tools"]
    result = ask(server, era, "tools/call", name="t", arguments={})
    if schema == {"type": "object"}:
        assert result["isError"] is True
        return
    assert result["structuredContent"] == (42 if era == MODERN else {"result": 42})
    if schema is not None:
        jsonschema.validate(result["structuredContent"], listed["outputSchema"])
        assert era == MODERN or listed["outputSchema"]["type"] == "object"


def test_another_handler_gets_the_value_itself() -> None:
    server = Server("t")

    @server.tool
    def seven() -> int:
        return 7

    @server.tool
    async def twice(ctx: Context) -> str:
        return str((await ctx.call_tool("seven")).structured * 2)

    assert ask(server, MODERN, "tools/call", name="twice", arguments={})["content"][0]["text"] == "14"


@pytest.mark.parametrize(
    "annotation",
    [str, None, Any, Annotated[str, "words"], list, list[Any], list[Image], Text | Image, tuple[bytes, str]],
)
def test_text_content_and_nothing_have_no_schema(annotation: Any) -> None:
    [listed] = ask(serve("x", annotation), MODERN, "tools/list")["tools"]
    assert "outputSchema" not in listed


@pytest.mark.requirement("97", "T27")
def test_a_given_schema_wins_over_the_annotation() -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    server = serve({"count": 42}, dict[str, int], output_schema=schema)
    assert ask(server, MODERN, "tools/list")["tools"][0]["outputSchema"] == schema
    assert ask(server, MODERN, "tools/call", name="tool")["structuredContent"] == {"count": 42}


@pytest.mark.requirement("T35")
def test_big_integers_survive_and_meta_is_merged() -> None:
    big = 2**53 + 1
    result = ask(serve(ToolResult(structured={"n": big}, meta={"mine": 1})), MODERN, "tools/call", name="tool")
    assert result["structuredContent"] == {"n": big}
    assert result["_meta"]["mine"] == 1
    assert "io.modelcontextprotocol/serverInfo" in result["_meta"]


@pytest.mark.requirement("105", "111", "114", "T28")
def test_a_result_of_ones_own_keeps_its_text_or_gets_some() -> None:
    mine = ToolResult(content=[{"type": "text", "text": "mine"}], structured={"a": 1})
    assert call(mine) == {"content": [{"type": "text", "text": "mine"}], "structuredContent": {"a": 1}}
    assert call(ToolResult(structured={"a": 1}))["content"] == [{"type": "text", "text": '{"a":1}'}]
    failed = ToolResult(content=[{"type": "text", "text": "File not found"}], is_error=True)
    assert call(failed) == {"content": [{"type": "text", "text": "File not found"}], "isError": True}


@pytest.mark.requirement("54", "56")
def test_a_tool_error_raised_returned_or_in_a_list_sets_is_error() -> None:
    def raises() -> None:
        raise ToolError("no", content=[Text("more")])

    assert call(raises) == {
        "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "more"}],
        "isError": True,
    }
    assert call(ToolError("no"))["isError"] is True
    mixed = call([Text("some"), ToolError("but not all")])
    assert [block["text"] for block in mixed["content"]] == ["some", "but not all"]
    assert mixed["isError"] is True
    assert call(ToolError("no"), int) == {"content": [{"type": "text", "text": "no"}], "isError": True}


@pytest.mark.requirement("106", "T32")
@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("text", {"return_type": list[Image]}),
        ([Text("x")], {"return_type": list[Image]}),
        (Text("x"), {"return_type": Image}),
        ("seven", {"return_type": int}),
        (True, {"return_type": int}),
        (Text("x"), {"return_type": dict}),
        ({"secret": "hunter2"}, {"output_schema": {"type": "object", "required": ["count"]}}),
        (ToolResult(content=[Text("x")]), {"return_type": int}),
    ],
)
def test_a_broken_promise_is_an_error_that_leaks_nothing(
    value: Any, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "redstart"):
        result = call(value, **options)
    [block] = result["content"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "hunter2" not in block["text"]
    error_id = block["text"].partition("error id ")[2][:8]
    assert len(error_id) == 8
    assert error_id in caplog.text


def test_a_kept_promise_of_content_passes() -> None:
    assert call([Image(b"x"), Image(b"y")], list[Image])["content"][1]["type"] == "image"
    assert call((b"x", "image/png"), return_type=Image)["content"][0]["type"] == "image"


def test_optional_text_is_not_quoted() -> None:
    assert call("abc", str | None) == {
        "content": [{"type": "text", "text": "abc"}],
        "structuredContent": {"result": "abc"},
    }


# ---------------------------------------------------------------- size


@pytest.mark.parametrize("where", ["tool", "server"])
def test_a_result_that_is_too_big_tells_the_model_to_narrow_the_request(where: str) -> None:
    options: dict[str, Any] = {"max_result_bytes": 100} if where == "tool" else {"server": {"max_result_bytes": 100}}
    result = call("x" * 101, **options)
    assert result["isError"] is True
    assert "101 bytes" in result["content"][0]["text"]
    assert "Narrow the request" in result["content"][0]["text"]
    assert call("x" * 100, **options) == {"content": [{"type": "text", "text": "x" * 100}]}
    assert call([Image(b"x" * 90)], **options)["isError"] is True
    assert call("é" * 51, **options)["isError"] is True
    assert call(["x" * 60], list[str], **options)["isError"] is True  # as text and as structured content


# ---------------------------------------------------------------- errors


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def failing(error: Exception) -> Any:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.requirement("61", "62", "63", "T21")
def test_the_text_of_an_exception_stays_here_and_the_log_has_the_same_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "redstart"):
        result = call(failing(ValueError("password=hunter2")))
    told = result["content"][0]["text"]
    assert result["isError"] is True
    assert "ValueError" in told
    assert "hunter2" not in told
    assert told.partition("error id ")[2][:8] in caplog.records[-1].getMessage()
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"expose_errors": True}, ValueError("why"), "ValueError: why"),
        ({"expose_errors": [ValueError]}, ValueError("why"), "ValueError: why"),
        ({"expose_errors": [KeyError]}, ValueError("why"), "error id"),
        ({"expose_errors": True}, Silent(), "Silent: (the exception has no text)"),
        ({}, Silent(), "failed with Silent"),
        ({"debug": True}, ValueError("why"), "Traceback"),
        ({"debug": True}, Silent(), "Silent"),
    ],
)
def test_what_of_an_exception_the_client_may_see(options: dict[str, Any], error: Exception, words: str) -> None:
    told = text(failing(error), server=options)
    assert words in told
    if "error id" in words:
        assert "why" not in told


# ---------------------------------------------------------------- other libraries


def test_none_of_them_is_imported_by_us() -> None:
    import subprocess

    libraries = {"pandas", "polars", "matplotlib", "pydantic"}
    code = f"import sys, redstart.features.results; print({libraries} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.strip() == "set()"


def test_a_pandas_frame_is_a_table_that_says_what_it_leaves_out() -> None:
    pandas = pytest.importorskip("pandas")
    small = pandas.DataFrame({"a": [1, 2], "b|c": ["x", "y\nz"]})
    assert text(small, pandas.DataFrame) == "| a | b\\|c |\n| --- | --- |\n| 1 | x |\n| 2 | y z |"
    assert text(small.set_index("a")["b|c"]).startswith("| a | b\\|c |")
    big = text(pandas.DataFrame({"n": range(1000)}))
    assert "| 49 |" in big
    assert "| 50 |" not in big
    assert "first 50 of 1000 rows" in big


def test_a_polars_frame_is_a_table() -> None:
    polars = pytest.importorskip("polars")
    assert text(polars.DataFrame({"a": [1], "b": ["x"]}), polars.DataFrame) == "| a | b |\n| --- | --- |\n| 1 | x |"
    assert "first 50 of 60 rows" in text(polars.Series("n", range(60)))


def test_a_matplotlib_figure_is_a_png() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([1, 2])
    [block] = call(figure, Figure)["content"]
    assert block["mimeType"] == "image/png"
    assert base64.b64decode(block["data"]).startswith(b"\x89PNG")


def test_an_explicit_tool_returns_as_any_other() -> None:
    def run(value: Any) -> Mapping[str, Any]:
        tool = Tool("tool", handler=lambda args: value, parameters=[])
        return ask(Server("x", tools=tool), MODERN, "tools/call", name="tool", arguments={})

    assert run({"a": 1})["content"] == [{"type": "text", "text": '{"a":1}'}]
