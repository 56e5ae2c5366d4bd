"""Files of other programs: what is not a file is refused, and nothing waits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from redstart.cli.configs.edit import EditError
from redstart.cli.configs.files import read


def test_only_files_are_read(tmp_path: Path) -> None:
    assert read(tmp_path / "nothing.json") is None
    with pytest.raises(EditError, match="it is not a file"):
        read(tmp_path)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(EditError, match="it is not a file"):
        read(pipe)
