"""What people read when something is wrong with a server: the same words everywhere, and no traceback of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redstart import Server
from redstart.cli import main
from redstart.features.errors import SettingsError
from warm import redstart

LIFESPAN = """
from contextlib import asynccontextmanager
from redstart import Server, current_context

@asynccontextmanager
async def life(server):
    current_context()
    yield

server = Server("shop", lifespan=life)
"""
SCRIPT = """
if __name__ == "__main__":
    server.run({})
"""
HOW = pytest.mark.parametrize("how", ["", '"http", port=0'], ids=["stdio", "http"])


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def ran(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REDSTART_", "PYTHON"))}
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 30}
    return subprocess.run(command, env={**clean, **env}, check=False, **options)


# ---------------------------------------------------------------- a server that does not start


def test_check_says_it_as_run_does(tmp_path: Path) -> None:
    file = write(tmp_path / "shop.py", LIFESPAN)
    checked, run = ran(*redstart("check", file)), ran(*redstart("run", file))
    assert checked.stderr.startswith(f"redstart: shop did not start ({file}, line 7): ")
    assert (checked.stderr, checked.returncode) == (run.stderr, run.returncode)
    assert checked.stdout == ""


@HOW
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_script_says_it_as_run_does(tmp_path: Path, how: str, loop: str) -> None:
    file = write(tmp_path / "shop.py", LIFESPAN + SCRIPT.format(how))
    script, run = ran(sys.executable, file, REDSTART_LOOP=loop), ran(*redstart("run", file))
    assert script.stderr.startswith(f"redstart: shop did not start ({file}, line 7): ")
    assert (script.stderr, script.returncode) == (run.stderr, 1)


@HOW
def test_a_script_without_its_keys(tmp_path: Path, how: str) -> None:
    file = write(tmp_path / "shop.py", "from redstart import Server\nserver = Server('shop')\n" + SCRIPT.format(how))
    done = ran(sys.executable, file, REDSTART_KEYS="")
    assert done.stderr.startswith("redstart: REDSTART_KEYS is set, but there is no key in it; unset it, or make a key")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1


@HOW
def test_who_catches_the_end_has_the_reason(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDSTART_KEYS", "")
    with pytest.raises(SystemExit, match="there is no key in it") as caught:
        Server("shop").run(**({"transport": "http", "port": 0} if how else {}))  # type: ignore[call-overload]
    assert isinstance(caught.value.__cause__, SettingsError)


OF_A_THREAD = """
import threading
reasons = []

def run() -> None:
    try:
        server.run("http", port=0)
    except Exception as error:
        reasons.append(type(error).__name__)

thread = threading.Thread(target=run)
thread.start()
thread.join()
print(*reasons)
"""


def test_in_a_thread_it_is_an_exception(tmp_path: Path) -> None:
    """A thread that exits says nothing, so nobody would know."""
    done = ran(sys.executable, write(tmp_path / "shop.py", LIFESPAN + OF_A_THREAD))
    assert (done.stdout, done.stderr) == ("RuntimeError\n", "")


def test_what_fails_later_is_what_it_is(tmp_path: Path) -> None:
    text = LIFESPAN.replace("    current_context()\n    yield", "    yield\n    1 / 0") + SCRIPT.format("")
    done = ran(sys.executable, write(tmp_path / "shop.py", text))
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


# ---------------------------------------------------------------- a store that is away


def test_a_store_that_is_away_at_the_start_is_told_without_our_frames(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/nowhere/shop.db"
    text = f"from redstart import Server\nserver = Server('shop', store={store!r})\n" + SCRIPT.format('"http", port=0')
    file = write(tmp_path / "shop.py", text)
    for command in ([sys.executable, file], redstart("run", file, "--http", "--port=0")):
        done = ran(*command)
        assert done.returncode == 1
        away = f"its store {store} is away: SQLite says: unable to open database file"
        assert done.stderr.splitlines()[-1] == f"redstart: shop did not start: {away}"
        assert "Traceback" not in done.stderr
        assert "is served" not in done.stderr


# ---------------------------------------------------------------- a port


@pytest.mark.parametrize("port", ["99999", "-1", "65536", "http"])
def test_no_port(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "shop.py", "--http", f"--port={port}"])
    assert caught.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f"argument --port: a port is a whole number from 0 to 65535, not {port}")


def test_a_value_that_an_option_cannot_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "shop.py", "--http", "--public-url=shop"]) == 2
    said = "redstart: public_url must be like https://mcp.example.com, or None, not 'shop'\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
def test_no_time_to_wait(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "shop.py", "--http", f"--drain={seconds}"])
    assert caught.value.code == 2
    assert f"argument --drain: a number of seconds, not {seconds}" in capsys.readouterr().err


# ---------------------------------------------------------------- which server

TWO = "from redstart import Server\nfirst = Server('one')\nsecond = Server('two')\n"


@pytest.mark.parametrize("command", [["check"], ["install", "cursor", "--print"], ["run"]], ids=" ".join)
def test_of_two_servers_it_says_which(tmp_path: Path, command: list[str]) -> None:
    file = write(tmp_path / "two.py", TWO)
    done = ran(*redstart(command[0], file, *command[1:]))
    note = f"redstart: {file} has 2 servers, and `first` is served; for `second` write {file}:second\n"
    assert done.stderr.startswith(note)
    assert done.returncode == 0
    assert "servers" not in ran(*redstart(command[0], f"{file}:second", *command[1:])).stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "third = Server('three')\n",
            "has 3 servers, and `first` is served; for `second` or `third` write {}:second\n",
        ),
        ("server = Server('own')\n", "has 3 servers, and `server` is served; for `first` or `second` write {}:first\n"),
        ("server = Server('own')\nsecond.run()\n", "has 3 servers, and `server` is served; "),
        ("second.run()\n", ""),  # the file itself has said it
        ("del second\nsame = also = first\n", ""),
    ],
)
def test_what_is_said_of_several(tmp_path: Path, more: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "some.py", TWO + more)
    assert main(["check", file]) == 0
    heard = capsys.readouterr().err
    assert said.format(file) in heard
    assert said or "is taken" not in heard


# ---------------------------------------------------------------- one and many


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "few: 1 tool, 1 prompt, 1 resource, nothing wrong in any revision\n"),
        (2, "few: 2 tools, 2 prompts, 2 resources, nothing wrong in any revision\n"),
        (0, "few: 0 tools, 0 prompts, 0 resources, nothing wrong in any revision\n"),
    ],
)
def test_one_is_no_plural(tmp_path: Path, count: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from redstart import Server\nserver = Server('few')\n"
    for n in range(count):
        text += f"@server.tool\ndef tool{n}() -> str: return ''\n@server.prompt\ndef prompt{n}() -> str: return ''\n"
        text += f"@server.resource('a://{n}')\ndef resource{n}() -> str: return ''\n"
    assert main(["check", write(tmp_path / "few.py", text), "--ignore", "RS101"]) == 0
    assert capsys.readouterr().err == said


# ---------------------------------------------------------------- a script with a mistake in it

SHOP = 'from redstart import Server, tool\nserver = Server("shop")\n'
MISTAKES = {
    "option": SHOP + "@server.tool(title=5)\ndef f() -> int: return 1\n",
    "signature": SHOP + "@server.tool\ndef f(*a: int) -> int: return 1\n",
    "type": SHOP + "@server.tool\ndef f(a: type[int]) -> int: return 1\n",
    "mark": SHOP + '@tool(titles="x")\ndef f() -> int: return 1\n',
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_script_with_a_mistake_ends_in_one_line(tmp_path: Path, mistake: str) -> None:
    file = write(tmp_path / "shop.py", MISTAKES[mistake])
    script, run = ran(sys.executable, file), ran(*redstart("run", file))
    assert script.returncode == 1
    assert script.stderr.startswith(f"redstart: {file}:")
    assert script.stderr.count("\n") == 1
    assert script.stderr.removeprefix("redstart: ") in run.stderr


@pytest.mark.parametrize("whole", ["debug", "dev"])
def test_debug_shows_the_whole(tmp_path: Path, whole: str) -> None:
    text = MISTAKES["option"] if whole == "dev" else MISTAKES["option"].replace('"shop"', '"shop", debug=True')
    done = ran(sys.executable, *(["-X", "dev"] if whole == "dev" else []), write(tmp_path / "shop.py", text))
    assert done.stderr.startswith("Traceback ")
    assert "title of f must be a text (str)" in done.stderr


def test_a_hook_of_somebody_else_stays(tmp_path: Path) -> None:
    text = "import sys\nsys.excepthook = lambda *a: print('theirs', a[0].__name__)\n" + MISTAKES["option"]
    assert ran(sys.executable, write(tmp_path / "shop.py", text)).stdout == "theirs OptionError\n"
