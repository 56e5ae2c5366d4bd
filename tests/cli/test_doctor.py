"""`redstart doctor`: what it finds, what it advises, what it never says. Each run is a process, as for a person."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import redstart
from redstart.cli import installation, main
from support import ROOT
from warm import redstart as redstart_command

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BIRDS = str(ROOT / "examples" / "birds" / "server.py")
SRC = str(Path(redstart.__file__).parents[1])
KEY, OTHER = "one-key-of-many-characters", "5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592"
SERVER = "from redstart import Server\nserver = Server('shop', version='2.0.0')\n"
SIGNED = (
    "only signed (HMAC-SHA256): clients can read what a dialogue remembers; results of steps stay in the store",
    'pip install "redstart[seal]"',
)


class Report(NamedTuple):
    status: int
    rows: dict[str, dict[str, str]]
    said: str

    def state(self, step: str) -> str:
        return self.rows[step]["state"]

    def found(self, step: str) -> str:
        return self.rows[step]["found"]

    def advice(self, step: str) -> str:
        return self.rows[step]["advice"]


def ran(*arguments: str, flags: tuple[str, ...] = (), cwd: Path | None = None, **env: str) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REDSTART_", "PYTHON"))}
    command = redstart_command("doctor", *arguments)
    if flags or any(name.startswith("PYTHON") for name in env):  # these are for the start of an interpreter
        command = [sys.executable, *flags, "-m", "redstart", "doctor", *arguments]
    return subprocess.run(command, env={**clean, **env}, cwd=cwd, capture_output=True, timeout=40, check=False)


def report(*arguments: str, **options: Any) -> Report:
    done = ran(*arguments, "--json", **options)
    assert done.stdout, done.stderr.decode()
    rows = {row["step"]: row for row in json.loads(done.stdout)}
    return Report(done.returncode, rows, (done.stdout + done.stderr).decode())


def without(folder: Path, *names: str) -> dict[str, Any]:
    """Options for a process in whose Python some of what is installed is not: a folder of links to the rest."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(names) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return {"flags": ("-S",), "PYTHONPATH": os.pathsep.join((str(folder), SRC))}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Report]:
    """`report()` in this process, for tables of cases: to start one takes longer than to look."""

    def look(*arguments: str, cwd: Path, **env: str) -> Report:
        for name in [name for name in os.environ if name.startswith("REDSTART_")]:
            monkeypatch.delenv(name)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(cwd)
        status = main(["doctor", *arguments, "--json"])
        heard = capsys.readouterr()
        return Report(status, {row["step"]: row for row in json.loads(heard.out)}, heard.out + heard.err)

    return look


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


# ---------------------------------------------------------------- the installation


def test_an_installation() -> None:
    found = report()
    assert found.status == 0
    assert found.state("python") == found.state("redstart") == found.state("libraries") == "ok"
    assert sys.executable in found.found("python")
    assert found.found("redstart") == f"{redstart.__version__}, {Path(redstart.__file__).parent}"
    for line in PROJECT["dependencies"]:
        name = line.partition(">")[0]
        assert f"{name} {metadata.version(name)}" in found.found("libraries")
    assert f"cryptography {metadata.version('cryptography')}" in found.found("extra seal")
    assert (found.state("request states"), found.found("request states")) == ("ok", "encrypted (AES-256-GCM)")
    assert list(found.rows)[-1] == "keys"
    assert "start" not in found.rows


def test_the_extras_are_those_of_the_project() -> None:
    assert list(installation.EXTRAS) == [name for name in PROJECT["optional-dependencies"] if name != "all"]


def test_an_extra_has_a_purpose_where_code_uses_it() -> None:
    imported = set()
    for path in Path(redstart.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    for name, purpose in installation.EXTRAS.items():
        lines = PROJECT["optional-dependencies"][name]
        libraries = {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in lines}
        modules = {installation.MODULES.get(library, library.replace("-", "_")) for library in libraries}
        assert (modules <= imported) == bool(purpose), name


def test_lines_for_people_say_the_same() -> None:
    lines = ran().stdout.decode().splitlines()
    rows = report().rows
    assert [line.split()[0] for line in lines if line[0] != " "] == [row["state"] for row in rows.values()]
    at = next(number for number, line in enumerate(lines) if line.startswith("warn  keys "))
    assert rows["keys"]["found"] in lines[at]
    assert lines[at + 1] == "      " + rows["keys"]["advice"]


def test_without_the_extra_seal_states_are_only_signed(tmp_path: Path) -> None:
    found = report(**without(tmp_path / "site", "cryptography"))
    assert found.status == 0
    assert (found.state("request states"), found.found("request states"), found.advice("request states")) == (
        "warn",
        *SIGNED,
    )
    assert (found.state("extra seal"), found.advice("extra seal")) == ("ok", SIGNED[1])
    assert found.found("extra seal") == "not installed; for encrypted request states"


def test_half_of_an_extra_is_none(tmp_path: Path) -> None:
    """What `redstart[client]` brings is a part of another extra too, and no reason to warn."""
    found = report(**without(tmp_path / "site", "joserfc"))
    assert found.found("extra client").startswith("httpx2 ")
    assert found.state("extra auth") == "ok"
    assert found.found("extra auth") == "not installed; for tokens of an issuer: JWT, Introspection"


@pytest.mark.parametrize("library", ["httptools", "msgspec"])
@pytest.mark.parametrize("target", [(), (BIRDS,)], ids=["alone", "with-server"])
def test_a_missing_library(tmp_path: Path, library: str, target: tuple[str, ...]) -> None:
    found = report(*target, **without(tmp_path / "site", library))
    assert found.status == 1
    assert (found.state("libraries"), found.advice("libraries")) == ("fail", "pip install --upgrade redstart")
    assert f"{library} is not installed" in found.found("libraries")
    for step in ("event loop", "request states", "keys", *(["start", "store"] if target else [])):
        assert (found.state(step), found.found(step)) == ("skip", "not looked at, because libraries failed")


def test_an_old_library(tmp_path: Path) -> None:
    options = without(tmp_path / "site", "httptools-", "watchfiles-")
    for name, version in (("httptools", "0.6.1"), ("watchfiles", "0.24.0")):
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        write(tmp_path / "site" / f"{name}-{version}.dist-info" / "METADATA", text)
    found = report(**options)
    assert found.status == 1
    assert found.found("libraries").startswith("httptools must be 0.6.3 or newer, httptools 0.6.1")
    assert (found.state("extra dev"), found.found("extra dev")) == (
        "warn",
        "watchfiles must be 1.0 or newer, watchfiles 0.24.0",
    )
    assert found.advice("extra dev") == 'pip install --upgrade "redstart[dev]"'


def test_a_library_that_cannot_be_imported(tmp_path: Path) -> None:
    options = without(tmp_path / "site", "httptools")
    write(tmp_path / "site" / "httptools.py", "raise OSError('wrong ELF class')\n")
    metadata_folder = next(Path(sysconfig.get_path("purelib")).glob("httptools-*"))
    (tmp_path / "site" / metadata_folder.name).symlink_to(metadata_folder)
    found = report(**options)
    assert found.status == 1
    assert "httptools cannot be imported (wrong ELF class)" in found.found("libraries")


def test_redstart_that_is_not_installed(tmp_path: Path) -> None:
    found = report(**without(tmp_path / "site", "redstart-"))
    assert (found.status, found.state("redstart"), found.advice("redstart")) == (1, "fail", "pip install redstart")
    assert found.state("libraries") == found.state("extra seal") == found.state("keys") == "skip"
    assert found.found("keys") == "not looked at, because redstart failed"


def test_an_old_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(installation, "OLDEST", (9, 1))
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("fail  python ")
    assert said[1] == "      redstart needs Python 9.1 or newer"


def test_the_event_loop() -> None:
    assert report().found("event loop") == "uvloop"
    assert report(REDSTART_LOOP="asyncio").found("event loop") == "asyncio (REDSTART_LOOP=asyncio)"


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("env", "state", "found"),
    [
        ({}, "warn", "one made by the process: dialogues do not survive a restart, and do not work across several"),
        ({"REDSTART_KEYS": KEY}, "ok", "1 from REDSTART_KEYS"),
        ({"REDSTART_KEYS": f"{KEY}, {OTHER}"}, "ok", "2 from REDSTART_KEYS; the first one seals, all of them open"),
        ({"REDSTART_KEYS": f"{KEY},hunter2"}, "warn", "2 from REDSTART_KEYS; .*; 1 with fewer than 16 characters"),
        ({"REDSTART_KEYS": " ,"}, "fail", "REDSTART_KEYS is set, but there is no key in it"),
        ({"REDSTART_KEY_FILE": "{}/keys"}, "ok", "2 from REDSTART_KEY_FILE"),
        ({"REDSTART_KEY_FILE": "{}/keys", "REDSTART_KEYS": KEY}, "ok", "1 from REDSTART_KEYS"),
        ({"REDSTART_KEY_FILE": "{}/nothing"}, "fail", "REDSTART_KEY_FILE: there is no key in {}/nothing"),
        ({"REDSTART_KEY_FILE": "{}"}, "fail", "REDSTART_KEY_FILE: {}: Is a directory"),
        ({"REDSTART_KEY_FILE": "{}/none"}, "fail", "REDSTART_KEY_FILE: {}/none: No such file or directory"),
        ({"REDSTART_KEY_FILE": OTHER}, "fail", "REDSTART_KEY_FILE: its path, looked for in {}: No such file"),
        ({"REDSTART_KEY_FILE": "hunter2"}, "fail", "REDSTART_KEY_FILE: its path, looked for in {}: No such file"),
    ],
)
def test_keys(tmp_path: Path, here: Callable[..., Report], env: dict[str, str], state: str, found: str) -> None:
    write(tmp_path / "keys", f"{KEY}\n\n{OTHER}\n")
    write(tmp_path / "nothing", "\n")
    env = {name: value.replace("{}", str(tmp_path)) for name, value in env.items()}
    seen = here(cwd=tmp_path, **env)
    assert seen.state("keys") == state
    assert re.match(found.replace("{}", re.escape(str(tmp_path))), seen.found("keys"))
    assert ("openssl rand -hex 32" in seen.advice("keys")) == (state != "ok")
    assert seen.status == (1 if state == "fail" else 0)
    for key in (KEY, OTHER, "hunter2"):
        assert key[:7] not in seen.said


# ---------------------------------------------------------------- a server


def test_a_server() -> None:
    found = report(BIRDS)
    assert found.status == 0
    assert re.fullmatch(
        r"birds 1\.0\.0 answered initialize \(2025-11-25\) after \d+\.\d\d s",
        found.found("start"),
    )
    assert found.found("stdout") == "nothing but the protocol"
    assert found.found("discover") == "server/discover (2026-07-28) is answered too"
    assert found.found("offers") == "3 tools, 2 prompts, 2 resources, 1 template"
    assert found.found("store") == "memory://: what happens once happens once in each process"
    assert list(found.rows)[-6:] == ["start", "stdout", "discover", "offers", "store", "keys"]


def test_the_store_of_the_environment(tmp_path: Path) -> None:
    found = report(BIRDS, REDSTART_STORE=f"sqlite:///{tmp_path}/birds.db")
    assert (found.status, found.found("store")) == (0, "sqlite://…")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos._exit(3)\n", "it ended with exit status 3 before it answered"),
        ("import sys\nsys.exit('no licence')\n", r"it ended with exit status 2 (?s:.*)sys\.exit\('no licence'\)"),
        ("1 / 0\n", r"it ended with exit status 2 (?s:.*)wrong\.py, line 1\): ZeroDivisionError"),
        ("def f(n): f(n - 1) if n else 1 / 0\nf(9)\n", r"(?s:.*)wrong\.py, line 1\): ZeroDivisionError"),
        (
            "import sys, threading\nprint('waits', file=sys.stderr)\nthreading.Event().wait()\n",
            "initialize: no answer within 1 seconds\n  waits",
        ),
    ],
)
def test_a_server_that_does_not_start(tmp_path: Path, source: str, found: str) -> None:
    seconds = "1" if "wait" in source else "20"
    seen = report(write(tmp_path / "wrong.py", source), "--timeout", seconds)
    assert (seen.status, seen.state("start")) == (1, "fail")
    assert re.match(found, seen.found("start")), seen.found("start")
    assert seen.advice("start")
    for step in ("stdout", "discover", "offers", "store", "keys"):
        assert (seen.state(step), seen.found(step)) == ("skip", "not looked at, because start failed")


def test_no_key_is_shown_with_what_a_server_says(tmp_path: Path) -> None:
    source = f"""import os, sys
from redstart import Server
sys.stderr.write(os.environ["REDSTART_KEYS"] + " {OTHER}\\n")
server = Server("shop", keys=["hunter2", "hunter3"], store="rediz://ada:pass@host")
"""
    bad_store = report(write(tmp_path / "store.py", source), REDSTART_KEYS=KEY)
    assert "no store is known for 'rediz://***@host'" in bad_store.found("start")
    bad_option = report(
        write(tmp_path / "option.py", source.replace('store="rediz://ada:pass@host"', 'version={}["x"]')),
        REDSTART_KEYS=KEY,
    )
    assert "*** ***" in bad_option.found("start")
    assert "keys=[***]" in bad_option.found("start")
    for secret in (KEY, OTHER, "hunter2", "hunter3", "ada:"):
        assert secret not in bad_store.said + bad_option.said


def test_what_a_file_prints_is_no_part_of_the_report(tmp_path: Path) -> None:
    file = write(tmp_path / "loud.py", SERVER + "print('noise', flush=True)\nserver.run()\n")
    seen = report(file)
    assert (seen.status, seen.found("stdout")) == (0, "nothing but the protocol")
    assert seen.found("offers") == "0 tools, 0 prompts, 0 resources, 0 templates"


def test_what_prints_before_redstart_does(tmp_path: Path) -> None:
    write(tmp_path / "sitecustomize.py", "print('welcome', flush=True)\n")
    done = ran(BIRDS, PYTHONPATH=str(tmp_path))
    said = done.stdout.decode()
    assert done.returncode == 1
    assert re.search(r"(?m)^fail  stdout .*not a JSON-RPC message: b'welcome'\n      .*sitecustomize\.py", said)
    assert re.search(r"(?m)^ok    discover ", said)


def test_a_refused_discovery(tmp_path: Path) -> None:
    source = SERVER + (
        "from redstart import ProtocolError\n"
        "@server.add_middleware\n"
        "async def no(call, next):\n"
        "    if call.method.name == 'server/discover':\n"
        "        raise ProtocolError(-32001, 'not here')\n"
        "    return await next(call)\n"
    )
    seen = report(write(tmp_path / "old.py", source))
    assert (seen.status, seen.state("discover"), seen.found("discover")) == (1, "fail", "not here (-32001)")
    assert seen.state("start") == seen.state("offers") == seen.state("store") == "ok"


def test_the_servers_own_keys_and_store(tmp_path: Path) -> None:
    source = (
        "import asyncio\nfrom redstart import Server\nfrom redstart.store.memory import MemoryStore\n"
        "class Vault(MemoryStore): ...\n"
        f"server = Server('shop', keys=['{KEY}', '{OTHER}'], store=Vault())\n"
        "asyncio.run(server.run_async())\n"
    )
    seen = report(write(tmp_path / "own.py", source), REDSTART_KEYS="hunter2")
    assert (seen.status, seen.found("store")) == (0, "Vault")
    assert (seen.state("keys"), seen.found("keys")[:21]) == ("ok", "2 from Server(keys=…)")
    assert KEY not in seen.said


def test_a_file_that_loads_only_once(tmp_path: Path) -> None:
    source = f"import os\nos.mkdir({str(tmp_path / 'lock')!r})\n" + SERVER
    seen = report(write(tmp_path / "once.py", source))
    assert (seen.status, seen.state("start"), seen.state("store")) == (1, "ok", "fail")
    assert "FileExistsError" in seen.found("store")
    assert seen.found("keys") == "not looked at, because store failed"


def test_what_the_documentation_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "asking.md").read_text()
    block = re.search(r"(?s)\$ redstart doctor (\S+)\n…\n(.*?)```", page)
    assert block
    done = ran(block[1], cwd=ROOT, **without(tmp_path / "site", "cryptography"))
    shown, said = (re.sub(r"after [\d.]+ s", "", text) for text in (block[2], done.stdout.decode()))
    assert said.endswith(shown)


# ---------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "target", ["none.py", "no_such_module_at_all", "no_such_module_at_all.inner:x", "noisy/none.py"]
)
def test_a_target_that_is_not_there(tmp_path: Path, target: str) -> None:
    done = ran(target, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"redstart: there is no")


def test_targets_that_are_there(tmp_path: Path) -> None:
    write(tmp_path / "shop" / "__init__.py", "")
    write(tmp_path / "shop" / "hats.py", SERVER)
    write(
        tmp_path / "desk" / "tools" / "add.py", "from redstart import tool\n@tool\ndef add(a: int) -> int: return a\n"
    )
    for target in ("shop.hats", "shop.hats:server", "shop/hats.py:server", "desk"):
        assert report(target, cwd=tmp_path).status == 0
    assert report("shop.boots", cwd=tmp_path).found("start").endswith("for a file, write its name with .py")


def test_bad_usage() -> None:
    done = ran("--timeout", "soon")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"argument --timeout: invalid float value: 'soon'" in done.stderr


def test_a_stream_that_cannot_encode(tmp_path: Path) -> None:
    file = write(tmp_path / "own.py", SERVER.replace("2.0.0'", f"2.0.0', keys=['{KEY}']"))
    done = ran(file, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert rb"1 from Server(keys=\u2026)" in done.stdout
