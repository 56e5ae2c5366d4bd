"""The docs as a site: what is made from code is current, every page is in the navigation, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import redstart
from support import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_current() -> None:
    reference = script("reference")
    for name, text in reference.pages().items():
        assert (DOCS / "reference" / name).read_text() == text, f"{name} is not current: run make reference"


def test_the_reference_has_every_public_name_and_option() -> None:
    reference = script("reference")
    listed = {name for _, _, names in reference.PAGES.values() for name in names}
    assert set(redstart.__all__) - {"__version__"} <= listed
    for tables in reference.OPTIONS.values():
        for _, options in tables:
            described = {name for name, _, _ in reference._fields(options)}
            own = set(options.__annotations__) - {
                name for base in options.__bases__ for name in getattr(base, "__annotations__", ())
            }
            inherited = {
                name
                for other in reference.OPTIONS.values()
                for _, one in other
                if one is not options
                for name, _, _ in reference._fields(one)
            }
            assert own - described - inherited == set(), options.__name__


def test_llms_txt_is_current() -> None:
    assert (DOCS / "llms.txt").read_text() == script("llms").text(), "run make reference"


def _named(entry: Any) -> set[str]:
    if isinstance(entry, str):
        return {entry}
    inside = entry.values() if isinstance(entry, dict) else entry
    return {name for inner in inside for name in _named(inner)}


def test_every_page_is_in_the_navigation() -> None:
    nav = _named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert nav == {str(page.relative_to(DOCS)) for page in PAGES}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", *sorted((ROOT / "examples").rglob("*.md"))], ids=str)
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    missing = [match[1] for match in LINK.finditer(text) if not (page.parent / match[1]).exists()]
    assert missing == []
