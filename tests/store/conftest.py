"""`place`: an empty store of every engine in turn. A server is started when the first test of a worker needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.engines import Engine, running
from store.places import NAMES, MemoryPlace, Place, ServerPlace, SqlitePlace


@pytest.fixture(scope="session")
def redis() -> Iterator[Engine]:
    with running("redis") as engine:
        yield engine


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Engine]:
    with running("postgresql") as engine:
        yield engine


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name: str = request.param
    if name == "memory":
        return MemoryPlace()
    if name == "sqlite":
        return SqlitePlace(tmp_path / "store.db")
    return ServerPlace(name, request.getfixturevalue(name))
