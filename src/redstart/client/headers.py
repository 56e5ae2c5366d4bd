"""The `Mcp-*` headers of a modern request, and the `x-mcp-header` annotations that some of them follow from.

Pure functions: nothing is sent here.
Spec: /specification/2026-07-28/basic/transports/streamable-http (headers, encoding, x-mcp-header).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from redstart.protocol.headers import MAX_SAFE, encode_value
from redstart.protocol.methods import METHODS
from redstart.wire.jsonrpc import JsonMapping, JsonObject

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TYPES: Final = ("string", "integer", "boolean")
_VALUES: Final = ("default", "const", "enum", "examples")
"""Keywords of JSON Schema whose value is data, so that an annotation in it means nothing."""
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose value has a schema for each name."""

Rules: TypeAlias = Mapping[str, tuple[str, ...]]
"""Header name -> path of the argument that it repeats."""


def request_headers(method: str, params: JsonMapping) -> dict[str, str]:
    """`Mcp-Method`, and `Mcp-Name` where the method names something.

    >>> request_headers("tools/call", {"name": "add"})
    {'Mcp-Method': 'tools/call', 'Mcp-Name': 'add'}
    """
    headers = {"Mcp-Method": method}
    row = METHODS.get(method)
    if row is not None and row.names is not None:
        first, *rest = row.names.split("_")
        name = params.get(first + "".join(word.title() for word in rest))
        if isinstance(name, str):
            headers["Mcp-Name"] = encode_value(name)
    return headers


def param_headers(rules: Rules, arguments: object) -> dict[str, str]:
    """`Mcp-Param-*` for the arguments that are given; a null or absent one has no header.

    >>> param_headers({"Mcp-Param-Region": ("region",)}, {"region": "eu"})
    {'Mcp-Param-Region': 'eu'}
    """
    headers = {}
    for header, path in rules.items():
        value = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            headers[header] = "true" if value else "false"
        elif isinstance(value, int | str):
            headers[header] = encode_value(str(value))
        elif isinstance(value, float) and value.is_integer() and abs(value) <= MAX_SAFE:
            headers[header] = str(int(value))
    return headers


def header_rules(schema: object) -> Rules:
    """The rules that follow from a tool's input schema; ValueError says what is wrong with an annotation.

    >>> header_rules({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    {'Mcp-Param-Region': ('region',)}
    """
    rules: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for path, annotated in _annotated(schema, ()):
        name = annotated["x-mcp-header"]
        where = f"x-mcp-header {name!r} at {'.'.join(path) or 'the root'}"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"{where} is not an HTTP token")
        if name.lower() in seen:
            raise ValueError(f"{where} occurs twice")
        if not path or "" in path:
            raise ValueError(f"{where} is not reachable through properties alone")
        if annotated.get("type") not in _TYPES:
            raise ValueError(f"{where} needs type string, integer or boolean")
        seen.add(name.lower())
        rules[f"Mcp-Param-{name}"] = path
    return rules


def _annotated(schema: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    """Every annotated subschema with its path. A path through other keywords than `properties` has an empty part."""
    if isinstance(schema, list):
        for item in schema:
            yield from _annotated(item, (*path, ""))
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            for name, subschema in value.items():
                yield from _annotated(subschema, (*path, name if keyword == "properties" else ""))
        elif keyword not in _VALUES:
            yield from _annotated(value, (*path, ""))
