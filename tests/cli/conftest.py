"""What the tests of the command line share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What loading leaves behind in the interpreter is gone afterwards; installed libraries stay: they have state."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    loaded = (tmp_path_factory.getbasetemp(), ROOT / "examples")
    for name in set(sys.modules) - known:
        module = sys.modules[name]
        files = [module.__file__] if getattr(module, "__file__", None) else list(getattr(module, "__path__", ()))
        if any(Path(str(file)).is_relative_to(place) for file in files for place in loaded):
            del sys.modules[name]
