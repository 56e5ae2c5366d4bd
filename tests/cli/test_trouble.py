"""What a person sees when a command cannot do its work: one message, the user's own line, no secrets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart.cli.target import TargetError, load
from support import free_port
from warm import redstart

SERVER = "from redstart import Server\nserver = Server('shop')\n"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def ran(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REDSTART_", "PYTHON"))}
    plain = "stdout" in options  # its buffer is made when an interpreter starts
    command = [sys.executable, "-m", "redstart", *arguments] if plain else redstart(*arguments)
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **options}
    return subprocess.run(command, env={**clean, **(env or {})}, timeout=30, check=False, **options)


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize("how", [[], ["--http", "--port", "0"]])
@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"REDSTART_KEY_FILE": "/no/such/file"}, "REDSTART_KEY_FILE: /no/such/file: No such file or directory"),
        ({"REDSTART_KEYS": " ,"}, "REDSTART_KEYS is set, but there is no key in it"),
    ],
)
def test_keys_that_are_not_there(tmp_path: Path, how: list[str], env: dict[str, str], said: str) -> None:
    done = ran("run", write(tmp_path / "shop.py", SERVER), *how, env=env)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"redstart: {said}")
    assert "Traceback" not in done.stderr
    assert "served at" not in done.stderr


# ---------------------------------------------------------------- the line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n\nserver = Server('shop', store='mongodb://ada:secret@host')\n", 4),
        ("import json\n\njson.loads('{')\n", 4),
        ("import pytest\n\n\n\npytest.importorskip(7)\n", 6),
    ],
)
def test_the_line_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = write(tmp_path / "wrong.py", "from redstart import Server\n" + text)
    with pytest.raises(TargetError) as caught:
        load(file)
    said = str(caught.value)  # an error of ours begins with its place
    assert f"could not be loaded ({file}, line {line})" in said or f"could not be loaded: {file}:{line}: " in said
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ('JWT(issuer="http://login.example.com", audience="x")', "issuer must be like https://login.example.com"),
        ('JWT(issuer="https://login.example.com", audience=None)', "audience of JWT must name this server"),
        ('Auth0(domain=None, audience="x")', "issuer must be like https://login.example.com"),
        ('BearerTokens({"two words": "ada"})', "a token of BearerTokens must be"),
    ],
)
def test_a_mistake_in_auth_shows_no_line_of_ours(tmp_path: Path, auth: str, said: str) -> None:
    """A variable of the environment that is not set is None."""
    file = write(tmp_path / "shop.py", f"from redstart.auth import Auth0, BearerTokens, JWT\n\nauth = {auth}\n{SERVER}")
    done = ran("run", file)
    assert done.stderr.startswith(f"redstart: {file} could not be loaded ({file}, line 3): ValueError: {said}")
    assert done.stderr.count("  File ") == 1


@pytest.mark.parametrize(
    "auth",
    [
        'OAuthProxy(GitHub(client_id="id", client_secret="hush"), token_seconds=0)',
        "Introspection('none', client_id='id', client_secret='hush', issuer='https://a.example', audience='x')",
        'OAuthProxy(GitHub(client_id="id", client_secret="a)b]hush"), token_seconds=0)',
        'BearerTokens({"ok": "ada", "hush hush": "bob"})',
        'BearerTokens({"ok": {"sub": "ada", "scopes": ["x"]}, "hush hush": "bob"})',
    ],
)
def test_a_mistake_in_auth_shows_no_secret(tmp_path: Path, auth: str) -> None:
    names = "BearerTokens, GitHub, Introspection, OAuthProxy"
    done = ran("run", write(tmp_path / "shop.py", f"from redstart.auth import {names}\n\nauth = {auth}\n{SERVER}"))
    assert "line 3" in done.stderr
    assert "hush" not in done.stderr


def test_an_installed_module_is_somebodys_code_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a package that lives where pip puts it, its own line is the best that there is."""
    home = tmp_path / "site-packages"
    home.mkdir()
    write(home / "installed_shop.py", "import json\n\njson.loads('{')\n")
    monkeypatch.setattr(sys, "path", [str(home), *sys.path])
    with pytest.raises(TargetError, match=r"\(.*installed_shop\.py, line 3\)"):
        load("installed_shop")


# ---------------------------------------------------------------- a reader that goes


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor"],
        ["doctor", "--json"],
        ["install", "{}", "cursor", "--print", "--name", "x"],
        ["check", "{}"],
        ["--help"],
        ["run", "--help"],
        ["--version"],
    ],
)
def test_a_reader_that_has_gone(tmp_path: Path, arguments: list[str], env: dict[str, str]) -> None:
    file = write(tmp_path / "shop.py", SERVER)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        pipes = {"stdout": writer, "stderr": subprocess.PIPE, "capture_output": False}
        done = ran(*(part.replace("{}", file) for part in arguments), env=env, **pipes)
    finally:
        os.close(writer)
    # `check` says on stdout what is wrong, and here nothing is; what argparse itself cannot write it leaves unsaid.
    silent = arguments[0] == "check" or (env and arguments[-1].startswith("--") and "doctor" not in arguments)
    assert done.returncode == (0 if silent else 141)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_broken_pipe_of_the_users_is_an_error_like_any_other(tmp_path: Path) -> None:
    text = "from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def life(server):\n"
    text += "    raise BrokenPipeError('the database has gone')\n    yield\n"
    text += SERVER.replace("Server(", "Server(lifespan=life, name=")
    done = ran("run", write(tmp_path / "shop.py", text))
    assert done.returncode == 1
    assert "the database has gone" in done.stderr


LIFESPAN = """
from contextlib import asynccontextmanager
from redstart import Server

@asynccontextmanager
async def life(server):
    raise ConnectionError("no database today")
    yield

server = Server("shop", lifespan=life)
"""


@pytest.mark.parametrize("options", [[], ["--http", "--port", "0"]])
def test_a_server_that_does_not_start_says_where_and_why(tmp_path: Path, options: list[str]) -> None:
    file = write(tmp_path / "shop.py", LIFESPAN)
    done = ran("run", file, *options)
    assert done.returncode == 1
    why = "ConnectionError: no database today"
    assert done.stderr.startswith(f"redstart: shop did not start ({file}, line 7): {why}\n")
    assert done.stderr.count("File ") == 1  # theirs, and none of ours
    assert "is served at" not in done.stderr


@pytest.mark.parametrize(
    ("store", "named", "why"),
    [
        ("redis://ada:s3cret@127.0.0.1:{}", "redis://***@127.0.0.1:{}", "refused"),
        ("postgresql://ada:s3cret@127.0.0.1:{}/shop", "postgresql://***@127.0.0.1:{}/shop", "refused"),
        ("sqlite:////no/such/folder/shop.db", "sqlite:////no/such/folder/shop.db", "unable to open database file"),
    ],
)
def test_a_store_that_is_away_at_the_start_is_named(tmp_path: Path, store: str, named: str, why: str) -> None:
    port = free_port()
    file = write(tmp_path / "shop.py", SERVER)
    done = ran("run", file, "--http", "--port", "0", "--store", store.format(port))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"redstart: shop did not start: its store {named.format(port)} is away: ")
    assert why in last
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr


def test_a_store_that_does_not_answer_at_the_start_is_said(tmp_path: Path) -> None:
    file = write(tmp_path / "shop.py", SERVER)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        done = ran("run", file, "--http", "--port", "0", "--store", store)
    assert done.returncode == 1
    assert f"its store {store} is away: Redis did not answer within 5 s" in done.stderr


def test_a_store_that_is_away_under_another_server_has_no_line_of_ours(tmp_path: Path) -> None:
    made = f"server = Server('shop', store='redis://127.0.0.1:{free_port()}')\napp = server.asgi()\n"
    write(tmp_path / "shop.py", f"from redstart import Server\n{made}")
    command = [sys.executable, "-m", "uvicorn", "shop:app", "--app-dir", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert "shop did not start: redstart.store.shared.StoreAway: The store of this server is away" in done.stderr
    assert "File " not in done.stderr


# ---------------------------------------------------------------- what was meant


@pytest.mark.parametrize("command", ["run", "dev", "worker", "check"])
def test_a_url_where_code_is_loaded(command: str) -> None:
    done = ran(command, "http://127.0.0.1:1/mcp")
    assert done.returncode == 2
    assert done.stderr == (
        "redstart: http://127.0.0.1:1/mcp is a URL, where a server runs already, and this command needs the code of "
        "one, such as server.py. A URL is for the commands that use a server: list, call, read, prompt, test, bench, "
        "inspect\n"
    )


@pytest.mark.parametrize("command", ["run", "list"])
@pytest.mark.parametrize("target", ["htp://127.0.0.1:1/mcp", "127.0.0.1:1/mcp", "localhost:8000"])
def test_a_url_without_a_known_scheme(command: str, target: str) -> None:
    done = ran(command, target)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"redstart: {target} is not a file or a module. A URL begins with http:// or https://"
    )


def test_a_revision_that_does_not_exist(tmp_path: Path) -> None:
    done = ran("list", write(tmp_path / "shop.py", SERVER), "--protocol", "2025-01-01")
    assert done.returncode == 2
    assert done.stderr.startswith("redstart: --protocol is one of 2024-11-05, ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from redstart import Sever", "Did you mean Server?"),
        ("from redstart.auth import BearerToken", "Did you mean BearerTokens?"),
        ("from redstart import FastMCP", "Did you mean Server?"),
        ("from json import Server", "Fix that line"),
    ],
)
def test_a_name_that_cannot_be_imported(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        load(write(tmp_path / "shop.py", f"{line}\n"))
    assert str(caught.value).splitlines()[-1].startswith(said)


def test_a_name_that_a_server_does_not_have(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.py", SERVER + "@server.tols\ndef add(a: int) -> int: return a\n")
    first = ran("run", path).stderr.splitlines()[0]
    words = """AttributeError: a Server has no attribute 'tols'. Did you mean "tool"?"""
    assert first == f"redstart: {path} could not be loaded ({path}, line 3): {words}"
    assert ran("run", path).stderr.count("Did you mean") == 2  # there, and in the traceback


@pytest.mark.parametrize("command", ["run", "list"])
def test_code_that_reads_stdin_when_it_is_loaded(tmp_path: Path, command: str) -> None:
    """It would take a message of the client."""
    path = write(tmp_path / "shop.py", "name = input('Which name? ')\n" + SERVER)
    done = ran(command, path, stdin=None, input=f"{json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'ping'})}\n")
    first, *_, last = done.stderr.removeprefix("Which name? ").splitlines()
    assert first == f"redstart: {path} could not be loaded ({path}, line 1): EOFError: EOF when reading a line"
    assert last.startswith("Nobody can type here: take it from a variable of the environment, ")
    assert (done.returncode, done.stdout) == (2, "")


def test_stdin_is_the_protocols_after_the_code_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.py", "import sys\nassert sys.stdin.read() == ''\n" + SERVER)
    assert ran("list", path).returncode == 0


def test_a_circular_import_is_called_so(tmp_path: Path) -> None:
    write(tmp_path / "circular_part.py", "from circular_shop import server\n")
    path = write(tmp_path / "circular_shop.py", "import circular_part\nserver = 1\n")
    assert "most likely due to a circular import" in ran("run", path).stderr.splitlines()[0]


SETTING = """from redstart import Server
from redstart.features.errors import SettingsError
Server("shop")
raise SettingsError("no key", "make one")
"""


MISSING = {
    "redis": """import sys
sys.modules["redis"] = None
from redstart import Server
server = Server("shop", store="redis://localhost")
""",
    "jsonschema_rs": """import sys
sys.modules["jsonschema_rs"] = None
from redstart import Server
Server("shop").tool(lambda **kw: 1, name="f", input_schema={"type": "object", "patternProperties": {"^x": {}}})
""",
}


@pytest.mark.parametrize("package", MISSING)
def test_a_missing_extra_is_one_line_without_a_traceback(package: str, tmp_path: Path) -> None:
    path = write(tmp_path / "shop.py", MISSING[package])
    for done in (
        ran("run", path),
        subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=30, check=False),
    ):
        [line] = done.stderr.splitlines()
        assert f"{path}:4: " in line
        assert 'pip install "redstart[' in line


def test_a_setting_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.py", SETTING)
    assert ran("run", path).stderr == f"redstart: {path} could not be loaded ({path}, line 4): no key; make one\n"
    script = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=30, check=False)
    assert (script.returncode, script.stderr) == (1, f"redstart: no key; make one ({path}, line 4)\n")
