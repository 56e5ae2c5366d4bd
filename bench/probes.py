"""What needs no load: the CPU of an import, of registering many tools, of a check of a token, in a fresh process."""

import json
import subprocess
import sys

from bench import build
from bench.targets import TARGETS

IMPORTS = {
    "redstart": "import redstart",
    "redstart-server": "from redstart import Server",  # names are loaded lazily: this is what a server pays
    "mcp": "import mcp.server",
    "fastmcp": "import fastmcp",
}
REGISTRATION_TARGETS = ("redstart", "mcp", "fastmcp")
REGISTERED_TOOLS = 1000


class ProbeFailed(Exception):
    """The process of a probe ended with an error."""


def import_cpu_ms(name: str) -> float:
    """CPU of the import alone, without the interpreter's own start and end."""
    code = f"import time; begin = time.process_time(); {IMPORTS[name]}; print(time.process_time() - begin)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=TARGETS["redstart"].full_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise ProbeFailed(f"`{IMPORTS[name]}` failed: {done.stderr[-500:]}")
    return float(done.stdout) * 1e3


def jwt_cpu_us(name: str) -> float:
    """CPU of checking a JWT that was checked a moment ago."""
    target = TARGETS[name]
    command = [sys.executable, str(build.SERVERS / "jwt_check.py")]
    done = subprocess.run(command, env=target.full_environment(), capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise ProbeFailed(f"the check of a JWT failed: {done.stderr[-500:]}")
    return json.loads(done.stdout)["cached_us"]


def registration_cpu_ms(name: str) -> float:
    """CPU of registering 1,000 tools with four arguments, without making the functions."""
    target = TARGETS[name]
    command = [*target.start(), "--time-registration", str(REGISTERED_TOOLS)]
    done = subprocess.run(command, env=target.full_environment(), capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise ProbeFailed(f"registration on {name} failed: {done.stderr[-500:]}")
    return json.loads(done.stdout)["registration_cpu_ms"]
