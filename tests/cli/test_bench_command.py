"""`redstart bench`: the figures, what has changed since, and errors that are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from redstart.cli import main

SHOP = str(Path(__file__).with_name("shop.py"))
SHORT = ["--duration", "0.3", "--concurrency", "4"]


def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    assert main(["bench", SHOP, "--tool", "add", "a=1", *SHORT, "--save", str(file), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == json.loads(file.read_text())
    assert (figures["tool"], figures["concurrency"], figures["errors"]) == ("add", 4, 0)
    assert figures["calls"] > 0
    assert figures["perSecond"] == pytest.approx(figures["calls"] / figures["seconds"], rel=0.01)
    times = figures["milliseconds"]
    assert times["min"] <= times["p50"] <= times["p90"] <= times["p95"] <= times["p99"] <= times["max"]

    file.write_text(json.dumps({**figures, "perSecond": figures["perSecond"] * 1000}))
    assert main(["bench", SHOP, "--tool", "add", "a=1", *SHORT, "--compare", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("add, protocol 2026-07-28, 4 at once, 0.3 s")
    assert lines[1].startswith("  calls a second")
    assert lines[1].rstrip().endswith("%")
    assert float(lines[1].split()[-1].rstrip("%")) < -90


def test_without_a_tool_the_list_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", SHOP, *SHORT]) == 0
    assert capsys.readouterr().out.startswith("tools/list, protocol ")


def test_calls_that_fail_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", SHOP, "--tool", "fail", "text=sold out", *SHORT]) == 1
    heard = capsys.readouterr().err
    assert " calls failed:\n" in heard
    assert " × sold out\n" in heard


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([SHOP, "--tool", "ad"], "redstart: there is no tool ad; did you mean add?\n"),
        ([SHOP, "--tool", "add"], "redstart: add needs a\nusage: add a=integer [b=integer]\n"),
        ([SHOP, "a=1"], "redstart: arguments are for a tool: write --tool NAME\n"),
        ([SHOP, "add"], "redstart: add is not an argument: write name=value, and --tool NAME for the tool\n"),
        ([SHOP, "--compare", "nowhere.json"], "redstart: nowhere.json: No such file or directory\n"),
        (
            [SHOP, "--compare", __file__],
            f"redstart: {__file__} is not a file that `redstart bench --save` has written\n",
        ),
    ],
)
def test_what_cannot_be_measured(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert capsys.readouterr().err == said
