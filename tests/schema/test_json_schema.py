"""The validator for hand-written schemas, and that it agrees with the reference implementation."""

import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redstart.schema.errors import ShapeError
from redstart.schema.json_schema import SchemaError, compile_schema


def said(schema: Any, value: Any) -> list[str]:
    """The sentences about a value; none if it fits."""
    try:
        compile_schema(schema, where="tool t").check(value)
    except ShapeError as error:
        return [str(problem) for problem in error.problems]
    return []


CASES: list[tuple[Any, Any, list[str]]] = [
    ({"type": "integer"}, 5, []),
    ({"type": "integer"}, 5.0, []),
    ({"type": "integer"}, True, ["The argument must be an integer, got true."]),
    ({"type": ["integer", "null"]}, "x", ['The argument must be an integer or null, got the string "x".']),
    ({"enum": ["asc", "desc"]}, "ascc", ['The argument must be one of "asc", "desc", got "ascc"; did you mean "asc"?']),
    ({"const": 1}, True, ["The argument must be 1, got true."]),
    ({"properties": {"a": {"maximum": 3}}}, {"a": 4}, ['Argument "a" must be at most 3, got 4.']),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}, ['Missing required argument "a" (string).']),
    (
        {"properties": {"color": {}}, "additionalProperties": False},
        {"colour": 1},
        ['Unknown argument "colour"; did you mean "color"? Known: color.'],
    ),
    ({"additionalProperties": {"type": "string"}}, {"a": 1}, ['Argument "a" must be a string, got 1.']),
    ({"items": {"type": "string"}}, ["a", 1], ['Argument "[1]" must be a string, got 1.']),
    ({"minLength": 2}, "a", ['The argument must be at least 2 characters long, got "a".']),
    ({"minLength": 2}, 5, []),
    ({"maximum": 2}, True, []),
    ({"minItems": 1}, [], ["The argument must be at least 1 items long, got []."]),
    ({"maxProperties": 0}, {"a": 1}, ['The argument must be at most 0 entries long, got {"a": 1}.']),
    ({"exclusiveMinimum": 0}, 0, ["The argument must be more than 0, got 0."]),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, 1, ["The argument must be null, got 1."]),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, ["The argument must be at most 3, got 4."]),
    (
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]},
        {"a": "x"},
        ['Argument "a" must be an integer, got the string "x".'],
    ),
    ({"properties": {"a": False}}, {"a": 1}, ['Argument "a" is not allowed here, got 1.']),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, []),
    (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "x",
        ['The argument must be an integer or null, got the string "x".'],
    ),
    (
        {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 3}]},
        "ab",
        ['The argument must be at least 3 characters long, got "ab".'],
    ),
    (
        {"anyOf": [{"type": "object", "properties": {"k": {"const": kind}}} for kind in "ab"]},
        {"k": "c"},
        ['Argument "k" must be one of "a", "b", got "c".'],
    ),
    (
        {"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]},
        "c",
        ['The argument must be "a" or "b", got the string "c".'],
    ),
    (
        {"oneOf": [{"minimum": 1}, {"maximum": 3}]},
        2,
        ["The argument is refused: 2 is valid under more than one of the schemas listed in the 'oneOf' keyword."],
    ),
    ({"type": "string", "format": "email", "x-mine": 1, "title": "t", "default": 3}, "no email", []),
]


@pytest.mark.parametrize(("schema", "value", "texts"), CASES, ids=[str(schema) for schema, _, _ in CASES])
def test_check(schema: Any, value: Any, texts: list[str]) -> None:
    assert said(schema, value) == texts
    assert jsonschema.Draft202012Validator(schema).is_valid(value) == (not texts)


RECURSIVE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v"],
}


def test_recursive_schema() -> None:
    (problem,) = said(RECURSIVE, {"v": 1, "kids": [{"v": 2, "kids": [{"v": "x"}]}]})
    assert problem.startswith('Argument "kids[0].kids[0].v" must be')


FOREIGN: list[tuple[Any, Any, str]] = [
    (
        {"properties": {"a": {"type": "string", "pattern": "^x"}}},
        {"a": "y"},
        'Argument "a" is refused: "y" does not match "^x".',
    ),
    (
        {"properties": {"a": {"type": "integer", "multipleOf": 2}}},
        {"a": "y"},
        'Argument "a" must be an integer, got the string "y".',
    ),
    (
        {"patternProperties": {"^x": {}}, "additionalProperties": False},
        {"y": 1},
        "The argument is refused: Additional properties are not allowed ('y' was unexpected).",
    ),
    (
        {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        ["a", "b"],
        'Argument "[1]" is refused: "b" is not of type "integer".',
    ),
    ({"anyOf": [{"type": "string"}], "required": ["a", "b"]}, {}, 'Missing required argument "a".'),
    (
        {"properties": {"a": {"type": "integer"}, "b": {"pattern": "^x"}}},
        {"a": "y", "b": "y"},
        'Argument "b" is refused: "y" does not match "^x".',
    ),
]


@pytest.mark.parametrize(("schema", "value", "text"), FOREIGN, ids=[str(schema) for schema, _, _ in FOREIGN])
def test_other_keywords_are_never_skipped(schema: Any, value: Any, text: str) -> None:
    assert text in said(schema, value)


def test_foreign_keywords_accept_what_is_right() -> None:
    assert said({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"xa": 1}) == []


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(SchemaError, match=r'tool t: the keyword pattern .*pip install "redstart\[validate\]"'):
        compile_schema({"properties": {"a": {"pattern": "x"}}}, where="tool t")
    compile_schema({"properties": {"pattern": {"type": "string"}}}, where="tool t")  # a property, not a keyword


REFUSED: list[tuple[Any, str]] = [
    ({"$ref": "https://example.com/s.json"}, "leaves the document"),
    ({"properties": {"a": {"$ref": "other.json#/x"}}}, "leaves the document"),
    ({"anyOf": [{"$ref": "http://x"}]}, "leaves the document"),
    ({"oneOf": [{"not": {"$dynamicRef": "http://x"}}]}, "leaves the document"),
    ({"$ref": "#/$defs/none"}, "points to nothing"),
    ({"$ref": "#"}, "refers to itself"),
    ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
    ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "to itself"),
    ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "refers to itself"),
    ({"type": "int"}, "#/type must be a JSON type name"),
    ({"properties": {"a": {"minimum": "1"}}}, "#/properties/a/minimum must be a number"),
    ({"required": "a"}, "#/required must be a list of names"),
    ({"allOf": {}}, "#/allOf must be a list of schemas"),
    ({"anyOf": []}, "#/anyOf must be a list of schemas"),
    ({"anyOf": [{"$ref": "#"}]}, "refers to itself"),
    ({"allOf": [{"type": "int"}]}, "#/allOf/0/type must be a JSON type name"),
    ({"properties": {"a": 5}}, "#/properties/a must be a schema"),
    ({"pattern": "("}, "tool t"),
]


@pytest.mark.parametrize(("schema", "why"), REFUSED, ids=[str(schema) for schema, _ in REFUSED])
def test_refused_schemas(schema: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why.replace("$", r"\$")) as caught:
        compile_schema(schema, where="tool t")
    assert "tool t" in str(caught.value)


def test_a_ref_inside_a_value_is_a_value() -> None:
    assert said({"const": {"$ref": "http://x"}}, {"$ref": "http://x"}) == []


def test_nulls_that_mean_absent() -> None:
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": ["integer", "null"]},
            "c": {"type": "integer"},
            "d": {"$ref": "#/$defs/d"},
        },
        "required": ["c"],
        "$defs": {"d": {"items": {"properties": {"e": {"type": "string"}}}}},
    }
    value = {"a": None, "b": None, "c": 1, "d": [{"e": None}, {"e": "x"}], "f": None}
    lean = {"b": None, "c": 1, "d": [{}, {"e": "x"}], "f": None}
    extras: list[dict[str, Any]] = [{}, {"dependentRequired": {}}]
    for extra in extras:  # our nodes, and the engine
        validator = compile_schema({**schema, **extra}, where="t")
        assert validator.read(value) == lean
        with pytest.raises(ShapeError, match='"c" must be an integer, got null'):
            validator.read({**value, "c": None})


def test_defaults_are_filled_in_at_every_level() -> None:
    node = {
        "properties": {"n": {"type": "integer", "default": 1}, "list": {"items": {"$ref": "#/$defs/node"}}},
        "default": {"n": 9},
    }
    schema = {"type": "object", "properties": {"a": node, "b": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    extras: list[dict[str, Any]] = [{}, {"dependentRequired": {}}]
    for extra in extras:
        validator = compile_schema({**schema, **extra}, where="t", defaults=True)
        assert validator.read({"b": {"list": [{}]}}) == {"a": {"n": 9}, "b": {"n": 1, "list": [{"n": 1}]}}
        first = validator.read({})
        assert isinstance(first, dict)
        first["a"]["n"] = 2
        assert validator.read({}) == {"a": {"n": 9}}
        assert compile_schema({**schema, **extra}, where="t").read({}) == {}


DRAFT7 = "http://json-schema.org/draft-07/schema#"


def test_draft_07_has_its_own_rules() -> None:
    row = {"$schema": DRAFT7, "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
    assert said(row, [1, "a"]) == []
    assert said(row, ["a", "a"]) == ['Argument "[0]" is refused: "a" is not of type "integer".']
    assert said(row, [1, "a", 2]) != []
    beside = {"$schema": DRAFT7, "$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {"type": "integer"}}}
    assert said(beside, 5) == []
    assert said({**beside, "$schema": "https://json-schema.org/draft/2020-12/schema"}, 5) != []


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "https://example.com/mine", 7])
def test_other_dialects_are_refused(dialect: Any) -> None:
    with pytest.raises(SchemaError, match=r"tool t: \$schema .* is not supported; these are: .*2020-12.*draft-07"):
        compile_schema({"$schema": dialect, "type": "object"}, where="tool t")


def test_a_list_of_items_names_the_way_out() -> None:
    with pytest.raises(SchemaError, match=r"prefixItems, or draft-07"):
        compile_schema({"items": [{"type": "integer"}]}, where="tool t")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([1.0, 2.5]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
leaf_schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["string", "integer", "number", "boolean", "array", "object", "null", ["string", "null"]]
        ),
        "enum": st.lists(json_values, min_size=1, max_size=3),
        "const": json_values,
        "minimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "required": st.lists(st.sampled_from("ab"), unique=True),
    },
)
schemas = st.recursive(
    leaf_schemas,
    lambda inner: st.fixed_dictionaries(
        {"items": inner},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "additionalProperties": inner | st.booleans(),
            "allOf": st.lists(inner, max_size=2, min_size=1),
            "anyOf": st.lists(inner, max_size=3, min_size=1),
            "oneOf": st.lists(inner, max_size=3, min_size=1),
        },
    ),
    max_leaves=4,
)


@given(schemas, json_values)
def test_agrees_with_the_reference(schema: Any, value: Any) -> None:
    reference = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (said(schema, value) == []) == reference
