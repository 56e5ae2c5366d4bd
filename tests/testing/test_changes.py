"""Which changes of schemas break clients: a table of pairs."""

from __future__ import annotations

from typing import Any

import pytest

from redstart.testing import compare

S, W, N = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def obj(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def tool(schema: dict[str, Any], output: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "t", "inputSchema": schema, **({} if output is None else {"outputSchema": output}), **more}


def texts(before: Any, now: Any, breaks: bool) -> list[str]:
    changes = compare({"tools": [before]}, {"tools": [now]})
    return [change.text for change in changes if change.breaks is breaks]


INPUTS: list[tuple[Any, Any, list[str]]] = [
    (obj(a=S), obj(a=S, b=S), []),
    (obj(a=S), obj(("b",), a=S, b=S), ["the argument b is required"]),
    (obj(a=S), obj(("a",), a=S), ["the argument a is required"]),
    (obj(("a",), a=S), obj(a=S), []),
    (obj(a=S, b=S), obj(a=S), ["the argument b is gone"]),
    (obj(a=W), obj(a=N), []),
    (obj(a=N), obj(a=W), ["the argument a may no longer be number"]),
    (obj(a=W), obj(a=S), ["the argument a may no longer be integer"]),
    (obj(a={}), obj(a=S), ["the argument a may no longer be a value of any type"]),
    (obj(a={"enum": ["x", "y"]}), obj(a={"enum": ["x", "y", "z"]}), []),
    (obj(a={"enum": ["x", "y"]}), obj(a={"enum": ["x"]}), ["the argument a may no longer be 'y'"]),
    (obj(a=S), obj(a={**S, "enum": ["x"]}), ["the argument a has another set of values"]),
    (obj(a={**W, "minimum": 1}), obj(a={**W, "minimum": 0}), []),
    (obj(a={**W, "minimum": 0}), obj(a={**W, "minimum": 1}), ["the argument a has another minimum"]),
    (obj(a={**W, "maximum": 9}), obj(a={**W, "maximum": 10}), []),
    (obj(a={**W, "maximum": 9}), obj(a={**W, "maximum": 8}), ["the argument a has another maximum"]),
    (obj(a=S), obj(a={**S, "maxLength": 8}), ["the argument a has another maxLength"]),
    (obj(a=S), obj(a={**S, "pattern": "x"}), ["the argument a has another pattern, which cannot be compared"]),
    (obj(a=obj(b=S)), obj(a=obj(b=W)), ["the argument a.b may no longer be string"]),
    (
        obj(a={"type": "array", "items": S}),
        obj(a={"type": "array", "items": W}),
        ["the argument a[] may no longer be string"],
    ),
    (obj(a=S), obj(a={"anyOf": [S, {"type": "null"}]}), []),
    (
        obj(a={"anyOf": [S, {"type": "null"}]}),
        obj(a=S),
        ["the argument a may no longer be null"],
    ),
    (obj(a={"type": ["string", "null"]}), obj(a=S), ["the argument a may no longer be null"]),
]


@pytest.mark.parametrize(("before", "now", "broken"), INPUTS)
def test_arguments_that_were_valid_must_stay_valid(before: Any, now: Any, broken: list[str]) -> None:
    assert texts(tool(before), tool(now), True) == broken


OUTPUTS: list[tuple[Any, Any, list[str]]] = [
    ({**obj(("a",), a=S), "additionalProperties": True}, obj(("a", "b"), a=S, b=S), []),
    (obj(("a",), a=S), obj(a=S), ["the field a of results may be missing"]),
    (obj(("a",), a=W), obj(("a",), a=N), ["the field a of results may be number"]),
    (obj(("a",), a=N), obj(("a",), a=W), []),
    (obj(("a",), a={"enum": ["x"]}), obj(("a",), a={"enum": ["x", "y"]}), ["the field a of results may be 'y'"]),
    (obj(a=S), obj(), ["the field a of results is gone"]),
]


@pytest.mark.parametrize(("before", "now", "broken"), OUTPUTS)
def test_results_must_be_as_they_were_promised(before: Any, now: Any, broken: list[str]) -> None:
    assert texts(tool(obj(), before), tool(obj(), now), True) == broken


def test_a_schema_of_results_that_is_gone_or_new() -> None:
    assert texts(tool(obj(), obj(a=S)), tool(obj()), True) == ["results have no schema any more"]
    assert texts(tool(obj()), tool(obj(), obj(a=S)), True) == []
    assert texts(tool(obj()), tool(obj(), obj(a=S)), False) == ["results have a schema now"]


def test_texts_break_nothing() -> None:
    before, now = tool(obj(a=S), description="x"), tool(obj(a={**S, "description": "y", "default": "q"}), title="T")
    assert texts(before, now, True) == []
    assert texts(before, now, False) == [
        "another description",
        "another title",
        "another description of the argument a",
        "another default of the argument a",
    ]


def test_definitions_are_followed_also_where_they_refer_to_themselves() -> None:
    def nested(leaf: dict[str, Any]) -> dict[str, Any]:
        node = {"$ref": "#/$defs/Node"}
        inner = obj(leaf=leaf, left=node, right=node, all={"type": "array", "items": node})
        return {**obj(root=node), "$defs": {"Node": inner}}

    assert texts(tool(nested(S)), tool(nested(S)), True) == []
    found = texts(tool(nested(S)), tool(nested(W)), True)
    assert found == ["the argument root.leaf may no longer be string"]


def test_whole_entries_of_every_list() -> None:
    before = {
        "tools": [tool(obj())],
        "prompts": [{"name": "p", "arguments": [{"name": "a"}, {"name": "b", "required": True}]}],
        "resources": [{"uri": "x://1", "mimeType": "text/plain"}],
        "resourceTemplates": [{"uriTemplate": "x://{n}"}],
    }
    now = {
        "tools": [{**tool(obj()), "name": "other"}],
        "prompts": [{"name": "p", "arguments": [{"name": "a", "required": True}, {"name": "c"}]}],
        "resources": [{"uri": "x://1", "mimeType": "text/html"}],
    }
    assert [(str(change), change.breaks) for change in compare(before, now)] == [
        ("tool t: is gone", True),
        ("prompt p: the argument b is gone", True),
        ("prompt p: the argument a is required", True),
        ("template x://{n}: is gone", True),
        ("tool other: is new", False),
        ("resource x://1: another mimeType", False),
    ]
