"""The bytes around results and errors, and what a client's capabilities declare."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from msgspec import UNSET, Raw

from redstart.wire.jsonrpc import RESPONSE, ProtocolError, failure, notification, request
from redstart.wire.meta import ClientCapabilities
from redstart.wire.types import ListedTool, ToolResult


@pytest.mark.requirement("4")
def test_messages() -> None:
    assert json.loads(RESPONSE % (b"1", b"{}")) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert json.loads(notification("a/b", {"c": 1})) == {"jsonrpc": "2.0", "method": "a/b", "params": {"c": 1}}
    assert json.loads(request(b'"x"', "a", {})) == {"jsonrpc": "2.0", "id": "x", "method": "a", "params": {}}
    error = {"code": -32602, "message": 'a "b"\n', "data": None}
    found = json.loads(failure(b"null", ProtocolError(-32602, 'a "b"\n', None)))
    assert found == {"jsonrpc": "2.0", "id": None, "error": error}
    assert "data" not in json.loads(failure(b"1", ProtocolError(1, "x")))["error"]


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.requirement("4")
@pytest.mark.parametrize(
    ("message", "data"),
    [("x", object()), ("x", {1j: 2}), ("\ud800", UNSET), ("x", ["\udfff"]), ("x", Hostile()), ("\udc80 é", object())],
)
def test_a_fault_is_always_an_answer(message: str, data: Any) -> None:
    found = json.loads(failure(b"7", ProtocolError(-5, message, data)))
    assert (found["id"], found["error"]["code"]) == (7, -5)
    assert found["error"]["message"].isprintable()


@pytest.mark.requirement("4")
def test_an_error_survives_a_pipe() -> None:
    again = pickle.loads(pickle.dumps(ProtocolError(-5, "x", {"a": 1})))
    assert (again.code, again.message, again.data) == (-5, "x", {"a": 1})


@pytest.mark.requirement("T35", "T36", "T37")
def test_null_survives_and_absent_is_absent() -> None:
    from redstart.wire.jsonrpc import encode

    assert encode(ToolResult(content=[], structured=None)) == b'{"content":[],"structuredContent":null}'
    assert encode(ToolResult(content=[])) == b'{"content":[]}'
    big = ToolResult(content=[], structured=Raw(b'{"n":9007199254740993}'), is_error=False)
    assert encode(big) == b'{"content":[],"structuredContent":{"n":9007199254740993},"isError":false}'
    assert encode(ListedTool("a", input_schema={"default": None})) == b'{"name":"a","inputSchema":{"default":null}}'


@pytest.mark.requirement("T91")
@pytest.mark.parametrize(
    ("declared", "path", "has"),
    [
        ({}, "elicitation", False),
        ({"elicitation": {}}, "elicitation", True),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"elicitation": {"url": {}}}, "elicitation.url", True),
        ({"elicitation": {"form": None}}, "elicitation.form", False),
        ({"elicitation": {"form": {}, "url": {}}}, "elicitation.form", True),
        ({"elicitation": None}, "elicitation", False),
        ({"elicitation": True}, "elicitation", False),
        ({"elicitation": "yes"}, "elicitation", False),
        ({"sampling": {}}, "sampling.tools", False),
        ({"sampling": {"tools": {}}}, "sampling.tools", True),
        ({"sampling": {"tools": True}}, "sampling.tools", False),
        ({"roots": {}}, "no_such", False),
        ({"roots": {}}, "has", False),
    ],
)
def test_capabilities(declared: dict[str, Any], path: str, has: bool) -> None:
    assert ClientCapabilities(**declared).has(path) is has
