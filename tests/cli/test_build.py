"""`redstart build`: bundles that can be made again to the byte, and a server.json that the registry would take."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from redstart.cli import main
from redstart.cli.packaging import BuildError, bundle, collected, manifest_schema, problems_of

SERVER = '''
from redstart import Server
server = Server("weather", version="1.2.3")

@server.tool
def forecast(city: str) -> str:
    """Tell the weather of tomorrow."""
    return "sun"
'''
PROJECT = """
[project]
name = "my-weather"
version = "1.2.3"
description = "The weather of tomorrow."
authors = [{name = "Ada", email = "ada@example.com"}]
license = "MIT"
requires-python = ">=3.12"
dependencies = ["redstart"]

[project.urls]
Repository = "https://github.com/ada/my-weather"
Homepage = "https://example.com"
"""
README = "# Weather\n\n<!-- mcp-name: io.github.ada/my-weather -->\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "server.py").write_text(SERVER)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "README.md").write_text(README)
    (folder / ".env").write_text("SECRET=1")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "big").write_text("x")
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize("kind", ["mcpb", "server-json", "docker"])
def test_others_may_read_what_is_made_for_them(project: Path, kind: str) -> None:
    """Permissions are those of any new file, and stay when it is made again."""
    known = set(project.parent.iterdir())
    command = ["build", kind, "project/src/server.py"]
    before = os.umask(0o027)
    try:
        assert main(command) == 0
    finally:
        os.umask(before)
    made = set(project.parent.iterdir()) - known
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o640}
    for path in made:
        path.chmod(0o604)
    assert main(command) == 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o604}


def unpacked(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


# ---------------------------------------------------------------- mcpb


def test_a_bundle_of_a_project(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "mcpb", str(project / "src" / "server.py"), "--env", "API_KEY"]) == 0
    assert capsys.readouterr().out == "my-weather-1.2.3.mcpb\n"
    content = unpacked(tmp_path / "my-weather-1.2.3.mcpb")
    assert sorted(content) == ["README.md", "manifest.json", "pyproject.toml", "src/server.py"]
    document = json.loads(content["manifest.json"])
    assert document["server"]["type"] == "uv"
    assert document["server"]["mcp_config"] == {
        "command": "uv",
        "args": ["run", "--directory", "${__dirname}", "redstart", "run", "${__dirname}/src/server.py"],
        "env": {"API_KEY": "${user_config.api_key}"},
    }
    assert document["user_config"]["api_key"]["sensitive"] is True
    assert document["author"] == {"name": "Ada", "email": "ada@example.com"}
    assert document["tools"] == [{"name": "forecast", "description": "Tell the weather of tomorrow."}]
    assert document["compatibility"] == {"runtimes": {"python": ">=3.12"}}
    assert problems_of(document, manifest_schema("0.4")) == []


def test_what_is_private_is_not_packed(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private = [".env.local", ".ENV.production", "prod.env", "tls.key", "certs/Server.PEM", "id_rsa", "tokens.json"]
    hidden = [".npmrc", ".aws/credentials", ".git/config", ".venv/cacert.pem", "node_modules/a/b.js", "app.env/inner"]
    for name in (*private, *hidden, ".python-version", "data/birds.db"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("s3cret")
    assert main(["build", "mcpb", str(project / "src" / "server.py"), "--out", "a.mcpb"]) == 0
    plain = ["README.md", "manifest.json", "pyproject.toml", "src/server.py"]
    assert sorted(unpacked(tmp_path / "a.mcpb")) == sorted([*plain, ".python-version", "data/birds.db"])
    said = capsys.readouterr().err
    assert "others should not have it: .ENV.production, .env, .env.local, app.env, certs/Server.PEM …" in said


def test_a_bundle_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    assert main(["build", "mcpb", "server.py", "--manifest", "0.3", "--out", "a.mcpb"]) == 0
    content = unpacked(tmp_path / "a.mcpb")
    assert sorted(content) == ["manifest.json", "pyproject.toml", "server.py"]
    document = json.loads(content["manifest.json"])
    assert (document["manifest_version"], document["server"]["type"]) == ("0.3", "python")
    assert document["name"] == "weather"


def test_the_same_sources_give_the_same_bytes(project: Path, tmp_path: Path) -> None:
    for name in ("a.mcpb", "b.mcpb"):
        assert main(["build", "mcpb", str(project / "src" / "server.py"), "--out", name]) == 0
        (project / "README.md").touch()
    assert (tmp_path / "a.mcpb").read_bytes() == (tmp_path / "b.mcpb").read_bytes()


def test_links_out_of_the_project_are_refused(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "private").write_text("x")
    (project / "link").symlink_to(tmp_path / "private")
    assert main(["build", "mcpb", str(project / "src" / "server.py")]) == 1
    assert "leads out of" in capsys.readouterr().err
    with pytest.raises(BuildError):
        collected(project)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": 3}, "manifest.name must be of type string"),
        ({"author": {}}, "manifest.author.name is missing"),
        ({"homepage": "here"}, "manifest.homepage must be a URL"),
        ({"colour": "red"}, "manifest.colour is not a field of a manifest"),
        ({"manifest_version": "9"}, "manifest.manifest_version must be 0.3"),
        ({"tools": [{"description": "x"}]}, "manifest.tools[0].name is missing"),
        (
            {"server": {"type": "uv", "entry_point": "a", "mcp_config": {"command": "x"}}},
            "manifest.server.type must be one of python, node, binary",
        ),
        (
            {"compatibility": {"platforms": ["amiga"]}},
            "manifest.compatibility.platforms[0] must be one of darwin, win32, linux",
        ),
    ],
)
def test_the_schema_of_a_manifest(change: dict[str, Any], problem: str) -> None:
    document: dict[str, Any] = {
        "manifest_version": "0.3",
        "name": "a",
        "version": "1.0.0",
        "description": "b",
        "author": {"name": "c"},
        "server": {"type": "python", "entry_point": "a.py", "mcp_config": {"command": "python3"}},
    }
    assert problems_of(document, manifest_schema("0.3")) == []
    assert problems_of(document | change, manifest_schema("0.3")) == [problem]


def test_a_bundle_is_a_plain_zip() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle({"name": "ä"}, {"b.py": b"1", "a.py": b"2"}))) as archive:
        assert archive.namelist() == ["a.py", "b.py", "manifest.json"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


# ---------------------------------------------------------------- server.json


def test_server_json(project: Path, tmp_path: Path) -> None:
    assert main(["build", "server-json", str(project / "src" / "server.py"), "--url", "https://w.example/mcp"]) == 0
    assert json.loads((tmp_path / "server.json").read_text()) == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.ada/my-weather",
        "description": "The weather of tomorrow.",
        "version": "1.2.3",
        "repository": {"url": "https://github.com/ada/my-weather", "source": "github"},
        "packages": [
            {"registryType": "pypi", "identifier": "my-weather", "version": "1.2.3", "transport": {"type": "stdio"}}
        ],
        "remotes": [{"type": "streamable-http", "url": "https://w.example/mcp"}],
    }


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("The weather of tomorrow.", 101 * "x", "101 characters; the registry takes 1 to 100"),
        ('version = "1.2.3"', 'version = "1.2"', "the version 1.2 is not exact"),
        ('version = "1.2.3"', 'version = "1.3.0"', "pyproject.toml says 1.3.0, and the server 1.2.3"),
        ('name = "my-weather"\n', "", "no project.name"),
        ("mcp-name: io.github.ada/my-weather", "", "write `mcp-name: io.github.USER/weather` into README.md"),
        ("io.github.ada/my-weather", "my-weather", "my-weather is not a name"),
    ],
)
def test_what_the_registry_would_refuse(
    project: Path, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (project / "pyproject.toml", project / "README.md"):
        file.write_text(file.read_text().replace(old, new))
    assert main(["build", "server-json", str(project / "src" / "server.py"), "--out", "-"]) == 1
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_the_name_must_be_in_the_readme(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", "server-json", str(project / "src" / "server.py"), "--name", "io.github.ada/other"]
    assert main(arguments) == 1
    assert "README.md must contain `mcp-name: io.github.ada/other`" in capsys.readouterr().err


# ---------------------------------------------------------------- docker


def test_a_dockerfile(project: Path, tmp_path: Path) -> None:
    assert main(["build", "docker", str(project / "src" / "server.py")]) == 0
    text = (tmp_path / "Dockerfile").read_text()
    assert "USER server" in text
    ignored = (tmp_path / ".dockerignore").read_text()
    assert {"**/.*", "**/*.pem", "**/node_modules", "!.python-version"} <= set(ignored.split())
    (tmp_path / ".dockerignore").write_text("mine")
    assert main(["build", "docker", str(project / "src" / "server.py")]) == 0
    assert (tmp_path / ".dockerignore").read_text() == "mine"
    assert text.endswith('ENTRYPOINT ["redstart", "run", "src/server.py"]\n')


def test_a_module_cannot_be_packed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "mcpb", "json"]) in (1, 2)
    assert capsys.readouterr().out == ""
