"""At most so many at a time, at most so many waiting; the next one is told to try again later.

A counter and a queue of futures: entering a free gate costs neither an await nor an object.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from redstart.features.errors import ToolError
from redstart.protocol.call import Call

Invoke = Callable[[Call, dict[str, Any]], Awaitable[Any]]

NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})
QUEUE: Final = 1000
"""How many calls may wait for their turn where nobody says otherwise."""


class Busy(ToolError):
    """There is no room now, not even to wait."""


class Gate:
    """Room for `limit` calls at a time and `queue` more that wait, first come first served."""

    __slots__ = ("_waiting", "active", "limit", "queue", "what")

    def __init__(self, what: str, limit: int, queue: int = QUEUE) -> None:
        if limit < 1 or queue < 0:
            raise ValueError(f"{what}: room for {limit} calls and a queue of {queue} make no sense")
        self.what = what
        self.limit = limit
        self.queue = queue
        self.active = 0
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, *, back: bool = False) -> None:
        """Wait for room. A call that resumes after a question skips the queue limit and goes first."""
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
            else:  # the turn came in the same moment: it is the next one's
                self.leave()
            raise

    def leave(self) -> None:
        """Make room: for the one who waits longest, if there is one."""
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self.active -= 1


class Place:
    """The room that one call holds. It is another's while the call does nothing but wait for a human."""

    __slots__ = ("_away", "_inside", "gate")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._away = 0
        self._inside = True

    def leave(self) -> None:
        if self._inside:
            self._inside = False
            self.gate.leave()

    def step_out(self) -> None:
        """Questions asked together count once."""
        self._away += 1
        self.leave()

    async def step_in(self) -> None:
        self._away -= 1
        if not self._away:
            await self.gate.enter(back=True)
            self._inside = True

    def step_in_at_once(self) -> None:
        """As `step_in`, if there is room: a call that was cancelled must not wait, not even for this."""
        self._away -= 1
        if not self._away and self.gate.active < self.gate.limit:
            self.gate.active += 1
            self._inside = True


_held: contextvars.ContextVar[Mapping[Gate, Place]] = contextvars.ContextVar("redstart.gates", default=NOTHING)


@asynccontextmanager
async def stepped_out() -> AsyncIterator[None]:
    """While a human is asked, others may have the room that this call holds."""
    places = _held.get().values()
    for place in places:
        place.step_out()
    try:
        yield
    except BaseException:
        for place in places:
            place.step_in_at_once()
        raise
    for place in places:
        await place.step_in()


def gated(invoke: Invoke, gates: Sequence[Gate]) -> Invoke:
    """`invoke`, behind the gates. A tool that calls a tool does not wait for the room that it holds itself."""
    if len(gates) > 1:
        for gate in reversed(gates):
            invoke = gated(invoke, [gate])
        return invoke
    [gate] = gates

    async def admitted(call: Call, arguments: dict[str, Any]) -> Any:
        held = _held.get()
        if gate in held:
            return await invoke(call, arguments)
        await gate.enter()
        place = Place(gate)
        token = _held.set({**held, gate: place})
        try:
            return await invoke(call, arguments)
        finally:
            _held.reset(token)
            place.leave()

    return admitted
