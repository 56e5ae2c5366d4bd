"""Reading and explaining is linear in the message, for every type: work is counted, and long messages are sent."""

import resource
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import make_dataclass
from decimal import Decimal
from typing import Any, Union

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart.schema.errors import ShapeError
from redstart.schema.json_schema import compile_schema
from redstart.schema.signature import EMPTY, Signature

MANY = 20_000
CALLS_PER_BYTE = 200  # the types below take at most 60


class TooMuchWork(BaseException):
    """Not an Exception, so that nothing under test takes it for its own."""


@contextmanager
def at_most(calls: int) -> Iterator[Callable[[], int]]:
    """Fail as soon as more Python calls than these are made."""
    made = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal made
        made += event == "call"
        if made > calls:
            sys.setprofile(None)
            raise TooMuchWork(f"more than {calls} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield lambda: made
    finally:
        sys.setprofile(before)


def refusal(annotation: Any, value: Any, *, counted: bool = True) -> str:
    """What is said about a value of one argument, within the bound; "" if it is accepted."""
    signature = Signature.from_parameters("t", [("x", annotation, "", True, EMPTY)])
    raw = msgspec.json.encode({"x": value})
    with at_most(CALLS_PER_BYTE * len(raw) + 2000) if counted else nullcontext():
        try:
            signature.bind(raw)
        except ShapeError as error:
            return str(error)
    return ""


# ---------------------------------------------------------------- random types that contain themselves

SHAPES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "itself": ("{}", lambda value: value),
    "array": ("list[{}]", lambda value: [value]),
    "map": ("dict[str, {}]", lambda value: {"k": value}),
    "row": ("tuple[{}, int]", lambda value: [value, 1]),
    "optional": ("Union[{}, None]", lambda value: value),
    "text": ("{}", lambda value: msgspec.json.encode(value).decode()),
}
LEAVES = ("int", "str", "None", "dict[str, int]", "list[int]", "bool", "float")


@st.composite
def towers(draw: st.DrawFn) -> tuple[Any, Any]:
    """Classes whose fields are unions of all of them and of other types, and a value of many levels for them.

    The class of each level fits, or nearly so; the leaf is probably wrong.
    """
    names = [f"Made{index}" for index in range(draw(st.integers(1, 3)))]
    shapes = {key: draw(st.sampled_from(list(SHAPES))) for key in ("a", "b")}
    for name in names:
        fields: dict[str, Any] = {}
        for key in draw(st.sampled_from((("a",), ("a", "b")))):
            parts = [*draw(st.permutations(names)), *draw(st.lists(st.sampled_from(LEAVES), max_size=3))]
            fields[key] = SHAPES[shapes[key]][0].format(f"Union[{', '.join(parts)}]")
        if draw(st.booleans()):
            fields[draw(st.sampled_from("vw"))] = draw(st.sampled_from(LEAVES))
        made: Any = make_dataclass(name, [(key, kind, None) for key, kind in fields.items()])
        made.__module__ = __name__  # where the names of the others are looked up
        globals()[name] = made
    value: Any = draw(st.sampled_from([None, "x", 1.5, {}, [], "[", {"v": "x"}, {"v": [], "w": {}}]))
    steps = draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=3))
    levels = draw(st.integers(1, 25))
    for number in range(levels):
        key = steps[number % len(steps)]
        shape = "itself" if shapes[key] == "text" and number > 3 else shapes[key]  # each one doubles the backslashes
        value = {key: SHAPES[shape][1](value)}
    return Union[tuple(globals()[name] for name in names)], value  # noqa: UP007


@settings(max_examples=150)
@given(towers())
def test_the_work_for_a_random_type_is_linear(built: tuple[Any, Any]) -> None:
    refusal(*built)


# ---------------------------------------------------------------- types that people write


class Comment(msgspec.Struct):
    text: str
    parent: "Comment | None" = None


class Post(pydantic.BaseModel):
    replies: "list[Union[Post, Note]]" = []  # noqa: UP007
    text: str = ""


class Note(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True, extra="forbid")
    replies: "list[Union[Post, Note]]" = pydantic.Field([], alias="answers")  # noqa: UP007
    note: str = ""


Post.model_rebuild()
Note.model_rebuild()


def tower(levels: int, leaf: Any, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(levels):
        leaf = wrap(leaf)
    return leaf


def test_a_wrong_leaf_of_a_chain_is_named_with_its_place() -> None:
    value = tower(40, {"text": 5}, lambda inner: {"text": "t", "parent": inner})
    text = refusal(Comment, value)
    assert text.count("parent") > 20
    assert text.endswith("must be a string, got 5.")


def test_a_union_that_pydantic_reads_is_refused_before_it_takes_for_ever() -> None:
    value = tower(25, {"text": 5}, lambda inner: {"replies": [inner]})
    for form in (value, msgspec.json.encode(value).decode()):
        assert "has more levels than a value of this type may have" in refusal(Post, form)


def test_a_union_that_pydantic_reads_may_have_some_levels() -> None:
    value = tower(8, {"text": "t"}, lambda inner: {"replies": [inner]})
    assert refusal(Post, value) == ""
    assert refusal(Post, msgspec.json.encode(value).decode()) == ""


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("leaves", "near", "deep"),
    [
        ([{"type": "integer"}, {"type": "null"}], 'c.v" must be an integer, got', 'c.v" must be an integer, got'),
        ([{"pattern": "^a"}, {"pattern": "^b"}], "not valid under any", "too large or too deep to say where"),
    ],
    ids=["nodes", "engine"],
)
def test_a_tangled_schema_is_checked_at_any_depth(word: str, leaves: list[Any], near: str, deep: str) -> None:
    branches = [{"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}, "v": leaf}} for leaf in leaves]
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {word: branches}}}
    validator = compile_schema(schema, where="tool t")
    for levels, said in ((3, near), (50, deep)):
        value = tower(levels, {"v": "x"}, lambda inner: {"c": inner})
        with pytest.raises(ShapeError, match=said):
            validator.check({"x": value})


def test_a_schema_that_reaches_a_value_in_two_ways_checks_it_once() -> None:
    again = {"c": {"$ref": "#/$defs/n"}}
    twice = {"$ref": "#/$defs/m", "properties": again}
    schema = {**twice, "$defs": {"n": twice, "m": {"type": "object", "properties": again}}}
    value = tower(40, 5, lambda inner: {"c": inner})
    with at_most(20_000), pytest.raises(ShapeError, match="must be an object, got 5"):
        compile_schema(schema, where="tool t").check(value)


@pytest.mark.parametrize("levels", [100, 500])
def test_a_large_value_in_many_levels_is_not_quoted_at_each_of_them(levels: int) -> None:
    node = {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}, "t": {"pattern": "^y"}}}
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [node, {"type": "null"}]}}}
    validator = compile_schema(schema, where="tool t")
    value = tower(levels, {"c": None, "t": "x" * 1_000_000}, lambda inner: {"c": inner})
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ShapeError, match=r"too large or too deep to say where|nested too deeply"):
        validator.check(value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 100_000  # KiB; quoting needs a gigabyte


# ---------------------------------------------------------------- values that have one hash


MODULUS = sys.hash_info.modulus  # its multiples have the hash 0


class Sets(msgspec.Struct):
    numbers: set[int]


class Ids(pydantic.BaseModel):
    ids: set[uuid.UUID] = set()
    sums: "dict[str, frozenset[Decimal] | None]" = {}
    by_number: dict[int, "Ids"] = {}


class Point(pydantic.BaseModel, frozen=True):
    x: int
    y: int = 0


class Points(pydantic.BaseModel):
    points: set[Point] = pydantic.Field(max_length=MANY)


class Owned(pydantic.BaseModel):
    """Built by an `__init__` of its own, which calls the engine of the class."""

    numbers: set[int] = set()
    ids: set[uuid.UUID] = set()
    by_number: dict[Decimal, str] = {}
    points: set[Point] = set()
    more: "list[Owned]" = []

    def __init__(self, first: int = 0, **data: Any) -> None:
        super().__init__(**data)
        self.numbers.add(first)


@pytest.mark.parametrize(
    ("annotation", "write"),
    [
        (set[int], lambda numbers: list(numbers)),
        (frozenset[uuid.UUID], lambda numbers: [str(uuid.UUID(int=number)) for number in numbers]),
        (set[Decimal], lambda numbers: [str(number) for number in numbers]),
        (set[tuple[int, int]], lambda numbers: [[number, 0] for number in numbers]),
        (set, lambda numbers: list(numbers)),
        (dict[int, int], lambda numbers: {str(number): 1 for number in numbers}),
        (dict[uuid.UUID, int], lambda numbers: {str(uuid.UUID(int=number)): 1 for number in numbers}),
        (Sets, lambda numbers: {"numbers": list(numbers)}),
        (Ids, lambda numbers: {"by_number": {"1": {"ids": [str(uuid.UUID(int=number)) for number in numbers]}}}),
        (list[Ids], lambda numbers: [{"sums": {"a": [str(number) for number in numbers]}}]),
        (Ids, lambda numbers: {"by_number": {str(number): {} for number in numbers}}),
        (Points, lambda numbers: {"points": [{"x": number} for number in numbers]}),
        (Owned, lambda numbers: {"numbers": list(numbers)}),
        (Owned, lambda numbers: {"numbers": [str(number) for number in numbers]}),
        (Owned, lambda numbers: {"more": [{"ids": [uuid.UUID(int=number).hex for number in numbers]}]}),
        (list[Owned], lambda numbers: [{"by_number": {f"{number}e0": "" for number in numbers}}]),
        (Owned, lambda numbers: {"points": [{"x": number} for number in numbers]}),
    ],
    ids=[
        *("int", "UUID", "Decimal", "tuple", "any", "int keys", "UUID keys", "in a Struct"),
        *("UUID in a model", "Decimal in a model", "int keys in a model", "models in a model"),
        *("own init", "texts, own init", "UUID, own init", "keys, own init", "models, own init"),
    ],
)
def test_values_that_have_one_hash_are_not_compared_with_each_other(annotation: Any, write: Any) -> None:
    alike = write(range(0, MODULUS * 40_000, MODULUS))  # minutes to compare; to count calls would take a second
    assert "have one hash" in refusal(annotation, alike, counted=False)
    assert refusal(annotation, write(range(MANY // 5))) == ""


def test_one_value_many_times_is_one_value() -> None:
    signature = Signature.from_parameters("t", [("x", set[int], "", True, EMPTY)])
    assert signature.bind(msgspec.json.encode({"x": [-1, -2, MODULUS, 2 * MODULUS] * MANY})) == {
        "x": {-1, -2, MODULUS, 2 * MODULUS}
    }


def test_sets_of_a_model_are_what_they_were() -> None:
    signature = Signature.from_parameters("t", [("x", Points, "", True, EMPTY), ("y", Ids, "", True, EMPTY)])
    points = [{"x": 1}, {"x": 2}] * MANY  # two in all, so not too many
    sent = {"x": {"points": points}, "y": {"by_number": {"1": {"sums": {"a": ["1", "1.0"], "b": None}}}}}
    assert signature.bind(msgspec.json.encode(sent)) == {
        "x": Points(points={Point(x=1), Point(x=2)}),
        "y": Ids(by_number={1: Ids(sums={"a": frozenset({Decimal(1)}), "b": None})}),
    }
    assert "at most 20000 items" in refusal(Points, {"points": [{"x": number} for number in range(MANY + 1)]})
    assert "by_number" in refusal(Ids, {"by_number": {"one": {}}})


def test_a_model_with_its_own_init_is_built_by_it() -> None:
    signature = Signature.from_parameters("t", [("x", Owned, "", True, EMPTY)])
    sent = {"first": 7, "numbers": [1, 1, 2] * MANY, "more": [{"by_number": {"1": "a", "sNaN": "b", "x" * 9: ""}}]}
    assert "by_number" in refusal(Owned, sent)
    del sent["more"]
    assert signature.bind(msgspec.json.encode({"x": sent})) == {"x": Owned(first=7, numbers={1, 2})}


class Kinds(pydantic.BaseModel):
    counted: Counter[int]
    ordered: OrderedDict[int, str]
    grouped: defaultdict[int, list[int]]


@pytest.mark.parametrize("count", [2, MANY])
def test_dicts_of_a_model_keep_their_kinds_and_values(count: int) -> None:
    signature = Signature.from_parameters("t", [("x", Kinds, "", True, EMPTY)])
    numbers = range(count)
    sent = {
        "counted": {str(number): 2 for number in numbers},
        "ordered": {str(number): "a" for number in numbers},
        "grouped": {str(number): [1] for number in numbers},
    }
    assert signature.bind(msgspec.json.encode({"x": sent}))["x"] == Kinds.model_validate(sent)


# ---------------------------------------------------------------- many things wrong at once


def names(count: int) -> dict[str, Any]:
    return {f"unknown_{number}": 1 for number in range(count)}


def test_many_unknown_arguments_are_counted() -> None:
    signature = Signature.from_parameters("t", [(name, int, "", False, EMPTY) for name in ("width", "height")])
    with pytest.raises(ShapeError) as caught, at_most(MANY * 20):
        signature.bind(msgspec.json.encode(names(MANY)))
    assert str(caught.value).count("Unknown argument") == 5
    assert str(caught.value).endswith("And at least 19,995 more.")


@pytest.mark.parametrize("extra", [{}, {"minProperties": 0, "uniqueItems": True}], ids=["ours", "engine"])
def test_many_unknown_properties_of_a_raw_schema_are_counted(extra: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"width": {}}, "additionalProperties": False, **extra}
    with pytest.raises(ShapeError) as caught, at_most(MANY * 20):
        compile_schema(schema, where="tool t").check(names(MANY))
    assert str(caught.value).endswith("And at least 19,995 more.")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[int], ["x"] * MANY),
        (dict[str, int], names(MANY) | {"a": "x"}),
        (dict[int, int], names(MANY)),
        (list[Comment], [{"parent": 5}] * MANY),
        (list[Post], [{"replies": 5}] * MANY),
        (dict[str, list[int]], {"k" * 100_000: ["x"] * 10}),
        (Comment, tower(60, 5, lambda inner: {"text": "t" * 1000, "parent": inner})),
        (dict[str, int], {"k" * 100_000: "x" * 100_000}),
    ],
    ids=["items", "entries", "keys", "records", "models", "long key", "long path", "long value"],
)
def test_what_is_said_has_a_bound(annotation: Any, value: Any) -> None:
    assert 0 < len(refusal(annotation, value)) < 4000


Wide: Any = make_dataclass("Wide", [(f"field{number}", int) for number in range(20)])
Wider: Any = make_dataclass("Wider", [(f"field{number}", int) for number in range(20)])


@pytest.mark.parametrize("annotation", [list[Wide], list[Wide | Wider], dict[str, list[Wide | Wider | None]]])
def test_many_missing_fields_end_the_reading(annotation: Any) -> None:
    value: Any = [{} for _ in range(MANY)]
    with at_most(MANY * 10):
        text = refusal(annotation, value if annotation.__origin__ is list else {"k": value})
    assert "Missing required argument" in text
    assert text.endswith("And at least 995 more.")


class Row(pydantic.BaseModel):
    a: int
    b: int
    c: int


class Table(pydantic.BaseModel):
    rows: list[Row | None]
    notes: list[str] = []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"rows": [{} for _ in range(MANY)]}, 'Missing required argument "x.rows[0].a"'),
        ({"rows": [], "notes": [1] * 3 * MANY}, 'Argument "x.notes[0]" must be a valid string, got 1.'),
        ({"rows": [], "notes": ["a"] * 13 * MANY + [1]}, 'Argument "x.notes[260000]" must be a valid string, got 1.'),
        ({"rows": [{"a": 1, "b": 2, "c": 3} for _ in range(5 * MANY)], "notes": ["a"] * 13 * MANY}, ""),
    ],
    ids=["missing", "wrong", "last", "correct"],
)
def test_a_large_model_is_read_to_the_first_item_that_is_wrong(value: Any, said: str) -> None:
    text = refusal(Table, value)
    assert said in text
    assert bool(said) is bool(text)


def test_a_few_items_of_a_model_that_are_wrong_are_all_named() -> None:
    assert refusal(Table, {"rows": [], "notes": [1, "a", 2]}).count("must be a valid string") == 2


class Counted(pydantic.BaseModel):
    number: int = 7
    other: int = 8
    note: str | None = "none"


@pytest.mark.parametrize("count", [3, MANY])
def test_null_is_absent_in_each_item_of_a_model(count: int) -> None:
    signature = Signature.from_parameters("t", [("x", list[Counted], "", True, EMPTY)])
    sent = [{"number": None, "note": None}, {"other": None}] * count
    read = [Counted(note=None), Counted()]
    assert signature.bind(msgspec.json.encode({"x": sent}))["x"] == read * count


MEASURED = """
import resource, sys
from typing import Any
import msgspec, pydantic
from redstart.schema.errors import ShapeError
from redstart.schema.signature import EMPTY, Signature

class Model(pydantic.BaseModel, extra="forbid"):
    texts: list[str] = []
    by_name: dict[str, int] = {}
    mixed: list[int | bool | list[int]] = []
    wide: list["Wide | dict[str, str]"] = []
    json_text: pydantic.Json[list[str]] = []

Wide = pydantic.create_model("Wide", **{f"field{number}": int for number in range(20)})
Model.model_rebuild()
raw = b'{"x":%b}' % eval(sys.argv[1])
signature = Signature.from_parameters("t", [("x", Model, "", True, EMPTY)])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    signature.bind(raw)
except ShapeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "message",
    [
        """b'{"texts":[%b1]}' % (b"1," * 2_000_000)""",
        """b'{"by_name":{%b}}' % b",".join(b'"%d":[]' % number for number in range(300_000))""",
        """b'{"mixed":[%b1]}' % (b'"",' * 700_000)""",
        """b'{"wide":[%b{}]}' % (b'{"k":1},' * 100_000)""",
        """b'{"json_text":"[%b1]"}' % (b"1," * 2_000_000)""",
        """b'{%b}' % b",".join(b'"%d":1' % number for number in range(400_000))""",
    ],
    ids=["items", "entries", "branches", "missing", "JSON in a string", "unknown"],
)
def test_a_model_that_is_wrong_everywhere_takes_little_memory(message: str) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURED, message], capture_output=True, text=True, timeout=50)
    assert done.stderr == ""
    assert int(done.stdout) < 120_000  # KiB, of which the message itself needs up to 90,000


def test_a_choice_of_many_is_found_at_once() -> None:
    schema = {"type": "array", "items": {"enum": [f"choice{number}" for number in range(MANY)]}}
    with at_most(MANY * 10):
        compile_schema(schema, where="tool t").check([f"choice{number}" for number in range(MANY)])


def test_a_long_name_and_a_long_path_are_cut() -> None:
    signature = Signature.from_parameters("t", [])
    with pytest.raises(ShapeError) as caught:
        signature.bind(b'{"%b":1}' % (b"k" * 1_000_000))
    assert len(str(caught.value)) < 300


def test_many_arguments_given_twice_are_counted() -> None:
    signature = Signature.from_parameters("t", [("a", int, "", True, EMPTY)])
    pairs = b",".join(b'"k%d":1,"k%d":2' % (number, number) for number in range(MANY))
    with pytest.raises(ShapeError, match="And at least 19,995 more"):
        signature.bind(b'{"a":1,%b}' % pairs)


def test_arrays_nested_deeply_in_a_string_are_refused() -> None:
    signature = Signature.from_parameters("t", [("x", Comment, "", True, EMPTY)])
    inner = '{"parent":' * 400 + "1" + "}" * 400
    with pytest.raises(ShapeError, match="The arguments are nested too deeply"):
        signature.bind(msgspec.json.encode({"x": inner}))
