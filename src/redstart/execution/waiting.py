"""How a `def` handler waits in its thread for work on the loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from typing import Final, TypeVar

from redstart.execution.executor import runner_of
from redstart.execution.threads import Work, on_loop
from redstart.features.errors import Unwind
from redstart.protocol.call import Call

R = TypeVar("R")
DEEPEST: Final = 50
"""How many levels deep `def` handlers may call each other."""
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("redstart.depth", default=0)


def wait(call: Call, work: Work[R]) -> R:
    """Run `work` on the loop of a call while this thread waits. Unwind: the call has ended, so its handler ends too."""
    if on_loop():
        work.close()
        raise RuntimeError('a handler with executor="inline" cannot wait; write `async def`, or leave inline out')
    runner = runner_of(call)
    try:
        return runner.pool.wait(work, runner.loop)  # type: ignore[arg-type]
    except concurrent.futures.CancelledError:
        raise Unwind from None
    except asyncio.CancelledError:
        if call.open and not (call.dialogue is not None and call.dialogue.ended):
            raise  # neither the client nor a question has ended the call: it fails
        raise Unwind from None


def wait_nested(call: Call, work: Work[R]) -> R:
    """As `wait`, for another handler. Each level may take one more thread, so the depth is limited."""
    depth = _depth.get()
    if depth >= DEEPEST:
        work.close()
        raise RecursionError(f"handlers of this server call each other more than {DEEPEST} levels deep")
    token = _depth.set(depth + 1)
    try:
        return wait(call, work)
    finally:
        _depth.reset(token)
