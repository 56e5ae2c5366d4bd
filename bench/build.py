"""What a run needs besides Python: the compiled generator, and Node with the TypeScript SDK.

Both are made on demand in git-ignored folders, so that a plain checkout is enough to run the benchmarks.
"""

import atexit
import compileall
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SERVERS = HERE / "servers"
GENERATOR_SOURCE = HERE / "generator.c"
GENERATOR = HERE / "build" / "generator"
SOURCE = HERE.parent / "src" / "redstart"
SNAPSHOT = HERE / "build" / f"snapshot-{os.getpid()}"  # two runs at a time must not share one
NODE_FOLDER = HERE.parent / ".node" / "bench"
NODE_PACKAGES = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2", "zod@4")
OLDEST_NODE = 20
DOCKET_FOLDER = HERE / "build" / "docket"
DOCKET = "pydocket==0.27.0"


class Missing(Exception):
    """Something that a run needs is not on this machine; the text says what to do."""


def generator() -> Path:
    """The path of the load generator, compiled if its source is newer."""
    if not sys.platform.startswith("linux"):
        raise Missing("The load generator uses epoll and /proc: benchmarks run on Linux only.")
    if GENERATOR.exists() and GENERATOR.stat().st_mtime >= GENERATOR_SOURCE.stat().st_mtime:
        return GENERATOR
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise Missing("There is no C compiler (cc, gcc or clang). On Debian: apt-get install gcc libc6-dev")
    GENERATOR.parent.mkdir(exist_ok=True)
    fresh = GENERATOR.with_name(f"generator-{os.getpid()}")
    command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(fresh), str(GENERATOR_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"The load generator does not compile:\n{done.stderr}")
    return fresh.replace(GENERATOR)


def snapshot() -> None:
    """Copy redstart's source, so that a run measures one state of it whatever is edited meanwhile."""
    atexit.register(shutil.rmtree, SNAPSHOT, ignore_errors=True)
    shutil.copytree(SOURCE, SNAPSHOT / "redstart", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(SNAPSHOT, quiet=2)
    check = subprocess.run(
        [sys.executable, "-c", "from redstart import Server"],
        env={**os.environ, "PYTHONPATH": str(SNAPSHOT)},
        capture_output=True,
        text=True,
    )
    if check.returncode:
        raise Missing(f"redstart cannot be imported:\n{check.stderr[-800:]}")


def _is_recent(node: Path | str) -> bool:
    done = subprocess.run([str(node), "--version"], capture_output=True, text=True)
    found = re.match(r"v(\d+)", done.stdout)
    return bool(found) and int(found[1]) >= OLDEST_NODE


def _npm_install(*packages: str) -> None:
    npm = shutil.which("npm")
    if not npm:
        raise Missing("There is no npm, so the TypeScript SDK cannot be installed; --without typescript leaves it out.")
    NODE_FOLDER.mkdir(parents=True, exist_ok=True)
    manifest = NODE_FOLDER / "package.json"
    if not manifest.exists():
        manifest.write_text('{"private": true}\n')
    command = [npm, "install", "--silent", "--no-fund", "--no-audit", *packages]
    done = subprocess.run(command, cwd=NODE_FOLDER, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"npm could not install {' '.join(packages)}:\n{done.stderr[-800:]}")


def _packages_installed() -> bool:
    modules = NODE_FOLDER / "node_modules"
    for package in NODE_PACKAGES:
        name, _, version = package.rpartition("@")
        manifest = modules / name / "package.json"
        if not manifest.exists() or f'"version": "{version}' not in manifest.read_text():
            return False
    return True


def node() -> str:
    """A Node that runs the SDK: the machine's, else npm's own `node@22` package."""
    system = shutil.which("node")
    if system and _is_recent(system):
        return system
    local = NODE_FOLDER / "node_modules" / ".bin" / "node"
    if not (local.exists() and _is_recent(local)):
        _npm_install("node@22")
    return str(local)


def typescript_server() -> Path:
    """The TypeScript server, copied to where its imports resolve."""
    if not _packages_installed():
        _npm_install(*NODE_PACKAGES)
    copy = NODE_FOLDER / "server.mjs"
    shutil.copyfile(SERVERS / "typescript_server.mjs", copy)
    return copy


def docket_python() -> Path:
    """A Python that has pydocket, in an environment of its own: it needs other versions than we do."""
    python = DOCKET_FOLDER / "bin" / "python"
    marker = DOCKET_FOLDER / DOCKET
    if not marker.exists():
        pip = [python, "-m", "pip", "install", "-q", DOCKET, "uvloop"]
        for command in ([sys.executable, "-m", "venv", DOCKET_FOLDER], pip):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise Missing(f"{DOCKET} could not be installed:\n{done.stderr[-800:]}")
        marker.touch()
    return python
