"""Forms: from Python types to the schema of each revision, and back."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redstart import Choice, Choices, Format
from redstart.asking.fields import FormError
from redstart.asking.forms import compile_form
from redstart.schema.errors import ShapeError
from spec_facts import problems


class Color(enum.Enum):
    RED = "red"
    DARK_BLUE = "#00008b"


class Plain(enum.StrEnum):
    A = "a"
    B = "b"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Everything:
    name: Annotated[str, msgspec.Meta(min_length=2, max_length=9, description="Your name")]
    mail: Annotated[str, Format("email")]
    born: datetime.date
    woken: datetime.datetime
    age: Annotated[int, msgspec.Meta(ge=0, lt=150)]
    height: float
    color: Color
    plain: Plain
    team: Literal["red", "blue"] = "blue"
    size: Size = Size.LARGE
    region: Annotated[str, Choices(("eu", "Europe"), ("us", "United States"))] = "eu"
    tags: list[Literal["x", "y"]] = field(default_factory=list)
    colors: set[Color] = field(default_factory=set)
    nick: str | None = None
    happy: bool = True


def properties(schema: Any, titled: bool = True) -> dict[str, Any]:
    return compile_form(schema).schema(titled)["properties"]  # type: ignore[no-any-return]


def test_every_kind_of_field() -> None:
    assert compile_form(Everything).schema(True) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Your name", "minLength": 2, "maxLength": 9},
            "mail": {"type": "string", "format": "email"},
            "born": {"type": "string", "format": "date"},
            "woken": {"type": "string", "format": "date-time"},
            "age": {"type": "integer", "minimum": 0, "maximum": 149},
            "height": {"type": "number"},
            "color": {
                "type": "string",
                "oneOf": [{"const": "red", "title": "red"}, {"const": "#00008b", "title": "Dark blue"}],
            },
            "plain": {"type": "string", "enum": ["a", "b"]},
            "team": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
            "size": {
                "type": "string",
                "oneOf": [{"const": "1", "title": "Small"}, {"const": "2", "title": "Large"}],
                "default": "2",
            },
            "region": {
                "type": "string",
                "oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "United States"}],
                "default": "eu",
            },
            "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "default": []},
            "colors": {
                "type": "array",
                "items": {
                    "anyOf": [{"const": "red", "title": "red"}, {"const": "#00008b", "title": "Dark blue"}],
                },
            },
            "nick": {"type": "string"},
            "happy": {"type": "boolean", "default": True},
        },
        "required": ["name", "mail", "born", "woken", "age", "height", "color", "plain"],
    }


@pytest.mark.requirement("T43")
def test_every_kind_of_field_for_an_older_client() -> None:
    fields = properties(Everything, titled=False)
    assert fields["color"] == {"type": "string", "enum": ["red", "#00008b"], "enumNames": ["red", "Dark blue"]}
    assert fields["team"] == {"type": "string", "enum": ["red", "blue"]}
    assert fields["size"] == {"type": "string", "enum": ["1", "2"], "enumNames": ["Small", "Large"]}
    assert fields["happy"] == {"type": "boolean", "default": True}
    assert fields["tags"] == {
        "type": "string",
        "description": "One or more of the following, separated by commas: x, y",
    }


CONTENT = {
    "name": "Ada",
    "mail": "ada@example.com",
    "born": "1815-12-10",
    "woken": "2025-01-31T12:00:00Z",
    "age": "36",
    "height": 1.6,
    "color": "#00008b",
    "plain": "b",
    "size": "1",
    "colors": ["red"],
}


def test_the_answer_is_typed() -> None:
    data = compile_form(Everything).read(CONTENT)
    assert isinstance(data, Everything)
    assert data.age == 36
    assert data.born == datetime.date(1815, 12, 10)
    assert (data.color, data.plain, data.size, data.colors) == (Color.DARK_BLUE, Plain.B, Size.SMALL, {Color.RED})
    assert (data.team, data.region, data.tags, data.nick, data.happy) == ("blue", "eu", [], None, True)


def test_several_choices_from_an_older_client_are_a_text() -> None:
    data = compile_form(Everything).read({**CONTENT, "tags": "x, y", "colors": "Dark blue,red"})
    assert data.tags == ["x", "y"]
    assert data.colors == {Color.RED, Color.DARK_BLUE}


@pytest.mark.requirement("69")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "A"}, 'Field "name" must be at least 2'),
        ({"name": None}, 'Missing required field "name"'),
        ({"mail": "nobody"}, 'Field "mail" must be an e-mail address'),
        ({"born": "yesterday"}, 'Field "born" must be a date'),
        ({"age": 200}, "age"),
        ({"age": "x"}, 'Field "age" must be an integer'),
        ({"age": True}, 'Field "age" must be an integer'),
        ({"color": "green"}, 'Field "color" must be one of'),
        ({"plain": "c"}, 'Field "plain" must be one of "a", "b"'),
        ({"tags": ["z"]}, 'Field "tags" must be one of'),
        ({"tags": 7}, 'Field "tags" must be a list of choices'),
        ({"happy": "perhaps"}, 'Field "happy" must be a boolean'),
        ({"height": "NaN"}, 'Field "height" must be a number'),
    ],
)
def test_what_is_wrong_is_said_of_the_field(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ShapeError) as caught:
        compile_form(Everything).read({**CONTENT, **change})
    assert problem in str(caught.value)


class Told(TypedDict):
    a: int
    b: NotRequired[str]


class Struct(msgspec.Struct):
    a: int
    b: str = "b"


class Model(pydantic.BaseModel):
    a: int = pydantic.Field(description="A number", ge=1)
    b: str = "b"
    c: Color | None = None


@pytest.mark.requirement("68")
@pytest.mark.parametrize("kind", [Told, Struct, Model])
def test_every_kind_of_record(kind: Any) -> None:
    schema = compile_form(kind).schema(True)
    assert schema["required"] == ["a"]
    assert schema["properties"]["a"]["type"] == "integer"
    data = compile_form(kind).read({"a": 5})
    assert (data["a"] if isinstance(data, dict) else data.a) == 5


def test_pydantic_validators_speak() -> None:
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    with pytest.raises(ShapeError, match="must be even"):
        compile_form(Even).read({"n": 3})


@pytest.mark.parametrize(
    ("schema", "wire", "answer", "data"),
    [
        (str, {"type": "string"}, "x", "x"),
        (int, {"type": "integer"}, 5.0, 5),
        (float, {"type": "number"}, 5, 5.0),
        (bool, {"type": "boolean"}, "true", True),
        (Plain, {"type": "string", "enum": ["a", "b"]}, "a", Plain.A),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
        (Literal[1, 2], {"type": "string", "enum": ["1", "2"]}, "2", 2),
        (["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ([1, 2, 3], {"type": "string", "enum": ["1", "2", "3"]}, 2, 2),
        (range(2), {"type": "string", "enum": ["0", "1"]}, "1", 1),
        (
            [("a", "First"), Choice("b", "Second")],
            {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]},
            "b",
            "b",
        ),
        (list[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["a"], ["a"]),
        (set[Plain], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["a", "a"], {Plain.A}),
        (
            Annotated[list[Literal["a", "b"]], msgspec.Meta(min_length=1)],
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1},
            ["b"],
            ["b"],
        ),
        (datetime.date, {"type": "string", "format": "date"}, "2025-01-31", datetime.date(2025, 1, 31)),
        (Path, {"type": "string"}, "/tmp", Path("/tmp")),
    ],
)
def test_bare_types_and_choices(schema: Any, wire: dict[str, Any], answer: Any, data: Any) -> None:
    form = compile_form(schema)
    assert form.schema(True) == {"type": "object", "properties": {"answer": wire}, "required": ["answer"]}
    assert form.read({"answer": answer}) == data


def test_any_value_can_be_chosen() -> None:
    thing, other = Path("/a"), object()
    form = compile_form([(thing, "A"), (other, "B")])
    assert form.read({"answer": "/a"}) is thing
    assert form.read({"answer": "B"}) is other
    assert compile_form([Color.RED, Color.DARK_BLUE]).read({"answer": "#00008b"}) is Color.DARK_BLUE


class Inner(TypedDict):
    x: int


class Nested(TypedDict):
    fine: int
    address: Inner


class Listed(TypedDict):
    numbers: list[int]


class Mixed(TypedDict):
    either: int | str


class Mapped(TypedDict):
    table: dict[str, int]


@pytest.mark.requirement("68")
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (Nested, '"address" is an object'),
        (Listed, '"numbers" is an array'),
        (Mixed, '"either"'),
        (Mapped, '"table" is an object'),
        (dict, "no named fields"),
        (list[int], "array"),
        ([], "empty"),
        (["a", "a"], "look the same"),
        ({"type": "string"}, '"type": "object"'),
        ({"type": "object"}, "properties"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, '"a" is an object'),
        ({"type": "object", "properties": {"a": {}}}, '"a" is of no type'),
        ({"type": "object", "properties": {"a": True}}, '"a" is true'),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}, '"a" is an array'),
        ({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 2}}}, "multipleOf"),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "enumNames": []}}}, "enumNames"),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "enumNames": ["1", "2"]}}}, "names"),
        ({"type": "object", "properties": {"a": {"type": "string", "oneOf": [{"type": "string"}]}}}, "const"),
    ],
)
def test_what_no_form_can_carry_is_refused_by_name(schema: Any, problem: str) -> None:
    with pytest.raises(FormError) as caught:
        compile_form(schema)
    assert problem in str(caught.value)


RAW = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe", "minLength": 2},
        "age": {"type": "integer", "default": 30, "minimum": 0},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
        "titled": {"type": "string", "oneOf": [{"const": "v1", "title": "One"}, {"const": "v2", "title": "Two"}]},
        "legacy": {"type": "string", "enum": ["o1", "o2"], "enumNames": ["One", "Two"]},
        "multi": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
        "multiTitled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    },
    "required": ["name"],
}


@pytest.mark.requirement("68", "T43")
def test_a_raw_schema_is_passed_on_as_it_is() -> None:
    assert compile_form(RAW).schema(True) == RAW


def test_a_raw_schema_for_an_older_client() -> None:
    fields = properties(RAW, titled=False)
    assert fields["name"] == {"type": "string", "minLength": 2}
    assert fields["verified"] == {"type": "boolean", "default": True}
    assert fields["legacy"] == RAW["properties"]["legacy"]  # type: ignore[index]
    assert fields["titled"] == {"type": "string", "enum": ["v1", "v2"], "enumNames": ["One", "Two"]}
    assert fields["multi"]["type"] == "string"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "name"),
        ({"name": "x"}, "at least 2"),
        ({"name": "xx", "age": -1}, "at least 0"),
        ({"name": "xx", "age": 1.5}, "an integer"),
        ({"name": "xx", "status": "gone"}, "one of"),
        ({"name": "xx", "multi": ["a", "b"]}, "at most 1"),
        ({"name": "xx", "multi": ["c"]}, "one of"),
    ],
)
def test_a_raw_schema_is_validated(content: dict[str, Any], problem: str) -> None:
    with pytest.raises(ShapeError, match=problem):
        compile_form(RAW).read(content)


def test_content_of_a_raw_schema_is_a_dict() -> None:
    content = {"name": "Ada", "age": "7", "titled": "v2", "multi": ["a"], "unknown": 1}
    assert compile_form(RAW).read(content) == {"name": "Ada", "age": 7, "titled": "v2", "multi": ["a"]}


def test_an_equal_schema_is_compiled_once() -> None:
    assert compile_form(dict(RAW)) is compile_form(json.loads(json.dumps(RAW)))
    assert compile_form(Everything) is compile_form(Everything)


@pytest.mark.parametrize("name", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("schema", [Everything, RAW, Model, set[Color], [("a", "A")], bool])
def test_the_revision_knows_every_form(name: str, schema: Any) -> None:
    made = compile_form(schema).schema(name != "2025-06-18")
    assert problems({"message": "?", "requestedSchema": made}, "ElicitRequestFormParams", name) == []


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_no_content_breaks_a_form(value: Any) -> None:
    for schema in (Everything, RAW, int, [1, 2], set[Color]):
        form = compile_form(schema)
        for name in (f.name for f in form.fields):
            try:
                form.read({name: value})
            except ShapeError:
                continue


# ---------------------------------------------------------------- titles


class TitledModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(title="The whole")

    name: str = pydantic.Field(title="Your name")
    color: Color | None = pydantic.Field(None, title="Favourite")
    tags: list[Literal["x"]] = pydantic.Field([], title="Tags of it")
    zip_code: Annotated[str, pydantic.Field(title="Postcode")] | None = None
    plain: Plain = Plain.A
    age: int = 3


@dataclass
class TitledData:
    name: Annotated[str, msgspec.Meta(title="Your name")]
    color: Annotated[Color | None, msgspec.Meta(title="Favourite")] = None
    tags: Annotated[list[Literal["x"]], pydantic.Field(title="Tags of it")] = field(default_factory=list)
    zip_code: Annotated[str, msgspec.Meta(title="Postcode")] | None = None
    plain: Plain = Plain.A
    age: int = 3


class TitledStruct(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(title="Your name")]
    color: Annotated[Color | None, msgspec.Meta(title="Favourite")] = None
    tags: Annotated[list[Literal["x"]], msgspec.Meta(title="Tags of it")] = []
    zip_code: Annotated[str | None, msgspec.Meta(title="Postcode")] = None
    plain: Plain = Plain.A
    age: int = 3


@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize("schema", [TitledModel, TitledData, TitledStruct])
def test_the_title_that_a_field_was_given_reaches_the_client(schema: Any, titled: bool) -> None:
    form = compile_form(schema).schema(titled)
    titles = {name: inner.get("title") for name, inner in form["properties"].items()}
    assert titles == {
        "name": "Your name",
        "color": "Favourite",
        "tags": "Tags of it",
        "zip_code": "Postcode",
        "plain": None,
        "age": None,
    }
    assert "title" not in form


def test_the_title_of_one_value() -> None:
    for note in (msgspec.Meta(title="Your name"), pydantic.Field(title="Your name")):
        assert properties(Annotated[str, note])["answer"] == {"type": "string", "title": "Your name"}


# ---------------------------------------------------------------- decimal numbers


@dataclass
class Price:
    net: Decimal
    gross: Decimal | None = None
    tax: Decimal = Decimal("1.50")


class PriceModel(pydantic.BaseModel):
    net: Decimal
    gross: Decimal | None = None
    tax: Decimal = Decimal("1.50")


def test_a_decimal_number_is_the_same_in_every_form() -> None:
    assert properties(Decimal) == {"answer": {"type": "string"}}
    for kind in (Price, PriceModel):
        form = compile_form(kind)
        assert form.schema(True)["properties"] == {
            "net": {"type": "string"},
            "gross": {"type": "string"},
            "tax": {"type": "string", "default": "1.50"},
        }
        assert form.schema(True)["required"] == ["net"]
        assert form.read({"net": "0.10", "gross": "", "tax": "2"}) == kind(net=Decimal("0.10"), tax=Decimal(2))
        for wrong in ("x", True, ""):
            with pytest.raises(ShapeError, match='"net"'):
                form.read({"net": wrong})


def test_the_limits_of_a_decimal_number_are_checked() -> None:
    class Limited(pydantic.BaseModel):
        net: Decimal = pydantic.Field(ge=0, max_digits=4, decimal_places=2)

    form = compile_form(Limited)
    assert form.schema(True)["properties"] == {"net": {"type": "string"}}
    for wrong in ("-1", "1.234", "12345"):
        with pytest.raises(ShapeError, match='"net"'):
            form.read({"net": wrong})
    assert form.read({"net": "12.50"}).net == Decimal("12.50")


@pytest.mark.parametrize("kind", [Decimal | str, float | str, Decimal | int | bool])
def test_a_number_or_text_is_no_decimal_number(kind: Any) -> None:
    model = pydantic.create_model("Several", net=(kind, ...))
    with pytest.raises(FormError, match='"net"'):
        compile_form(model)
