"""Command-line clients from npm, each in a home of its own that `redstart install` has set up.

Each must connect and list the server; with a scripted model on loopback, each must also call a tool. Nothing else can
be reached: the proxy that they are given does not exist.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from compat.model import SUM, scripted_model
from support import ROOT

HERE = Path(__file__).parent
SERVER = str(HERE / "server.py")
LIMIT = 240


class Command(NamedTuple):
    """A client: what installs into it, how it lists servers, and how it is given a prompt and a model."""

    client: str
    program: str
    listing: Sequence[str]
    connected: str
    """What it prints for a server that it lists."""
    prompt: Callable[[str, Path], tuple[list[str], dict[str, str]]]
    """Arguments and variables, for the URL of the model and the home."""


def _claude(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    words = ["-p", "Add 1200 and 34.", "--allowedTools", "mcp__compat__add", "--output-format", "json"]
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}
    return words, {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "scripted", **quiet}


def _gemini(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    words = ["-p", "Add 1200 and 34.", "--yolo", "-m", "gemini-2.5-flash"]
    return words, {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "scripted", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _codex(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    provider = f'model_providers.scripted={{name="scripted",base_url="{url}/v1",wire_api="responses"}}'
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-c", provider]
    return [*words, "-c", 'model_provider="scripted"', "-c", 'model="scripted"', "Add 1200 and 34."], {}


def _opencode(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    models = {"models": {"scripted": {"name": "scripted", "tool_call": True}}}
    options = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
    }
    config = {"provider": {"scripted": {**options, **models}}, "autoupdate": False, "share": "disabled"}
    words = ["run", "-m", "scripted/scripted", "Add 1200 and 34."]
    return words, {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _copilot(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    provider = {
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_MODEL": "scripted",
    }
    words = ["-p", "Add 1200 and 34.", "--allow-all-tools"]
    return words, {**provider, "COPILOT_PROVIDER_API_KEY": "x", "COPILOT_OFFLINE": "true"}


COMMANDS = {
    "claude": Command("claude-code", "claude", ["mcp", "list"], "Connected", _claude),
    "gemini": Command("gemini", "gemini", ["mcp", "list"], "Connected", _gemini),
    "codex": Command("codex", "codex", ["mcp", "list"], "enabled", _codex),
    "opencode": Command("opencode", "opencode", ["mcp", "list"], "connected", _opencode),
    "copilot": Command("copilot", "copilot", ["mcp", "list"], "compat (local)", _copilot),
}


def _installed() -> Path:
    """The folder with the programs. Some of them are fetched by the scripts of their packages."""
    folder = ROOT / ".node" / "compat-cli"
    wanted = (HERE / "cli" / "package.json").read_bytes()
    mark = folder / "installed.json"
    if not mark.exists() or mark.read_bytes() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_bytes(wanted)
        print("installing the command lines from npm …", flush=True)
        install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(install, cwd=folder, check=True, timeout=600)
        mark.write_bytes(wanted)
    return folder / "node_modules" / ".bin"


def _run(words: Sequence[str], home: Path, env: dict[str, str]) -> str:
    """What a program prints, in an environment with nothing of ours."""
    dead = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), "http://127.0.0.1:9")
    local = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    clean = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", "CI": "1", **dead, **local}
    options = {"cwd": home / "work", "stdin": subprocess.DEVNULL, "timeout": LIMIT, "text": True, "check": False}
    done = subprocess.run(words, env={**clean, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
    return str(done.stdout)


def drive(name: str) -> dict[str, str]:
    """What went wrong when listing and when calling; empty texts if nothing did."""
    command, programs = COMMANDS[name], _installed()
    # Not below /tmp: Codex refuses to work there.
    place = ROOT / ".node" / "homes"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder, scripted_model() as (url, script):
        home = Path(folder)
        (home / "work").mkdir()
        (home / ".gemini").mkdir()
        trusted = json.dumps({str(home / "work"): "TRUST_FOLDER"})
        (home / ".gemini" / "trustedFolders.json").write_text(trusted)
        chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}  # else it asks how to log in
        (home / ".gemini" / "settings.json").write_text(json.dumps(chosen, indent=2))
        install = [sys.executable, "-m", "redstart", "install", SERVER, command.client]
        subprocess.run(install, env={"HOME": folder, "PATH": "/usr/bin:/bin"}, check=True, timeout=60)
        arguments, env = command.prompt(url, home)
        program = str(programs / command.program)
        listed = _run([program, *command.listing], home, env)
        said = _run([program, *arguments], home, env)
        problems = {"list": "" if command.connected in listed else listed[-2000:], "call": ""}
        if not script.called or SUM not in said:
            problems["call"] = f"offered {sorted(script.offered)}, results {script.results}\n{said[-2000:]}"
    return problems
