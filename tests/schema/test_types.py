"""Annotation -> schema and values, type by type."""

import collections
import collections.abc as abc
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import sys
import typing
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar

import annotated_types as at
import attrs
import jsonschema
import msgspec
import pydantic
import pytest
import typing_extensions

from redstart.schema.errors import ShapeError
from redstart.schema.scalars import ABSENT
from redstart.schema.types import CompiledType, UnsupportedType, compile_type


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Point3:
    x: int
    z: int


@dataclasses.dataclass
class Tree:
    value: int
    kids: list["Tree"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Pair:
    left: Point
    right: Point


@dataclasses.dataclass
class Pair3:
    left: Point3
    right: Point3


@dataclasses.dataclass
class Picky:
    n: Annotated[int, at.Ge(3)]

    def __post_init__(self) -> None:
        if self.n == 13:
            raise ValueError("13 is unlucky")


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    A = (1, 2)
    B = (3, 4)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class MovieX(typing_extensions.TypedDict, total=False):
    title: typing_extensions.Required[str]
    year: "int"


class Spot(NamedTuple):
    x: int
    y: int = 7


@attrs.define
class Cat:
    name: str
    _age: int = attrs.field(default=1, validator=attrs.validators.ge(0))


class Box(msgspec.Struct, rename="camel"):
    box_size: int
    box_name: str = "b"


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    a: int


class Patch(msgspec.Struct):
    n: int | msgspec.UnsetType = msgspec.UNSET


class Get(msgspec.Struct, tag=True):
    key: str


class Put(msgspec.Struct, tag=True):
    key: str
    value: int = 0


class Model(pydantic.BaseModel):
    age: int = pydantic.Field(ge=0)
    nick: str | None = None


class Loop(pydantic.BaseModel):
    next: "Loop | None" = None


class Token(str):
    __slots__ = ()


T = TypeVar("T")
N = TypeVar("N", bound=int)


@dataclasses.dataclass
class Holder(Generic[T]):
    item: T


UserId = NewType("UserId", int)
Json = typing.Union[dict[str, "Json"], list["Json"], str, int, None]  # noqa: UP007

INT, STR = {"type": "integer"}, {"type": "string"}
NULL = {"type": "null"}
POINT = {"type": "object", "properties": {"x": INT, "y": {"type": "integer", "default": 0}}, "required": ["x"]}
POINT3 = {"type": "object", "properties": {"x": INT, "z": INT}, "required": ["x", "z"]}
MOVIE = {"type": "object", "properties": {"title": STR, "year": INT}, "required": ["title"]}
COLOR = {"type": "string", "enum": ["red", "green"]}


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


# annotation, schema, (json, python) pairs that it takes, json values that it refuses even when lax
TABLE: list[tuple[Any, Any, list[tuple[Any, Any]], list[Any]]] = [
    (int, INT, [(2**53 + 1, 2**53 + 1), (10**30, 10**30)], [True, "x", 1.5, None, []]),
    (float, {"type": "number"}, [(1, 1.0), (1.5, 1.5)], [True, "x", "1_0", "nan", "inf", None]),
    (str, STR, [("5", "5")], [5, True, None, ["a"]]),
    (bool, {"type": "boolean"}, [(True, True)], [1, 0, "yes"]),
    (None, {"type": "null"}, [(None, None)], [0, ""]),
    (bytes, {"type": "string", "contentEncoding": "base64"}, [("aGk=", b"hi")], ["a", 5]),
    (Any, {}, [(None, None), ({"a": [1]}, {"a": [1]})], []),
    (object, {}, [(1, 1)], []),
    (list, {"type": "array"}, [([1, "a"], [1, "a"])], [{}, "x"]),
    (list[int], array(INT), [([1], [1])], [["x"], 5]),
    (typing.List[int], array(INT), [([1], [1])], [["x"]]),  # noqa: UP006
    (abc.Sequence[int], array(INT), [([1], [1])], [["x"]]),
    (abc.Iterable[int], array(INT), [([1], [1])], [["x"]]),
    (set[int], array(INT), [([1, 2], {1, 2})], [["x"]]),
    (frozenset[str], array(STR), [(["a"], frozenset("a"))], [[1]]),
    (collections.deque[int], array(INT), [([1], collections.deque([1]))], [["x"]]),
    (tuple[int, ...], array(INT), [([1, 2], (1, 2))], [["x"]]),
    (tuple, {"type": "array"}, [([1, "a"], (1, "a"))], ["x"]),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [INT, STR], "minItems": 2, "maxItems": 2},
        [([1, "a"], (1, "a"))],
        [[1], [1, "a", 2], ["x", "a"]],
    ),
    (dict, {"type": "object"}, [({"a": 1}, {"a": 1})], [[], "x"]),
    (dict[str, int], {"type": "object", "additionalProperties": INT}, [({"a": 1}, {"a": 1})], [{"a": "x"}]),
    (abc.Mapping[str, Any], {"type": "object"}, [({"a": 1}, {"a": 1})], [5]),
    (
        dict[int, str],
        {"type": "object", "additionalProperties": STR, "propertyNames": {"pattern": "^-?[0-9]+$"}},
        [({"1": "a"}, {1: "a"})],
        [{"x": "a"}],
    ),
    (Optional[int], {"anyOf": [INT, NULL]}, [(1, 1), (None, None)], ["x", True]),  # noqa: UP045
    (int | float, {"type": "number"}, [(1, 1), (1.0, 1.0)], [True]),
    (int | str, {"anyOf": [INT, STR]}, [("5", "5"), (5, 5)], [True]),
    (int | list[int], {"anyOf": [INT, array(INT)]}, [(1, 1), ([1], [1])], ["x", ["x"]]),
    (Point, POINT, [({"x": 1}, Point(1)), ({"x": 1, "q": 2}, Point(1))], [{}, {"x": "a"}, 5]),
    (
        Point | Point3,
        {"anyOf": [POINT, POINT3]},
        [({"x": 1}, Point(1)), ({"x": 1, "z": 2}, Point3(1, 2)), ({"x": 1, "y": 2}, Point(1, 2))],
        [{"y": 1}, 5],
    ),
    (Point | int, {"anyOf": [POINT, INT]}, [({"x": 1}, Point(1)), (3, 3)], ["x"]),
    (
        str | dt.datetime,
        {"anyOf": [STR, {"type": "string", "format": "date-time"}]},
        [("2025-01-31T12:00:00Z", dt.datetime(2025, 1, 31, 12, tzinfo=dt.UTC)), ("hi", "hi")],
        [5],
    ),
    (Color | str, {"anyOf": [COLOR, STR]}, [("red", Color.RED), ("blue", "blue")], [5]),
    (Color, COLOR, [("red", Color.RED)], ["blue", 1, ["red"]]),
    (Color | None, {"anyOf": [COLOR, NULL]}, [(None, None)], ["blue"]),
    (Level, {"type": "integer", "enum": [1, 2]}, [(1, Level.LOW)], [3, True]),
    (Odd, {"type": "string", "enum": ["A", "B"]}, [("A", Odd.A)], ["C"]),
    (Literal["a", 1], {"enum": ["a", 1]}, [("a", "a"), (1, 1)], ["b", True]),
    (Literal[True], {"type": "boolean", "enum": [True]}, [(True, True)], [1, False]),
    (Movie, MOVIE, [({"title": "a"}, {"title": "a"})], [{}, {"title": 1}]),
    (MovieX, MOVIE, [({"title": "a", "year": 1}, {"title": "a", "year": 1})], [{"year": 1}]),
    (
        Spot,
        {"type": "object", "properties": {"x": INT, "y": {"type": "integer", "default": 7}}, "required": ["x"]},
        [({"x": 1}, Spot(1, 7))],
        [[1, 2], {}],
    ),
    (
        Cat,
        {"type": "object", "properties": {"name": STR, "age": {"type": "integer", "default": 1}}, "required": ["name"]},
        [({"name": "a", "age": 3}, Cat("a", 3))],
        [{"name": "a", "age": -1}, {}],
    ),
    (
        Box,
        {
            "type": "object",
            "properties": {"boxSize": INT, "boxName": {"type": "string", "default": "b"}},
            "required": ["boxSize"],
        },
        [({"boxSize": 1}, Box(1))],
        [{"box_size": 1}],
    ),
    (
        Strict,
        {"type": "object", "properties": {"a": INT}, "required": ["a"], "additionalProperties": False},
        [({"a": 1}, Strict(1))],
        [{"a": 1, "b": 2}],
    ),
    (
        Get | Put,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"type": {"const": "Get"}, "key": STR},
                    "required": ["type", "key"],
                },
                {
                    "type": "object",
                    "properties": {
                        "type": {"const": "Put"},
                        "key": STR,
                        "value": {"type": "integer", "default": 0},
                    },
                    "required": ["type", "key"],
                },
            ]
        },
        [({"type": "Put", "key": "a"}, Put("a")), ({"type": "Get", "key": "a"}, Get("a"))],
        [{"key": "a"}, {"type": "Del", "key": "a"}],
    ),
    (
        Model,
        {
            "type": "object",
            "properties": {
                "age": {"type": "integer", "minimum": 0},
                "nick": {"anyOf": [STR, NULL], "default": None},
            },
            "required": ["age"],
        },
        [({"age": 1}, Model(age=1))],
        [{"age": -1}, {}, 5],
    ),
    (
        dt.datetime,
        {"type": "string", "format": "date-time"},
        [("2025-01-31T00:00:00", dt.datetime(2025, 1, 31))],
        ["x", 5],
    ),
    (dt.date, {"type": "string", "format": "date"}, [("2025-01-31", dt.date(2025, 1, 31))], ["x", 5]),
    (dt.time, {"type": "string", "format": "time"}, [("12:30:00", dt.time(12, 30))], ["x"]),
    (dt.timedelta, {"type": "string", "format": "duration"}, [("PT1H", dt.timedelta(hours=1))], ["x", 5]),
    (uuid.UUID, {"type": "string", "format": "uuid"}, [(str(uuid.UUID(int=1)), uuid.UUID(int=1))], ["x", 1]),
    (decimal.Decimal, {"type": "string", "format": "decimal"}, [("1.10", decimal.Decimal("1.10"))], ["x", True]),
    (pathlib.Path, {"type": "string", "format": "path"}, [("a/b", pathlib.Path("a/b"))], [5]),
    (UserId, INT, [(1, 1)], ["x"]),
    (Token, STR, [("a", Token("a"))], [5]),
    (N, INT, [(1, 1)], ["x"]),
    (
        Holder[int],
        {"type": "object", "properties": {"item": INT}, "required": ["item"]},
        [({"item": 1}, Holder(1))],
        [{"item": "x"}],
    ),
    (
        Annotated[int, msgspec.Meta(ge=1, lt=9)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        [(1, 1)],
        [0, 9],
    ),
    (
        Annotated[int, at.Interval(gt=1, le=9)],
        {"type": "integer", "exclusiveMinimum": 1, "maximum": 9},
        [(2, 2)],
        [1, 10],
    ),
    (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}, [(10, 10)], [11]),
    (Annotated[str, at.Len(1, 3)], {"type": "string", "minLength": 1, "maxLength": 3}, [("ab", "ab")], ["", "abcd"]),
    (Annotated[list[int], at.MinLen(1)], array(INT, minItems=1), [([1], [1])], [[]]),
    (
        Annotated[dict[str, int], at.MaxLen(0)],
        {"type": "object", "additionalProperties": INT, "maxProperties": 0},
        [({}, {})],
        [{"a": 1}],
    ),
    (
        Annotated[str, pydantic.Field(pattern="^a", description="d")],
        {"type": "string", "pattern": "^a", "description": "d"},
        [("ab", "ab")],
        ["b"],
    ),
    (Annotated[int | None, at.Ge(1)], {"anyOf": [{**INT, "minimum": 1}, NULL]}, [(None, None), (1, 1)], [0]),
    (Annotated[int, at.Predicate(bool)], INT, [(1, 1)], [0]),
    (Annotated[str, at.Predicate(str.isdigit)], STR, [("1", "1")], ["a"]),
    (list[Annotated[str, "a tag"]], array({"type": "string", "description": "a tag"}), [(["a"], ["a"])], [[1]]),
    (Annotated[int, "n"] | None, {"anyOf": [INT, NULL], "description": "n"}, [(1, 1), (None, None)], ["x"]),
    (pathlib.PurePosixPath, {"type": "string", "format": "path"}, [("a", pathlib.PurePosixPath("a"))], [5]),
    (Patch, {"type": "object", "properties": {"n": INT}}, [({}, Patch()), ({"n": 1}, Patch(1))], [{"n": "x"}]),
    (Annotated[str, "some text"], {"type": "string", "description": "some text"}, [("1", "1")], [1]),
    (
        Annotated[dt.date, at.Ge(dt.date(2025, 1, 1))],
        {"type": "string", "format": "date"},
        [("2025-01-01", dt.date(2025, 1, 1))],
        ["2024-12-31"],
    ),
    (
        Annotated[bytes, at.MaxLen(3)],
        {"type": "string", "contentEncoding": "base64", "maxLength": 4},
        [("YWJj", b"abc")],
        ["YWJjZA=="],
    ),
    (Annotated[int, pydantic.AfterValidator(lambda n: n + 1)], INT, [(1, 2)], ["x"]),
    (
        Picky,
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]},
        [({"n": 3}, Picky(3))],
        [{"n": 2}, {"n": 13}],
    ),
]
IDS = [str(annotation).partition(" at 0x")[0] for annotation, *_ in TABLE]


@pytest.mark.parametrize(("annotation", "schema", "good", "bad"), TABLE, ids=IDS)
def test_type(annotation: Any, schema: Any, good: list[tuple[Any, Any]], bad: list[Any]) -> None:
    shape = compile_type(annotation)
    assert shape.schema() == schema
    jsonschema.Draft202012Validator.check_schema(schema)
    reference = jsonschema.Draft202012Validator(schema)
    for value, expected in good:
        for out in (shape.convert(value, lax=False), shape.convert(value), shape.decode(msgspec.json.encode(value))):
            assert out == expected
            assert type(out) is type(expected)
        assert reference.is_valid(value)
    for value in bad:
        with pytest.raises(ShapeError):
            shape.convert(value)
        with pytest.raises(ShapeError):
            shape.decode(msgspec.json.encode(value))


NATIVE = [int, str, list[int], Point3, Tree, Movie, Box, Color, int | None, Get | Put, Annotated[int, at.Ge(3)], Pair3]
# msgspec 0.22 crashes the process on unions of limits with fixed tuples or TypedDicts.
CRASHES = tuple[int, str] | Annotated[int, msgspec.Meta(lt=2)]
CrashesInside = dataclasses.make_dataclass("CrashesInside", [("x", CRASHES)])
CRASHES_TOO = Movie | Annotated[str, msgspec.Meta(pattern="^a", max_length=2)] | set[int]
NOT_NATIVE = [
    CRASHES,
    CRASHES_TOO,
    CrashesInside,
    Point,
    Pair,
    Spot,
    Picky,
    pathlib.Path,
    Model,
    Cat,
    list[pathlib.Path],
    Odd,
]


@pytest.mark.parametrize("annotation", NATIVE, ids=str)
def test_msgspec_reads_directly_what_it_reads_alike(annotation: Any) -> None:
    assert compile_type(annotation).node.native is not ABSENT


@pytest.mark.parametrize("annotation", NOT_NATIVE, ids=str)
def test_msgspec_is_kept_from_what_it_reads_differently(annotation: Any) -> None:
    assert compile_type(annotation).node.native is ABSENT


LAX: list[tuple[Any, Any, Any]] = [
    (int, "5", 5),
    (int, " -5 ", -5),
    (int, 5.0, 5),
    (float, "1.5", 1.5),
    (bool, "true", True),
    (bool, "False", False),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], '["1"]', [1]),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Point, '{"x": "1"}', Point(1)),
    (Point | None, '{"x": 1}', Point(1)),
    (Patch, {"n": None}, Patch()),
    (Model, '{"age": 1}', Model(age=1)),
    (Model | int, "7", 7),
    (decimal.Decimal, 5, decimal.Decimal(5)),
    (Level, "2", Level.HIGH),
    (str | list[str], '["a"]', '["a"]'),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), LAX)
def test_lax(annotation: Any, value: Any, expected: Any) -> None:
    out = compile_type(annotation).convert(value)
    assert out == expected
    assert type(out) is type(expected)


@pytest.mark.parametrize(("annotation", "value"), [(annotation, value) for annotation, value, _ in LAX[:-1]])
def test_strict_is_strict(annotation: Any, value: Any) -> None:
    with pytest.raises(ShapeError):
        compile_type(annotation).convert(value, lax=False)


def test_a_string_is_opened_once_only() -> None:
    with pytest.raises(ShapeError):
        compile_type(list[int]).convert('"[1]"')


def test_definitions_only_where_they_are_used_twice() -> None:
    pair = {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/Point"}, "right": {"$ref": "#/$defs/Point"}},
        "required": ["left", "right"],
    }
    assert compile_type(Pair).schema() == {**pair, "$defs": {"Point": POINT}}
    assert compile_type(list[Pair]).schema() == {"type": "array", "items": pair, "$defs": {"Point": POINT}}


def test_recursive_types_refer_to_themselves() -> None:
    schema = compile_type(Tree).schema()
    assert schema["$ref"] == "#/$defs/Tree"
    assert schema["type"] == "object"
    assert schema["$defs"]["Tree"]["properties"]["kids"]["items"] == {"$ref": "#/$defs/Tree"}
    assert compile_type(Tree).convert({"value": 1, "kids": [{"value": 2}]}) == Tree(1, [Tree(2)])
    assert compile_type(Loop).schema()["$defs"].keys() == {"Loop"}


def test_recursive_alias() -> None:
    shape = compile_type(Json, globalns=globals())
    value = {"a": [{"b": None}, 1, "x"]}
    assert shape.convert(value) == value
    reference = jsonschema.Draft202012Validator(shape.schema())
    assert reference.is_valid(value)
    assert not reference.is_valid({"a": [1.5]})
    with pytest.raises(ShapeError):
        shape.convert({"a": [1.5]})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695 is of 3.12")
def test_type_statement() -> None:
    names: dict[str, Any] = {}
    exec("type Nested = list[Nested] | int\ntype Box[T] = list[T]", names)
    shape = compile_type(names["Nested"])
    assert shape.convert([1, [2]]) == [1, [2]]
    assert shape.schema()["$defs"].keys() == {"Nested"}
    assert compile_type(names["Box"][int]).schema() == array(INT)


def test_only_titles_that_somebody_wrote() -> None:
    class Inner(pydantic.BaseModel):
        x_y: int

    class Titled(pydantic.BaseModel):
        title: str = pydantic.Field(title="The Title")
        plain_name: int = 1
        unit: Annotated[int, msgspec.Meta(title="not read by pydantic")] = 1
        inner: Inner = pydantic.Field(title="Within")
        color: Color | None = None
        pair: Point | None = None

    schema = compile_type(Titled).schema()
    assert schema["properties"]["title"] == {"type": "string", "title": "The Title"}
    titled = {name: inner["title"] for name, inner in schema["properties"].items() if "title" in inner}
    assert titled == {"title": "The Title", "inner": "Within"}
    assert json.dumps(schema).count('"title": "') == 2
    assert compile_type(list[Annotated[int, msgspec.Meta(title="Row")]]).schema() == array({**INT, "title": "Row"})
    assert compile_type(Annotated[int, pydantic.Field(title="N")]).schema() == {**INT, "title": "N"}


def test_a_decimal_number_of_pydantic_says_so() -> None:
    class Priced(pydantic.BaseModel):
        net: decimal.Decimal
        tax: decimal.Decimal | None = pydantic.Field(None, ge=0)

    fields = compile_type(Priced).schema()["properties"]
    assert fields["net"]["anyOf"][0] == {"type": "number"}
    assert (fields["net"]["anyOf"][1]["type"], fields["net"]["anyOf"][1]["format"]) == ("string", "decimal")
    assert [branch["type"] for branch in fields["tax"]["anyOf"]] == ["number", "string", "null"]
    assert fields["tax"]["anyOf"][1]["format"] == "decimal"
    assert compile_type(Priced).convert({"net": 1.5}).net == decimal.Decimal("1.5")


REFUSED: list[tuple[Any, str]] = [
    (complex, "complex"),
    (abc.Callable[[], int], "Callable"),
    (Annotated[str, at.Ge(1)], "ge"),
    (Annotated[Point, at.MinLen(1)], "min_length"),
    (Literal[b"x"], "Literal"),
    ("NoSuch", "NoSuch"),
    (type("Plain", (), {}), "Plain"),
    (list[complex], "complex"),
    (enum.Enum("Empty", {}), "members"),
]


@pytest.mark.parametrize(("annotation", "word"), REFUSED, ids=[word for _, word in REFUSED])
def test_unsupported_types_say_where(annotation: Any, word: str) -> None:
    with pytest.raises(UnsupportedType, match=word) as caught:
        compile_type(annotation, where="tool t, parameter p")
    assert "tool t, parameter p" in str(caught.value)


def test_a_field_of_an_unsupported_type_is_named() -> None:
    bad = dataclasses.make_dataclass("Bad", [("z", complex)])
    with pytest.raises(UnsupportedType, match="Bad"):
        compile_type(bad)


def test_local_classes_may_mention_themselves() -> None:
    @dataclasses.dataclass
    class Local:
        inner: "Local | None" = None

    assert compile_type(Local).convert({"inner": {}}) == Local(Local())


TEXTS: list[tuple[Any, Any, str]] = [
    (Point, {}, 'Missing required value "x" (integer).'),
    (list[Point], [{"x": 1}, {"x": "q"}], 'Value "[1].x" must be an integer, got the string "q".'),
    (Color, "rad", 'The value must be one of "red", "green", got "rad"; did you mean "red"?'),
    (int | None, "x", 'The value must be an integer or null, got the string "x".'),
    (Picky, {"n": 13}, "The value is refused: 13 is unlucky."),
    (Model, {"age": -1}, 'Value "age" must be greater than or equal to 0, got -1.'),
    (Model, {}, 'Missing required value "age".'),
    (Point | None, {"x": "q"}, 'Value "x" must be an integer, got the string "q".'),
    (Annotated[int, at.Le(3)] | None, 5, "The value must be at most 3, got 5."),
    (dict[int, int], {"a": 1}, 'Value "a" has a bad key: it must be an integer, got the string "a".'),
]


@pytest.mark.parametrize(("annotation", "value", "text"), TEXTS, ids=[text for *_, text in TEXTS])
def test_texts(annotation: Any, value: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        compile_type(annotation).convert(value)
    assert str(caught.value) == text


def test_all_problems_at_once() -> None:
    with pytest.raises(ShapeError) as caught:
        compile_type(list[Point]).convert([{"x": "a"}, {"y": "b"}, 5])
    assert [problem.path for problem in caught.value.problems] == ["[0].x", "[1].x", "[1].y", "[2]"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[1,]", b"nul", b'"\xff"', b"[" * 5000])
def test_broken_json(raw: bytes) -> None:
    for annotation in (int, Spot):
        with pytest.raises(ShapeError):
            CompiledType.decode(compile_type(annotation), raw)


class Grade(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("kind", [float | Literal["a", 1], Literal[1, 2] | float | None, float | Grade])
def test_an_integer_that_is_no_choice_is_a_number(kind: Any) -> None:
    shape = compile_type(kind)
    assert shape.decode(b"0") == 0.0
    assert type(shape.decode(b"0")) is float
    assert shape.decode(b"1") == 1
    assert type(shape.decode(b"1")) is not float


@pytest.mark.parametrize("kind", [Literal[1, 2], Level])
def test_a_choice_is_the_same_number_however_it_is_written(kind: Any) -> None:
    compiled = compile_type(kind)
    assert jsonschema.Draft202012Validator(compiled.schema()).is_valid(1.0)
    assert compiled.decode(b"1.0") == compiled.convert(1.0, lax=False) == 1
    with pytest.raises(ShapeError, match=r"must be one of 1, 2, got 1\.5"):
        compiled.decode(b"1.5")


def test_a_text_means_something_only_in_the_code_that_it_stands_in() -> None:
    assert compile_type("list[int]", globalns=globals()).schema() == array(INT)
    for text in ("list[int]", "__import__('os')"):
        for annotation in (text, list[text], dict[str, text], Annotated[text, "note"]):  # type: ignore[valid-type]
            with pytest.raises(UnsupportedType, match="is a text, where a type is needed"):
                compile_type(annotation)


def test_defaults_of_a_dataclass_are_there_when_it_is_sent_again() -> None:
    """msgspec does not set them on the object, and would leave them out of its JSON."""

    @dataclasses.dataclass
    class Size:
        width: int
        height: int = 2

    read = compile_type(Size).decode(b'{"width": 1}')
    assert read == Size(1, 2)
    assert vars(read) == {"width": 1, "height": 2}
    assert msgspec.json.encode(read) == b'{"width":1,"height":2}'
