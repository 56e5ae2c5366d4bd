"""Processes with different keys: the operator hears of it, once a minute, and never of a state or a key."""

from __future__ import annotations

import logging
from base64 import b64encode

import pytest

from redstart.asking import seal
from redstart.asking.seal import KeyRing
from redstart.wire.jsonrpc import ProtocolError

OLD, NEW, OTHER = ("the old key of this server", "the new key of this server", "the key of somebody else")
SAME = "do all its processes have the same REDSTART_KEYS?"


@pytest.fixture(autouse=True)
def quiet_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "_warn_after", 0.0)


def refuse(ring: KeyRing, state: str) -> None:
    with pytest.raises(ProtocolError, match="altered"):
        ring.open(state, b"ada")


@pytest.mark.parametrize("encrypt", [True, False])
def test_a_state_of_other_keys_is_reported(encrypt: bool, caplog: pytest.LogCaptureFixture) -> None:
    state = KeyRing([OTHER], encrypt=encrypt).seal(b"{}", b"ada")
    refuse(KeyRing([NEW, OLD]), state)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"a requestState opens with none of the 2 keys of this server: {SAME}")
    ]
    assert not any(secret in caplog.text for secret in (state, OLD, NEW, OTHER))


def test_one_key(caplog: pytest.LogCaptureFixture) -> None:
    refuse(KeyRing([NEW]), KeyRing([OTHER]).seal(b"{}", b"ada"))
    assert caplog.messages == [f"a requestState does not open with the key of this server: {SAME}"]


def test_once_a_minute(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    moments, state = iter((1e6, 1e6 + 1, 1e6 + 59, 1e6 + 60, 1e6 + 61)), KeyRing([OTHER]).seal(b"{}", b"ada")
    monkeypatch.setattr(seal, "monotonic", lambda: next(moments))
    said = []
    for _ in range(5):
        refuse(KeyRing([NEW]), state)  # another ring, the same process
        said.append(len(caplog.records))
    assert said == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("encrypt", [True, False])
def test_what_is_merely_wrong_is_not_reported(encrypt: bool, caplog: pytest.LogCaptureFixture) -> None:
    ring = KeyRing([NEW, OLD], encrypt=encrypt)
    state = KeyRing([OLD], encrypt=encrypt).seal(b"{}", b"ada")
    assert ring.open(state, b"ada") == b"{}"
    tampered = state[:-8] + ("A" if state[-8] != "A" else "B") + state[-7:]
    with pytest.raises(ProtocolError):
        ring.open(state, b"somebody else")
    for bad in (tampered, "", "garbage", state[:16], b64encode(b"\x01abcd").decode(), b64encode(b"x" * 100).decode()):
        refuse(ring, bad)
    for kind, size in ((b"\x01", 5 + 12 + 16), (b"\x02", 5 + 32)):  # shorter than any state
        refuse(ring, b64encode((kind + b"other").ljust(size - 1, b"x")).decode())
    assert not caplog.records
