"""The `Mcp-*` headers that a client sends, and the annotations it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from redstart.client.headers import param_headers, request_headers
from redstart.protocol.headers import ParamRule, param_rules

LINE = {"type": "string", "x-mcp-header": "Region"}

NAMES: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("tools/list", {}, {}),
    ("tools/call", {"name": "add"}, {"Mcp-Name": "add"}),
    ("prompts/get", {"name": "review"}, {"Mcp-Name": "review"}),
    ("resources/read", {"uri": "notes://a b"}, {"Mcp-Name": "notes://a b"}),
    ("resources/read", {"uri": "notes://Köln"}, {"Mcp-Name": "=?base64?bm90ZXM6Ly9Lw7Zsbg==?="}),
    ("tools/call", {"name": " padded"}, {"Mcp-Name": "=?base64?IHBhZGRlZA==?="}),
    ("tools/call", {"name": "=?base64?eA==?="}, {"Mcp-Name": "=?base64?PT9iYXNlNjQ/ZUE9PT89?="}),
    ("tools/call", {"name": "a\nb"}, {"Mcp-Name": "=?base64?YQpi?="}),
    ("tools/call", {"name": ""}, {"Mcp-Name": ""}),
    ("x/unknown", {"name": "n"}, {}),
]


@pytest.mark.parametrize(("method", "params", "expected"), NAMES)
def test_method_and_name(method: str, params: dict[str, Any], expected: dict[str, str]) -> None:
    assert request_headers(method, params) == {"Mcp-Method": method, **expected}


VALUES: list[tuple[Any, str | None]] = [
    ("us-west1", "us-west1"),
    ("", ""),
    ("Zürich", "=?base64?WsO8cmljaA==?="),
    (True, "true"),
    (False, "false"),
    (42, "42"),
    (-7, "-7"),
    (42.0, "42"),
    (None, None),
    ([1], None),
    (1.5, None),
]


@pytest.mark.parametrize(("value", "header"), VALUES)
def test_argument_values(value: Any, header: str | None) -> None:
    expected = {} if header is None else {"Mcp-Param-Region": header}
    assert param_headers([ParamRule("Region", ("region",))], {"region": value}) == expected


def test_an_absent_or_nested_argument() -> None:
    rules = [ParamRule("A", ("outer", "inner"))]
    assert param_headers(rules, {"outer": {"inner": "x"}}) == {"Mcp-Param-A": "x"}
    assert param_headers(rules, {"outer": "flat"}) == {}
    assert param_headers(rules, {}) == {}
    assert param_headers(rules, None) == {}


VALID: list[tuple[dict[str, Any], dict[str, tuple[str, ...]]]] = [
    ({}, {}),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
    ({"properties": {"region": LINE}}, {"Mcp-Param-Region": ("region",)}),
    ({"properties": {"o": {"properties": {"region": LINE}}}}, {"Mcp-Param-Region": ("o", "region")}),
    ({"properties": {"default": LINE}}, {"Mcp-Param-Region": ("default",)}),
    ({"properties": {"a": {"default": {"x-mcp-header": 1}}}}, {}),
]


@pytest.mark.parametrize(("schema", "rules"), VALID)
def test_valid_annotations(schema: dict[str, Any], rules: dict[str, tuple[str, ...]]) -> None:
    assert {rule.shown: rule.path for rule in param_rules(schema)} == rules


INVALID: list[tuple[str, dict[str, Any]]] = [
    ("token", {"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
    ("token", {"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
    ("token", {"properties": {"a": {"type": "string", "x-mcp-header": "a\r\nX: y"}}}),
    ("token", {"properties": {"a": {"type": "string", "x-mcp-header": 3}}}),
    ("same header", {"properties": {"a": LINE, "b": {"type": "string", "x-mcp-header": "REGION"}}}),
    ("type", {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
    ("type", {"properties": {"a": {"x-mcp-header": "A"}}}),
    ("type", {"properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}}),
    ("reachable", {"properties": {"a": {"type": "array", "items": LINE}}}),
    ("reachable", {"properties": {"a": {"anyOf": [LINE]}}}),
    ("reachable", {"$defs": {"R": LINE}, "properties": {"a": {"$ref": "#/$defs/R"}}}),
    ("reachable", {"type": "string", "x-mcp-header": "A"}),
]


@pytest.mark.parametrize(("word", "schema"), INVALID)
def test_invalid_annotations(word: str, schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=word):
        param_rules(schema)
