"""Patterns run in Python's `re`, which backtracks: what could block the server is refused or gets a limit."""

import re
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redstart.asking.choices import FormError
from redstart.asking.forms import compile_form
from redstart.schema.errors import ShapeError
from redstart.schema.json_schema import compile_schema
from redstart.schema.patterns import longest
from redstart.schema.signature import EMPTY, Signature
from redstart.schema.types import UnsupportedType, compile_type

LINEAR = [
    *(r"^a", "x", "^[a-z]+$", r"^[a-z]+(-[a-z]+)*$", r"^(\d{1,3}\.){3}\d{1,3}$", r"^(\d{6})+$", r"^[\w.+-]+$", "^$"),
    *(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}$", r"^\s*(\w+)\s*=\s*(\w+)\s*$", r"^(a|b|c)*$", r"^(a|ab)*c"),
    *(r"^(?:[A-Z]{3}|[0-9]+)(?:,(?:[A-Z]{3}|[0-9]+))*$", r"^https?://[^\s/]+(/\S*)?$", r"^([01]?\d|2[0-3]):[0-5]\d$"),
]
LIMITED = [
    *(("[a-z]+", 4096), (r"^[^@]+@[^@]+\.[^@]+$", 4096), (r"^(?=.*\d)(?=.*[a-z]).{8,}$", 256), (r"(?m)^a+$", 4096)),
    *((r"^([a-zA-Z0-9._-]+)@([a-zA-Z0-9-]+\.)+[a-z]{2,}$", 4096),),
]
REFUSED = [
    *(r"(a+)+$", r"^(a|aa)+$", "(a*)*", r"(a?){30}a{30}", r"(a{1,2}){30}", "(.*,)*x", r"(\w+\s*)+$", r"^(\w+\s?)*$"),
    *(
        r"a*a*a*a*b",
        r"^(ab|a|b)*$",
        r"^(\d+|\w+)*$",
        r"^\w+([.-]?\w+)*$",
        r"^(?:a(?=.*b))*$",
        "(",
        r"(?i)^([a-c]|[A-D]x?)*$",
        r"^(?:(?i:a)|A)*$",
    ),
]


@pytest.mark.parametrize("pattern", LINEAR)
def test_patterns_that_read_a_text_in_one_way_have_no_limit(pattern: str) -> None:
    assert longest(pattern) is None


@pytest.mark.parametrize(("pattern", "most"), LIMITED)
def test_patterns_that_try_again_get_a_limit_of_the_length(pattern: str, most: int) -> None:
    assert longest(pattern) == most


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"doubles with each|in a row|not a regular expression"):
        longest(pattern)


pieces = st.sampled_from(["a", "b", "[ab]", ".", "ab", "a?", "b*"])
patterns = st.recursive(
    pieces,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(patterns, st.booleans())
def test_what_is_not_refused_is_quick(pattern: str, anchored: bool) -> None:
    """A pattern that doubles its time with each character would not end."""
    pattern = f"{'^' if anchored else ''}{pattern}$"
    try:
        longest(pattern)
    except ValueError:
        return
    for word in ("a", "b", "ab", "aab", "abb"):
        re.search(pattern, word * (40 // len(word)) + "c")


def test_a_limit_is_published_and_kept() -> None:
    slow = Annotated[str, msgspec.Meta(pattern=r"\s+$")]
    signature = Signature.from_parameters("t", [("x", slow, "", True, EMPTY)])
    assert signature.input_schema["properties"]["x"]["maxLength"] == 4096
    with pytest.raises(ShapeError, match="at most 4096 characters"):
        signature.bind(msgspec.json.encode({"x": " " * 1_000_000 + "x"}))
    assert signature.bind(b'{"x": "a "}') == {"x": "a "}


class Held(msgspec.Struct):
    x: Annotated[str, msgspec.Meta(pattern=r"\s+$")]


def test_a_limit_holds_in_a_class_that_msgspec_could_read_itself() -> None:
    signature = Signature.from_parameters("t", [("h", Held, "", True, EMPTY)])
    with pytest.raises(ShapeError, match="at most 4096 characters"):
        signature.bind(msgspec.json.encode({"h": {"x": " " * 1_000_000 + "x"}}))


def test_a_higher_limit_does_not_replace_it() -> None:
    inner = Annotated[str, msgspec.Meta(pattern=r"\s+$")]
    assert compile_type(Annotated[inner, msgspec.Meta(max_length=9999)]).schema()["maxLength"] == 4096
    assert compile_type(Annotated[inner, msgspec.Meta(max_length=99)]).schema()["maxLength"] == 99


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, msgspec.Meta(pattern="^(a+)+$")],
        Annotated[str, pydantic.Field(pattern="^(a+)+$")],
        list[Annotated[str, msgspec.Meta(pattern="^(a+)+$")]],
        Annotated[str, msgspec.Meta(pattern="^(a+)+$")] | None,
    ],
)
def test_a_type_with_such_a_pattern_is_refused(annotation: Any) -> None:
    with pytest.raises(UnsupportedType, match=r"tool t.*\^\(a\+\)\+\$.*doubles with each character"):
        compile_type(annotation, where="tool t")


def test_a_form_with_such_a_pattern_is_refused() -> None:
    for field in ({"pattern": "^(a+)+$"}, {"pattern": "("}):
        schema = {"type": "object", "properties": {"x": {"type": "string", **field}}}
        with pytest.raises(FormError, match="has pattern"):
            compile_form(schema)
    form = compile_form({"type": "object", "properties": {"x": {"type": "string", "pattern": r"\s+$"}}})
    with pytest.raises(ShapeError, match="at most 4096 characters"):
        form.read({"x": " " * 1_000_000 + "x"})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!x)(a+)+$"], ids=["plain", "looks ahead"])
def test_a_raw_schema_takes_any_pattern_and_bounds_the_work(pattern: str) -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": pattern}}
    validator = compile_schema(schema, where="tool t")
    validator.check(["aaa"])
    with pytest.raises(ShapeError):
        validator.check(["a" * 60 + "b"] * 2000)
