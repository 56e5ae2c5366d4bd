"""`redstart install` and `uninstall`: one entry in the file of each client, started before, and taken out again."""

from __future__ import annotations

import base64
import json
import os
import runpy
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from redstart.cli import main
from redstart.cli.configs.clients import CLIENTS, Places
from support import ROOT, free_port, initialize, serving
from transports.support import Child

SOURCE = """
import os
import runpy
from redstart import Server
print("noise")
server = Server("hats")

@server.tool
def city() -> str:
    '''The city.'''
    return os.environ.get("CITY", "none")
"""
SAMPLES = {
    "claude-desktop": '{\r\n\t"mcpServers": {\r\n\t\t"a": {"command": "x"}\r\n\t},\r\n\t"z": 1\r\n}\r\n',
    "claude-code": '{"numStartups":7,"projects":{"/p":{"mcpServers":{"hats":{}}}},"mcpServers":{"a":{"type":"http"}}}',
    "vscode": '// mine\n{\n\t"inputs": [\n\t\t{"id": "a"}, // first\n\t],\n\t"servers": {\n\t\t/* none */\n\t},\n}\n',
    "copilot": '{\n    "mcpServers": {\n        "a": { "type": "local", "tools": ["*"] }\n    }\n}',
    "cursor": '\ufeff{\n  "mcpServers": {\n    "a": {},\n    // "b": {},\n  }\n}\n',
    "windsurf": '{"mcpServers": {}}\n',
    "zed": '// Zed settings\n{\n  "theme": "One Dark", // nice\n  "lsp": {\n    "x": [1, 2,],\n  },\n}\n',
    "codex": '# mine\r\nmodel = "x"\r\n\r\n[mcp_servers.a]\r\ncommand = "y" # why\r\n\r\n[tools]\r\nweb = true',
    "gemini": '{\n  "security": {"auth": {"selectedType": "x"}}, /* c */\n  "mcpServers": {"a": {}}\n}\n',
    "antigravity": "{}",
    "goose": "M: x # why\nextensions:\n    a:\n        enabled: true\n        cmd: y\n\n# end\nZ: |\n  extensions:\n",
    "opencode": '{\n  "$schema": "https://opencode.ai/config.json",\n  "mcp": {\n\n  }, // here\n}',
    "lmstudio": '{\n\n  "mcpServers": {\n    "a": {\n      "url": "x"\n    }\n\n  }\n\n}',
    "kiro": '{ "mcpServers" : { "a" : { "disabled" : true } } }',
    "cline": '{\n  "mcpServers": {\n    "a": {\n    }   // end\n  }\n}\n',
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person without any client."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SOURCE)
    return folder


def placed(client: str, text: str) -> Path:
    file = CLIENTS[client].file(Places.here())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def read(client: str, data: bytes) -> dict[str, Any]:
    """The entries of a client, by a parser that is not ours; comments and commas of the samples are taken out."""
    text = data.decode().lstrip("\ufeff")
    form = CLIENTS[client].format
    if form == "json":
        lines = [line.partition("//")[0] if "://" not in line else line for line in text.splitlines()]
        text = "\n".join(lines).replace("/* none */", "").replace("/* c */", "")
        found = yaml.safe_load(text.replace("\t", " "))  # YAML 1.1 takes JSON with trailing commas
    else:
        found = tomllib.loads(text) if form == "toml" else yaml.safe_load(text)
    for key in CLIENTS[client].path:
        found = found[key]
    return dict(found or {})


def command_of(entry: dict[str, Any]) -> list[str]:
    command = entry["command"] if "command" in entry else entry["cmd"]
    return command if isinstance(command, list) else [command, *entry["args"]]


def printed(*arguments: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["install", *arguments, "--print", "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


# ---------------------------------------------------------------- every client


def test_there_are_fifteen_and_each_has_a_sample() -> None:
    assert len(CLIENTS) == 15
    assert SAMPLES.keys() == CLIENTS.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_only_the_entry_changes(client: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = placed(client, SAMPLES[client])
    before = file.read_bytes()
    assert main(["install", "shop.py", client, "--no-verify"]) == 0
    after = file.read_bytes()
    entries = read(client, after)
    assert command_of(entries.pop("hats")) == [sys.executable, "-m", "redstart", "run", str(Path("shop.py").resolve())]
    assert entries == (read(client, before) if client not in ("zed", "antigravity") else {})
    letters = iter(after)
    assert all(letter in letters for letter in before)  # nothing is lost, and nothing has moved
    assert main(["uninstall", "hats", client]) == 0
    assert file.read_bytes() == before
    capsys.readouterr()
    assert main(["install", "--list"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_was_made_is_removed(client: str, home: Path) -> None:
    assert main(["install", "shop.py", client, "--no-verify"]) == 0
    file = CLIENTS[client].file(Places.here())
    assert "hats" in read(client, file.read_bytes())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main(["uninstall", "shop.py"]) == 0
    assert [path.name for path in home.iterdir()] == [".local"]


@pytest.mark.requirement("10", "11")
@pytest.mark.parametrize("suffix", ["", ":server"])
def test_what_is_written_starts_the_server_from_anywhere(suffix: str) -> None:
    assert main(["install", f"shop.py{suffix}", "cursor", "claude-code", "--env", "CITY=Oslo", "--env", "A=b=c"]) == 0
    for client in ("cursor", "claude-code"):
        entry = read(client, CLIENTS[client].file(Places.here()).read_bytes())["hats"]
        assert entry["env"] == {"CITY": "Oslo", "A": "b=c"}
        with Child(command=command_of(entry), env=entry["env"], cwd="/") as child:
            assert child.ask(initialize())["result"]["serverInfo"]["name"] == "hats"


@pytest.mark.requirement("10", "11")
def test_a_module_is_found_from_anywhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "boutique.py").write_text(SOURCE)
    assert main(["install", "boutique", "cursor", "--name", "mine"]) == 0
    assert "hats" in capsys.readouterr().out
    entry = read("cursor", CLIENTS["cursor"].file(Places.here()).read_bytes())["mine"]
    assert entry["env"] == {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("platform", "client", "file"),
    [
        ("darwin", "claude-desktop", "/u/Library/Application Support/Claude/claude_desktop_config.json"),
        ("linux", "claude-desktop", "/u/.config/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "/r/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "/u/Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "/r/Code/User/mcp.json"),
        ("darwin", "zed", "/u/.config/zed/settings.json"),
        ("win32", "zed", "/r/Zed/settings.json"),
        ("win32", "goose", "/r/Block/goose/config/config.yaml"),
        ("darwin", "goose", "/u/.config/goose/config.yaml"),
        ("win32", "opencode", "/u/.config/opencode/opencode.json"),
        ("win32", "codex", "/u/.codex/config.toml"),
    ],
)
def test_files_of_other_platforms(platform: str, client: str, file: str) -> None:
    assert CLIENTS[client].file(Places(platform, "/u", {"APPDATA": "/r"})).as_posix() == file


def test_folders_that_a_person_has_moved(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d"}
    places = Places("linux", "/u", env)
    assert str(CLIENTS["zed"].file(places)) == "/x/zed/settings.json"
    assert str(CLIENTS["codex"].file(places)) == "/c/config.toml"
    assert str(CLIENTS["claude-code"].file(places)) == "/d/.claude.json"


def test_the_other_name_of_a_file_is_used_if_it_is_there() -> None:
    file = CLIENTS["opencode"].file(Places.here()).with_suffix(".jsonc")
    file.parent.mkdir(parents=True)
    file.write_text("{} // mine")
    assert main(["install", "shop.py", "opencode", "--no-verify"]) == 0
    assert "hats" in file.read_text()


# ---------------------------------------------------------------- before writing


@pytest.mark.parametrize(
    ("source", "step"),
    [
        ("1 / 0", "Step start: it ended with exit status 2; the end of its stderr:"),
        ("import os\nos._exit(3)", "Step start: it ended with exit status 3\nRun it in a terminal: "),
    ],
)
def test_a_server_that_does_not_start_is_not_written(
    source: str, step: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.py").write_text(source)
    assert main(["install", "wrong.py", "cursor", "--name", "x"]) == 2
    said = capsys.readouterr().err
    assert step in said
    assert "nothing was written" in said
    assert list(home.iterdir()) == []


def test_the_server_is_started_without_what_this_shell_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Started by a client, the variable of this shell would be missing too."""
    (tmp_path / "needy.py").write_text(
        "import os\nfrom redstart import Server\nserver = Server(os.environ['MY_NAME'])\n"
    )
    monkeypatch.setenv("MY_NAME", "me")
    assert main(["install", "needy.py", "cursor"]) == 2
    assert "KeyError: 'MY_NAME'" in capsys.readouterr().err
    assert main(["install", "needy.py", "cursor", "--env", "MY_NAME=me"]) == 0


def test_a_server_that_never_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slow.py").write_text("import threading\nthreading.Event().wait()\n")
    assert main(["install", "slow.py", "cursor", "--name", "slow", "--timeout", "1"]) == 2
    assert "Step start:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n  "mcpServers": {\n    "a": 1\n    "b": 2\n  }\n}\n', "line 4: this is not valid JSON"),
        ('{"mcpServers": []}', 'line 1: "mcpServers" is not a JSON object'),
        ('{"mcpServers": {"hats": {"command": "x"}}}', "has an entry hats that redstart did not write"),
    ],
)
def test_a_file_that_cannot_be_edited_stays(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = placed("cursor", text)
    assert main(["install", "shop.py", "cursor", "windsurf", "--no-verify"]) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert str(file) in said.err
    assert file.read_text() == text
    assert "Windsurf: wrote hats" in said.out  # the others go on


@pytest.mark.parametrize("data", [b"\xff\xfe{\x00}\x00", b'{"a": "\xe9"}'])
def test_other_encodings_are_refused(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    file = placed("cursor", "")
    file.write_bytes(data)
    assert main(["install", "shop.py", "cursor", "--no-verify"]) == 1
    assert "UTF-8" in capsys.readouterr().err
    assert file.read_bytes() == data


def test_links_and_permissions_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    file = placed("cursor", "")
    file.unlink()
    file.symlink_to(real)
    assert main(["install", "shop.py", "cursor", "--no-verify", "--json"]) == 0
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "hats" in real.read_text()
    (row,) = json.loads(capsys.readouterr().out)
    backup = Path(row["backup"])
    assert backup.read_text() == "{}"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("*.tmp")] == []


# ---------------------------------------------------------------- again, forced, undone


def test_an_entry_of_ours_is_updated(capsys: pytest.CaptureFixture[str]) -> None:
    file = placed("cursor", SAMPLES["cursor"])
    for arguments in ([], ["--env", "CITY=Oslo"], ["--env", "CITY=Oslo"]):
        assert main(["install", "shop.py", "cursor", "--no-verify", *arguments]) == 0
    assert "hats is there already" in capsys.readouterr().out
    assert file.read_text().count('"hats"') == 1
    assert main(["uninstall", "hats"]) == 0
    assert file.read_text() == SAMPLES["cursor"]


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{"mcpServers": {"hats": {"command": "x"}}}'),
        ("codex", "[mcp_servers.hats]\ncommand = 'x'\n\n# end\n"),
        ("goose", "extensions:\n  hats:\n    cmd: x\n  b: {}\n"),
    ],
)
def test_what_was_replaced_comes_back(client: str, text: str) -> None:
    file = placed(client, text)
    assert main(["install", "shop.py", client, "--no-verify", "--force"]) == 0
    assert command_of(read(client, file.read_bytes())["hats"])[0] == sys.executable
    assert main(["uninstall", "hats"]) == 0
    assert file.read_text() == text


def test_list_says_what_became_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "shop.py", "cursor", "windsurf", "kiro", "--no-verify"]) == 0
    cursor, windsurf, kiro = (CLIENTS[name].file(Places.here()) for name in ("cursor", "windsurf", "kiro"))
    cursor.write_text(json.dumps(json.loads(cursor.read_text())))
    windsurf.write_text("{}")
    kiro.write_text("{")
    capsys.readouterr()
    assert main(["install", "--list", "--json"]) == 0
    rows = {row["client"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {"cursor": "changed", "windsurf": "gone", "kiro": "broken"}
    assert main(["uninstall", "hats", "cursor", "windsurf"]) == 0
    assert json.loads(cursor.read_text()) == {"mcpServers": {}}
    assert main(["uninstall", "hats"]) == 1  # the broken one
    assert kiro.read_text() == "{"


def test_only_what_was_written_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    file = placed("cursor", '{"mcpServers": {"other": {}}}')
    assert main(["uninstall", "other"]) == 2
    assert "removes only what it has written" in capsys.readouterr().err
    assert file.read_text() == '{"mcpServers": {"other": {}}}'


def test_a_project_has_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["install", "shop.py", "vscode", "claude-code", "--scope", "project", "--no-verify"]) == 0
    assert "hats" in json.loads((tmp_path / ".vscode" / "mcp.json").read_text())["servers"]
    assert "hats" in json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["uninstall", "hats"]) == 2
    monkeypatch.chdir(tmp_path)
    assert main(["uninstall", "hats"]) == 0
    assert not (tmp_path / ".vscode").exists()


@pytest.mark.parametrize("link", [".vscode", ".vscode/mcp.json"])
def test_a_repository_does_not_lead_out_of_itself(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    """A link that somebody has committed: the entry would go into a file of the person, or make one."""
    project = tmp_path / "cloned"
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(home / "precious")
    (project / "shop.py").write_text(Path("shop.py").read_text())
    monkeypatch.chdir(project)
    assert main(["install", "shop.py", "vscode", "--scope", "project", "--no-verify"]) == 1
    assert "leads out of the project" in capsys.readouterr().err
    assert not (home / "precious").exists()


def test_a_diff_and_nothing_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = placed("codex", SAMPLES["codex"])
    assert main(["install", "shop.py", "codex", "--no-verify", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"--- {file}\n+++ {file}\n@@ ")
    assert "+[mcp_servers.hats]\r\n" in said
    assert "-web = true\n\\ No newline at end of file\n" in said
    assert file.read_bytes() == SAMPLES["codex"].encode()
    assert not (home / ".local").exists()


def test_all_that_are_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "shop.py", "--all", "--no-verify"]) == 2
    assert "no client is installed here" in capsys.readouterr().err
    placed("cursor", "{}")
    placed("codex", "")
    assert main(["install", "shop.py", "--all", "--no-verify", "--json"]) == 0
    assert [row["client"] for row in json.loads(capsys.readouterr().out)] == ["cursor", "codex"]


# ---------------------------------------------------------------- secrets and URLs


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", {"env": {"API_KEY": "${API_KEY}"}}),
        ("vscode", {"env": {"API_KEY": "${input:API_KEY}"}}),
        ("copilot", {"env": {"API_KEY": "${API_KEY}"}}),
        ("cursor", {"env": {"API_KEY": "${env:API_KEY}"}}),
        ("windsurf", {"env": {"API_KEY": "${env:API_KEY}"}}),
        ("codex", {"env_vars": ["API_KEY"]}),
        ("gemini", {"env": {"API_KEY": "${API_KEY}"}}),
        ("goose", {"envs": {}, "env_keys": ["API_KEY"]}),
        ("opencode", {"environment": {"API_KEY": "{env:API_KEY}"}}),
        ("kiro", {"env": {"API_KEY": "${API_KEY}"}}),
        ("zed", {"env": {"API_KEY": "s3cret"}}),  # it cannot refer to a variable
    ],
)
def test_a_secret_is_not_written_where_it_can_be_referred_to(
    client: str, expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = printed("shop.py", client, "--env", "API_KEY=s3cret", capsys=capsys)
    assert row["entry"].items() >= expected.items()
    assert ("s3cret" in json.dumps(row)) == (client == "zed")


def test_a_variable_that_the_client_looks_up(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = printed("shop.py", "cursor", "--env", "CITY", capsys=capsys)
    assert row["entry"]["env"] == {"CITY": "${env:CITY}"}
    assert main(["install", "shop.py", "zed", "--env", "CITY", "--no-verify"]) == 1
    assert "Zed cannot refer to the variable CITY; give its value" in capsys.readouterr().err


def test_vs_code_asks_for_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    file = placed("vscode", SAMPLES["vscode"])
    for _ in range(2):
        assert main(["install", "shop.py", "vscode", "--env", "API_KEY=x", "--env", "B_TOKEN", "--no-verify"]) == 0
    text = file.read_text()
    assert text.count('"id": "API_KEY"') == text.count('"id": "B_TOKEN"') == 1
    assert '"password": true' in text
    assert main(["uninstall", "hats"]) == 0
    assert file.read_text() == SAMPLES["vscode"]


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${T}", "X-A": "b"}}),
        ("vscode", {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${input:T}", "X-A": "b"}}),
        ("windsurf", {"serverUrl": "URL", "headers": {"Authorization": "Bearer ${env:T}", "X-A": "b"}}),
        ("codex", {"url": "URL", "bearer_token_env_var": "T", "http_headers": {"X-A": "b"}}),
        ("gemini", {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${T}", "X-A": "b"}}),
        ("opencode", {"type": "remote", "url": "URL", "headers": {"Authorization": "Bearer {env:T}", "X-A": "b"}}),
    ],
)
def test_a_url(client: str, expected: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://mcp.example.com/mcp"
    headers = ["--header", "Authorization: Bearer ${T}", "--header", "X-A: b"]
    (row,) = printed(url, client, *headers, capsys=capsys)
    assert row["name"] == "mcp-example-com"
    assert row["entry"].items() >= json.loads(json.dumps(expected).replace("URL", url)).items()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["https://x.example/mcp", "cursor", "--header", "Authorization: Bearer abc"], "write --header"),
        (["https://x.example/mcp", "claude-desktop"], "takes no URLs in its file"),
        (["https://a:b@x.example/mcp", "cursor"], "no user or password"),
        (["https://x.example/mcp", "cursor", "--env", "A=b"], "for a URL write --header"),
        (["shop.py", "cursor", "--header", "A: b"], "write --env"),
        (["shop.py", "cursor", "--env", "=b"], "write --env KEY=VALUE"),
        (["shop.py", "cursor", "--name", "a b"], "is not letters, digits"),
        (["shop.py", "cursr"], "did you mean cursor?"),
        (["shop.py"], "say for which client"),
        ([], "say what to install"),
        (["none.py", "cursor"], "there is no file"),
        (["shop.py", "windsurf", "--scope", "project"], "no file for a project"),
        (["shop.py", "cursor", "--dev"], "--dev is for VS Code"),
        (["shop.py", "codex", "--env", "A=x${B}"], "A must be ${NAME} alone"),
        (["shop.py", "codex", "--env", "A=${B}"], "under its own name"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", *arguments, "--no-verify"]) in (1, 2)
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""
    assert list(home.iterdir()) == []


def test_a_url_is_tried_before(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    assert main(["install", url, "cursor", "--timeout", "5"]) == 2
    assert "Step connect:" in capsys.readouterr().err
    command = [sys.executable, "-m", "redstart", "run", str(tmp_path / "shop.py"), "--http", "--port", str(port)]
    with serving(command, port):
        assert main(["install", url, "cursor"]) == 0
    assert "hats" in capsys.readouterr().out


# ---------------------------------------------------------------- what is printed


def test_links_and_badges(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["client"]: row for row in printed("shop.py", "vscode", "cursor", "lmstudio", "zed", capsys=capsys)}
    query = unquote(rows["vscode"]["link"].removeprefix("vscode:mcp/install?"))
    assert json.loads(query) == {"name": "hats", **rows["vscode"]["entry"]}
    for client, start in (
        ("cursor", "cursor://anysphere.cursor-deeplink/mcp/install?"),
        ("lmstudio", "lmstudio://add_mcp?"),
    ):
        assert rows[client]["link"].startswith(start)
        words = parse_qs(urlsplit(rows[client]["link"]).query)
        assert words["name"] == ["hats"]
        assert json.loads(base64.b64decode(words["config"][0])) == rows[client]["entry"]
        assert rows[client]["badge"].startswith("[![")
    assert "link" not in rows["zed"]


def test_the_entry_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "shop.py", "codex", "--print"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["mcp_servers"]["hats"]["command"] == sys.executable


def test_vs_code_for_developers(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = printed("shop.py", "vscode", "--dev", capsys=capsys)
    assert row["entry"]["dev"] == {"watch": "**/*.py", "debug": {"type": "debugpy"}}


def test_a_script_with_inline_metadata_is_run_by_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    uv = tmp_path / "bin" / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
    (tmp_path / "script.py").write_text('# /// script\n# dependencies = ["redstart"]\n# ///\n' + SOURCE)
    (row,) = printed("script.py", "cursor", capsys=capsys)
    assert row["entry"] == {"command": str(uv), "args": ["run", "--script", str(tmp_path / "script.py")]}


def test_it_is_quiet_on_stdout_when_a_file_prints(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "redstart", "install", "shop.py", "cursor", "--print", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=20, check=True)
    assert json.loads(done.stdout)[0]["name"] == "hats"


def test_the_page_has_the_clients_of_now() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "clients.py"))
    assert made["PAGE"].read_text() == made["page"](), "run: python scripts/clients.py"
