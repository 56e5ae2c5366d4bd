"""Tasks whose work another engine does: Celery, a Kubernetes job, a person. It says itself when it is done."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from typing import Self

from msgspec import Raw

from redstart.protocol.dialect import Dialect
from redstart.protocol.handshake import DIALECTS
from redstart.store.tasks import OVERDUE
from redstart.tasks.record import Placement, Task, complete, fail
from redstart.tasks.service import Edit, Tasks
from redstart.wire.check import checked
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError, decode
from redstart.wire.types import ProgressParams


class TaskHandle:
    """A task that was handed over: `server.task(await ctx.hand_over())`, also in another process with the same store.

    Use it with `async with`: where the server does not run, that closes the connections to the store.
    """

    def __init__(self, tasks: Tasks, modern: Dialect, token: str, close: Callable[[], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._modern = modern
        self._close = close
        try:
            self._id, self._owner = map(str, decode(urlsafe_b64decode(token)))
        except (ValueError, TypeError):
            raise ValueError("this is not a token of ctx.hand_over()") from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._close()

    async def finish(self, result: object) -> bool:
        """Complete the task with what its tool would have returned. False if it has ended already."""

        def completed(task: Task) -> Placement:
            record = task.record
            tool = self._tasks.find_tool(record.tool)
            if tool is None:
                raise LookupError(f"this server has no tool {record.tool}")
            dialect: Dialect = DIALECTS.get(record.request.version, self._modern)
            outcome = Raw(dialect.dress(tool.output.result(result, dialect.structured)))
            return complete(task, self._tasks.limits, outcome)

        return await self._change(completed)

    async def fail(self, message: str) -> bool:
        """End the task with an error. False if it has ended already."""
        return await self._change(lambda task: fail(task, self._tasks.limits, ProtocolError(INTERNAL_ERROR, message)))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Say how far the work is. False if the task has ended: the work is no longer wanted."""

        note = checked(ProgressParams("", progress, total, message), "progress()")

        def told(task: Task) -> Placement:
            task.record.progress = note.progress, note.total, note.message
            task.record.message = note.message or task.record.message
            return OVERDUE, self._tasks.limits.max_run

        return await self._change(told)

    async def _change(self, edit: Edit) -> bool:
        stored = await self._tasks.store.task_read(self._id, self._owner)
        return stored is not None and await self._tasks.change(Task(stored), edit)
