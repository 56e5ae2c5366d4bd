"""Other people's clients against a server of ours, each in an environment of its own: `make compat`.

Outside of `make test`: the environments take minutes to install and hundreds of megabytes each.

    make compat                        all of them
    make compat ARGS="fastmcp3 dspy"   some of them
    make compat ARGS="claude codex"    command lines from npm: they list our tools, and call one for a scripted model
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from compat.command_lines import COMMANDS  # noqa: E402
from compat.command_lines import drive as drive_command_line  # noqa: E402
from support import ROOT, free_port, node_packages, serving  # noqa: E402

SERVER = str(HERE / "server.py")
TOOLS = ["add", "fail", "greet", "places"]
LIMIT = 240


class Peer(NamedTuple):
    """A client, what pip installs for it, and the script that drives it."""

    requirements: Sequence[str]
    script: str


PEERS = {
    "fastmcp2": Peer(["fastmcp<3"], "fastmcp_client.py"),
    "fastmcp3": Peer(["fastmcp>=3,<4"], "fastmcp_client.py"),
    "fastmcp4": Peer(["fastmcp>=4"], "fastmcp_client.py"),
    "mcp1": Peer(["mcp>=1.20,<2"], "mcp_client.py"),
    "pydantic-ai": Peer(["pydantic-ai-slim[mcp]"], "pydantic_ai_client.py"),
    "langchain": Peer(["langchain-mcp-adapters"], "langchain_client.py"),
    "openai-agents": Peer(["openai-agents"], "openai_agents_client.py"),
    "llama-index": Peer(["llama-index-tools-mcp"], "llama_index_client.py"),
    "dspy": Peer(["dspy", "mcp"], "dspy_client.py"),
    "semantic-kernel": Peer(["semantic-kernel[mcp]"], "semantic_kernel_client.py"),
    "crewai": Peer(["crewai-tools[mcp]"], "crewai_client.py"),
}
NODE = {"typescript1": "@modelcontextprotocol/sdk", "typescript2": "@modelcontextprotocol/client"}


def environment(name: str, peer: Peer) -> Path:
    """The interpreter of the peer's own virtual environment, installed once per list of requirements."""
    folder = ROOT / ".venv" / "compat" / name
    installed = folder / "installed.json"
    wanted = json.dumps(list(peer.requirements))
    if not installed.exists() or installed.read_text() != wanted:
        print(f"{name}: installing {', '.join(peer.requirements)} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", *peer.requirements], check=True)
        installed.write_text(wanted)
    return folder / "bin" / "python"


def command(name: str) -> list[str]:
    """What drives one peer; the transport and its target follow."""
    if name in PEERS:
        return [str(environment(name, PEERS[name])), str(HERE / "clients" / PEERS[name].script)]
    node, folder = node_packages("compat", HERE / "node")
    return [node, str(folder / "drive.mjs"), NODE[name]]


def drive(name: str, transport: str, target: Sequence[str]) -> str:
    """Run one peer over one transport; what went wrong, or nothing."""
    begun = time.monotonic()
    try:
        done = subprocess.run([*command(name), transport, *target], capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    if done.returncode:
        return f"exit {done.returncode}\n" + done.stderr.decode(errors="replace")[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.decode().strip().splitlines()[-1])
    print(f"{name} {transport}: {json.dumps(seen)} in {time.monotonic() - begun:.1f} s", flush=True)
    expected = {"tools": TOOLS, "sum": 3, "places": ["High St", "no zip", "x"], "failed": True}
    if name == "typescript1":
        expected["greeted"] = ["result", "Hello Ada"]  # by a task
    problems = [(what, seen.get(what), wanted) for what, wanted in expected.items() if seen.get(what) != wanted]
    return "; ".join(f"{what}: {value!r} instead of {wanted!r}" for what, value, wanted in problems)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make compat", description=__doc__)
    known = [*PEERS, *NODE, *COMMANDS]
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(known)}")
    wanted = parser.parse_args().peers or known
    unknown = set(wanted) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    failed = 0
    for name in wanted:
        if name in COMMANDS:
            problems = drive_command_line(name)
            good = [what for what, problem in problems.items() if not problem]
            print(f"{name}: {', '.join(good) or 'nothing'} worked", flush=True)
        else:
            port = free_port()
            problems = {"stdio": drive(name, "stdio", [sys.executable, SERVER])}
            with serving([sys.executable, SERVER, str(port)], port) as url:
                problems["http"] = drive(name, "http", [url])
        for transport, problem in problems.items():
            if problem:
                failed += 1
                print(f"{name} {transport}: FAILED: {problem}", flush=True)
    print(f"{2 * len(wanted) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
