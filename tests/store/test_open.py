"""From a URL to a store."""

from __future__ import annotations

import subprocess
import sys

import pytest

from redstart.store.memory import MemoryStore
from redstart.store.open import open_state, open_store


def test_no_url_is_memory() -> None:
    assert isinstance(open_state(None), MemoryStore)
    assert isinstance(open_state("memory://"), MemoryStore)
    own = MemoryStore()
    assert open_state(own) is own


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("nosuch://host", r"no store is known for 'nosuch://host' \(known: memory://, "),
        ("postgres://host/db", r"did you mean postgresql://\?"),
        ("sqlite3:///file.db", r"did you mean sqlite://\?"),
        ("Redis://host", r"did you mean redis://\?"),
        ("redis:secret@host", r"'\*\*\*@host'; did you mean redis://\?"),
        ("memory", r"did you mean memory://\?"),
        ("memory://name", r"known: memory://"),
        ("sqlite://", r"does not name a file alone: write sqlite:///relative/file.db or sqlite:////absolute/file.db"),
        ("sqlite:///", "does not name a file alone"),
        ("sqlite://file.db", "does not name a file alone"),
        ("sqlite:///file.db?password=secret", r"'sqlite:///file.db\?…' does not name a file alone"),
    ],
)
def test_a_url_that_names_no_store(url: str, error: str) -> None:
    with pytest.raises(ValueError, match=error) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("redis://:secret@host", "redis", "redis"),
        ("rediss://:secret@host", "redis", "redis"),
        ("valkey://:secret@host", "redis", "redis"),
        ("postgresql://ada:secret@host/db", "psycopg", "postgres"),
    ],
)
def test_a_package_that_is_not_installed(url: str, package: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from redstart.store.open import open_store\n"
        f"try: open_store({url!r})\nexcept ImportError as error: print(error)"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f'pip install "redstart[{extra}]"' in text
    assert "secret" not in text
