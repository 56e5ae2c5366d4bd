"""The `Mcp-*` headers of a modern request, and the `x-mcp-header` annotations that some of them follow from.

Pure functions: nothing is sent here.
Spec: /specification/2026-07-28/basic/transports/streamable-http (headers, encoding, x-mcp-header).
"""

from __future__ import annotations

from collections.abc import Iterable

from redstart.protocol.headers import MAX_SAFE, ParamRule, encode_value
from redstart.protocol.methods import METHODS
from redstart.wire.jsonrpc import JsonMapping


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


def param_headers(rules: Iterable[ParamRule], arguments: object) -> dict[str, str]:
    """`Mcp-Param-*` for the arguments that are given; a null or absent one has no header.

    >>> param_headers([ParamRule("Region", ("region",))], {"region": "eu"})
    {'Mcp-Param-Region': 'eu'}
    """
    headers = {}
    for rule in rules:
        value = rule.value(arguments)
        if isinstance(value, bool):
            headers[rule.shown] = "true" if value else "false"
        elif isinstance(value, int | str):
            headers[rule.shown] = encode_value(str(value))
        elif isinstance(value, float) and value.is_integer() and abs(value) <= MAX_SAFE:
            headers[rule.shown] = str(int(value))
    return headers
