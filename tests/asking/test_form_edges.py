"""Forms at their edges: answers that no program expects, schemas that no form can carry, words for people."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import json
import uuid
from collections import UserDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking.player import play_tool, script, serve
from redstart import Ask, Choice, Choices, Client, Context, Format, RegistrationError, Server, UrlElicitationRequired
from redstart.asking.fields import FormError
from redstart.asking.forms import compile_form
from redstart.schema.errors import ShapeError
from redstart.wire.jsonrpc import encode
from spec_facts import problems
from support import MODERN, NOVEMBER

HUGE = 10**400


def refusal(schema: Any, content: Any) -> str:
    """What the user is told."""
    with pytest.raises(ShapeError) as caught:
        compile_form(schema).read(content)
    return str(caught.value)


def raw(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


# ---------------------------------------------------------------- numbers


@dataclass
class Numbers:
    whole: int = 0
    real: float = 0.0


@pytest.mark.parametrize("answer", [HUGE, "9" * 400, -HUGE, "1e400", "9" * 5000, 10**5000], ids=list("abcdef"))
@pytest.mark.parametrize(
    ("schema", "name"),
    [(float, "answer"), (Numbers, "real"), (raw(real={"type": "number"}), "real"), (float | None, "answer")],
)
def test_a_number_that_is_too_large_is_refused(schema: Any, name: str, answer: Any) -> None:
    assert refusal(schema, {name: answer}).startswith(f'Field "{name}" must be a')


def test_an_integer_may_be_large_but_not_endless() -> None:
    for form in (compile_form(int), compile_form(int | None)):
        assert form.read({"answer": "9" * 400}) == form.read({"answer": 10**400 - 1}) == 10**400 - 1
    told = refusal(int, {"answer": "9" * 5000})
    assert told.startswith('Field "answer" must be an integer with fewer digits, got the string "999')


@pytest.mark.parametrize("limit", [{"maximum": 5}, {"enum": [1, 2]}])
def test_an_integer_that_python_cannot_print_is_refused(limit: dict[str, Any]) -> None:
    assert 'Field "n" must be' in refusal(raw(n={"type": "integer", **limit}), {"n": 10**5000})
    assert refusal(Annotated[int, msgspec.Meta(le=5)], {"answer": 10**5000}).startswith('Field "answer"')


@pytest.mark.parametrize("answer", ["1_0", "1__0", "_1", "１２", "0x10", "", "+-1", "1 0", "nan", "inf", "e5", "."])
@pytest.mark.parametrize("kind", [int, float])
def test_text_that_only_looks_like_a_number_to_python_is_none(kind: Any, answer: str) -> None:
    refusal(kind, {"answer": answer})


@pytest.mark.parametrize(
    ("kind", "answer", "number"),
    [
        (int, " +7 ", 7),
        (int, "-7", -7),
        (int, "7.0", 7),
        (int, "1e3", 1000),
        (float, ".5", 0.5),
        (float, "-1.5E2", -150),
    ],
)
def test_text_that_is_a_number(kind: Any, answer: str, number: float) -> None:
    assert compile_form(kind).read({"answer": answer}) == number


# ---------------------------------------------------------------- what a model says itself


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def complain(what: str) -> None:
    errors: dict[str, Exception] = {
        "value": ValueError("the trip ends before it starts"),
        "key": KeyError("zip"),
        "own": ArithmeticError("out of range"),
        "empty": ValueError(),
        "silent": Silent(),
        "long": ValueError("spam\n" * 1000),
    }
    if what in errors:
        raise errors[what]


@dataclass
class Data:
    what: str

    def __post_init__(self) -> None:
        complain(self.what)


class Record(msgspec.Struct):
    what: str

    def __post_init__(self) -> None:
        complain(self.what)


@attrs.define
class Attrs:
    what: str

    def __attrs_post_init__(self) -> None:
        complain(self.what)


class Model(pydantic.BaseModel):
    what: str

    @pydantic.model_validator(mode="after")
    def check(self) -> Model:
        complain(self.what)
        return self


@pytest.mark.parametrize("kind", [Data, Record, Attrs, Model])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("value", "The form is refused: the trip ends before it starts."),
        ("key", "The form is refused: KeyError: 'zip'."),
        ("own", "The form is refused: ArithmeticError: out of range."),
        ("empty", "The form is refused"),
        ("silent", "The form is refused: Silent"),
        ("long", "The form is refused: spam spam"),
    ],
)
def test_what_a_model_says_is_told_to_the_user(kind: Any, what: str, said: str) -> None:
    told = refusal(kind, {"what": what})
    assert told.startswith(said)
    assert len(told) < 350
    assert "\n" not in told
    assert compile_form(kind).read({"what": "fine"}).what == "fine"


def test_a_value_that_is_refused_is_the_answer_not_the_field() -> None:
    def even(n: int) -> int:
        if n % 2:
            raise KeyError("odd")
        return n

    assert refusal(Annotated[int, msgspec.Meta(ge=1)], {"answer": 0}) == 'Field "answer" must be at least 1, got 0.'
    assert "odd" in refusal(Annotated[int, pydantic.AfterValidator(even)], {"answer": 3})


# ---------------------------------------------------------------- schemas that no form can carry


def text(**more: Any) -> dict[str, Any]:
    return raw(a={"type": "string", **more})


def many(**more: Any) -> dict[str, Any]:
    return raw(a={"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, **more})


def titled(*entries: Any) -> dict[str, Any]:
    return text(oneOf=list(entries))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (raw(a={"type": ["string", "null"]}), ['"a"', "type"]),
        (raw(a={"type": None}), ['"a"', "type"]),
        (raw(a={"type": 5}), ['"a"', "type"]),
        (raw(a={"type": {}}), ['"a"', "type"]),
        (raw(a=None), ['"a"', "null"]),
        (raw(a=[]), ['"a"', "[]"]),
        (raw(a={"$ref": "#/$defs/A"}), ['"a"', "$ref"]),
        (raw(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), ['"a"', "anyOf"]),
        (titled(), ['"a"', "oneOf"]),
        (text(oneOf=None), ['"a"', "oneOf"]),
        (titled("x"), ['"a"', "oneOf", "const"]),
        (titled({"const": "x"}), ['"a"', "oneOf", "title"]),
        (titled({"const": 1, "title": "One"}), ['"a"', "oneOf", "1"]),
        (titled({"const": None, "title": "One"}), ['"a"', "oneOf", "null"]),
        (titled({"const": ["x"], "title": "One"}), ['"a"', "oneOf"]),
        (titled({"const": "x", "title": 5}), ['"a"', "oneOf", "title"]),
        (raw(a={"type": "array", "items": {"anyOf": []}}), ['"a"', "anyOf"]),
        (raw(a={"type": "array", "items": {"anyOf": [{"const": "x", "title": None}]}}), ['"a"', "anyOf", "title"]),
        (text(enum=None), ['"a"', "enum"]),
        (text(enum=[]), ['"a"', "enum"]),
        (text(enum="abc"), ['"a"', "enum"]),
        (text(enum={"x": 1}), ['"a"', "enum"]),
        (text(enum=["x", 1]), ['"a"', "enum", "1"]),
        (text(enum=["x", "x"]), ['"a"', "look the same"]),
        (text(const=5), ['"a"', "const"]),
        (text(enum=["x"], oneOf=[{"const": "x", "title": "X"}]), ['"a"', "enum", "oneOf"]),
        (text(enum=["x", "y"], enumNames=["X"]), ['"a"', "enumNames"]),
        (text(enum=["x", "y"], enumNames=[]), ['"a"', "enumNames"]),
        (text(enum=["x", "y"], enumNames=None), ['"a"', "enumNames"]),
        (text(enum=["x", "y"], enumNames=["X", 5]), ['"a"', "enumNames"]),
        (text(enumNames=["X"]), ['"a"', "enumNames"]),
        (raw(a={"type": "integer", "enum": [1, 1.5]}), ['"a"', "enum", "1.5"]),
        (raw(a={"type": "integer", "enum": [True]}), ['"a"', "enum", "true"]),
        (raw(a={"type": "boolean", "enum": [True]}), ['"a"', "enum"]),
        (raw(a={"type": "array"}), ['"a"', "array"]),
        (many(items=True), ['"a"', "items"]),
        (many(items=None), ['"a"', "items"]),
        (many(items=[]), ['"a"', "items"]),
        (many(items={"type": ["string"], "enum": ["x"]}), ['"a"', "items", "type"]),
        (many(items={"type": "string", "enum": ["x"], "not": {}}), ['"a"', "items", "not"]),
        (many(enum=[["x"]]), ['"a"', "enum"]),
        (many(uniqueItems="yes"), ['"a"', "uniqueItems"]),
        (many(minItems="1"), ['"a"', "minItems"]),
        (text(minLength="3"), ['"a"', "minLength"]),
        (text(minLength=True), ['"a"', "minLength"]),
        (text(minLength=-1), ['"a"', "minLength"]),
        (text(minLength=-1.0), ['"a"', "minLength"]),
        (text(minLength=1.5), ['"a"', "minLength"]),
        (text(maxLength=None), ['"a"', "maxLength"]),
        (text(minimum=3), ['"a"', "minimum"]),
        (text(pattern="("), ['"a"', "pattern"]),
        (text(pattern=5), ['"a"', "pattern"]),
        (text(pattern="a{99999999999}"), ['"a"', "pattern"]),
        (text(format="phone"), ['"a"', "format", "email"]),
        (text(format=[]), ['"a"', "format"]),
        (text(title=5), ['"a"', "title"]),
        (text(description=None), ['"a"', "description"]),
        (raw(a={"type": "integer", "minimum": "0"}), ['"a"', "minimum"]),
        (raw(a={"type": "number", "maximum": True}), ['"a"', "maximum"]),
        (text(default=5), ['"a"', "default"]),
        (text(default=None), ['"a"', "default"]),
        (text(enum=["x"], default="y"), ['"a"', "default"]),
        (text(oneOf=[{"const": "x", "title": "X"}], default="X"), ['"a"', "default"]),
        (many(default="x"), ['"a"', "default"]),
        (many(default=["z"]), ['"a"', "default"]),
        (many(default=[["x"]]), ['"a"', "default"]),
        (raw(a={"type": "integer", "default": "5"}), ['"a"', "default"]),
        (raw(a={"type": "integer", "default": 1.5}), ['"a"', "default"]),
        (raw(a={"type": "integer", "default": True}), ['"a"', "default"]),
        (raw(a={"type": "number", "default": "5"}), ['"a"', "default"]),
        (raw(a={"type": "boolean", "default": "true"}), ['"a"', "default"]),
        (raw(a={"type": "boolean", "default": 1}), ['"a"', "default"]),
        ({**text(), "required": None}, ["required"]),
        ({**text(), "required": "abc"}, ["required"]),
        ({**text(), "required": "a"}, ["required"]),
        ({**text(), "required": [5]}, ["required"]),
        ({**text(), "required": [["a"]]}, ["required"]),
        ({**text(), "required": ["a", "zz"]}, ["required", '"zz"']),
        ({"type": "object", "properties": []}, ["properties"]),
        ({"type": "object", "properties": None}, ["properties"]),
        ({"type": ["object"], "properties": {}}, ["type"]),
        ({**text(), "allOf": []}, ["allOf"]),
        ({**text(), "anyOf": []}, ["anyOf"]),
        ({**text(), "oneOf": []}, ["oneOf"]),
        ({**text(), "$ref": "#"}, ["$ref"]),
        ({**text(), "if": {}, "then": {}}, ["if", "then"]),
        ({**text(), "additionalProperties": {"type": "string"}}, ["additionalProperties"]),
        (raw(a={"type": "string", "default": object()}), ["JSON"]),
    ],
)
def test_a_raw_schema_that_no_form_can_carry(schema: Any, words: list[str]) -> None:
    with pytest.raises(FormError) as caught:
        compile_form(schema)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {**text(minLength=0, maxLength=9, pattern="^a", format="email", title="A", default="a"), "required": ["a"]},
        {**text(), "$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False},
        {**text(examples=["x"], **{"x-order": 1}), "title": "T", "description": "D", "required": []},
        many(minItems=0, maxItems=2, uniqueItems=True, default=["x"]),
        many(default=[]),
        raw(a={"type": "number", "minimum": 0.5, "exclusiveMaximum": 9, "default": 3}),
        raw(a={"type": "integer", "oneOf": [{"const": 1, "title": "One"}], "default": 1}),
        raw(a={"type": "boolean", "default": False}),
        raw(a={"type": "integer", "default": 50.0, "minimum": 1.0}),
        raw(a={"type": "integer", "default": 1e300}),
        raw(a={"type": "integer", "enum": [1.0, 2], "default": 1}),
        raw(a={"type": "number", "enum": [1, 2.5], "default": 1.0}),
        raw(a={"type": "array", "items": {"type": "integer", "enum": [1.0, 2]}, "default": [1, 2.0], "maxItems": 2.0}),
        text(minLength=1.0, maxLength=1e300),
        raw(),
    ],
)
def test_a_raw_schema_that_a_form_can_carry(schema: Any) -> None:
    told = compile_form(schema).schema(True)
    assert told["properties"].keys() == schema["properties"].keys()
    assert told.get("required") == schema.get("required")


FORM_WORDS = {
    *("type", "title", "description", "default", "format", "minLength", "maxLength", "minimum", "maximum"),
    *("enum", "enumNames", "oneOf", "items", "minItems", "maxItems"),
}


def test_a_raw_schema_is_sent_with_the_keywords_that_forms_have() -> None:
    fields = {
        "a": {"type": "string", "pattern": "^a", "examples": ["ab"], "x-order": 1, "title": "A", "default": "ab"},
        "b": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "deprecated": False},
        "c": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "uniqueItems": True, "maxItems": 1},
    }
    form = compile_form({"type": "object", "properties": fields, "additionalProperties": False, "title": "T"})
    told = form.schema(True)
    assert told.keys() == {"type", "properties"}
    assert all(field.keys() <= FORM_WORDS for field in told["properties"].values())
    assert told["properties"]["b"] == {"type": "integer", "minimum": 1, "maximum": 9}
    with pytest.raises(ShapeError, match="text matching the pattern"):  # what is not sent is checked all the same
        form.read({"a": "b", "b": 1, "c": []})


def test_a_float_that_is_whole_goes_out_as_an_integer() -> None:
    number = {"type": "integer", "enum": [1.0, 2.0], "default": 2.0}
    schema = raw(a=number, b={"type": "string", "minLength": 1.0}, c={"type": "number", "default": 3.0})
    form = compile_form(schema)
    fields = json.dumps(form.schema(True)["properties"])
    assert '"enum": [1, 2], "default": 2}' in fields
    assert '"minLength": 1}' in fields
    assert '"default": 3.0}' in fields
    assert repr(form.read({"a": "1"})["a"]) == "1"
    assert number["enum"] == [1.0, 2.0]
    assert isinstance(number["default"], float)  # what was given stays as it is
    assert refusal(schema, {"b": "x" * 0}) == 'Field "b" must be at least 1 characters long, got "".'


@pytest.mark.parametrize("kind", [MappingProxyType, UserDict, dict])
def test_a_raw_schema_may_be_any_mapping(kind: Any) -> None:
    inner = kind({"type": "string", "oneOf": [kind({"const": "x", "title": "X"})]})
    form = compile_form(kind({"type": "object", "properties": kind({"a": inner}), "required": ("a",)}))
    assert form.schema(True) == {**titled({"const": "x", "title": "X"}), "required": ["a"]}
    assert form.read({"a": "X"}) == {"a": "x"}


@pytest.mark.parametrize("default", [object(), MappingProxyType({"x": object()}), MappingProxyType({(1, 2): 1})])
def test_a_mapping_that_is_no_json(default: Any) -> None:
    with pytest.raises(FormError, match="not JSON"):
        compile_form(MappingProxyType(text(default=default)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "array", "a", "x", "("]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["const", "title", "enum"]), inner),
    max_leaves=4,
)
FIELD = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "array"]) | JSON},
    optional=dict.fromkeys(
        (
            *("enum", "oneOf", "enumNames", "items", "minLength", "minimum", "maxItems", "uniqueItems"),
            *("pattern", "default", "title", "const", "format"),
        ),
        JSON,
    ),
)


@given(FIELD, JSON, JSON)
def test_a_raw_schema_compiles_or_is_refused_and_never_breaks(inner: Any, required: Any, answer: Any) -> None:
    try:
        form = compile_form({"type": "object", "properties": {"a": inner}, "required": required or []})
        form.params("?", True), form.params("?", False)
    except FormError:
        return
    with contextlib.suppress(ShapeError):
        form.read({"a": answer})


# ---------------------------------------------------------------- choices


INTEGERS = raw(
    n={"type": "integer", "oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]},
    m={"type": "number", "enum": [1, 2.5]},
    o={"type": "array", "items": {"type": "integer", "enum": [1, 2]}},
)


def test_integer_choices_are_text_for_an_older_client() -> None:
    form = compile_form(INTEGERS)
    fields = form.schema(False)["properties"]
    assert fields["n"] == {"type": "string", "enum": ["1", "2"], "enumNames": ["One", "Two"]}
    assert fields["m"] == {"type": "string", "enum": ["1", "2.5"]}
    assert form.read({"n": "1", "m": "2.5", "o": "1, 2"}) == {"n": 1, "m": 2.5, "o": [1, 2]}
    assert form.read({"n": 2, "m": 1, "o": ["2"]}) == {"n": 2, "m": 1, "o": [2]}
    assert form.read({"n": "Two", "m": 1.0}) == {"n": 2, "m": 1}


def test_an_older_revision_knows_integer_choices() -> None:
    for name in ("n", "m"):
        assert problems(compile_form(INTEGERS).schema(False)["properties"][name], "EnumSchema", "2025-06-18") == []


def test_a_default_that_is_the_same_number_is_a_choice() -> None:
    @dataclass
    class Rated:
        stars: Annotated[float, Choices((1, "One"), (2.5, "Good"))] = 1.0

    form = compile_form(Rated)
    assert form.schema(True)["properties"]["stars"]["default"] == "1"
    assert form.read({"stars": 2.5}).stars == 2.5


class Mixed(enum.Enum):
    ONE = 1
    TEXT = "1"


@dataclass
class Ambiguous:
    pick: Literal[1, "1"]


@pytest.mark.parametrize(
    "schema",
    [
        Literal[1, "1"],
        list[Literal[1, "1"]],
        Mixed,
        Literal[True, "true"],
        Ambiguous,
        [1, "1"],
        Annotated[str, Choices("a", "a")],
    ],
)
def test_choices_that_look_the_same_are_refused(schema: Any) -> None:
    with pytest.raises(FormError, match="look the same"):
        compile_form(schema)


@pytest.mark.parametrize(
    ("listed", "literal"),
    [([True, False], Literal[True, False]), ([2, 1], Literal[2, 1]), (["b", "a"], Literal["b", "a"])],
)
def test_a_list_of_choices_is_what_a_literal_is(listed: Any, literal: Any) -> None:
    one, other = compile_form(listed), compile_form(literal)
    for titled in (True, False):
        assert one.schema(titled) == other.schema(titled)
    for value in listed:
        for answer in (value, json.loads(json.dumps(value)), json.dumps(value).strip('"')):
            read = one.read({"answer": answer}), other.read({"answer": answer})
            assert read == (value, value)
            assert type(read[0]) is type(value)


def test_a_number_is_the_same_choice_however_it_is_written() -> None:
    form = compile_form([1, 2.0, 2.5])
    assert form.schema(True)["properties"]["answer"]["enum"] == ["1", "2", "2.5"]
    assert [form.read({"answer": answer}) for answer in (1.0, 2, "2", 2.5)] == [1, 2.0, 2.0, 2.5]
    titles = Choices(True, 2.0).json_schema_extra["oneOf"]  # type: ignore[arg-type]
    assert [one["title"] for one in titles] == ["true", "2"]


class Words(str):
    """Text of a class of its own, as templates and translations make it."""


def test_the_title_of_a_choice_may_be_text_of_any_class() -> None:
    assert b'"title":"Europe"' in bytes(compile_form([("eu", Words("Europe"))]).params("Where?", True)[0])


@pytest.mark.parametrize("choices", [range(10**7), range(10**30), ["x"] * 1001, tuple(range(1001))], ids=list("abcd"))
def test_too_many_choices_are_refused_before_they_are_made(choices: Any) -> None:
    with pytest.raises(FormError, match="there are more than 1,000 choices, too many for a form"):
        compile_form(choices)


def test_as_many_choices_as_a_form_may_have() -> None:
    assert compile_form(range(1000)).read({"answer": "999"}) == 999


def test_no_choices_are_refused() -> None:
    with pytest.raises(RegistrationError, match="Choices needs a choice"):
        Choices()


def test_a_default_that_is_no_choice_is_refused() -> None:
    class Tagged(pydantic.BaseModel):
        tags: list[Literal["x", "y"]] = ["z"]  # type: ignore[list-item]

    with pytest.raises(FormError, match='"tags" has the default'):
        compile_form(Tagged)


City = Literal["Bern", "Bern, CH", "Geneva", "Bern, CH, old town"]


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("Bern, CH", ["Bern, CH"]),
        ("Bern,CH , Geneva", ["Bern, CH", "Geneva"]),
        ("Geneva, Bern, CH, old town, Bern", ["Geneva", "Bern, CH, old town", "Bern"]),
        ("Bern,, Geneva,", ["Bern", "Geneva"]),
        (" ", []),
        (["Bern, CH"], ["Bern, CH"]),
    ],
)
def test_a_choice_may_have_commas(answer: Any, chosen: list[str]) -> None:
    assert compile_form(list[City]).read({"answer": answer}) == chosen
    wire = raw(answer={"type": "array", "items": {"type": "string", "enum": list(City.__args__)}})  # type: ignore[attr-defined]
    assert compile_form(wire).read({"answer": answer}) == {"answer": chosen}


def test_the_title_of_a_choice_may_have_commas() -> None:
    form = compile_form(list[Annotated[str, Choices(("b", "Bern, CH"), ("g", "Geneva"))]])
    assert form.read({"answer": "Bern, CH, Geneva"}) == ["b", "g"]
    said = form.schema(False)["properties"]["answer"]["description"]
    assert said.endswith("separated by commas: b (Bern, CH); g (Geneva)")


def test_a_text_of_commas_is_read_in_linear_time() -> None:
    assert compile_form(list[City]).read({"answer": "," * 300_000}) == []


# ---------------------------------------------------------------- words for people


def test_people_are_told_the_titles() -> None:
    form = [("eu", "Europe"), ("us", "United States"), Choice("ch")]
    told = refusal(form, {"answer": "Asia"})
    assert told == 'Field "answer" must be one of "Europe", "United States", "ch", got "Asia".'
    assert 'did you mean "Europe"?' in refusal(form, {"answer": "Eurpe"})
    several = raw(a={"type": "array", "items": {"anyOf": [{"const": "x1", "title": "First"}]}})
    assert refusal(several, {"a": ["z"]}) == 'Field "a" must be "First", got "z".'
    assert refusal(raw(a=text(enum=["o1"], enumNames=["One"])["properties"]["a"]), {"a": "z"}) == (
        'Field "a" must be "One", got "z".'
    )


def test_a_title_that_two_choices_have_is_no_answer() -> None:
    form = compile_form([("a", "John"), ("b", "John"), ("c", "Ann")])
    assert form.read({"answer": "b"}) == "b"
    with pytest.raises(ShapeError, match='one of "a", "b", "Ann", got "John"'):
        form.read({"answer": "John"})
    assert 'one of "", "a", got' in refusal(Literal["", "a"], {"answer": "z"})
    assert 'one of "x", "b", got' in refusal([("x", "b"), ("b", "")], {"answer": "z"})


@pytest.mark.parametrize(
    ("schema", "content", "told"),
    [
        (int, {"answer": "x"}, 'Field "answer" must be an integer, got the string "x".'),
        (int, {}, 'Missing required field "answer" (integer).'),
        (int, {"answer": ""}, 'Missing required field "answer" (integer).'),
        (datetime.date, {"answer": ""}, 'Missing required field "answer" (string).'),
        ([("a", "A1"), "b"], {}, 'Missing required field "answer" (one of "A1", "b").'),
        (list[Literal["x"]], {}, 'Missing required field "answer" (list of choices).'),
        (bool, {"answer": 1}, 'Field "answer" must be a boolean, got 1.'),
        (text(pattern="^a"), {"a": "b"}, 'Field "a" must be text matching the pattern ^a, got "b".'),
        (many(minItems=1), {"a": []}, 'Field "a" must be at least 1 of the choices, got [].'),
        (many(uniqueItems=True), {"a": ["x", "x"]}, 'Field "a" must be a list without repeats, got ["x", "x"].'),
    ],
)
def test_one_sentence_says_what_is_wrong(schema: Any, content: Any, told: str) -> None:
    assert refusal(schema, content) == told


# ---------------------------------------------------------------- an empty text box


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass
class Blank:
    number: int | None
    real: float | None = None
    yes: bool | None = None
    day: datetime.date | None = None
    which: uuid.UUID | None = None
    level: Level | None = None
    tags: list[Literal["x"]] | None = None
    mail: Annotated[str, Format("email")] | None = None
    nights: int = 2
    name: str | None = None
    colors: list[Literal["red"]] = field(default_factory=list)


class BlankModel(pydantic.BaseModel):
    number: int | None
    day: datetime.date | None = None
    level: Level | None = None
    nights: int = 2
    name: str | None = None


@pytest.mark.parametrize("kind", [Blank, BlankModel])
def test_an_empty_text_is_no_answer_where_it_cannot_be_one(kind: Any) -> None:
    form = compile_form(kind)
    content = {one.name: "" for one in form.fields}
    assert form.read(content) == kind(number=None, name="")
    assert form.read({}) == kind(number=None)


@pytest.mark.parametrize("kind", [int | None, float | None, bool | None, Level | None])
def test_an_empty_text_for_one_optional_value(kind: Any) -> None:
    assert compile_form(kind).read({"answer": ""}) is None


def test_an_empty_text_stays_text() -> None:
    assert compile_form(str | None).read({"answer": ""}) == ""
    assert compile_form(str).read({"answer": ""}) == ""
    assert compile_form(Literal["", "a"]).read({"answer": ""}) == ""
    assert compile_form(list[Literal["a"]]).read({"answer": ""}) == []
    schema = raw(a={"type": "integer"}, b={"type": "string"}, c={"type": "string", "format": "date"})
    assert compile_form(schema).read({"a": "", "b": "", "c": ""}) == {"b": ""}


CHOICES = [{"enum": ["x", "y"]}, {"oneOf": [{"const": "x", "title": "X"}]}, {"const": "x"}]


@pytest.mark.parametrize("listed", CHOICES)
def test_an_empty_text_is_no_choice_in_a_raw_schema_either(listed: dict[str, Any]) -> None:
    assert compile_form(text(**listed)).read({"a": ""}) == {}
    assert refusal({**text(**listed), "required": ["a"]}, {"a": ""}).startswith('Missing required field "a" (')
    assert compile_form(text(enum=["", "x"])).read({"a": ""}) == {"a": ""}


# ---------------------------------------------------------------- secrets


@dataclass
class Login:
    name: str
    password: pydantic.SecretStr


@dataclass
class Twice:
    name: pydantic.SecretStr
    password: pydantic.SecretStr = field(default_factory=lambda: pydantic.SecretStr("x"))


class LoginModel(pydantic.BaseModel):
    name: str
    password: pydantic.SecretStr = pydantic.SecretStr("hunter2")


class OptionalModel(pydantic.BaseModel):
    password: pydantic.SecretBytes | None = None


class ListModel(pydantic.BaseModel):
    password: list[pydantic.SecretStr] = []


class OwnSecret(pydantic.SecretStr):
    pass


class OwnModel(pydantic.BaseModel):
    password: Annotated[OwnSecret, pydantic.Field(min_length=3)]


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (Login, "password"),
        (Twice, "name"),
        (LoginModel, "password"),
        (OptionalModel, "password"),
        (ListModel, "password"),
        (OwnModel, "password"),
        (pydantic.SecretStr, "answer"),
        (pydantic.SecretBytes | None, "answer"),
        (Annotated[str, msgspec.Meta(extra_json_schema={"format": "password"})], "answer"),
        (text(format="password"), "a"),
        (text(writeOnly=True), "a"),
    ],
)
def test_a_secret_is_not_asked_for_in_a_form(schema: Any, name: str) -> None:
    with pytest.raises(FormError, match=rf'the field "{name}" is a secret.*ctx\.elicit_url'):
        compile_form(schema)


@pytest.mark.parametrize("name", ["password", "Passwd", "passphrase", "secret", "token", "api_key", "apiKey", "API-KEY",
                                  "access_token", "accessToken", "private_key"])  # fmt: skip
def test_a_name_that_says_secret_is_noticed_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    plain = msgspec.defstruct("Plain", [("user", str), (name.replace("-", "_"), str)])
    for _ in range(2):
        compile_form(plain)
        compile_form({**raw(**{name: {"type": "string", "maxLength": 99}}), "title": "By hand"})
        compile_form(msgspec.defstruct("Optional", [(name.replace("-", "_"), str | None, None)]))
    told = caplog.messages
    words = "asks for a secret in a form, where the client and its model may see it: use ctx.elicit_url"
    assert told[0] == f'Plain: the field "{name.replace("-", "_")}" {words}'
    assert told[1] == f'By hand: the field "{name}" {words}'
    assert len(told) == 4  # a struct made anew is another form


def test_names_that_say_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    @dataclass
    class Fine:
        pin: str
        passport: str
        tokens: str
        token: int
        secret: bool
        password: Literal["long", "short"]
        api_key: Annotated[str, Format("uri")]

    compile_form(Fine)
    assert not caplog.messages


# ---------------------------------------------------------------- web pages


PAGE = "https://example.com/"


def sends(url: Any, message: Any, *, raises: bool) -> Server:
    async def t(ctx: Context) -> str:
        if raises:
            raise UrlElicitationRequired(url, message)
        return type(await ctx.elicit_url(url, message)).__name__

    return serve(t, expose_errors=True)


@pytest.mark.parametrize("revision", [NOVEMBER, MODERN])
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize(
    ("url", "message", "told"),
    [
        (PAGE, 5, "TypeError: the message of a question is text, not 5"),
        (PAGE, None, "TypeError: the message of a question is text, not None"),
        (PAGE, b"Go", "TypeError: the message of a question is text, not b'Go'"),
        (5, "Go", "TypeError: the address that a user is sent to is text, not 5"),
        (None, "Go", "TypeError: the address that a user is sent to is text, not None"),
        *((wrong, "Go", "ValueError: there is a space or a control character in the address that a user is sent to: ")
          for wrong in (" " + PAGE, PAGE + "a b", PAGE + "\n", "https://exa\tmple.com/", PAGE + "\x00", PAGE + "\x7f",
                        PAGE + "\u202e", PAGE + "\u00a0", "java\nscript:alert(1)")),
        ("javascript:alert(1)", "Go", "ValueError: a user can be sent to an http or https address only"),
    ],
)  # fmt: skip
def test_what_is_no_page_or_no_message(revision: str, raises: bool, url: Any, message: Any, told: str) -> None:
    server = sends(url, message, raises=raises)
    text, player = play_tool(server, revision, script())
    assert text.startswith(told)
    assert not player.asked


@pytest.mark.parametrize("revision", [NOVEMBER, MODERN])
def test_a_page_and_a_message_may_be_text_of_any_class(revision: str) -> None:
    server = sends(Words(PAGE + "ä?q=1#x"), Words("Go"), raises=False)
    text, player = play_tool(server, revision, script({"action": "accept"}))
    assert text == "Accepted"
    assert player.asked[0]["params"].items() >= {"url": PAGE + "ä?q=1#x", "message": "Go", "mode": "url"}.items()


def test_an_error_that_names_a_page_may_have_text_of_any_class() -> None:
    error = UrlElicitationRequired(Words(PAGE), Words("Go"))
    assert encode(error.data).startswith(b'{"elicitations":[{"mode":"url","message":"Go","url":"https://example.com/"')
    assert (type(error.url), type(error.message)) == (str, str)


@pytest.mark.parametrize("asks", ["ask", "elicit", "choose", "Ask"])
def test_a_text_in_place_of_a_schema_is_never_run(asks: str, tmp_path: Path) -> None:
    """It may be an argument of the tool, which anybody can write."""

    async def pick(choices: str, ctx: Context) -> str:
        return repr(await getattr(ctx, asks)("Which?", choices))

    async def yields(choices: str) -> AsyncIterator[Any]:
        yield repr((yield Ask("Which?", choices)))

    server = Server("text")
    server.tool(name="pick")(yields if asks == "Ask" else pick)
    mark = tmp_path / "ran"

    async def main() -> None:
        async with Client(server, on_elicit=lambda request: {"answer": "x"}) as client:
            choices = f"__import__('pathlib').Path({str(mark)!r}).touch() or str"
            assert (await client.call_tool("pick", {"choices": choices})).is_error

    asyncio.run(main())
    assert not mark.exists()


def test_a_text_is_no_form() -> None:
    with pytest.raises(FormError, match="a form is a type, a list of choices or a JSON Schema, not the text 'a,b'"):
        compile_form("a,b")
