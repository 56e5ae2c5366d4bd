"""`redstart install file.py`: prints the entry for a client's configuration; it does not change any file.

The entry names this interpreter and absolute paths, because a client may start its servers in any directory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from redstart.cli.target import TargetError, load


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="what `redstart run` takes")
    parser.add_argument("--name", help="what the client calls the server (default: its own name)")
    parser.add_argument("--client", choices=["claude", "cursor", "vscode"], default="claude", help="whose form")
    parser.add_argument(
        "--env", action="append", default=[], metavar="KEY=VALUE", help="a variable that the server needs"
    )


def act(arguments: argparse.Namespace) -> int:
    pairs = [pair.partition("=") for pair in arguments.env]
    if not all(key and mark for key, mark, _ in pairs):
        sys.stderr.write("redstart: write --env KEY=VALUE\n")
        return 2
    try:
        with redirect_stdout(sys.stderr):  # what the file prints must not be part of the configuration
            name = arguments.name or load(arguments.target).name
    except TargetError as error:
        sys.stderr.write(f"redstart: {error}\n")
        return 2
    env = {key: value for key, _, value in pairs}
    shown = json.dumps(_configuration(arguments.target, name, arguments.client, env), indent=2, ensure_ascii=False)
    print(shown)
    return 0


def _configuration(target: str, name: str, client: str, env: dict[str, str]) -> dict[str, Any]:
    where, mark, inner = target.rpartition(":")
    file = where if mark and os.path.exists(where) else target
    if os.path.exists(file):
        target = str(Path(file).resolve()) + (f":{inner}" if file != target else "")
    else:  # a module: it must be found from any directory
        env = {"PYTHONPATH": os.getcwd(), **env}
    entry: dict[str, Any] = {"command": sys.executable, "args": ["-m", "redstart", "run", target]}
    if env:
        entry["env"] = env
    if client == "vscode":
        return {"servers": {name: {"type": "stdio", **entry}}}
    return {"mcpServers": {name: entry}}
