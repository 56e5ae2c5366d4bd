"""The file in which tokens are kept."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from redstart.client import FileTokens, MemoryTokens, SignInError, TokenStore


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStore:
    return MemoryTokens() if request.param == "memory" else FileTokens(tmp_path / "a" / "tokens.json")


def test_what_is_saved_is_loaded_until_it_is_forgotten(store: TokenStore) -> None:
    assert store.load("a") is None
    store.save("a", {"x": 1})
    store.save("b", {"x": 2})
    store.save("a", {"x": 3})
    assert (store.load("a"), store.load("b")) == ({"x": 3}, {"x": 2})
    store.save("a", None)
    assert (store.load("a"), store.load("b")) == (None, {"x": 2})


def test_only_the_owner_can_read_the_file_also_if_others_could_before(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "tokens.json"
    FileTokens(file).save("a", {})
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o644)
    FileTokens(file).save("b", {})
    assert file.stat().st_mode & 0o777 == 0o600


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    stores = [FileTokens(tmp_path / "tokens.json") for _ in range(8)]
    threads = [threading.Thread(target=one.save, args=(str(n), {"n": n})) for n, one in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(json.loads((tmp_path / "tokens.json").read_text())) == [str(n) for n in range(8)]


def test_a_file_that_is_broken_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("{")
    with pytest.raises(SignInError, match=r"tokens\.json cannot be read"):
        FileTokens(tmp_path / "tokens.json").load("a")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no owners as here")
def test_a_file_that_somebody_else_has_put_there_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of many, such as /tmp, it would name their token endpoint, which would get our refresh token."""
    file = tmp_path / "tokens.json"
    file.write_text('{"a": {"token_endpoint": "https://evil.example"}}')
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(SignInError, match="belongs to another user"):
        FileTokens(file).load("a")
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid)
    assert FileTokens(file).load("a") is not None


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_somebody_else_has_put_there_lead_nowhere(tmp_path: Path) -> None:
    file, target = tmp_path / "tokens.json", tmp_path / "precious"
    (tmp_path / ".tokens.json.lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        FileTokens(file).save("a", {})
    assert not target.exists()
    (tmp_path / ".tokens.json.lock").unlink()
    target.write_text("precious")
    (tmp_path / f".tokens.json.{os.getpid()}").symlink_to(target)
    FileTokens(file).save("a", {})
    file.unlink()
    file.symlink_to(target.with_name("gone"))
    FileTokens(file).save("a", {})
    assert not file.is_symlink()
    assert target.read_text() == "precious"
    assert not target.with_name("gone").exists()
