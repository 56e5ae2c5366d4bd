"""`redstart doctor URL` and `redstart doctor CLIENT`: each step says what it found, and the rest waits for it."""

from __future__ import annotations

import json
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from redstart.cli import main
from redstart.cli.configs.clients import CLIENTS, Places
from support import ROOT, free_port, make_certificate, serving

BIRDS = str(ROOT / "examples" / "birds" / "server.py")
GUARDED = """
from redstart import Server
from redstart.auth import BearerTokens
server = Server("vault", auth=BearerTokens({"let-me-in": "ada"}))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    status = main(["doctor", *arguments, "--json"])
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return status, {row["step"]: row for row in rows}


def states(rows: dict[str, dict[str, str]]) -> dict[str, str]:
    return {step: row["state"] for step, row in rows.items()}


# ---------------------------------------------------------------- a URL


def test_a_server_that_answers(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with serving([sys.executable, "-m", "redstart", "run", BIRDS, "--http", "--port", str(port)], port) as url:
        status, rows = report(url, capsys=capsys)
    assert status == 0
    assert set(states(rows).values()) == {"ok"}
    assert list(rows) == ["dns", "tcp", "tls", "metadata", "version", "auth"]
    assert rows["version"]["found"] == "birds 1.0.0 speaks 2026-07-28; 3 tools"
    assert rows["auth"]["found"] == "a token is not asked for"


def test_a_server_that_wants_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "vault.py").write_text(GUARDED)
    port = free_port()
    command = [sys.executable, "-m", "redstart", "run", str(tmp_path / "vault.py"), "--http", "--port", str(port)]
    with serving(command, port) as url:
        without = report(url, capsys=capsys)
        wrong = report(url, "--header", "Authorization: Bearer guess", capsys=capsys)
        right = report(url, "--header", "Authorization: Bearer let-me-in", capsys=capsys)
    assert (without[0], without[1]["auth"]["found"]) == (1, "a token is needed (401)")
    assert (wrong[0], wrong[1]["auth"]["found"]) == (1, "the token is refused (401)")
    assert (right[0], right[1]["auth"]["found"]) == (0, "a token is accepted")
    assert "guess" not in json.dumps(wrong[1])


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = report(f"http://127.0.0.1:{free_port()}/mcp", capsys=capsys)
    assert status == 1
    assert states(rows) == {
        "dns": "ok", "tcp": "fail", "tls": "skip", "metadata": "skip", "version": "skip", "auth": "skip",
    }  # fmt: skip
    assert rows["auth"]["found"] == "not looked at, because tcp failed"


def test_a_name_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = report("https://no-such-host.invalid/mcp", capsys=capsys)
    assert (status, rows["dns"]["state"]) == (1, "fail")


def test_a_certificate_that_nobody_trusts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cert, key = make_certificate(tmp_path, "localhost")
    port = free_port()
    command = [sys.executable, "-m", "redstart", "run", BIRDS, "--http", "--port", str(port)]
    with serving([*command, "--tls-cert", str(cert), "--tls-key", str(key)], port):
        status, rows = report(f"https://localhost:{port}/mcp", capsys=capsys)
    assert (status, rows["tls"]["state"], rows["version"]["state"]) == (1, "fail", "skip")
    assert "self-signed" in rows["tls"]["found"]


def test_a_certificate_that_the_environment_trusts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the loopback address too, where proxies of the environment do not count."""
    cert, key = make_certificate(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    port = free_port()
    command = [sys.executable, "-m", "redstart", "run", BIRDS, "--http", "--port", str(port)]
    with serving([*command, "--tls-cert", str(cert), "--tls-key", str(key)], port):
        url = f"https://127.0.0.1:{port}/mcp"
        _, rows = report(url, capsys=capsys)
        assert (rows["version"]["state"], rows["auth"]["state"]) == ("ok", "ok")
        assert main(["test", url, "--protocol", "2026-07-28"]) == 0


def test_a_server_that_hangs_up(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        hanging_up = threading.Thread(target=_hang_up, args=(server,), daemon=True)
        hanging_up.start()
        status, rows = report(f"http://127.0.0.1:{server.getsockname()[1]}/mcp", capsys=capsys)
    assert (status, rows["version"]["state"]) == (1, "fail")
    assert rows["version"]["advice"] == "read its log"


def _hang_up(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            server.accept()[0].close()


def test_http_on_a_tls_port(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with serving([sys.executable, "-m", "redstart", "run", BIRDS, "--http", "--port", str(port)], port):
        status, rows = report(f"https://127.0.0.1:{port}/mcp", capsys=capsys)
    assert (status, rows["tls"]["state"], rows["tls"]["advice"]) == (1, "fail", "does this port speak TLS?")


def test_a_wrong_path(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with serving([sys.executable, "-m", "redstart", "run", BIRDS, "--http", "--port", str(port)], port):
        status, rows = report(f"http://127.0.0.1:{port}/other", capsys=capsys)
    assert (status, rows["version"]["state"], rows["auth"]["state"]) == (1, "fail", "skip")
    assert "the MCP endpoint is /mcp" in rows["version"]["found"]


@pytest.mark.parametrize("arguments", [["http://a:b@c/mcp"], ["http://c/mcp", "--header", "x"]])
def test_what_makes_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert capsys.readouterr().out == ""


# ---------------------------------------------------------------- a client


def test_a_client_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = report("cursor", capsys=capsys)
    assert (status, states(rows)) == (0, {"program": "warn", "path": "ok", "file": "ok"})
    assert rows["file"]["found"].endswith("mcp.json does not exist")


@pytest.mark.parametrize("client", ["cursor", "codex", "goose", "opencode"])
def test_the_entries_of_a_client(client: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", BIRDS, client, "--no-verify"]) == 0
    capsys.readouterr()
    status, rows = report(client, capsys=capsys)
    assert (status, rows["entry birds"]["state"]) == (0, "ok")
    if client != "goose":  # of YAML only plain values are read
        assert rows["entry birds"]["found"] == "birds 1.0.0 answered with 3 tools"


def test_entries_that_cannot_work(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "wrong.py").write_text("1 / 0\n")
    entries: dict[str, Any] = {
        "moved": {"command": sys.executable, "args": ["-m", "redstart", "run", str(home / "gone.py")]},
        "removed": {"command": str(home / "venv" / "python")},
        "short": {"command": "my-own-tool"},
        "broken": {"command": sys.executable, "args": ["-m", "redstart", "run", str(home / "wrong.py")]},
        "foreign": {"command": "/bin/sh"},
        "remote": {"url": "https://example.com/mcp"},
        "empty": {},
    }
    file = CLIENTS["cursor"].file(Places.here())
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": entries}))
    status, rows = report("cursor", capsys=capsys)
    assert status == 1
    found = {name: (rows[f"entry {name}"]["state"], rows[f"entry {name}"]["found"]) for name in entries}
    assert found["moved"] == ("fail", f"{home / 'gone.py'} does not exist")
    assert found["removed"] == ("fail", f"there is no program {home / 'venv' / 'python'}")
    assert found["short"][0] == "fail"
    assert "the PATH of a desktop program" in found["short"][1]
    assert found["broken"][0] == "fail"
    assert "ZeroDivisionError" in found["broken"][1]
    assert (found["foreign"][0], found["remote"][0], found["empty"][0]) == ("ok", "ok", "warn")


def test_a_broken_file_is_named_with_its_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = CLIENTS["cursor"].file(Places.here())
    file.parent.mkdir()
    file.write_text("{\n  oops\n}")
    status, rows = report("cursor", capsys=capsys)
    assert (status, rows["file"]["state"]) == (1, "fail")
    assert "line 2: this is not valid JSON" in rows["file"]["found"]
