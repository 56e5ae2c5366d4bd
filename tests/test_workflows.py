"""What hosts run is what .ci/run runs, with the targets of the Makefile; every dependency has a lower bound."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
OLDEST = ROOT / "scripts" / "oldest.py"
GROUPS = ("check", "test", "interop")


def targets() -> set[str]:
    """The names that `make` knows."""
    return {name for line in re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M) for name in line.split()}


def made(text: str) -> list[str]:
    """The targets that the lines of a shell script make."""
    return re.findall(r"^make ([\w-]+)$", text, re.M)


def jobs() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert isinstance(found["jobs"], dict)
    return found["jobs"]


def commands() -> list[str]:
    return [step["run"] for job in jobs().values() for step in job["steps"] if step.get("run", "").startswith("make ")]


def test_every_name_in_phony_has_a_rule() -> None:
    assert {name for name in targets() if not re.search(rf"^{name}:", MAKEFILE, re.M)} == set()


def test_a_host_runs_what_our_own_ci_runs() -> None:
    ours = made((ROOT / ".ci" / "run").read_text())
    assert ours == ["check", "docs", "test", "test-oldest", "conformance", "inspector-check", "e2e", "slow"]
    assert sorted(commands()) == sorted(f"make {target}" for target in ours)
    assert set(ours) <= targets()


def test_ci_has_the_programs_that_tests_start() -> None:
    assert "\n.ci/install\n" in (ROOT / ".ci" / "run").read_text()
    without = {name for name, job in jobs().items() if ".ci/install" not in [step.get("run") for step in job["steps"]]}
    assert without == {"check"}  # it starts nothing
    for program in ("npm", "redis-server", "postgresql", "nginx", "chromium"):
        assert program in (ROOT / ".ci" / "install").read_text()


def test_a_slow_test_says_why_and_has_quick_ones_beside_it() -> None:
    """`make test` leaves out what is slow: a case of each thing stays in it."""
    for file in (ROOT / "tests").rglob("test_*.py"):
        marks = re.findall(r"mark\.slow\b(.{0,2})", file.read_text())
        assert all(mark == '("' for mark in marks), f"{file}: a mark `slow` without a reason"
        assert not re.search(r"^pytestmark = .*mark\.slow", file.read_text(), re.M), f"{file}: all of it is slow"


def test_the_tests_run_on_every_python_that_is_promised() -> None:
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    tried = jobs()["test"]["strategy"]["matrix"]["python"]
    assert tried == ["3.11", "3.12", "3.13"]
    assert tried == supported  # no version is claimed that is not tried


def test_the_hooks_before_a_commit_are_the_parts_of_make_check() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    parts = re.search(r"^check: (.*)$", MAKEFILE, re.M)
    assert parts is not None
    assert [hook["entry"] for hook in hooks] == [f"make {part}" for part in parts[1].split()]
    assert {repo["repo"] for repo in config["repos"]} == {
        "local"
    }  # nothing is fetched that pyproject.toml does not name


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_the_issue_templates_are_valid_forms(name: str) -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert {"name", "description", "body"} <= set(form)
    kinds = {"markdown": {"value"}, "textarea": {"label"}, "input": {"label"}}
    for part in form["body"]:
        assert kinds[part["type"]] <= set(part["attributes"])
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids))


def test_contributing_names_the_targets_and_the_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    written = set(re.findall(r"^\$ make ([\w-]+)", text, re.M))
    assert written <= targets()
    assert {"check", "test", "test-oldest", "conformance"} <= written
    for name in (".github/workflows", ".pre-commit-config.yaml", "SECURITY.md", ".github/ISSUE_TEMPLATE"):
        assert name in text
        assert (ROOT / name).exists()


def test_every_direct_dependency_has_a_lower_bound() -> None:
    done = subprocess.run(
        [sys.executable, str(OLDEST), *GROUPS], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    pins = done.stdout.splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+(; .*)?", pin) for pin in pins), pins
    names = [pin.partition("==")[0] for pin in pins]
    assert {"msgspec", "uvicorn", "httptools", "uvloop", "httpx2", "pydantic", "mypy", "mcp"} <= set(names)
    assert len(names) == len(set(names)), "one dependency has two lower bounds"


@pytest.mark.parametrize(
    ("requirement", "pin"),
    [
        ("uvicorn>=0.34,<1", "uvicorn==0.34"),
        ("uvloop>=0.21; sys_platform != 'win32'", "uvloop==0.21; sys_platform != 'win32'"),
        ("psycopg[binary,pool]>=3.2.1", "psycopg==3.2.1"),
        ("redis!=8.1.0,>=8.0.1", "redis==8.0.1"),
        ("jsonschema-rs~=0.30", "jsonschema-rs==0.30"),
        ("redstart[client]", None),
    ],
)
def test_a_lower_bound_becomes_a_pin(requirement: str, pin: str | None) -> None:
    assert runpy.run_path(str(OLDEST))["constraint"](requirement) == pin


@pytest.mark.parametrize("requirement", ["uvicorn", "uvicorn<1", "uvicorn!=0.34; python_version >= '3.11'"])
def test_a_dependency_without_a_lower_bound_is_refused(requirement: str) -> None:
    with pytest.raises(SystemExit, match="no lower bound"):
        runpy.run_path(str(OLDEST))["constraint"](requirement)
