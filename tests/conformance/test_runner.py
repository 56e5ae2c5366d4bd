"""What scripts/conformance.py makes of the suite's results; the suite itself is `make conformance`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_runner", HERE.parents[1] / "scripts" / "conformance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


runner: Any = load()
LEG = runner.Leg("2025-11-25", "conformance-0.2", "2025-11-25")
EXTENSIONS = runner.Leg("extensions", "conformance-0.2", extensions=True)


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        (["SUCCESS", "INFO"], "passed"),
        (["SUCCESS", "FAILURE", "WARNING"], "failed"),
        (["SUCCESS", "WARNING", "SKIPPED"], "warned"),
        (["SUCCESS", "SKIPPED"], "skipped"),
        (["INFO"], "skipped"),
        ([], "skipped"),
    ],
)
def test_the_worst_check_decides(statuses: list[str], outcome: str) -> None:
    checks = [runner.Check(f"check-{number}", status) for number, status in enumerate(statuses)]
    assert runner.judge("ping", checks).outcome == outcome


def test_a_valid_wire_alone_is_no_pass() -> None:
    assert runner.judge("ping", [runner.Check("wire-schema-valid", "SUCCESS")]).outcome == "skipped"


@pytest.mark.parametrize(
    ("outcome", "listed", "word"),
    [
        ("passed", None, "passed"),
        ("failed", None, "failed"),
        ("warned", None, "failed"),
        ("skipped", None, "failed"),
        ("failed", "failed", "waiting"),
        ("warned", "warned", "waiting"),
        ("passed", "failed", "failed"),
        ("passed", "warned", "failed"),
        ("failed", "warned", "failed"),
    ],
)
def test_only_what_is_listed_may_fail_and_what_is_listed_must(outcome: str, listed: str | None, word: str) -> None:
    expected = runner.Expected("2025-11-25", "ping", "#4", "Because.", listed) if listed else None
    assert runner.verdict(LEG, runner.Result("ping", outcome, 1), expected)[0] == word


def test_an_extension_that_we_do_not_declare_may_be_skipped() -> None:
    assert runner.verdict(EXTENSIONS, runner.Result("skills", "skipped", 1), None)[0] == "skipped"


def test_a_scenario_that_crashed_has_failed(tmp_path: Path) -> None:
    result = runner.read_result(tmp_path, "ping", "Failed to run scenario ping: boom")
    assert result.outcome == "failed"
    assert "boom" in result.reasons[-1]


def test_a_result_is_found_by_the_whole_name(tmp_path: Path) -> None:
    for name, status in (("tools-list", "SUCCESS"), ("tools-list-gate", "FAILURE")):
        folder = tmp_path / f"server-{name}-2026-11-15T23-43-07-484Z"
        folder.mkdir()
        (folder / "checks.json").write_text(json.dumps([{"id": name, "status": status}]))
    assert runner.read_result(tmp_path, "tools-list", "").outcome == "passed"


def test_the_result_of_a_client_is_in_a_folder_of_its_group(tmp_path: Path) -> None:
    folder = tmp_path / "auth" / "scope-step-up-2026-11-15T23-43-07-484Z"
    folder.mkdir(parents=True)
    (folder / "checks.json").write_text(json.dumps([{"id": "scope", "status": "SUCCESS"}]))
    assert runner.read_result(tmp_path, "auth/scope-step-up", "", "").outcome == "passed"
    assert runner.read_result(tmp_path, "scope-step-up", "", "").outcome == "failed"


def test_every_expected_failure_says_what_it_waits_for() -> None:
    listed = runner.read_expected(HERE / "expected-failures.toml")
    assert all(entry.issue and entry.why for entry in listed.values())
    assert {entry.leg for entry in listed.values()} <= {leg.name for leg in runner.LEGS}
