"""The picture of a trace in the docs is what a run of today gives: the same spans of the same processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support import ROOT

pytest.importorskip("opentelemetry.sdk.trace")
PICTURE = ROOT / "docs" / "images" / "trace.svg"
SVG = "{http://www.w3.org/2000/svg}"


def rows(picture: Path) -> list[tuple[str, str]]:
    """How far each span is to the right, and whose it is."""
    texts = ElementTree.parse(picture).iter(f"{SVG}text")
    return [(text.attrib["x"], text.text or "") for text in texts if ": " in (text.text or "")]


def kinds(picture: Path) -> list[str]:
    """What is said of each span beside its time."""
    texts = ElementTree.parse(picture).iter(f"{SVG}text")
    return [
        (text.text or "").partition(" ms, ")[2]
        for text in texts
        if float(text.attrib["y"]) > 60 and text.attrib.get("class")
    ]


def test_the_picture_shows_a_trace_of_today(tmp_path: Path) -> None:
    drawn = tmp_path / "trace.svg"
    script = [sys.executable, str(ROOT / "scripts" / "trace_picture.py"), str(drawn)]
    done = subprocess.run(script, capture_output=True, timeout=50)
    assert done.returncode == 0, done.stderr.decode()
    assert rows(drawn) == [
        ("16", "agent: chat"),
        ("34", "agent: tools/call report"),
        ("52", "server: tools/call report"),
        ("70", "worker: tools/call report"),
        ("88", "worker: SELECT orders"),
        ("88", "worker: render"),
        ("34", "agent: tools/call mail"),
        ("52", "server: tools/call mail"),
        ("70", "server: SMTP"),
    ]
    assert kinds(drawn) == ["", "CLIENT", "SERVER", "CONSUMER, attempt 1", "", "", "CLIENT", "SERVER", ""]
    assert (rows(PICTURE), kinds(PICTURE)) == (rows(drawn), kinds(drawn)), "run: python scripts/trace_picture.py"


def test_the_picture_has_words_and_both_themes() -> None:
    root = ElementTree.parse(PICTURE).getroot()
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title")
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")
