"""The seal of `requestState`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redstart import ProtocolError
from redstart.asking import seal
from redstart.asking.seal import MAX_STATE, KeyRing, StateTooLarge

ONE, TWO = "key number one is long enough", "key number two is long enough"
both = pytest.mark.parametrize("encrypt", [True, False])


def opens(ring: KeyRing, state: object, bound: bytes = b"ada") -> bool:
    try:
        ring.open(state, bound)
    except ProtocolError as error:
        return error.code != -32602
    return True


@both
@pytest.mark.requirement("T90")
def test_it_opens_for_its_owner_only(encrypt: bool) -> None:
    ring = KeyRing([ONE], encrypt=encrypt)
    state = ring.seal(b"payload", b"ada")
    assert ring.open(state, b"ada") == b"payload"
    assert not opens(ring, state, b"bob")
    assert not opens(KeyRing([TWO], encrypt=encrypt), state)
    assert ring.secret is encrypt


@both
def test_every_changed_character_is_noticed(encrypt: bool) -> None:
    ring = KeyRing([ONE], encrypt=encrypt)
    state = ring.seal(b"payload", b"ada")
    for place, old in enumerate(state):
        for new in "AB-_" if old not in "AB" else "CD-_":
            if new != old:
                assert not opens(ring, state[:place] + new + state[place + 1 :])
    for wrong in (state + "A", state + "=", state[:-1], state[1:], " " + state, state + "\n", state.replace("-", "+")):
        assert wrong == state or not opens(ring, wrong)


@both
def test_rotation(encrypt: bool) -> None:
    old, new = KeyRing([ONE], encrypt=encrypt), KeyRing([TWO, ONE], encrypt=encrypt)
    assert opens(new, old.seal(b"x", b"ada"))
    assert not opens(old, new.seal(b"x", b"ada"))
    assert opens(KeyRing([TWO], encrypt=encrypt), new.seal(b"x", b"ada"))


def test_a_process_without_cryptography_and_one_with_it_share_keys() -> None:
    signed, encrypted = KeyRing([ONE], encrypt=False), KeyRing([ONE])
    assert opens(encrypted, signed.seal(b"x", b"ada"))
    assert not opens(signed, encrypted.seal(b"x", b"ada"))


@both
def test_the_cap(encrypt: bool) -> None:
    ring = KeyRing([ONE], encrypt=encrypt)
    with pytest.raises(StateTooLarge, match="32768"):
        ring.seal(b"x" * MAX_STATE, b"ada")


def test_the_largest_state_opens_and_a_larger_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing([ONE], encrypt=False)
    payload = b"x" * (MAX_STATE // 4 * 3 - 37)  # beside its head and its signature
    state = ring.seal(payload, b"ada")
    assert len(state) == MAX_STATE
    assert ring.open(state, b"ada") == payload
    monkeypatch.setattr(seal, "MAX_STATE", MAX_STATE - 1)
    assert not opens(ring, state)


@pytest.mark.parametrize("state", [None, 7, 1.5, True, [], {}, "", "A", "AAAA", "=", "é", b"bytes"])
def test_what_is_no_state(state: object) -> None:
    assert not opens(KeyRing([ONE]), state)


@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.hex())))
def test_no_text_opens(state: str) -> None:
    assert not opens(KeyRing([ONE]), state)


def test_no_keys_means_one_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDSTART_KEYS", raising=False)
    monkeypatch.delenv("REDSTART_KEY_FILE", raising=False)
    assert opens(KeyRing(), KeyRing().seal(b"x", b"ada"))


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{TWO}\n\n{ONE}\n")
    monkeypatch.setenv("REDSTART_KEY_FILE", str(file))
    assert opens(KeyRing(), KeyRing([ONE]).seal(b"x", b"ada"))
    monkeypatch.setenv("REDSTART_KEYS", f"{ONE}, another key that is long")
    assert opens(KeyRing([ONE]), KeyRing().seal(b"x", b"ada"))
    assert opens(KeyRing([TWO]), KeyRing([TWO]).seal(b"x", b"ada"))


def test_a_short_key_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert seal.configured_keys(["short"]) == [b"short"]
    assert "fewer than 16" in caplog.text
    caplog.clear()
    seal.configured_keys(["of 16 characters"])
    assert not caplog.text


def test_without_cryptography_states_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "aes_gcm", lambda: None)
    ring = KeyRing([ONE])
    assert not ring.secret
    assert ring.open(ring.seal(b"x", b"ada"), b"ada") == b"x"
