"""TARGET when it is left out, and installed servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from redstart.cli import main
from redstart.cli.target import load

TOOL = "from redstart import Server\nserver = Server('{0}')\n@server.tool\ndef {0}() -> str: return '{0}'\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def called(tool: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["call", tool]) == 0
    return capsys.readouterr().out


def test_the_usual_files_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 2
    assert capsys.readouterr().err.startswith(
        "redstart: no TARGET was given, and there is no server.py, app.py or main.py"
    )
    for name in ("main", "app", "server"):
        write(tmp_path / f"{name}.py", TOOL.format(name))
        assert called(name, capsys) == f"{name}\n"


def test_pyproject_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "server.py", TOOL.format("other"))
    write(tmp_path / "shop" / "hats.py", TOOL.format("hats"))
    write(tmp_path / "pyproject.toml", '[tool.redstart]\nserver = "shop/hats.py:server"\n')
    monkeypatch.chdir(tmp_path)
    assert called("hats", capsys) == "hats\n"
    monkeypatch.chdir(tmp_path / "shop")  # a folder of the project
    assert called("hats", capsys) == "hats\n"


@pytest.mark.parametrize("how", [["run"], ["worker"], ["list"]])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.redstart]\nserve = 'x'\n", "[tool.redstart] has no key serve; did you mean server?"),
        ("[tool.redstart]\nserver = 5\n", "server in [tool.redstart] must be a text"),
        ("[tool]\nredstart = 5\n", "[tool.redstart] must be a table"),
        ("[tool.redstart\n", "cannot be read: "),
    ],
)
def test_a_pyproject_with_a_mistake(
    tmp_path: Path,
    how: list[str],
    text: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write(tmp_path / "pyproject.toml", text)
    monkeypatch.chdir(tmp_path)
    assert main(how) == 2
    heard = capsys.readouterr().err
    assert heard.startswith(f"redstart: {file}")
    assert said in heard


def test_an_installed_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    write(site / "hatshop" / "__init__.py", TOOL.format("hats"))
    info = site / "hatshop-1.0.dist-info"
    write(info / "METADATA", "Metadata-Version: 2.1\nName: hatshop\nVersion: 1.0\n")
    write(info / "entry_points.txt", "[redstart.servers]\nhat-shop = hatshop:server\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(str(site))
    assert load("hat-shop").name == "hats"
    assert main(["call", "hat-shop", "hats"]) == 0
    assert capsys.readouterr().out == "hats\n"
    assert main(["list", "hat-shp"]) == 2
    assert capsys.readouterr().err == (
        "redstart: there is no module hat-shp; for a file, write its name with .py; did you mean hat-shop?\n"
    )
    assert main(["list", "zzz"]) == 2
    assert capsys.readouterr().err.endswith(" with .py; installed servers: hat-shop\n")


def test_settings_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(write(tmp_path / "server.py", TOOL.format("hats")))
    monkeypatch.setenv("REDSTART_PORT", "http")
    assert main(["run", file, "--http"]) == 2
    assert capsys.readouterr().err == "redstart: REDSTART_PORT: a port is a whole number from 0 to 65535, not http\n"
    monkeypatch.setenv("REDSTART_PORT", "0")
    monkeypatch.setenv("REDSTART_PUBLIC_URL", "shop")
    assert main(["run", file, "--http"]) == 2
    assert "public_url must be like https://mcp.example.com" in capsys.readouterr().err
    monkeypatch.setenv("REDSTART_LOG_LEVEL", "loud")
    assert main(["run", file]) == 2
    assert capsys.readouterr().err == "redstart: REDSTART_LOG_LEVEL is one of debug, info, warning, error, not loud\n"


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("error", False)])
def test_the_log_level(tmp_path: Path, level: str, shown: bool) -> None:
    text = TOOL.format("hats") + "import logging\nlogging.getLogger('hats').info('a line of the log')\n"
    command = [sys.executable, "-m", "redstart", "run", str(write(tmp_path / "server.py", text)), "--log-level", level]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)
    assert ("INFO hats: a line of the log" in done.stderr) is shown


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    import socket

    file = str(write(tmp_path / "server.py", TOOL.format("hats")))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "redstart", "run", file, "--http", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot listen on 127.0.0.1:{port}: another process listens there. Port ")
