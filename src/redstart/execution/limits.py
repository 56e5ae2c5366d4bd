"""The limits of a call: its time, how many calls run at once, how many may wait, and the size of a result.

A call does not use its time, or its slot among the running calls, while it waits for a human: `off_the_clock` and
`stepped_out`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from redstart.features.errors import ToolError
from redstart.features.registry import Arguments, Invoke
from redstart.protocol.call import Call

QUEUE: Final = 1000
"""How many calls may wait for their turn unless the server sets another number."""


class CallLimits(Struct, frozen=True):
    """What the options of a server or of a tool allow. None means that there is no limit."""

    timeout: float | None = None
    """Seconds."""
    concurrency: int | None = None
    """How many calls run at once."""
    queue: int = QUEUE
    """How many more may wait."""
    result_bytes: int | None = None


class Expired(ToolError):
    """A handler has used up its time."""


class Busy(ToolError):
    """Too many calls run and wait already."""


# ---------------------------------------------------------------- concurrency


class Gate:
    """Lets `limit` calls run at once and `queue` more wait, in the order in which they came.

    A counter and a queue of futures: a call that need not wait costs neither an await nor an object.
    """

    __slots__ = ("_waiting", "active", "limit", "queue", "what")

    def __init__(self, what: str, limit: int, queue: int = QUEUE) -> None:
        if limit < 1 or queue < 0:
            raise ValueError(f"{what}: {limit} running calls and a queue of {queue} are not possible")
        self.what = what
        self.limit = limit
        self.queue = queue
        self.active = 0
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, *, back: bool = False) -> None:
        """Wait for a slot. A call that resumes after a question skips the queue limit and goes first."""
        if self.active < self.limit:
            self.active += 1
            return
        if len(self._waiting) >= self.queue and not back:
            raise Busy(
                f"{self.what} is busy: {self.active} calls are running and {len(self._waiting)} are waiting. "
                "Nothing was done. Try again in a few seconds."
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        if back:
            self._waiting.move_to_end(turn, last=False)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.pop(turn, None)
            else:  # the slot was given to this call at the same moment: the next call gets it
                self.leave()
            raise

    def leave(self) -> None:
        """Give the slot to the call that has waited longest, if there is one."""
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self.active -= 1


class HeldSlot:
    """The slot of one call behind a gate. Others may have it while the call only waits for a human."""

    __slots__ = ("_gate", "_inside", "_questions")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._questions = 0
        self._inside = True

    def leave(self) -> None:
        if self._inside:
            self._inside = False
            self._gate.leave()

    def step_out(self) -> None:
        """A question is asked. Questions that are asked together count once."""
        self._questions += 1
        self.leave()

    async def step_in(self, *, wait: bool) -> None:
        """A question has ended: after the last one take a slot, if there is one now or if the call can wait."""
        self._questions -= 1
        if not self._questions and (wait or self._gate.active < self._gate.limit):
            await self._gate.enter(back=True)
            self._inside = True


_held: contextvars.ContextVar[Mapping[Gate, HeldSlot]] = contextvars.ContextVar(
    "redstart.gates", default=MappingProxyType({})
)


@asynccontextmanager
async def stepped_out() -> AsyncIterator[None]:
    """While a human is asked, other calls may have the slots that this call holds."""
    slots = _held.get().values()
    for slot in slots:
        slot.step_out()
    try:
        yield
    except BaseException:  # a cancelled call must not wait for a slot
        for slot in slots:
            await slot.step_in(wait=False)
        raise
    for slot in slots:
        await slot.step_in(wait=True)


def gated(invoke: Invoke, gate_of: Callable[[Call], Gate]) -> Invoke:
    """`invoke`, behind a gate. A tool that calls a tool does not wait for a slot that it holds itself."""

    async def admitted(call: Call, arguments: Arguments) -> object:
        gate, held = gate_of(call), _held.get()
        if gate in held:
            return await invoke(call, arguments)
        await gate.enter()
        if call.timings is not None:
            call.timings.started = perf_counter()
        slot = HeldSlot(gate)
        token = _held.set({**held, gate: slot})
        try:
            return await invoke(call, arguments)
        finally:
            _held.reset(token)
            slot.leave()

    return admitted


# ---------------------------------------------------------------- time


class Deadline:
    """Calls `expire` once, `seconds` from now, pauses not counted. For the thread of the loop only.

    A handler may be called by another one (`parent`), whose time then stands still too.
    """

    __slots__ = ("_expire", "_handle", "_left", "_loop", "_parent", "_paused", "_since", "expired")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        expire: Callable[[], object],
        parent: Deadline | None = None,
    ) -> None:
        self.expired = False
        self._parent = parent
        self._loop = loop
        self._left = seconds
        self._expire = expire
        self._paused = 0
        self._since = loop.time()
        self._handle: asyncio.TimerHandle | None = loop.call_later(seconds, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self.expired = True
        self._expire()

    def pause(self) -> None:
        """Stop the clock, and those of the callers. Pauses nest, so questions that are asked together count once."""
        if self._parent is not None:
            self._parent.pause()
        self._paused += 1
        if self._paused == 1 and self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._left -= self._loop.time() - self._since

    def resume(self) -> None:
        """Let the clocks run on."""
        if self._parent is not None:
            self._parent.resume()
        self._paused -= 1
        if self._paused == 0 and not self.expired:
            self._since = self._loop.time()
            self._handle = self._loop.call_later(max(0.0, self._left), self._fire)

    def stop(self) -> None:
        """The handler has ended: a pause without an end, so that a late resume does not start the clock again."""
        self._paused += 1
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


current_deadline: contextvars.ContextVar[Deadline | None] = contextvars.ContextVar("redstart.deadline", default=None)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """The time inside does not count as the handler's. For the thread of the loop.

    >>> with off_the_clock():
    ...     pass  # wait for a human here
    """
    deadline = current_deadline.get()
    if deadline is None:
        yield
        return
    deadline.pause()
    try:
        yield
    finally:
        deadline.resume()


def loop_of(call: Call) -> asyncio.AbstractEventLoop | None:
    """The loop that runs `call`, where that is known: Python 3.11 makes a system call to find the running loop."""
    run: asyncio.Task[object] | None = call.run
    return None if run is None else run.get_loop()


def timed(invoke: Invoke, seconds: float, name: str) -> Invoke:
    """`invoke`, cancelled after so many seconds."""

    def expired() -> Expired:
        return Expired(
            f"{name} took longer than its limit of {seconds:g} s and was stopped. "
            "Ask for less at once, or try again later."
        )

    async def limited(call: Call, arguments: Arguments) -> object:
        # Not always the task of the call: a handler may run tools in tasks beside its own.
        loop = loop_of(call) or asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(loop, seconds, task.cancel, current_deadline.get())
        token = current_deadline.set(deadline)
        try:
            try:
                value: object = await invoke(call, arguments)
            except asyncio.CancelledError:
                if call.dialogue is not None and call.dialogue.ended:
                    await call.dialogue.settle()  # a question has ended the run, but not the steps that have begun
                raise
        except asyncio.CancelledError:
            if not deadline.expired:
                raise
            task.uncancel()
            if call.dialogue is not None:
                call.dialogue.time_out()
            if task.cancelling():  # the client has cancelled the call too: that comes first
                raise
            raise expired() from None
        finally:
            deadline.stop()
            current_deadline.reset(token)
        if deadline.expired:  # the handler has swallowed its cancellation: its value comes too late
            task.uncancel()
            raise expired()
        return value

    return limited
