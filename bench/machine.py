"""Facts that a reader needs to judge the numbers: cores, load, versions. Never names or paths."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from bench import build

PACKAGES = ("redstart", "mcp", "fastmcp", "uvicorn", "uvloop", "httptools", "msgspec", "pydantic")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _node_versions() -> dict[str, str]:
    manifest = build.NODE_FOLDER / "node_modules" / "@modelcontextprotocol" / "server" / "package.json"
    if not manifest.exists():
        return {}
    done = subprocess.run([build.node(), "--version"], capture_output=True, text=True)
    return {
        "node": done.stdout.strip().removeprefix("v"),
        "@modelcontextprotocol/server": json.loads(manifest.read_text())["version"],
    }


def load_average() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def facts() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": load_average(),
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
            **_node_versions(),
        },
    }
