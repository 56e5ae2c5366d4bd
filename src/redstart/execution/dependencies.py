"""Carries out a Plan for one call: makes what the handler depends on, runs the handler, cleans up, also on cancel.

What is sync is made in the handler's own thread. What is async is made on the loop, and is cleaned up only
when a thread that uses it has really ended, even if the call was given up long before.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from redstart.execution.inject import Made, Plan, Step, values
from redstart.protocol.call import Call

if TYPE_CHECKING:
    from redstart.execution.threads import Job, Pool
    from redstart.server.runtime import Host

Invoke = Callable[[Call, dict[str, Any]], Awaitable[Any]]

_closing: set[asyncio.Task[None]] = set()


def on_loop(fn: Callable[..., Any], plan: Plan, host: Host, *, awaits: bool) -> Invoke:
    """For handlers that run on the loop."""

    async def invoke(call: Call, arguments: dict[str, Any]) -> Any:
        async with AsyncExitStack() as stack:
            made = await _enter(plan.early, stack, call, host)
            arguments.update(values(plan.wants, made, call, host))
            result = fn(**arguments)
            return await result if awaits else result

    return invoke


def in_thread(fn: Callable[..., Any], plan: Plan, host: Host, submit: Callable[..., Job]) -> Invoke:
    """For handlers that run in a thread."""

    async def invoke(call: Call, arguments: dict[str, Any]) -> Any:
        stack = AsyncExitStack()
        job: Job | None = None
        try:
            made = await _enter(plan.early, stack, call, host)
            job = submit(
                run_here, {"fn": fn, "arguments": arguments, "plan": plan, "made": made, "call": call, "host": host}
            )
            result = await job.future
        except BaseException:
            if job is not None and job.future.cancelled():
                job.after = partial(_close_later, stack)
            else:
                await stack.__aexit__(*sys.exc_info())
            raise
        await stack.aclose()
        return result

    return invoke


def _close_later(stack: AsyncExitStack) -> None:
    task = asyncio.get_running_loop().create_task(stack.aclose())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


def run_here(fn: Callable[..., Any], arguments: dict[str, Any], plan: Plan, made: Made, call: Any, host: Any) -> Any:
    """Make the late steps, run the handler and clean up, all in this thread."""
    with ExitStack() as stack:
        for step in plan.late:
            wanted = values(step.wants, made, call, host)
            if step.form == "generator":
                manager = contextmanager(step.provide)(**wanted)
                made[step.provide] = manager.__enter__()
                stack.push(partial(_leave, manager))
            else:
                made[step.provide] = step.provide(**wanted)
        return fn(**arguments, **values(plan.wants, made, call, host))


def _leave(manager: Any, *error: Any) -> None:
    """A dependency may see the handler's exception; it may not swallow it."""
    manager.__exit__(*error)


async def _enter(steps: list[Step], stack: AsyncExitStack, call: Call, host: Host) -> Made:
    made: Made = {}
    for step in steps:
        wanted = values(step.wants, made, call, host)
        if step.form == "coroutine":
            made[step.provide] = await step.provide(**wanted)
        elif step.form == "async generator":
            manager = asynccontextmanager(step.provide)(**wanted)
            made[step.provide] = await manager.__aenter__()
            stack.push_async_exit(partial(_leave_async, manager))
        elif step.form == "generator":
            made[step.provide] = await _enter_in_thread(step, wanted, stack, host.pool)
        else:
            made[step.provide] = await host.pool.run(step.provide, wanted)
    return made


async def _leave_async(manager: Any, *error: Any) -> None:
    await manager.__aexit__(*error)


async def _enter_in_thread(step: Step, wanted: dict[str, Any], stack: AsyncExitStack, pool: Pool) -> Any:
    manager = contextmanager(step.provide)(**wanted)
    job = pool.submit(manager.__enter__, {})
    try:
        value = await job.future
    except asyncio.CancelledError:
        # The thread may enter after we have gone: then it must also leave.
        def leave() -> None:
            if job.thread and job.error is None:
                pool.run(partial(_leave, manager, None, None, None), {})

        if job.future.cancelled():
            job.after = leave
        else:
            leave()
        raise
    stack.push_async_exit(partial(_leave_in_thread, manager, pool))
    return value


async def _leave_in_thread(manager: Any, pool: Pool, *error: Any) -> None:
    await pool.run(partial(_leave, manager, *error), {})
