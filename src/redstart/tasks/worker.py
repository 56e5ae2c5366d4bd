"""The worker: claims tasks whose tools it has, runs them, and shows that it is alive.

A leg is the time from a claim to the end of the work or to a question. The store gives each leg to one worker. A worker
that is not heard of for the length of a lease has lost its legs: what is safe is begun anew by another one, and the
rest fails. A worker that cannot renew its leases stops its legs itself, before somebody else may begin them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Final

from msgspec import UNSET, DecodeError, Raw

from redstart.features.errors import Unwind, log
from redstart.features.principal import restored_user
from redstart.features.tools import CompiledTool
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect, Session
from redstart.protocol.handshake import DIALECTS
from redstart.protocol.link import Link
from redstart.protocol.methods import METHODS
from redstart.protocol.modern import Modern
from redstart.protocol.strict import read_params
from redstart.store.shared import AGAIN, StoreAway, patiently
from redstart.store.tasks import CHANGED, OVERDUE, StoredTask
from redstart.tasks.record import Placement, Task, complete, fail, is_error, lost, park, token_of
from redstart.tasks.service import Edit, Tasks, wait
from redstart.wire.jsonrpc import INTERNAL_ERROR, ProtocolError, decode_envelope, decode_fault, encode
from redstart.wire.types import InputRequired, Result

BEATS: Final = 6
"""How often a lease is renewed before it would end."""
FENCED: Final = 2 / 3
"""The part of a lease without a renewal after which a worker stops its own legs."""
SWEEP: Final = 1.0
"""Seconds between two looks for tasks that are overdue, and for tasks to claim if no message came."""
SWEPT: Final = 20
NOTES: Final = 0.25
"""Seconds between two writes of the progress of one task."""
UNWATCHED: Final = 0.05
"""Seconds after which a leg is watched for its cancellation: most legs end sooner."""
CLAIMED: Final = 2.0
"""Seconds that a claim which is under way has to come back when its worker stops."""
UNREADABLE: Final = 60.0
"""Seconds after which a task that this version of redstart cannot read is looked at again."""


class Worker:
    """Runs the tasks of one server in this process."""

    def __init__(
        self,
        tasks: Tasks,
        modern: Modern,
        answer: Callable[[Call], Awaitable[bytes | None]],
        cancel: Callable[[Call], None],
        tools: Callable[[], Mapping[str, CompiledTool]],
    ) -> None:
        self.tasks = tasks
        self.modern = modern
        self.answer = answer
        self.cancel = cancel
        self._tools = tools
        self.legs: dict[Leg, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._look = asyncio.Event()
        """Set when there may be a task to claim, or room for one."""
        self._is_idle = False
        """Whether the last look found less than there is room for."""
        self._served: Mapping[str, CompiledTool] | None = None
        self._names: list[str] = []
        self._reserved = 0
        self._stopping = False

    def start(self) -> None:
        if self._loops:
            return
        self._stopping, self._look = False, asyncio.Event()  # the loop may be another one than before
        loops = [self._hear(), self._claim(), self._beat()] if self.tasks.limits.concurrent else []
        self._loops = [asyncio.get_running_loop().create_task(loop) for loop in (*loops, self._sweep())]

    async def stop(self, drain: float) -> None:
        """Claim no more. What is safe to begin anew is handed back at once, and other legs have `drain` seconds."""
        self._stopping = True
        for leg in list(self.legs):
            if (leg.task.record.retries and not leg.external) or leg.call is None:
                leg.stop("handed back")
        self._look.set()
        if self._loops[1:]:  # a claim that is under way hands its tasks back; if it were cancelled they would be lost
            await asyncio.wait(self._loops[1:2], timeout=CLAIMED)
        if self.legs:
            await asyncio.wait(self.legs.values(), timeout=drain)
        for leg in list(self.legs):
            leg.stop("stopped")
        if self.legs:
            await asyncio.wait(self.legs.values(), timeout=1)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []
        await self.tasks.close()

    # ------------------------------------------------------------ loops

    async def _claim(self) -> None:
        limits, store = self.tasks.limits, self.tasks.store
        while not self._stopping:
            self._look.clear()
            free = self._free
            claimed: list[StoredTask] = []
            if free > 0:
                claimed = await self._quietly(store.task_claim(self._queues(), free, limits.lease), [])
            for stored in claimed:
                await self._quietly(self.begin(stored), None)
            if len(claimed) < max(free, 1):
                self._is_idle = True
                await wait(self._look.wait(), SWEEP)
                self._is_idle = False

    async def _hear(self) -> None:
        """Look for tasks when somebody tells of one."""
        async with aclosing(self.tasks.store.subscribe(CHANGED)) as messages:
            async for _ in messages:
                self._look.set()

    def _queues(self) -> list[str]:
        """The queues of the tools of this worker, found once for each description of the server."""
        tools = self._tools()
        if tools is not self._served:
            self._served = tools
            self._names = [self.tasks.queue(name) for name, one in tools.items() if one.declared.task != "forbidden"]
        return self._names

    # ------------------------------------------------------------ legs

    @property
    def _free(self) -> int:
        return self.tasks.limits.concurrent - len(self.legs) - self._reserved

    @contextmanager
    def reserve(self) -> Iterator[bool]:
        """Whether a task that is made now may begin here at once: there is room, and no other one waits for it."""
        has_room = self._is_idle and not self._look.is_set() and self._free > 0
        self._reserved += has_room
        try:
            yield has_room
        finally:
            self._reserved -= has_room
            self._left()

    async def begin(self, stored: StoredTask) -> None:
        """Run a task that this worker has claimed."""
        if self._stopping:
            await self.tasks.change(Task(stored), lambda task: (task.record.queue, 0.0), stored.fence)
            return
        leg = Leg(self, Task(stored))
        running = self.legs[leg] = asyncio.get_running_loop().create_task(leg.run())
        running.add_done_callback(lambda _: self._ended(leg))

    def _ended(self, leg: Leg) -> None:
        running = self.legs.pop(leg)
        if not running.cancelled() and (error := running.exception()) is not None:
            log.error("a task of %s failed: %s", leg.task.record.tool, error, exc_info=error)
        self._left()

    def _left(self) -> None:
        """A place is free again."""
        if self._free == 1:  # there was no room before
            self._look.set()

    async def _beat(self) -> None:
        """Renew the leases of all legs. If that fails or takes too long, stop them: others may have them soon."""
        lease, loop = self.tasks.limits.lease, asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(lease / BEATS)
            now, legs = loop.time(), list(self.legs)
            held = [leg.task.stored for leg in legs if not leg.ending]
            try:
                async with asyncio.timeout_at(max(now + lease / BEATS, renewed + lease * FENCED)):
                    if legs:
                        await patiently(self.tasks.store.task_hold, held, lease)
                renewed = now
            except Exception as error:
                log.warning("tasks are given up, because their leases were not renewed in time: %r", error)
                for leg in legs:
                    leg.stop("fenced")

    async def _sweep(self) -> None:
        """Do what is overdue: forget old tasks, and decide about those whose worker or user is gone."""
        store, lease = self.tasks.store, self.tasks.limits.lease
        while True:
            found = await self._quietly(store.task_claim([OVERDUE], SWEPT, 2 * SWEEP), None)
            if found is None:  # the leases have run on while the store was away: who lives renews them first
                await asyncio.sleep(min(lease / 3, 2 * SWEEP))
                continue
            for stored in found:
                await self._quietly(self._settle(stored), None)
            await asyncio.sleep(min(SWEEP, lease / BEATS) if len(found) < SWEPT else 0)

    async def _settle(self, stored: StoredTask) -> None:
        try:
            task = Task(stored)
        except DecodeError as error:
            log.error("a task is left to another version of redstart: %s", error)
            await self.tasks.store.task_write(stored, OVERDUE, UNREADABLE)
            return
        if task.ended:
            await self.tasks.store.task_delete(task.stored)
            return
        await self.tasks.change(task, lambda task: lost(task, self.tasks.limits), task.stored.fence)

    async def _quietly(self, work: Awaitable[Any], otherwise: Any) -> Any:
        """The result of `work`; while the store is away, `otherwise` after a pause."""
        try:
            return await work
        except StoreAway as error:
            log.warning("tasks wait: %s", error)
        except Exception:  # one task that cannot be read must not stop the others
            log.exception("a task is left as it is")
        await asyncio.sleep(AGAIN)
        return otherwise


class Leg:
    """One run of a task, from its claim to its end or to a question. The call that it makes knows it as its task."""

    running = True

    def __init__(self, worker: Worker, task: Task) -> None:
        self.task, record = task, task.record
        self.id, self.attempt, self.checkpoint = task.id, record.attempt, record.checkpoint
        self.state, self.answers = record.state, record.answers
        self._worker = worker
        self._tasks = worker.tasks
        self._fence = task.stored.fence
        self.call: Call | None = None
        """None before the handler has begun."""
        self._reason = ""
        self._parked: tuple[Mapping[str, Mapping[str, Any]], bytes] | None = None
        self._lock = asyncio.Lock()
        """One write at a time: each needs the version that the last one made."""
        self._note: tuple[float, float | None, str | None] | None = None
        self._noting: asyncio.Task[None] | None = None
        self.external = False
        self.ending = False
        """Whether the run is over: its lease is not renewed any more."""

    # ------------------------------------------------------------ what the call needs (`CallTask`)

    async def park(self, requests: Mapping[str, Mapping[str, Any]], state: bytes) -> Result | None:
        self._parked = requests, state
        return InputRequired(result_type="input_required")

    def tell(self, progress: float, total: float | None, message: str | None) -> None:
        encode(message)  # half a character fails here, in the handler
        self._note = progress, total, message
        if self._noting is None or self._noting.done():
            self._noting = asyncio.get_running_loop().create_task(self._keep_notes())

    async def hand_over(self) -> str:
        self.external = True
        await self._keep(external=True)  # before anybody has the token: a cancellation must reach who has it
        return token_of(self.task)

    async def save(self, checkpoint: bytes) -> None:
        self.checkpoint = Raw(checkpoint)
        await self._keep(checkpoint=self.checkpoint)

    async def _keep(self, **fields: object) -> None:
        def edit(task: Task) -> Placement:
            for name, value in fields.items():
                setattr(task.record, name, value)
            return OVERDUE, self._tasks.limits.lease

        if not await patiently(self._write, edit):
            raise asyncio.CancelledError  # somebody else has this task now

    # ------------------------------------------------------------ writes

    async def _write(self, edit: Edit) -> bool:
        """Change the task while it is ours and has not ended; the progress that was last told goes with it."""
        async with self._lock:
            note, self._note = self._note, None

            def change(task: Task) -> Placement | None:
                if note is not None:
                    task.record.progress = note
                    task.record.message = note[2] or task.record.message
                return edit(task)

            try:
                return await self._tasks.change(self.task, change, self._fence)
            except StoreAway:
                if self._note is None:
                    self._note = note
                raise

    async def _keep_notes(self) -> None:
        while self._note is not None:
            with suppress(StoreAway):
                if not await self._write(lambda task: (OVERDUE, self._tasks.limits.lease)):
                    return
            await asyncio.sleep(NOTES)

    async def _watch(self) -> None:
        """Know the newest version, without which no lease is renewed. Stop when the task has ended, or is not ours."""
        await asyncio.sleep(UNWATCHED)
        async with aclosing(self._tasks.follow(self.id, self.task.stored.owner)) as states:
            async for task in states:
                if task.ended or task.stored.fence != self._fence:
                    break
                async with self._lock:
                    if task.stored.version > self.task.stored.version:
                        self.task = task
        self.stop("cancelled")

    def stop(self, reason: str) -> None:
        """End the run; its result is no longer wanted."""
        if self._reason:
            return
        self._reason, call = reason, self.call
        if call is not None:
            call.link.forget(call)
            self._worker.cancel(call)

    # ------------------------------------------------------------ the run

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        watcher = loop.create_task(self._watch())
        deadline = loop.call_later(self._tasks.limits.max_run, self.stop, "late")
        try:
            edit = await self._outcome()
        finally:
            watcher.cancel()
            deadline.cancel()
            if self._noting is not None:
                self._noting.cancel()
        if edit is None:
            return
        self.ending = True
        try:
            await patiently(self._write, edit)
        except ProtocolError as error:  # the store refuses this result
            refused = error
            await patiently(self._write, lambda task: fail(task, self._tasks.limits, refused))

    async def _outcome(self) -> Edit | None:
        """Run the handler; the change of the task that follows from it, or None if the task is no longer ours."""
        limits, data = self._tasks.limits, None
        try:
            if not self._reason:
                data = await self._worker.answer(self._begin())
        except (asyncio.CancelledError, Unwind):
            if not self._reason:
                raise
        if self._reason == "handed back":
            return lambda task: (task.record.queue, 0.0)
        if self._reason in ("stopped", "late"):
            late = f"The task ran longer than {limits.max_run:g} s, the limit of this server"
            text = late if self._reason == "late" else "The server stopped before the work was done."
            return lambda task: fail(task, limits, ProtocolError(INTERNAL_ERROR, text))
        if data is None:
            return None
        if self._parked is not None:
            requests, state = self._parked
            return lambda task: park(task, limits, requests, state)
        return self._finished(data)

    def _finished(self, data: bytes) -> Edit:
        limits, envelope = self._tasks.limits, decode_envelope(data)
        if envelope.error is not UNSET:
            fault = decode_fault(envelope.error)
            error = ProtocolError(fault.code, fault.message, fault.data)
            return lambda task: fail(task, limits, error)
        assert envelope.result is not UNSET
        outcome = envelope.result
        if self.external and not is_error(outcome):
            return lambda task: (OVERDUE, limits.max_run)
        return lambda task: complete(task, limits, outcome)

    def _begin(self) -> Call:
        """The call of this leg: the request as it was made, for a client that is not there."""
        request, modern = self.task.record.request, self._worker.modern
        row = METHODS["tools/call"]
        params, meta = read_params(request.params, row)
        params.request_state = ""  # the dialogue goes on with what the task has recorded
        dialect: Dialect = DIALECTS.get(request.version, modern)
        about = request.version, request.capabilities, request.client_info
        session = None if dialect.modern else Session(*about, initialized=True)
        link = Link(modern, session)
        call = Call(link, self.id, b'""', row, params, request.params, meta, dialect, *about[1:], UNSET)
        call.session, call.channel, call.task = session, _Silent(), self
        call.user = restored_user(request.principal)
        call.run = asyncio.current_task()
        link.calls[call.id] = self.call = call
        return call


class _Silent:
    """The channel of a task: no client waits. What it tells is kept in its record."""

    def send(self, data: bytes) -> None:
        """Nobody is there."""

    async def ready(self) -> None:
        """There is nothing to wait for."""
