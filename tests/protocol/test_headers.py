"""The `Mcp-*` headers: agreement, the sentinel, the rules of parameters."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.support import Wire, code_of, headers, modern
from redstart.protocol.headers import ParamRule, check_agreement, decode_value, duplicated, encode_value


def sentinel(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def agrees(name: str, given: bytes | None) -> bool:
    sent = {b"mcp-protocol-version": b"v", b"mcp-method": b"tools/call"}
    if given is not None:
        sent[b"mcp-name"] = given
    code = code_of(check_agreement, sent, "v", b"tools/call", name)
    assert code in (0, -32020)
    return code == 0


@pytest.mark.requirement("T95")
@pytest.mark.parametrize(
    ("name", "given", "fine"),
    [
        ("echo", b"echo", True),
        ("echo", b" \techo\t ", True),
        ("echo", b"ECHO", False),
        ("echo", b"", False),
        ("echo", None, False),
        ("", b"", True),
        ("", sentinel("").encode(), True),
        ("echo", sentinel("echo").encode(), True),
        ("é", sentinel("é").encode(), True),
        ("é", "é".encode(), False),
        ("é", "é".encode("latin-1"), False),
        (" echo", sentinel(" echo").encode(), True),
        ("echo", b"=?BASE64?ZWNobw==?=", False),
        ("=?BASE64?ZWNobw==?=", b"=?BASE64?ZWNobw==?=", True),
        ("=?base64?ZWNobw==", b"=?base64?ZWNobw==", True),
        ("=?base64?=", b"=?base64?=", True),
        (sentinel("echo"), sentinel("echo").encode(), False),
        (sentinel("echo"), sentinel(sentinel("echo")).encode(), True),
        ("echo", b"=?base64?ZWNobw?=", False),
        ("echo", b"=?base64?ZWNobw=?=", False),
        ("echo", b"=?base64?ZWNobw===?=", False),
        ("ech", b"=?base64?ZWNo?=", True),
        ("ech", b"=?base64?ZWNo=?=", False),
        ("ech", b"=?base64?ZWNo====?=", False),
        ("echo", b"=?base64?ZWNobx==?=", False),
        ("", b"=?base64?====?=", False),
        ("echo", b"=?base64?ZWN obw==?=", False),
        ("echo", b"=?base64?ZWN\nobw==?=", False),
        ("echo", b"=?base64?ZWNobw==!?=", False),
        ("echo", b"=?base64?Z-_obw==?=", False),
        ("echo", b"=?base64?/w==?=", False),
    ],
)
def test_the_name(name: str, given: bytes | None, fine: bool) -> None:
    assert agrees(name, given) is fine


@given(st.text())
def test_what_is_encoded_is_decoded(text: str) -> None:
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        return
    value = encode_value(text).encode("ascii")
    assert decode_value(value, "X") == text
    assert agrees(text, value)


@given(st.binary())
def test_any_header_value_is_text_or_a_mismatch(value: bytes) -> None:
    assert code_of(decode_value, value, "X") in (0, -32020)


def test_a_value_of_the_body_is_not_echoed() -> None:
    """What an attacker puts into the version must not come back where a header could carry it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "x\r\nSet-Cookie: a=b",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    answer = Wire().one(modern(1, "tools/list", meta=meta), headers("tools/list"))
    assert answer["error"]["code"] == -32020
    assert "Set-Cookie" not in answer["error"]["message"]


@pytest.mark.requirement("T98")
@pytest.mark.parametrize(
    ("value", "given", "fine"),
    [
        ("us", "us", True),
        ("us", "US", False),
        ("us", None, False),
        ("us", "eu", False),
        ("", "", True),
        ("", None, False),
        ("é", sentinel("é"), True),
        (" a", sentinel(" a"), True),
        (42, "42", True),
        (42, "42.0", True),
        (42, "4.2e1", True),
        (42, "43", False),
        (42, "4_2", False),
        (42, "+42", False),
        (42, " 42 ", True),
        (42, "0x2a", False),
        (42, "nan", False),
        (42, "", False),
        (42, "é", False),
        ("us", "=?base64?dXM?=", False),
        (-7, "-7", True),
        (2**53 - 1, "9007199254740991", True),
        (2**53 - 1, "9007199254740992", False),
        (2**53 + 1, "9007199254740993", False),
        (10**40, "1" + "0" * 40, False),
        (1, "9" * 5000, False),
        (True, "true", True),
        (True, "True", False),
        (True, "1", False),
        (False, "false", True),
        (0, "false", False),
        (None, None, True),
        (None, "us", False),
        (None, "", False),
        ([1], "[1]", False),
    ],
)
def test_parameters(value: Any, given: str | None, fine: bool) -> None:
    rule = ParamRule("Region", ("place", "region"))
    sent = {} if given is None else {b"mcp-param-region": given.encode()}
    assert code_of(rule.check, sent, {"place": {"region": value}}) == (0 if fine else -32020)


@pytest.mark.parametrize("arguments", [{}, {"place": None}, {"place": "x"}, {"place": {}}, {"place": [1]}])
def test_an_absent_parameter_is_not_expected(arguments: dict[str, Any]) -> None:
    rule = ParamRule("Region", ("place", "region"))
    assert code_of(rule.check, {}, arguments) == 0
    assert code_of(rule.check, {b"mcp-param-region": b"us"}, arguments) == -32020


@pytest.mark.parametrize(
    ("pairs", "twice"),
    [
        ([(b"mcp-name", b"a"), (b"mcp-name", b"a")], b"mcp-name"),
        ([(b"mcp-name", b"a"), (b"mcp-method", b"a")], None),
        ([(b"accept", b"a"), (b"accept", b"b")], None),
        ([(b"mcp-param-a", b"a"), (b"mcp-param-a", b"b")], b"mcp-param-a"),
        ([(b"authorization", b"a"), (b"host", b"a"), (b"authorization", b"b")], b"authorization"),
    ],
)
def test_duplicates(pairs: list[tuple[bytes, bytes]], twice: bytes | None) -> None:
    assert duplicated(pairs) == twice
