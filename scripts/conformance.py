"""Run the official MCP conformance suite against our fixture server and our client: `make conformance`.

npm installs the pinned suites of tests/conformance/ into `.node/`, the fixture server starts on a free loopback port,
and every leg runs: four revisions and the extensions with suite 0.2, then suite 0.1.16, then the test of an
authorization server, which is an `OAuthProxy` in front of npm's oidc-provider. In the legs of the client the suite is
the server, and starts tests/conformance/client.py once per scenario. What still fails stands in
tests/conformance/expected-failures.toml. The run fails on any other failure, on a warning or a skipped check that is
not listed, and on a listed scenario that passes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "conformance"
CACHE = ROOT / ".node"
NODE_NEEDED = 22
START_SECONDS = 30.0
LEG_SECONDS = 300.0
CLIENT = f"{sys.executable} {PINS / 'client.py'}"
# Suite 0.2 adds this check to every scenario, also to those that checked nothing else.
EVERYWHERE = "wire-schema-valid"
OUTCOMES = {"FAILURE": "failed", "WARNING": "warned", "SKIPPED": "skipped"}  # the worst first


@dataclass(frozen=True)
class Leg:
    name: str
    suite: str
    revision: str | None = None
    extensions: bool = False  # an extension that we do not declare may be skipped
    role: str = "server"  # what is tested


LEGS = (
    Leg("2025-03-26", "conformance-0.2", "2025-03-26"),
    Leg("2025-06-18", "conformance-0.2", "2025-06-18"),
    Leg("2025-11-25", "conformance-0.2", "2025-11-25"),
    Leg("2026-07-28", "conformance-0.2", "2026-07-28"),
    Leg("extensions", "conformance-0.2", extensions=True),
    Leg("0.1.16", "conformance-0.1"),
    Leg("authorization", "conformance-0.2", role="authorization"),
    Leg("client 2025-03-26", "conformance-0.2", "2025-03-26", role="client"),
    Leg("client 2025-06-18", "conformance-0.2", "2025-06-18", role="client"),
    Leg("client 2025-11-25", "conformance-0.2", "2025-11-25", role="client"),
    Leg("client 2026-07-28", "conformance-0.2", "2026-07-28", role="client"),
    Leg("client extensions", "conformance-0.2", extensions=True, role="client"),
)


@dataclass(frozen=True)
class Expected:
    """One entry of the expected-failures file."""

    leg: str
    scenario: str
    issue: str
    why: str
    outcome: str = "failed"


Listed = dict[tuple[str, str], Expected]


@dataclass(frozen=True)
class Check:
    id: str
    status: str
    message: str = ""


@dataclass(frozen=True)
class Result:
    """What the suite found out about one scenario: passed, failed, warned or skipped."""

    scenario: str
    outcome: str
    checks: int
    reasons: tuple[str, ...] = ()


class Stop(Exception):
    """The run cannot go on; the text says why and what to do."""


# ---- installing --------------------------------------------------------------------------------------------


def install(name: str) -> Path:
    """Install the pinned packages of tests/conformance/NAME into .node/NAME, once per pin."""
    pins = [PINS / name / "package.json", PINS / name / "package-lock.json"]
    wanted = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()
    target = CACHE / name
    stamp = target / ".installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return target / "node_modules"
    npm = shutil.which("npm")
    if npm is None:
        raise Stop("npm is not installed, and the suite comes from npm. Install Node.js, then run again.")
    target.mkdir(parents=True, exist_ok=True)
    for pin in pins:
        shutil.copyfile(pin, target / pin.name)
    print(f"npm installs {name} into {target.relative_to(ROOT)} …", flush=True)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    if subprocess.run(command, cwd=target, check=False).returncode:
        raise Stop(f"npm could not install tests/conformance/{name}; what it said is above.")
    stamp.write_text(wanted)
    return target / "node_modules"


def find_node() -> str:
    """The machine's own Node where it is new enough, else the pinned one."""
    own = shutil.which("node")
    if own is not None:
        version = subprocess.run([own, "--version"], capture_output=True, text=True, check=False).stdout
        if (match := re.match(r"v(\d+)", version)) and int(match[1]) >= NODE_NEEDED:
            return own
    found = sorted(install("node").glob("node-*/bin/node*"))
    if not found:  # an optional package that npm cannot fetch is no error to npm
        (CACHE / "node" / ".installed").unlink()
        raise Stop(f"The suite needs Node {NODE_NEEDED}, and npm has none for this platform.")
    return str(found[0])


# ---- the server --------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """Any HTTP status is an answer: what it should be is the suite's business."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=2)
    try:
        connection.request("POST", parts.path, b"{}", {"Content-Type": "application/json"})
        return connection.getresponse().status > 0
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        if server.poll() is not None:
            raise Stop(f"The fixture server ended with status {server.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise Stop(f"The fixture server did not answer within {START_SECONDS:.0f} s:\n{tail(log)}")
        time.sleep(0.05)


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def fixture_server(name: str = "server", store: str = "") -> Iterator[str]:
    """The URL of a fixture server that lives as long as the block."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    log = CACHE / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as output:
        command = [sys.executable, str(PINS / "server.py"), str(port), *([store] if store else [])]
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            wait_for(url, server, log)
            yield url
            if server.poll() is not None:
                raise Stop(f"The fixture server ended during the run:\n{tail(log)}")
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@contextlib.contextmanager
def replicas(engine: str, count: int = 2) -> Iterator[str]:
    """The URL of a proxy that gives each request to the next of some fixture servers, which share a store."""
    sys.path.insert(0, str(ROOT / "tests"))
    from round_robin import round_robin
    from store.engines import running

    with contextlib.ExitStack() as stack:
        store = stack.enter_context(running(engine)).url
        urls = [stack.enter_context(fixture_server(f"server-{n}", store)) for n in range(count)]
        port = free_port()
        stack.enter_context(round_robin(port, [urlsplit(url).port or 0 for url in urls]))
        print(f"{count} processes behind a proxy without affinity, on {engine}", flush=True)
        yield f"http://127.0.0.1:{port}/mcp"


# ---- the suite ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suite:
    """The command line of one installed suite."""

    node: str
    packages: Path
    url: str

    def run(self, leg: Leg, arguments: Sequence[str]) -> str:
        program = self.packages / leg.suite / "dist" / "index.js"
        try:
            done = subprocess.run(
                [self.node, str(program), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=LEG_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as cut:
            return (cut.output or b"").decode(errors="replace") + f"\nNot done after {LEG_SECONDS:.0f} s.\n"
        return done.stdout.decode(errors="replace")

    def scenarios(self, leg: Leg) -> list[str]:
        """The names that the suite itself lists for this leg."""
        text = self.run(leg, ["list", f"--{leg.role}", *revision_flag(leg)])
        rows = re.findall(r"^  - (\S+)(?: \[(\S+)\])?$", text, re.MULTILINE)
        names = [name for name, revisions in rows if (revisions == "extension") == leg.extensions]
        if not names:
            raise Stop(f"{leg.suite} lists no scenario for the leg {leg.name}:\n{text}")
        return names

    def results(self, leg: Leg, names: list[str], whole: bool) -> Iterator[Result]:
        """Run the leg in one process, or scenario by scenario where only some are wanted."""
        folder = CACHE / "results" / leg.name.replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if leg.role == "authorization":  # the second scenario needs what the first one has found, so they run together
            yield from self.authorization(leg, folder, names)
            return
        tested = ["client", "--command", CLIENT] if leg.role == "client" else ["server", "--url", self.url]
        common = [*tested, "--output-dir", str(folder), *revision_flag(leg)]
        # The suite has no switch for "the extensions only", so these too run one by one. Of clients it would start all
        # at the same time.
        batches = [names] if whole and not leg.extensions and leg.role == "server" else [[name] for name in names]
        for batch in batches:
            what = ["--suite", "all"] if batch is names else ["--scenario", batch[0]]
            output = self.run(leg, [*common, *what])
            with (folder / "suite.log").open("a") as log:
                log.write(output)
            for name in batch:
                result = read_result(folder, name, output, "" if leg.role == "client" else "server-")
                if leg.role == "client" and result.outcome == "passed" and "OVERALL: PASSED" not in output:
                    result = Result(name, "failed", result.checks, tuple(output.splitlines()[-5:]))
                yield result

    def authorization(self, leg: Leg, folder: Path, names: list[str]) -> Iterator[Result]:
        """Test an authorization server of ours, which this starts."""
        sys.path.insert(0, str(ROOT / "tests"))
        from auth.conformance import run_suite

        program = str(self.packages / leg.suite / "dist" / "index.js")
        output = run_suite([self.node, program, "authorization", "--output-dir", str(folder)])
        (folder / "suite.log").write_text(output)
        for name in names:
            yield read_result(folder, name, output, "authorization-server-")


def revision_flag(leg: Leg) -> list[str]:
    return ["--spec-version", leg.revision] if leg.revision else []


def read_result(folder: Path, scenario: str, output: str, before: str = "server-") -> Result:
    """Judge the checks.json that the suite left behind; a scenario that crashed leaves none."""
    stamped = re.compile(rf"{before}{re.escape(scenario)}-\d{{4}}-\d\d-\d\dT[\d-]+Z")
    found = sorted(folder.glob("**/checks.json"))
    written = [path for path in found if stamped.fullmatch(path.parent.relative_to(folder).as_posix())]
    if not written:
        said = [line for line in output.splitlines() if scenario in line]
        return Result(scenario, "failed", 0, ("the suite left no result", *said[-3:]))
    checks = [
        Check(str(row["id"]), str(row["status"]), str(row.get("errorMessage") or row.get("description", "")))
        for row in json.loads(written[-1].read_text())
    ]
    return judge(scenario, checks)


def judge(scenario: str, checks: list[Check]) -> Result:
    """The worst check decides. A scenario in which nothing was checked has not passed."""
    count = sum(check.status != "INFO" for check in checks)
    found = [check for check in checks if check.status in OUTCOMES]
    if found:
        outcome = OUTCOMES[min((check.status for check in found), key=list(OUTCOMES).index)]
        return Result(scenario, outcome, count, tuple(f"{c.status} {c.id}: {c.message}" for c in found))
    if not any(check.status == "SUCCESS" and check.id != EVERYWHERE for check in checks):
        return Result(scenario, "skipped", count, ("no check of this scenario applied to the server",))
    return Result(scenario, "passed", count)


# ---- the verdict -------------------------------------------------------------------------------------------


def read_expected(path: Path) -> Listed:
    rows = [Expected(**row) for row in tomllib.loads(path.read_text()).get("expected", [])]
    listed = {(row.leg, row.scenario): row for row in rows}
    if len(listed) < len(rows):
        raise Stop(f"{path.relative_to(ROOT)} lists a scenario twice.")
    return listed


def verdict(leg: Leg, result: Result, expected: Expected | None) -> tuple[str, str]:
    """One of passed, failed, skipped, waiting; and a note for the line."""
    if expected is None:
        if result.outcome == "passed" or (result.outcome == "skipped" and leg.extensions):
            return result.outcome, ""
        return "failed", "" if result.outcome == "failed" else f"{result.outcome}, and not listed"
    if result.outcome == expected.outcome:
        return "waiting", f"{expected.issue}: {expected.why}"
    return "failed", f"listed as {expected.outcome}, but {result.outcome}: edit expected-failures.toml"


def report(leg: Leg, result: Result, expected: Expected | None, verbose: bool) -> str:
    """Print one scenario's line (leg, name, verdict, number of checks, note) and return the verdict."""
    word, note = verdict(leg, result, expected)
    print(f"{leg.name:<13}  {result.scenario:<46} {word:<8} {result.checks:>3}  {note}".rstrip(), flush=True)
    if word == "failed" or (verbose and word != "passed"):
        for reason in result.reasons:
            print(f"{'':<19}- {reason}", flush=True)
    return word


def run_leg(leg: Leg, suite: Suite, options: argparse.Namespace, listed: Listed) -> Counter[str]:
    names = suite.scenarios(leg)
    wanted = [name for name in names if not options.scenario or name in options.scenario]
    tally = Counter(
        report(leg, result, listed.get((leg.name, result.scenario)), options.verbose)
        for result in suite.results(leg, wanted, whole=wanted == names)
    )
    for entry in listed.values():
        if entry.leg == leg.name and entry.scenario not in names:
            print(f"{leg.name:<13}  {entry.scenario:<46} failed   listed, but the suite has no such scenario")
            tally["failed"] += 1
    return tally


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the official MCP conformance suite.")
    parser.add_argument("--leg", action="append", choices=[leg.name for leg in LEGS], help="only this leg")
    parser.add_argument("--scenario", action="append", help="only this scenario")
    parser.add_argument("--url", help="test the server that runs there instead of the fixture server")
    help_text = "test two fixture servers that share this engine, behind a proxy without affinity"
    parser.add_argument("--replicas", choices=["redis", "postgresql"], help=help_text)
    parser.add_argument("--verbose", action="store_true", help="say why something is skipped or waiting")
    return parser.parse_args(arguments)


def served(options: argparse.Namespace) -> contextlib.AbstractContextManager[str]:
    """What is tested: the URL, while it is served."""
    if options.url:
        return contextlib.nullcontext(options.url)
    return replicas(options.replicas) if options.replicas else fixture_server()


def run(options: argparse.Namespace) -> Counter[str]:
    listed = read_expected(PINS / "expected-failures.toml")
    if unknown := {entry.leg for entry in listed.values()} - {leg.name for leg in LEGS}:
        raise Stop(f"expected-failures.toml names legs that do not exist: {', '.join(sorted(unknown))}.")
    if options.url and not answers(options.url):
        raise Stop(f"Nothing answers at {options.url}.")
    node, packages = find_node(), install("suites")
    tally: Counter[str] = Counter()
    # A client and an authorization server are always ones of ours, and know nothing of replicas.
    only_server = bool(options.url or options.replicas)
    legs = [leg for leg in LEGS if leg.role == "server" or not only_server]
    legs = [leg for leg in legs if not options.leg or leg.name in options.leg]
    with served(options) if any(leg.role == "server" for leg in legs) else contextlib.nullcontext("") as url:
        for leg in legs:
            tally += run_leg(leg, Suite(node, packages, url), options, listed)
    if not tally:
        raise Stop("No scenario of that name in these legs.")
    return tally


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server never outlives us
    try:
        tally = run(parse(arguments))
    except Stop as reason:
        print(f"conformance: {reason}", file=sys.stderr)
        return 2
    if tally["failed"]:
        print(f"Every check with its details: {(CACHE / 'results').relative_to(ROOT)}")
    print(", ".join(f"{tally[word]} {word}" for word in ("passed", "failed", "skipped", "waiting")))
    return 1 if tally["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
