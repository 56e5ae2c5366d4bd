"""What a server counts of its calls, and how a call ended in one word; for Prometheus and OpenTelemetry.

The counts of one process are a `Figures`: values by the text of their sample. Those of several processes are added.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeAlias

from msgspec import Raw

from redstart.features.errors import Unwind
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.types import InputRequired, Result, ToolResult

Figures: TypeAlias = dict[str, float]
Outcome: TypeAlias = Result | Raw | BaseException | None
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds: the bounds that the semantic conventions of OpenTelemetry give to durations of MCP."""
MAX_NAMES: Final = 1000
"""How many tools and prompts are counted by their names; a server that changes often may have had more."""
OTHER: Final = "_other"
"""Stands for names that do not exist, and for those after the first `MAX_NAMES`."""
FAMILIES: Final = {
    "redstart_calls_total": ("counter", "Requests that have ended, by method, name and outcome."),
    "redstart_call_duration_seconds": ("histogram", "How long requests took, by method and name."),
    "redstart_task_runs_total": ("counter", "Runs of tasks that have ended in this process, by tool and outcome."),
    "redstart_calls_running": ("gauge", "Requests and runs of tasks that have not ended."),
    "redstart_sessions": ("gauge", "Sessions of the handshake era that are in use."),
    "redstart_streams": ("gauge", "Event streams that clients have open to hear of changes."),
    "redstart_tasks_running": ("gauge", "Tasks that this process works on."),
    "redstart_store_away": ("gauge", "Processes that cannot reach their store."),
    "redstart_workers": ("gauge", "Processes whose figures are in the sum."),
}
"""The names of all figures, with their types and what they say."""


def is_task_run(call: Call) -> bool:
    """Whether a worker runs the call of a task: the request that made the task has been answered before."""
    return call.task is not None and call.task.running


def error_of(outcome: Outcome) -> str | None:
    """How a call failed: the code of its JSON-RPC error, or a word; None if it has succeeded."""
    if isinstance(outcome, ProtocolError):
        return str(outcome.code)
    if isinstance(outcome, asyncio.CancelledError | Unwind):
        return "cancelled"
    if isinstance(outcome, BaseException):
        return type(outcome).__qualname__
    return "tool_error" if isinstance(outcome, ToolResult) and outcome.is_error else None


def outcome_of(outcome: Outcome) -> str:
    """How a call ended: one of five words."""
    error = error_of(outcome)
    if error is None:
        return "input_required" if isinstance(outcome, InputRequired) else "ok"
    return error if error in ("cancelled", "tool_error") else "error"


class CallMetrics:
    """Counts the calls of one process. `known` gives the name of a tool or prompt that is called, if it exists."""

    def __init__(self, known: Callable[[Call], str | None]) -> None:
        self._known = known
        self._names: set[str] = set()
        self._running = 0
        self._calls: dict[tuple[str, str, str], int] = {}
        self._runs: dict[tuple[str, str], int] = {}
        self._durations: dict[tuple[str, str], list[float]] = {}
        """By method and name: the sum of seconds, and how many calls fell into each bucket and behind the last."""

    def begin(self, call: Call) -> Callable[[Outcome], None]:
        method, name, began = call.method.name, self._name(call), perf_counter()
        is_run = is_task_run(call)
        self._running += 1

        def end(outcome: Outcome) -> None:
            self._running -= 1
            word = outcome_of(outcome)
            if is_run:
                self._runs[name, word] = self._runs.get((name, word), 0) + 1
                return
            seconds = perf_counter() - began
            self._calls[method, name, word] = self._calls.get((method, name, word), 0) + 1
            durations = self._durations.setdefault((method, name), [0.0] * (len(BUCKETS) + 2))
            durations[0] += seconds
            durations[1 + bisect_left(BUCKETS, seconds)] += 1

        return end

    def _name(self, call: Call) -> str:
        if call.name is None:
            return ""
        known = self._known(call)
        if known is None or (known not in self._names and len(self._names) >= MAX_NAMES):
            return OTHER
        self._names.add(known)
        return known

    def figures(self) -> Figures:
        """What was counted until now."""
        found: Figures = {"redstart_calls_running": self._running}
        for (method, name, word), times in self._calls.items():
            found[_sample("redstart_calls_total", method=method, name=name, outcome=word)] = times
        for (name, word), times in self._runs.items():
            found[_sample("redstart_task_runs_total", name=name, outcome=word)] = times
        for (method, name), (total, *counts) in self._durations.items():
            family, sum_so_far = "redstart_call_duration_seconds", 0.0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                sum_so_far += count
                found[_sample(f"{family}_bucket", method=method, name=name, le=bound)] = sum_so_far
            found[_sample(f"{family}_sum", method=method, name=name)] = total
            found[_sample(f"{family}_count", method=method, name=name)] = sum_so_far
        return found


def _sample(family: str, **labels: str) -> str:
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value)
    return f"{family}{{{shown}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ---------------------------------------------------------------- the text format of Prometheus


def family_of(sample: str) -> str:
    """The name of the figure that a sample belongs to."""
    name = sample.partition("{")[0]
    if name in FAMILIES:
        return name
    return name.rpartition("_")[0]  # _bucket, _sum and _count of a histogram


def added(*parts: Figures) -> Figures:
    """The sum of the figures of several processes."""
    total: Figures = {}
    for part in parts:
        for sample, value in part.items():
            total[sample] = total.get(sample, 0) + value
    return total


def counters(figures: Figures) -> Figures:
    """Those that only grow: what a process has counted stays counted when it has ended."""
    return {sample: value for sample, value in figures.items() if FAMILIES[family_of(sample)][0] != "gauge"}


def written(figures: Figures) -> bytes:
    """The figures in the text format of Prometheus.

    >>> print(written({"redstart_sessions": 2}).decode(), end="")
    # HELP redstart_sessions Sessions of the handshake era that are in use.
    # TYPE redstart_sessions gauge
    redstart_sessions 2
    """
    by_family: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for sample, value in figures.items():
        by_family[family_of(sample)].append(f"{sample} {value:.17g}\n")
    parts: list[str] = []
    for family, lines in by_family.items():
        if lines:
            kind, says = FAMILIES[family]
            parts += f"# HELP {family} {says}\n# TYPE {family} {kind}\n", *lines
    return "".join(parts).encode()


def read(text: str) -> Figures:
    """The figures of another process of ours, from its text; lines of families that are not known are left out."""
    found: Figures = {}
    for line in text.splitlines():
        sample, _, value = line.rpartition(" ")
        if sample and not line.startswith("#") and family_of(sample) in FAMILIES:
            found[sample] = float(value)
    return found
