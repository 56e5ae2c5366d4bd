"""A short version of `make torture`: workers and engines are killed, and no task is lost."""

from __future__ import annotations

import pytest

from store.engines import program
from tasks.torture import torture

NEEDS = {"redis": "redis-server", "postgresql": "postgres"}
SLOW = pytest.mark.slow("an engine that is killed comes back after seconds; the quick run kills workers only")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("redis", marks=SLOW), pytest.param("postgresql", marks=SLOW)]
)
def test_no_task_is_lost(engine: str) -> None:
    if engine in NEEDS:
        program(NEEDS[engine])
    outcome = torture(engine, tasks=120, lease=3, seed=7)
    assert outcome["kills"] >= 3
    assert outcome["engine kills"] == (0 if engine == "sqlite" else 1), outcome
