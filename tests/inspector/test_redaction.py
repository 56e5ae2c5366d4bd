"""What is hidden of headers and arguments."""

from __future__ import annotations

import json

import pytest

from redstart.inspector.redaction import HIDDEN, secret_names, shown_headers, without_secrets


@pytest.mark.parametrize(
    "name",
    ["authorization", "Cookie", "x-redstart-token", "x-api-key", "my-secret", "db-password", "proxy-authorization"],
)
def test_secret_headers(name: str) -> None:
    assert shown_headers({name.encode(): b"value"}, strict=False) == {name: HIDDEN}


def test_other_headers_are_shown_but_in_strict_mode_only_the_known_ones() -> None:
    headers = {b"user-agent": b"curl", b"x-note": b"hello"}
    assert shown_headers(headers, strict=False) == {"user-agent": "curl", "x-note": "hello"}
    assert shown_headers(headers, strict=True) == {"user-agent": "curl", "x-note": HIDDEN}


def test_secret_arguments_are_found_at_any_depth() -> None:
    schema = {
        "properties": {
            "pin": {"anyOf": [{"type": "string", "format": "password"}, {"type": "null"}]},
            "login": {"type": "object", "properties": {"secret": {"writeOnly": True}, "user": {"type": "string"}}},
        },
        "$defs": {"Card": {"properties": {"number": {"format": "password"}}}},
    }
    assert secret_names(schema) == {"pin", "secret", "number"}
    message = {"params": {"arguments": {"pin": "1", "login": {"secret": "2", "user": "ada"}, "cards": [{"number": 3}]}}}
    shown = json.loads(without_secrets(json.dumps(message).encode(), secret_names(schema)))
    expected = {"pin": HIDDEN, "login": {"secret": HIDDEN, "user": "ada"}, "cards": [{"number": HIDDEN}]}
    assert shown == {"params": {"arguments": expected}}


def test_what_cannot_be_read_is_not_shown() -> None:
    assert b"hunter2" not in without_secrets(b'{"password": "hunter2"', frozenset({"password"}))
