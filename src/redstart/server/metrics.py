"""What those who observe calls ask of one: whether it is the run of a task, and how it ended, in one word."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from msgspec import Raw

from redstart.features.errors import Unwind
from redstart.protocol.call import Call
from redstart.wire.jsonrpc import ProtocolError
from redstart.wire.types import Result, ToolResult

Outcome: TypeAlias = Result | Raw | BaseException | None
BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds: the bounds that the semantic conventions of OpenTelemetry give to durations of MCP."""


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
