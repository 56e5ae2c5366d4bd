"""What the tests of the command line share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from support import ROOT


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What loading leaves behind in the interpreter is gone afterwards; installed libraries stay: they have state."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    loaded = (tmp_path_factory.getbasetemp(), ROOT / "examples", Path(__file__).with_name("shop.py"))
    new = {name: sys.modules[name] for name in set(sys.modules) - known}
    places = {name: _places(module) for name, module in new.items()}  # before any goes: a folder asks its parent
    for name, found in places.items():
        if any(Path(place).is_relative_to(folder) for place in found for folder in loaded):
            del sys.modules[name]


def _places(module: ModuleType) -> list[str]:
    return [file] if (file := getattr(module, "__file__", None)) else list(map(str, getattr(module, "__path__", ())))
