"""Node packages for the tests that need them: installed once into `.node/`, by name, or the tests are skipped."""

from __future__ import annotations

import pytest

from support import ROOT, node_packages

SOURCE = ROOT / "tests" / "interop" / "node"


@pytest.fixture(scope="session")
def typescript() -> list[str]:
    """The command that runs the TypeScript client."""
    node, folder = node_packages("interop", SOURCE)
    return [node, str(folder / "drive.mjs")]
