"""What is given wrong to a Server is refused at once, in words that say what to write."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart import RegistrationError, Server
from redstart.store.open import open_state

KEY = "a key that is long enough"
NAN = math.nan


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        *(({"ask_timeout": wrong}, TypeError, "ask_timeout must be a number of seconds above 0") for wrong in
          (None, "x", True, [1])),
        *(({"ask_timeout": wrong}, ValueError, "ask_timeout must be a number of seconds above 0") for wrong in
          (0, -1, NAN, math.inf)),
        *(({"timeout": wrong}, TypeError, "timeout must be a number of seconds above 0, or None") for wrong in
          ("5", True)),
        *(({"timeout": wrong}, ValueError, "timeout must be a number of seconds above 0, or None") for wrong in
          (0, -1, NAN)),
        *(({name: wrong}, TypeError, f"{name} must be a whole number of at least") for wrong in ("8", 2.5, True)
          for name in ("threads", "processes", "max_concurrency", "max_queue", "max_result_bytes", "page_size")),
        *(({name: 0}, ValueError, f"{name} must be a whole number of at least 1") for name in
          ("threads", "processes", "max_concurrency", "max_result_bytes", "page_size")),
        ({"max_queue": -1}, ValueError, "max_queue must be a whole number of at least 0, not -1"),
        ({"max_queue": None}, TypeError, "max_queue must be a whole number of at least 0, not None"),
        ({"threads": None}, TypeError, "threads must be a whole number of at least 1, not None"),
    ],
)  # fmt: skip
def test_numbers(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Server("wrong", **options)
    assert words in str(caught.value)


def test_numbers_that_are_fine() -> None:
    Server("fine", ask_timeout=0.5, timeout=math.inf, threads=1, processes=1, max_concurrency=1, max_queue=0)
    Server("fine", timeout=None, processes=None, max_concurrency=None, max_result_bytes=1, page_size=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": "5"}, "timeout of work must be a number of seconds above 0"),
        ({"timeout": NAN}, "timeout of work must be a number of seconds above 0"),
        ({"concurrency": "2"}, "concurrency of work must be a whole number of at least 1"),
        ({"concurrency": 0}, "concurrency of work must be a whole number of at least 1"),
        ({"max_result_bytes": 0}, "max_result_bytes of work must be a whole number of at least 1"),
    ],
)
def test_numbers_of_a_tool(options: dict[str, Any], words: str) -> None:
    server = Server("wrong")

    def work() -> None: ...

    with pytest.raises(RegistrationError) as caught:
        server.tool(**options)(work)
    assert words in str(caught.value)
    assert __file__ in str(caught.value)
    assert not list(server.tools)


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        (KEY, TypeError, "write keys=["),
        (KEY.encode(), TypeError, "write keys=["),
        ("", TypeError, "write keys=["),
        (None, TypeError, "write keys=["),
        (7, TypeError, "write keys=["),
        ([KEY, None], TypeError, "a key of keys= is a str or bytes, not NoneType"),
        ([7], TypeError, "a key of keys= is a str or bytes, not int"),
        ([KEY, ""], ValueError, "a key of keys= is empty"),
        ([b" \n"], ValueError, "a key of keys= is empty"),
        (["\ud800" * 20], ValueError, "a key of keys= is no text"),
    ],
)
def test_keys_that_are_none(keys: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Server("bank", keys=keys)
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


def test_keys_that_are_fine() -> None:
    assert Server("bank", keys=(KEY, b"bytes are fine too")).keys == [KEY, b"bytes are fine too"]
    assert Server("bank", keys=[]).keys == []


def start(server: Server) -> None:
    async def run() -> None:
        await server.host.start()
        await server.host.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"REDSTART_KEYS": " , "}, r"REDSTART_KEYS is set, but there is no key in it"),
        ({"REDSTART_KEYS": ""}, r"REDSTART_KEYS is set, but there is no key in it"),
        ({"REDSTART_KEY_FILE": "{}/nothing"}, r"REDSTART_KEY_FILE: there is no key in {}/nothing"),
        ({"REDSTART_KEY_FILE": "{}/none"}, r"REDSTART_KEY_FILE: {}/none: No such file or directory"),
        ({"REDSTART_KEY_FILE": "{}"}, r"REDSTART_KEY_FILE: {}: Is a directory"),
        ({"REDSTART_KEY_FILE": "hunter2"}, r"REDSTART_KEY_FILE: its path, looked for in .*: No such file"),
        ({"REDSTART_KEY_FILE": ""}, r"REDSTART_KEY_FILE is set, but names no file"),
    ],
)
def test_a_source_without_keys_keeps_a_server_from_starting(
    env: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REDSTART_KEYS", "REDSTART_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "nothing").write_text("\n \n")
    server = Server("bank")
    for name, value in env.items():
        monkeypatch.setenv(name, value.replace("{}", str(tmp_path)))
    with pytest.raises(ValueError, match=words.replace("{}", str(tmp_path))) as caught:
        start(server)
    assert "openssl rand -hex 32" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    start(Server("bank", keys=[KEY]))  # the server's own keys come first: the rest is not looked at


def test_the_key_file_is_read_when_the_server_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDSTART_KEYS", raising=False)
    file = tmp_path / "keys"
    file.write_text(KEY)
    monkeypatch.setenv("REDSTART_KEY_FILE", str(file))
    server = Server("bank")
    start(server)
    file.unlink()  # such as a secret that is there for the start only
    other = Server("bank", keys=[KEY])
    assert other.host.keys.open(server.host.keys.seal(b"x", b"ada"), b"ada") == b"x"


@pytest.mark.parametrize(("given", "loaded"), [("", "False False"), (f", keys=[{KEY!r}]", "True False")])
def test_a_start_loads_what_is_needed_and_no_more(given: str, loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDSTART_KEYS", "REDSTART_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    source = (
        f"import asyncio, sys\nfrom redstart import Server\nserver = Server('bank'{given})\n"
        "async def run():\n    await server.host.start()\n    await server.host.stop()\n"
        "asyncio.run(run())\nprint('redstart.server.seal' in sys.modules, 'cryptography' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == loaded


# ---------------------------------------------------------------- stores


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ada:secret@host:6379/0", "'redis://***@host:6379/0'"),
        ("redis://:se/cr@et@host", "'redis://***@host'"),
        ("postgresql://host/db?user=ada&password=secret", "'postgresql://host/db?…'"),
        ("redis:ada:secret@host", "'***@host'"),
        ("sqlite:///file.db", "'sqlite:///file.db'"),
        ("redis", "'redis'"),
    ],
)
def test_a_password_in_a_url_is_not_shown(url: str, shown: str) -> None:
    with pytest.raises(ValueError, match="known: memory://") as caught:
        open_state(url)
    assert shown in str(caught.value)
    assert not {"ada", "secret", "se/cr"} & set(str(caught.value).replace(":", " ").replace("@", " ").split())


def test_what_is_no_store_at_all() -> None:
    with pytest.raises(TypeError, match="store="):
        Server("wrong", store=Path("file.db"))  # type: ignore[arg-type]
