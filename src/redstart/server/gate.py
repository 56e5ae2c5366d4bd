"""At most so many at a time, at most so many waiting; the next one is told to try again later.

A counter and a queue of futures: entering a free gate costs neither an await nor an object.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redstart.features.errors import ToolError
from redstart.protocol.call import Call

Invoke = Callable[[Call, dict[str, Any]], Awaitable[Any]]

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

    async def enter(self) -> None:
        """Wait for room."""
        if self.active < self.limit:
            self.active += 1
            return
        if len(self._waiting) >= self.queue:
            raise Busy(
                f"{self.what} is busy: {self.active} calls are running and {len(self._waiting)} are waiting. "
                "Nothing was done. Try again in a few seconds."
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
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


_held: contextvars.ContextVar[frozenset[Gate]] = contextvars.ContextVar("redstart.gates", default=frozenset())


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
        token = _held.set(held | {gate})
        try:
            return await invoke(call, arguments)
        finally:
            _held.reset(token)
            gate.leave()

    return admitted
