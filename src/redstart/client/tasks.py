"""Calls that outlive their connection: started, looked at, waited for, cancelled, in both task protocols.

2025-11-25: `tasks/result` waits for the end, and the server asks its questions meanwhile. 2026-07-28: `tasks/get` is
asked again and again, and has the questions and the result; a subscription says when it is worth asking.
Spec: /specification/2025-11-25/basic/utilities/tasks, the extension io.modelcontextprotocol/tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, Self, TypeVar

from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.client.errors import (
    ClientError,
    ConnectionClosed,
    InvalidReply,
    RequestError,
    TaskCancelled,
    request_error,
)
from redstart.client.requests import Requests
from redstart.client.results import CallResult, decoded
from redstart.wire.jsonrpc import JsonObject
from redstart.wire.meta import SUBSCRIPTION_ID

ENDS: Final = ("completed", "failed", "cancelled")
_SHORTEST: Final = 0.05
_LONGEST: Final = 60.0
"""Seconds between two looks at a task, whatever the server says."""
_USUAL: Final = 1.0

T = TypeVar("T")


class TaskInfo(Struct, rename="camel", kw_only=True):
    """What a server says of a task; which members there are depends on the revision."""

    task_id: str
    status: str
    status_message: str | None = None
    created_at: str | None = None
    last_updated_at: str | None = None
    ttl: float | None = None
    ttl_ms: float | None = None
    poll_interval: float | None = None
    poll_interval_ms: float | None = None
    input_requests: JsonObject | None = None
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def pause(self) -> float:
        """Seconds before the next look."""
        said = self.poll_interval_ms if self.poll_interval_ms is not None else self.poll_interval
        return _USUAL if said is None else min(max(said / 1000, _SHORTEST), _LONGEST)


class _Created(Struct):
    """The answer to a handshake request that has become a task."""

    task: TaskInfo


class _Listed(Struct, rename="camel"):
    tasks: list[TaskInfo]
    next_cursor: str | None = None


class RemoteTask(Generic[T]):
    """A call that a server works on. `await task` waits for its result; `async with` cancels it at its end.

    >>> async def crunch(c: Client) -> object:
    ...     task = await c.start_task("crunch", {"path": "data.csv"})
    ...     print(task.id, task.status)
    ...     return (await task).data
    """

    def __init__(
        self,
        requests: Requests,
        info: TaskInfo,
        read: Callable[[Raw], Awaitable[CallResult[T]]],
        answered: Raw | None = None,
    ) -> None:
        self._requests = requests
        self._read = read
        self._answered = answered
        self._answered_keys: set[str] = set()
        self._on_change: Callable[[TaskInfo], object] | None = None
        self.info = info
        """What the server said last."""

    @property
    def id(self) -> str:
        """The name of the task; with it `c.get_task(id)` finds the task again, over another connection too."""
        return self.info.task_id

    @property
    def status(self) -> str:
        """ "working", "input_required", "completed", "failed" or "cancelled", as the server said last."""
        return self.info.status

    @property
    def done(self) -> bool:
        """Whether the task has ended, as far as is known here."""
        return self.info.status in ENDS

    def __await__(self) -> Generator[Any, None, CallResult[T]]:
        return self.result().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self.done:
            with contextlib.suppress(ClientError, TimeoutError):  # it may have ended just now
                await self.cancel()

    # ---------------------------------------------------------------- looking, cancelling

    async def refresh(self) -> TaskInfo:
        """Ask the server about the task."""
        if self._answered is None:
            raw = await self._requests.task_request("tasks/get", self.id)
            before, self.info = self.info, _read_info("tasks/get", raw, self.id)
            said = (self.info.status, self.info.status_message)
            if self._on_change is not None and said != (before.status, before.status_message):
                self._on_change(self.info)
        return self.info

    async def cancel(self) -> None:
        """Have the server stop the work."""
        if self._answered is None:
            await self._requests.task_request("tasks/cancel", self.id)
            await self.refresh()

    # ---------------------------------------------------------------- the end

    async def result(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
        *,
        on_change: Callable[[TaskInfo], object] | None = None,
    ) -> CallResult[T]:
        """Wait for the end and return what the tool returned; the server's questions are answered meanwhile.

        A task that failed is a RequestError, one that was cancelled a TaskCancelled. `timeout` counts seconds without
        the time of a human; the task goes on after a TimeoutError. `on_change` gets what the server says of the task
        whenever it says something new; in 2025-11-25 that is the end only, and `on_progress` tells more.
        """
        self._on_change = on_change
        if self._answered is not None:
            return await self._read(self._answered)
        seconds = math.inf if timeout is None else timeout
        raw = await (self._poll if self._requests.connection.dialect.modern else self._block)(seconds)
        return await self._read(raw)

    def _too_long(self, seconds: float) -> TimeoutError:
        return TimeoutError(f"the task {self.id} has not ended within {seconds:g} seconds")

    async def _block(self, seconds: float) -> Raw:
        """The handshake era: one request that is answered at the end. A connection that breaks is begun anew."""
        while True:
            try:
                raw = await self._requests.task_request("tasks/result", self.id, timeout=seconds)
            except TimeoutError:
                raise self._too_long(seconds) from None
            except ConnectionClosed:
                if self._requests.connection.gone is not None:
                    raise
                await asyncio.sleep((await self.refresh()).pause)
            except RequestError:
                if (await self.refresh()).status == "cancelled":
                    raise self._cancelled() from None
                raise
            else:
                await self.refresh()
                return raw

    async def _poll(self, seconds: float) -> Raw:
        """The modern era: look at the task until it has ended. `seconds` do not count while questions are answered."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        async with _changes(self._requests, self.id) as changed:
            while True:
                changed.clear()
                ended = self._outcome(await self.refresh())
                if ended is not None:
                    return ended
                if questions := self._questions():
                    began = loop.time()
                    answers = await self._requests.answers(f"the task {self.id}", questions)
                    deadline += loop.time() - began
                    self._answered_keys.update(questions)
                    await self._requests.task_request("tasks/update", self.id, {"inputResponses": answers})
                    continue
                left = deadline - loop.time()
                if left <= 0:
                    raise self._too_long(seconds)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(self.info.pause, left)):
                        await changed.wait()

    def _outcome(self, info: TaskInfo) -> Raw | None:
        """The result of a task that has completed; None if it has not ended."""
        if info.status == "completed" and info.result is not UNSET:
            return info.result
        if info.status == "failed" and info.error is not UNSET:
            raise request_error(info.error)
        if info.status == "cancelled":
            raise self._cancelled()
        if info.status in ENDS:
            raise InvalidReply(f"tasks/get: the task is {info.status}, and has no result")
        return None

    def _questions(self) -> JsonObject:
        """What the server asks and was not answered before."""
        asked = self.info.input_requests if self.info.status == "input_required" else None
        return {key: value for key, value in (asked or {}).items() if key not in self._answered_keys}

    def _cancelled(self) -> TaskCancelled:
        said = self.info.status_message
        return TaskCancelled(f"the task {self.id} was cancelled" + (f": {said}" if said else ""))


def _read_info(method: str, raw: Raw, id: str) -> TaskInfo:
    info = decoded(method, TaskInfo, raw)
    if info.task_id != id:
        raise InvalidReply(f"{method}: asked for the task {id}, and the answer is about {info.task_id!r:.100}")
    return info


def created(raw: Raw, *, modern: bool) -> TaskInfo | None:
    """The task that a call has become; None if it was answered at once."""
    if modern:
        kind = decoded("tools/call", dict[str, Any], raw).get("resultType")
        return decoded("tools/call", TaskInfo, raw) if kind == "task" else None
    if "task" not in decoded("tools/call", dict[str, Any], raw):
        return None
    return decoded("tools/call", _Created, raw).task


async def listed(requests: Requests) -> list[TaskInfo]:
    """All tasks that the server shows (handshake era)."""
    return await requests.pages("tasks/list", "tasks", _Listed)


class _Changes(asyncio.Event):
    """Set when a subscription says that a task has changed."""

    def __init__(self, subscription: int) -> None:
        super().__init__()
        self._subscription = subscription

    def notified(self, method: str, params: JsonObject) -> None:
        if method == "notifications/tasks" and params.get("_meta", {}).get(SUBSCRIPTION_ID) == self._subscription:
            self.set()

    def end(self, error: BaseException | None) -> None:
        self.set()


@asynccontextmanager
async def _changes(requests: Requests, id: str) -> AsyncIterator[_Changes]:
    """An event that a modern server sets. One that does not tell of tasks is only asked at its own interval."""
    connection = requests.connection
    call = connection.start("subscriptions/listen", None)
    call.future.add_done_callback(lambda done: done.cancelled() or done.exception())  # a server may refuse this
    changes = _Changes(call.id)
    connection.listeners.add(changes)
    try:
        await connection.send(call, {"notifications": {"taskIds": [id]}, "_meta": requests.tasks_meta()})
        yield changes
    finally:
        connection.listeners.discard(changes)
        connection.abandon(call, "the task is not waited for any more")
