"""Tasks: how a request becomes one, and what clients can do with it. Both task protocols are views of one record.

2025-11-25: a client asks for a task (`params.task`), polls it, and fetches its result with `tasks/result`, where the
task also asks its questions. 2026-07-28: the extension `io.modelcontextprotocol/tasks`; the server decides, `tasks/get`
has everything, `tasks/update` brings answers. Spec: /specification/2025-11-25/basic/utilities/tasks, SEP-2663.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from redstart.asking.dialogue import Asking
from redstart.asking.questions import CANCEL
from redstart.features.audit import note_refused_call
from redstart.features.errors import log
from redstart.features.lifecycle import can_list
from redstart.features.principal import User, principal_key
from redstart.features.scopes import missing
from redstart.features.subscriptions import Hub, Peer
from redstart.features.tools import CompiledTool, Tools, check_headers, check_needs, missing_capability
from redstart.protocol.call import Call
from redstart.schema.errors import ShapeError
from redstart.store.open import Store
from redstart.store.shared import SharedState, StoreAway, patiently, scoped
from redstart.store.tasks import OVERDUE, StoredTask, topic_of
from redstart.tasks.record import (
    OpenQuestion,
    Placement,
    Record,
    Task,
    TaskLimits,
    TaskRequest,
    answer,
    fail,
    finish,
    token_of,
)
from redstart.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Fault,
    ProtocolError,
    decode,
    decode_fault,
    encode,
    notification,
)
from redstart.wire.meta import RELATED_TASK, SUBSCRIPTION_ID, TASKS_EXTENSION
from redstart.wire.types import (
    CreateTaskResult,
    DetailedTask,
    ListTasksResult,
    ProgressParams,
    Result,
    TaskState,
    ToolResult,
)

EXTENSION: Final = f"extensions.{TASKS_EXTENSION}"
ID: Final = re.compile("[0-9a-f]{48}")
PAGE: Final = 50
WAITS: Final = (0.02, 0.1, 0.5, 1.0)
"""Seconds after which a waiter reads a task again without being told: a message of the bus may be lost."""
TOLD: Final = (0.1, 5.0)
"""The same for those who need not know at once, of whom there may be many."""
MAX_WATCHED: Final = 100
"""How many tasks one stream may watch."""
MAX_FOLLOWED: Final = 10_000
"""How many waiters and watchers one process has, of all clients."""
ASKED: Final = 15.0
"""Seconds for which a question is reserved for the client that is asked, again and again until it answers."""


async def wait(event: Awaitable[object], seconds: float) -> None:
    """Wait for something, for so long."""
    with suppress(TimeoutError, StopAsyncIteration):
        async with asyncio.timeout(seconds):
            await event


class Beginner(Protocol):
    """The worker of this process, which may begin a new task before anybody else sees it."""

    def reserve(self) -> AbstractContextManager[bool]:
        """Whether there is a place for one task, which is kept until the task has begun or was not made."""

    async def begin(self, stored: StoredTask) -> None:
        """Run a task that was inserted as claimed."""


Edit = Callable[[Task], Placement | None]
"""Changes the record of a task, and says where the task is then; None leaves it as it is."""


class Tasks:
    """The tasks of one server, for its clients."""

    def __init__(
        self,
        name: str,
        limits: TaskLimits | None,
        open_store: Callable[[], SharedState],
        find_tool: Callable[[str], CompiledTool | None],
        asking: Callable[[], Asking],
        hub: Hub,
        start_worker: Callable[[], Beginner | None],
    ) -> None:
        self.limits = limits or TaskLimits()
        self.namespace = self.limits.namespace or name
        self._open_store = open_store
        self.find_tool = find_tool
        self._asking = asking
        self._hub = hub
        self._start_worker = start_worker
        self._followed = 0
        self._background: set[asyncio.Task[None]] = set()
        """What tells clients, and what tells other engines of a cancellation."""

    def handlers(self, tools: Tools) -> dict[str, Callable[[Call], Awaitable[Any]]]:
        """The methods of a server with these tools, some of which may run as tasks."""
        return {
            "tools/call": partial(self.call, tools),
            "tasks/get": self.get,
            "tasks/list": self.list,
            "tasks/cancel": self.cancel,
            "tasks/update": self.update,
            "tasks/result": self.result,
            "subscriptions/listen": self.listen,
        }

    def _run_beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what was done for a client of a task failed: %s", error, exc_info=error)

    @property
    def store(self) -> Store:
        """The store of the server; opened when it is first needed."""
        store = self._open_store()
        if not hasattr(store, "task_insert"):
            raise RuntimeError(f"store={type(store).__name__} keeps no tasks: it has no task_insert; see TaskStore")
        return store  # type: ignore[return-value]

    def queue(self, tool: str) -> str:
        """The queue of the tasks that wait for a worker who has this tool."""
        return f"{self.namespace}/{tool}"

    def owner(self, call: Call) -> str:
        """Whose tasks a call may see: those of its user and its era. Callers that nobody knows share theirs over HTTP,
        where an id is a secret; on a pipe they belong to the namespace."""
        kind = "user" if call.user is not None else "local" if call.headers is None else "anyone"
        era = "modern" if call.dialect.modern else "handshake"
        return scoped(principal_key(call.user) or kind, "task", self.namespace, era, kind)

    # ------------------------------------------------------------ records

    async def find(self, call: Call) -> Task:
        """The task that a request names."""
        self._admit(call)
        stored = await self.store.task_read(call.params.task_id, self.owner(call))
        if stored is None:
            raise _unknown(call)
        return self._checked(Task(stored), call)

    def _checked(self, task: Task, call: Call) -> Task:
        """The task, if the caller may call its tool: one user may have several tokens."""
        if (refusal := missing(self.find_tool(task.record.tool), call)) is not None:
            raise refusal
        return task

    async def change(self, task: Task, edit: Edit, fence: int | None = None) -> bool:
        """Write a change; if somebody else has written meanwhile, decide again. With `fence` only its holder writes.

        False if nothing was written. A task that has ended stays as it is.
        """
        while True:
            if task.ended or (fence is not None and task.stored.fence != fence):
                return False
            try:
                placement = edit(task)
                if placement is None:
                    return False
                changed = replace(task.stored, body=encode(task.record))
                if await self.store.task_write(changed, *placement):
                    task.stored = changed
                    return True
            except BaseException:  # nothing of the change stays: it may be tried again
                task.load(task.stored)
                raise
            stored = await self.store.task_read(task.id, task.stored.owner)
            if stored is None:
                return False
            task.load(stored)

    async def follow(
        self, id: str, owner: str, pauses: Sequence[float] = WAITS, eager: bool = False
    ) -> AsyncGenerator[Task, None]:
        """A task now, and after each change, until it has ended or is gone.

        While the store is away, it waits; if `eager` not at the beginning, where it fails.
        """
        waits, version = iter(pauses), -1
        self._followed += 1
        try:
            async with aclosing(self.store.subscribe(topic_of(id))) as messages:
                while True:
                    reading = self.store.task_read(id, owner) if eager else patiently(self.store.task_read, id, owner)
                    stored, eager = await reading, False
                    if stored is None:
                        return
                    if stored.version != version:
                        version, task = stored.version, Task(stored)
                        yield task
                        if task.ended:
                            return
                    await wait(anext(messages), next(waits, pauses[-1]))
        finally:
            self._followed -= 1

    def _check_room(self, more: int = 1) -> None:
        if self._followed + more > MAX_FOLLOWED:
            raise ProtocolError(INTERNAL_ERROR, "Too many clients of this server wait for tasks; try again later")

    # ------------------------------------------------------------ how a request becomes a task

    def call(self, tools: Tools, call: Call) -> Awaitable[Result]:
        """`tools/call` of a server that has tools which may run as tasks."""
        how = call.dialect.tasks
        if how == "none" or call.task is not None:  # a client that knows no tasks is served as always
            return tools.call(call)
        tool = tools.catalog.find(call.params.name, call)
        if tool is None:
            raise tools.catalog.unknown(call.params.name, call)
        support = tool.declared.task
        if how == "extension":
            wanted = support != "forbidden" and call.capabilities.has(EXTENSION)
            if support == "required" and not wanted:
                raise missing_capability([EXTENSION])
        else:
            wanted = call.params.task is not UNSET and call.params.task is not None
            if wanted and support == "forbidden":
                raise ProtocolError(METHOD_NOT_FOUND, f"{tool.key} does not run as a task; leave out params.task")
            if support == "required" and not wanted:
                raise ProtocolError(METHOD_NOT_FOUND, f"{tool.key} runs as a task only; send params.task, such as {{}}")
        if not wanted:
            return tools.call(call)
        return self._offer(tools, call, tool) if tool.declared.detach == "manual" else self._begin(tools, call, tool)

    async def _begin(self, tools: Tools, call: Call, tool: CompiledTool) -> Result:
        check_needs(call, tool.declared.needs)
        if call.headers is not None and call.dialect.modern:
            check_headers(tool.header_rules, call, call.params.arguments)
        ttl = self._ttl(call)
        if call.dialect.modern:  # what cannot run need not become a task
            raw = call.params.arguments
            try:
                tool.bind(None if raw is UNSET else raw)
            except ShapeError:
                return await tools.call(call)
        return await self.create(call, tool, ttl, UNSET)

    def _offer(self, tools: Tools, call: Call, tool: CompiledTool) -> Awaitable[Result]:
        """Run the handler as an ordinary call, until it says that the rest is a task."""
        call.task = Offer(self, call, tool, self._ttl(call))
        if call.dialect.modern:
            return tools.call(call)
        return self._asking().run(call, tools.call, True)  # type: ignore[return-value]

    def _ttl(self, call: Call) -> float:
        """How long the client wants the task to be kept, within the limits."""
        given = call.params.task if call.dialect.tasks == "requested" else {}
        if not isinstance(given, dict):
            raise ProtocolError(INVALID_PARAMS, "params.task must be an object, such as {}")
        ttl = given.get("ttl")
        if ttl is None:
            return self.limits.ttl
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or ttl < 0:
            raise ProtocolError(INVALID_PARAMS, "params.task.ttl must be a number of milliseconds from 0")
        return float(min(ttl, self.limits.max_ttl * 1000)) / 1000

    async def create(self, call: Call, tool: CompiledTool, ttl: float, state: Raw | UnsetType) -> Result:
        """Keep a new task for this call, and the result that tells the client of it."""
        queue = self.queue(tool.key)
        record = Record(tool.key, queue, _request(call), ttl, retries=_retries(tool), state=state)
        id = secrets.token_hex(24)  # one that begins with "-" would be an option of a command line
        stored = StoredTask(id, self.owner(call), encode(record))
        await self._insert(stored, queue)
        task = Task(stored)
        if call.dialect.modern:
            result = self._detailed(task)
            result.result_type = "task"
            return result
        peer = self._hub.peers.get(call.link)
        if peer is not None and self._followed < MAX_FOLLOWED:
            self._run_beside(self._watch(call, task, peer))
        return CreateTaskResult(task=self._state(task))

    async def _insert(self, stored: StoredTask, queue: str) -> None:
        """Keep a new task. It begins in this process at once if there is room, else it waits for the next worker."""
        limits, worker, delay = self.limits, self._start_worker(), 0.0
        with nullcontext(False) if worker is None else worker.reserve() as is_ours:
            if is_ours:
                stored.fence, queue, delay = 1, OVERDUE, limits.lease
            if not await self.store.task_insert(stored, queue, limits.per_user, limits.total, delay):
                text = f"There are too many tasks: at most {limits.per_user} of one user, and {limits.total} in all"
                raise ProtocolError(INTERNAL_ERROR, f"{text}. Wait until some have expired.")
            if is_ours and worker is not None:
                await worker.begin(stored)

    # ------------------------------------------------------------ methods

    def _admit(self, call: Call) -> None:
        """Refuse a client that does not know tasks."""
        if call.dialect.tasks == "none":
            raise ProtocolError(METHOD_NOT_FOUND, f"This protocol revision has no {call.method.name}")
        if call.dialect.tasks == "extension" and not call.capabilities.has(EXTENSION):
            raise missing_capability([EXTENSION])

    async def get(self, call: Call) -> Result:
        task = await self.find(call)
        return self._detailed(task) if call.dialect.modern else self._state(task)

    async def list(self, call: Call) -> Result:
        self._admit(call)
        if not can_list(call):
            raise ProtocolError(METHOD_NOT_FOUND, "tasks/list needs an authenticated client over HTTP")
        found = await self.store.task_list(self.owner(call), _after(call.params.cursor), PAGE + 1)
        cursor = found[PAGE - 1].id if len(found) > PAGE else None
        seen = [one for one in map(Task, found[:PAGE]) if missing(self.find_tool(one.record.tool), call) is None]
        return ListTasksResult(tasks=[self._state(task) for task in seen], next_cursor=cursor)

    async def cancel(self, call: Call) -> Result:
        task = await self.find(call)
        done = await self.change(
            task, lambda task: finish(task, self.limits, "cancelled", UNSET, "Cancelled by the client.")
        )
        if done and task.record.external:
            self._call_hook(task)
        if call.dialect.modern:
            return Result()
        if not done:
            raise ProtocolError(INVALID_PARAMS, f"The task has ended already: it is {task.record.status}")
        return self._state(task)

    def _call_hook(self, task: Task) -> None:
        """Tell the engine that does the work, as the tool's `on_cancel=` says."""
        tool = self.find_tool(task.record.tool)
        if tool is None or (hook := tool.declared.on_cancel) is None:
            return

        async def run() -> None:
            try:
                result = hook(token_of(task))
                if asyncio.iscoroutine(result):
                    await result
            except Exception:
                log.exception("on_cancel of %s failed", task.record.tool)

        self._run_beside(run())

    async def update(self, call: Call) -> Result:
        """`tasks/update`: answers of a modern client. Keys that are not open are ignored."""
        task = await self.find(call)
        responses = call.params.input_responses
        if not isinstance(responses, dict):
            raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object of answers by their keys")
        await self._answer(task, responses)
        return Result()

    async def _answer(self, task: Task, responses: Mapping[str, Any]) -> None:
        await self.change(task, lambda task: answer(task, self.limits, responses))

    async def result(self, call: Call) -> ToolResult:
        """`tasks/result`: wait until the task has ended, and ask its questions meanwhile."""
        self._check_room()
        self._admit(call)
        related = {RELATED_TASK: {"taskId": call.params.task_id}}
        asking: asyncio.Task[None] | None = None
        task: Task | None = None
        try:
            async with aclosing(self.follow(call.params.task_id, self.owner(call), eager=True)) as states:
                async for task in states:
                    self._checked(task, call)
                    if task.record.status != "input_required" and asking is not None:
                        asking.cancel()
                    elif task.record.open and (asking is None or asking.done()):
                        asking = self._run_beside(self._ask(call, task, related))
        finally:
            if asking is not None:
                asking.cancel()
        if task is None or not task.ended:
            raise _unknown(call)
        record = task.record
        if record.outcome is UNSET:
            raise ProtocolError(INVALID_PARAMS, "The task was cancelled")
        if record.faulty:
            fault: Fault = decode_fault(record.outcome)
            raise ProtocolError(fault.code, fault.message, fault.data)
        result = msgspec.json.decode(record.outcome, type=ToolResult)
        result.meta = (result.meta if isinstance(result.meta, dict) else {}) | related
        return result

    async def _ask(self, call: Call, task: Task, related: dict[str, Any]) -> None:
        """Ask the questions of a task on the stream of `tasks/result`, each of them on one stream at a time."""
        store, owner, me = self.store, task.stored.owner, secrets.token_bytes(8)

        async def reserve(mark: str) -> bool:
            return await store.kv_set(mark, me, ASKED, nx=True) or await store.kv_get(mark) == me

        for key, question in list(task.record.open.items()):
            mark = scoped(owner, "asked", task.id, key)
            while not await patiently(reserve, mark):  # noqa: ASYNC110
                await asyncio.sleep(1)  # another `tasks/result` of this task asks it, in any process
            try:
                stored = await patiently(store.task_read, task.id, owner)
                if stored is not None and key in Task(stored).record.open:
                    reply = await self._hear(call, question, related, partial(store.kv_set, mark, me, ASKED))
                    await patiently(self._reply, task, key, question, reply)
            finally:
                with suppress(StoreAway):
                    await store.kv_delete(mark)

    async def _hear(
        self, call: Call, question: OpenQuestion, related: dict[str, Any], hold: Callable[[], Awaitable[bool]]
    ) -> object | None:
        """The client's answer; None if it gives none. The question is reserved meanwhile."""
        params = {**decode(question.params), "_meta": related}
        asking = asyncio.ensure_future(self._asking().request_raw(call, question.method, params))
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=ASKED / 3)
                with suppress(StoreAway):
                    await hold()
            return await asking
        finally:
            asking.cancel()

    async def _reply(self, task: Task, key: str, question: OpenQuestion, reply: object | None) -> None:
        if reply is not None:
            await self._answer(task, {key: reply})
        elif question.method == "elicitation/create":
            await self._answer(task, {key: CANCEL})
        else:
            error = ProtocolError(INTERNAL_ERROR, f"The client did not answer {question.method}")
            await self.change(task, lambda task: fail(task, self.limits, error))

    # ------------------------------------------------------------ views

    def _facts(self, task: Task, ttl: str, poll: str) -> dict[str, Any]:
        """What both eras are told of a task, with their names for two times in milliseconds."""
        return {
            "task_id": task.id,
            "status": task.record.status,
            "status_message": task.record.message or None,
            "created_at": _time(task.stored.created),
            "last_updated_at": _time(task.stored.updated),
            ttl: int(task.ttl(self.limits) * 1000),
            poll: int(self.limits.poll * 1000),
        }

    def _state(self, task: Task) -> TaskState:
        return TaskState(**self._facts(task, "ttl", "poll_interval"))

    def _detailed(self, task: Task) -> DetailedTask:
        record = task.record
        detailed = DetailedTask(**self._facts(task, "ttl_ms", "poll_interval_ms"))
        if record.open:
            asked = {key: {"method": one.method, "params": one.params} for key, one in record.open.items()}
            detailed.input_requests = asked
        if record.outcome is not UNSET:
            setattr(detailed, "error" if record.faulty else "result", record.outcome)
        return detailed

    # ------------------------------------------------------------ notifications

    async def _watch(self, call: Call, task: Task, peer: Peer) -> None:
        """Tell a client of 2025-11-25 of the status and the progress of its task."""
        token = call.meta.progress_token if call.meta else UNSET
        status, progress = task.record.status, None
        async with aclosing(self.follow(task.id, task.stored.owner, TOLD)) as states:
            async for task in states:
                record = task.record
                if self._hub.peers.get(call.link) is not peer:
                    return
                if token is not UNSET and record.progress is not None and record.progress != progress:
                    progress = record.progress
                    params = ProgressParams(token, *progress, meta={RELATED_TASK: {"taskId": task.id}})
                    peer.channel.send(notification("notifications/progress", params))
                if record.status != status:
                    status = record.status
                    peer.channel.send(notification("notifications/tasks/status", self._state(task)))

    async def listen(self, call: Call) -> Result:
        """`subscriptions/listen`, which may also name tasks: each change of them is told with the whole task."""
        wanted = call.params.notifications
        streams: list[asyncio.Task[None]] = []
        if wanted.task_ids is not UNSET:
            self._admit(call)
            if len(wanted.task_ids) > MAX_WATCHED:
                raise ProtocolError(INVALID_PARAMS, f"One stream may watch {MAX_WATCHED} tasks")
            self._check_room(len(wanted.task_ids))
            ids, owner, read = dict.fromkeys(wanted.task_ids), self.owner(call), self.store.task_read
            found = [self._checked(Task(one), call).id for id in ids if (one := await read(id, owner)) is not None]
            wanted.task_ids = found
            streams = [self._run_beside(self._stream(call, id)) for id in wanted.task_ids]
        try:
            return await self._hub.listen(call)
        finally:
            for stream in streams:
                stream.cancel()

    async def _stream(self, call: Call, id: str) -> None:
        """Send the state of a modern task at each change, until it has ended."""
        async with aclosing(self.follow(id, self.owner(call), TOLD)) as states:
            async for task in states:
                detailed = self._detailed(task)
                detailed.meta = {SUBSCRIPTION_ID: call.id}
                if call.open:
                    call.channel.send(notification("notifications/tasks", detailed))

    async def close(self) -> None:
        """Stop telling clients."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background, timeout=1)


class Offer:
    """A call that becomes a task when its handler calls `ctx.detach()`."""

    running = False
    attempt = 1
    checkpoint: Raw | UnsetType = UNSET
    state: Raw | UnsetType = UNSET
    answers: Mapping[str, Raw] = {}
    id = ""

    def __init__(self, tasks: Tasks, call: Call, tool: CompiledTool, ttl: float) -> None:
        self._tasks = tasks
        self._call = call
        self._tool = tool
        self._ttl = ttl

    async def park(self, requests: Mapping[str, Mapping[str, Any]], state: bytes) -> Result | None:
        if not any(request["method"] == "tasks/detach" for request in requests.values()):
            return None
        return await self._tasks.create(self._call, self._tool, self._ttl, Raw(state))

    def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Its progress goes to the client, as that of any call."""

    async def hand_over(self) -> str:
        raise RuntimeError("ctx.hand_over() is for a task: call ctx.detach() first")

    async def save(self, checkpoint: bytes) -> None:
        """There is no worker that could be lost."""


# ---------------------------------------------------------------- requests


def _unknown(call: Call) -> ProtocolError:
    note_refused_call("unknown task", call)
    return ProtocolError(INVALID_PARAMS, f"Unknown task: {call.params.task_id[:100]}")


class _Meta(Struct):
    meta: Raw | UnsetType = field(name="_meta", default=UNSET)


def _request(call: Call) -> TaskRequest:
    """The request as it is kept, with the arguments that middleware may have changed; its headers are not kept."""
    params: dict[str, Any] = {"name": call.params.name}
    if call.params.arguments is not UNSET:
        params["arguments"] = call.params.arguments
    meta = msgspec.json.decode(call.raw_params, type=_Meta).meta
    if meta is not UNSET or call.trace is not None:
        params["_meta"] = meta if call.trace is None else _traced(meta, call.trace())
    about = call.capabilities, call.client_info, _kept_user(call.user)
    return TaskRequest(call.dialect.version, Raw(encode(params)), *about)


def _traced(meta: Raw | UnsetType, trace: Mapping[str, str]) -> dict[str, object]:
    """The `_meta` with this trace context, so that the run of the task belongs to the span of its request."""
    return {**({} if meta is UNSET else msgspec.json.decode(meta, type=dict[str, Raw])), **trace}


def _kept_user(principal: object) -> object:
    """Who made a request, as JSON: a text, a dict or a User as it is, of any other object its key."""
    if isinstance(principal, dict | str | User):
        with suppress(TypeError):
            encode(principal)
            return principal
    return None if principal is None else principal_key(principal)


def _retries(tool: CompiledTool) -> int:
    """How often the work may begin anew: without `retries=` only where the tool says that this does no harm."""
    if tool.declared.retries is not None:
        return tool.declared.retries
    hints = tool.declared.annotations or {}
    return 2 if hints.get("readOnlyHint") or hints.get("idempotentHint") else 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _after(cursor: str | UnsetType | None) -> str:
    """The id of the last task of the page before: that is the cursor."""
    if cursor is UNSET or cursor is None:
        return ""
    if not ID.fullmatch(cursor):
        raise ProtocolError(INVALID_PARAMS, "Unknown cursor: use the nextCursor of the last page, or none")
    return cursor
