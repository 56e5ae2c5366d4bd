"""`redstart new`: each template runs its own tests, and is found in order by `redstart check`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from redstart.cli import main
from redstart.cli.new import TEMPLATES

TARGETS = {"fastapi": "app.py", "package": "src/hat_shop/__init__.py", "notebook": ""}
SLOW = pytest.mark.slow("each template starts three processes, and some load Django or FastAPI")


@pytest.mark.parametrize("template", [pytest.param(name, marks=() if name == "script" else SLOW) for name in TEMPLATES])
def test_a_template_works(template: str, tmp_path: Path) -> None:
    if template in ("fastapi", "django") and find_spec(template) is None:
        pytest.skip(f"{template} is not installed")
    folder = tmp_path / "hat-shop"
    assert main(["new", "hat-shop", "--template", template, "--into", str(folder)]) == 0
    for path in folder.rglob("*"):
        assert not path.is_file() or "{{" not in path.read_text()
    unused = [f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "hypothesispytest")]  # hypothesis loads slowly
    run = [sys.executable, "-m", "pytest", "-q", *unused]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout
    if target := TARGETS.get(template, "server.py"):
        check = [sys.executable, "-m", "redstart", "check", target]
        done = subprocess.run(check, cwd=folder, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_commands_of_a_readme_are_complete(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`install` needs the name of a client, and the pip of Python 3.11 and 3.12 has no --group."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["new", "hat-shop", "--template", template]) == 0
    readme = (tmp_path / "hat-shop" / "README.md").read_text()
    commands = [line[2:].partition("#")[0].split() for line in readme.splitlines() if line.startswith("$ ")]
    assert commands
    assert "--group" not in readme
    monkeypatch.chdir(tmp_path / "hat-shop")
    for words in commands:
        if words[:2] == ["redstart", "install"]:
            assert main([*words[1:], "--print"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_to_begin_with_can_be_begun(template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a command needs that redstart does not bring is installed before it, as in the README."""
    assert main(["new", "hat-shop", "--template", template, "--into", str(tmp_path / "x")]) == 0
    first = capsys.readouterr().err.partition("begin with: ")[2].strip().split(" && ")
    assert first[0] == f"cd {tmp_path / 'x'}"
    lines = (tmp_path / "x" / "README.md").read_text().splitlines()
    shown = [line[2:].partition("#")[0].strip() for line in lines if line.startswith("$ ")]
    assert len(first) == 2 if first[1].startswith("redstart call ") else first[1:] == [shown[0], first[2]]
    assert len(first) == 2 or (first[1].startswith("pip install ") and first[2] in shown)


def test_what_is_made_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "hats", "--into", str(tmp_path / "x")]) == 0
    heard = capsys.readouterr()
    made = sorted(path for path in (tmp_path / "x").rglob("*") if path.is_file())
    assert sorted(map(Path, heard.out.split())) == made
    assert heard.err.endswith("redstart call server.py add a=40\n")


def test_a_package_starts_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "hat-shop", "-t", "package"]) == 0
    project = tomllib.loads((tmp_path / "hat-shop" / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {project["name"]: "hat_shop:main"}  # so that `uvx hat-shop` finds it
    assert project["entry-points"]["redstart.servers"] == {"hat-shop": "hat_shop:server"}
    monkeypatch.chdir(tmp_path / "hat-shop")
    capsys.readouterr()
    assert main(["call", "add", "a=40"]) == 0  # found by [tool.redstart]
    assert capsys.readouterr().out == "42\n"
    command = [sys.executable, "-m", "hat_shop"]
    assert main(["call", "add", "a=40", "--env", f"PYTHONPATH={tmp_path / 'hat-shop' / 'src'}", "--", *command]) == 0


def test_an_image_without_root(tmp_path: Path) -> None:
    assert main(["new", "hats", "-t", "docker", "--into", str(tmp_path / "x")]) == 0
    lines = (tmp_path / "x" / "Dockerfile").read_text().splitlines()
    user = lines.index("USER app")
    assert user < next(n for n, line in enumerate(lines) if line.startswith("CMD"))
    assert not any(line.startswith("USER") for line in lines[user + 1 :])
    assert (tmp_path / "x" / ".dockerignore").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hats", "-t", "scrpt"], "redstart: there is no template scrpt; did you mean script?\n"),
        (["Hat Shop"], "redstart: a name has small letters, digits and hyphens, and begins with a letter: hat-shop\n"),
        (["json"], "redstart: Python has a module json of its own, which would hide this one; take json-server\n"),
        (["hats", "--into", "."], "redstart: . exists already, and is not empty; name another folder with --into\n"),
    ],
)
def test_what_cannot_be_made(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    assert capsys.readouterr().err == said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
