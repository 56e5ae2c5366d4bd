"""Completion: what a line may become, and the script of each shell in that shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from operator import itemgetter
from pathlib import Path

import pytest

from redstart.cli import main
from redstart.cli.completion import SCRIPTS, words_for

SHOP = str(Path(__file__).with_name("shop.py"))
BIN = str(Path(sys.executable).parent)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("redstart ca", ["call"]),
        ("redstart call --js", ["--json"]),
        ("redstart run --framing ", ["auto", "newline", "content-length"]),
        ("redstart run --log-level w", ["warning"]),
        (f"redstart call {SHOP} sl", ["slow"]),
        (f"redstart call {SHOP} --json sl", ["slow"]),
        (f"redstart call {SHOP} add ", ["a=", "b="]),
        (f"redstart call {SHOP} add a=1 b", ["b="]),
        (f"redstart prompt {SHOP} ", ["review"]),
        (f"redstart prompt {SHOP} review c", ["code="]),
        (f"redstart read {SHOP} shop://", ["shop://logo", "shop://hours"]),
        (f"redstart read {SHOP} notes://{{name}} ", ["name="]),
        (f"redstart bench {SHOP} --tool ad", ["add"]),
        (f"redstart list {SHOP} fo", ["forever"]),
        ("redstart completion z", ["zsh"]),
        ("redstart call no_such_file.py ", []),
        ("redstart nonsense ", []),
        (f"redstart call {SHOP} 'open quote", []),
        ("redstart list -- npx ", []),
    ],
)
def test_lines(line: str, found: list[str]) -> None:
    assert words_for(line) == found


def test_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "hats.py").write_text("")
    (tmp_path / "sums.py").write_text("")
    (tmp_path / "some.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    assert words_for("redstart run s") == ["sums.py", "shop/"]
    assert words_for("redstart run shop/") == ["shop/hats.py"]


def test_the_project_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SHOP, tmp_path / "server.py")
    monkeypatch.chdir(tmp_path)
    assert words_for("redstart call fai") == ["fail"]
    assert words_for("redstart call fail t") == ["text="]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert main(["completion"]) == 0
    assert "redstart completion --words" in capsys.readouterr().out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["completion"]) == 2


BASH = """
eval "$(redstart completion bash)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
_redstart
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "words", "found"),
    [
        ("redstart wor", ["redstart", "wor"], ["worker"]),
        (f"redstart call {SHOP} add ", ["redstart", "call", SHOP, "add", ""], ["a=", "b="]),
        # bash takes : for the end of a word, and replaces what follows only
        (f"redstart read {SHOP} shop://l", ["redstart", "read", SHOP, "shop", ":", "//l"], ["//logo"]),
    ],
)
def test_in_bash(line: str, words: list[str], found: list[str]) -> None:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", BASH, "bash", line, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=env)
    assert done.stdout.split() == found, done.stderr


ZSH = """
compdef() { :; }
compadd() { print -rl -- $found; }
eval "$(redstart completion zsh)"
LBUFFER="$1"
_redstart
"""
FISH = """
redstart completion fish | source
complete -C $argv[1]
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("redstart wor", ["worker"]),
        (f"redstart call {SHOP} add ", ["a=", "b="]),
        (f"redstart read {SHOP} shop://l", ["shop://logo"]),
    ],
)
@pytest.mark.parametrize(
    "command", [["zsh", "-f", "-c", ZSH, "zsh"], ["fish", "--no-config", "-c", FISH]], ids=itemgetter(0)
)
def test_in_other_shells(command: list[str], line: str, found: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run([*command, line], capture_output=True, text=True, timeout=30, check=False, env=env)
    assert (done.stdout.split(), done.stderr) == (found, "")
