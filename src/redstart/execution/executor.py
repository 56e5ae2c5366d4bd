"""How a handler is run: on the loop, in a thread, in a process, with or without dependencies, limits and gates.

Chosen once, at registration, so that a call does not look for what it does not need.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from redstart.execution import dependencies as resolve
from redstart.execution.deadline import Deadline, current_deadline
from redstart.execution.gate import QUEUE, Gate, gated
from redstart.execution.inject import contexts, has_dependencies, plan
from redstart.execution.kinds import is_async, is_generator
from redstart.features.errors import RegistrationError, ToolError, log, place
from redstart.features.solutions import Cut
from redstart.features.tools import Tool
from redstart.protocol.call import Call

if TYPE_CHECKING:
    from redstart.execution.threads import Job
    from redstart.features.prompts import Prompt
    from redstart.features.resources import Resource
    from redstart.server.runtime import Host

Invoke = Callable[[Call, dict[str, Any]], Awaitable[Any]]


class Expired(ToolError):
    """A handler used up its time."""


class Limits(Struct, frozen=True):
    """What holds for everything that does not say otherwise, and the room that all tools share."""

    timeout: float | None = None
    max_result_bytes: int | None = None
    max_queue: int = QUEUE
    room: Gate | None = None


def equip(thing: Tool | Prompt | Resource, host: Host, limits: Limits) -> None:
    """Give `thing` the function that runs its handler."""
    assert thing.handler is not None
    fn: Callable[..., Any] = thing.handler
    timeout = limits.timeout
    if thing.timeout is not None:
        timeout = thing.timeout
    if timeout == math.inf or (thing.timeout is None and thing.executor == "inline" and not is_async(fn)):
        timeout = None
    if not isinstance(thing, Tool):
        thing.invoke = compose_invoke(
            fn, thing.injected, host, executor=thing.executor, timeout=timeout, convert=thing.converted
        )
        return
    room, most = thing.concurrency, thing.max_result_bytes
    gates = [] if room is None else [Gate(f"The tool {thing.name}", room, limits.max_queue)]
    if limits.room is not None:
        gates.append(limits.room)
    thing.invoke = compose_invoke(
        fn,
        thing.injected,
        host,
        executor=thing.executor,
        timeout=timeout,
        gates=gates,
        cut=thing.cut,
        typed=thing.typed,
        convert=thing.output.converted,
    )
    plainly = is_async(fn) and not is_generator(fn) and not thing.injected and thing.executor != "process"
    thing.plain = fn if plainly and timeout is None and not gates else None
    thing.result_limit = limits.max_result_bytes if most is None else most


def compose_invoke(
    fn: Callable[..., Any],
    injected: dict[str, Any],
    host: Host,
    *,
    executor: str | None = None,
    timeout: float | None = None,
    gates: Sequence[Gate] = (),
    cut: Cut | None = None,
    typed: bool = True,
    convert: Callable[[Any], Any] | None = None,
) -> Invoke:
    """The function that runs `fn` for one call.

    `cut` says where a generator's solutions end; without it what a generator yields is content.
    `typed` says that the arguments follow from the signature, rather than from a schema given by hand.
    `convert` is done to the value in the thread of `fn`, where it has one.
    """
    _check_options(fn, executor, timeout)
    if executor == "process":
        from redstart.execution.processes import in_process  # most servers have no such tool

        invoke = in_process(fn, injected, host, cut=cut, typed=typed)
    else:
        invoke = _in_this_process(fn, injected, host, executor, timeout, cut, convert)
    if timeout is not None:
        invoke = _limited(invoke, timeout, getattr(fn, "__name__", "the handler"))
    return gated(invoke, gates) if gates else invoke


def _in_this_process(
    fn: Callable[..., Any],
    injected: dict[str, Any],
    host: Host,
    executor: str | None,
    timeout: float | None,
    cut: Cut | None,
    convert: Callable[[Any], Any] | None,
) -> Invoke:
    inline = executor == "inline"
    work = fn
    if is_generator(fn):
        from redstart.execution.generators import driven

        work = driven(fn, host, cut, inline=inline)
    if is_async(fn):
        return _on_loop(work, fn, injected, host)
    if inline:
        return _inline(work, fn, injected, host)
    return _in_thread(_converting(work, convert), fn, injected, host, timeout)


def _converting(work: Callable[..., Any], convert: Callable[[Any], Any] | None) -> Callable[..., Any]:
    return work if convert is None else lambda **arguments: convert(work(**arguments))


def _check_options(fn: Callable[..., Any], executor: str | None, timeout: float | None) -> None:
    name = getattr(fn, "__name__", fn)
    if executor == "thread" and is_async(fn):
        raise RegistrationError(f'{place(fn)}: {name} is an `async def` and runs on the loop; write `def` for "thread"')
    if timeout is not None and executor == "inline" and not is_async(fn):
        raise RegistrationError(
            f"{place(fn)}: {name} runs inline, where nothing can stop it; leave out timeout= or inline"
        )


def _on_loop(work: Callable[..., Any], fn: Callable[..., Any], injected: dict[str, Any], host: Host) -> Invoke:
    if has_dependencies(fn, injected):
        return resolve.on_loop(work, plan(fn, injected, in_thread=False), host, awaits=True)
    kinds = contexts(fn, injected)

    def start(call: Call, arguments: dict[str, Any]) -> Awaitable[Any]:
        for name, kind in kinds:
            arguments[name] = kind(call, host)
        return work(**arguments)  # type: ignore[no-any-return]

    return start


def _inline(work: Callable[..., Any], fn: Callable[..., Any], injected: dict[str, Any], host: Host) -> Invoke:
    if has_dependencies(fn, injected):
        return resolve.on_loop(work, plan(fn, injected, in_thread=False), host, awaits=False)

    async def invoke(call: Call, arguments: dict[str, Any]) -> Any:
        return work(**arguments)

    return _filled(invoke, fn, injected, host)


def _in_thread(
    work: Callable[..., Any], fn: Callable[..., Any], injected: dict[str, Any], host: Host, timeout: float | None
) -> Invoke:
    pool = host.pool
    if has_dependencies(fn, injected):
        return resolve.in_thread(work, plan(fn, injected, in_thread=True), host, pool.submit)
    if timeout is None:
        return _filled(lambda call, arguments: pool.run(work, arguments, _loop_of(call)), fn, injected, host)

    async def invoke(call: Call, arguments: dict[str, Any]) -> Any:
        job = pool.submit(work, arguments, _loop_of(call))
        try:
            return await job.future
        except asyncio.CancelledError:
            _name_stuck(job, getattr(fn, "__name__", "a handler"), pool.lost)
            raise

    return _filled(invoke, fn, injected, host)


def _loop_of(call: Call) -> asyncio.AbstractEventLoop | None:
    """The loop that runs `call`. To ask Python 3.11 for the one that runs is a system call."""
    run: asyncio.Task[Any] | None = call.run
    return None if run is None else run.get_loop()


def _name_stuck(job: Job, name: str, lost: int) -> None:
    deadline = current_deadline.get()
    if job.thread and deadline is not None and deadline.expired:
        log.warning(
            "the thread %s still runs %s after its limit; another may take its place (%d such threads)",
            job.thread,
            name,
            lost,
        )


def _filled(invoke: Invoke, fn: Callable[..., Any], injected: dict[str, Any], host: Host) -> Invoke:
    kinds = contexts(fn, injected)
    if not kinds:
        return invoke

    def fill(call: Call, arguments: dict[str, Any]) -> Awaitable[Any]:
        for name, kind in kinds:
            arguments[name] = kind(call, host)
        return invoke(call, arguments)

    return fill


def _limited(invoke: Invoke, seconds: float, name: str) -> Invoke:
    def expired() -> Expired:
        return Expired(
            f"{name} took longer than its limit of {seconds:g} s and was stopped. "
            "Ask for less at once, or try again later."
        )

    async def limited(call: Call, arguments: dict[str, Any]) -> Any:
        # Not always the task of the call: a handler may run tools in tasks beside its own.
        loop = _loop_of(call) or asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        deadline = Deadline(loop, seconds, task.cancel, current_deadline.get())
        token = current_deadline.set(deadline)
        try:
            try:
                value = await invoke(call, arguments)
            except asyncio.CancelledError:
                talk = call.state
                if talk is not None and talk.suspended and talk.steps is not None:
                    await talk.steps.settled()  # a question has ended the run, but not what it had begun
                raise
        except asyncio.CancelledError:
            if not deadline.expired:
                raise
            others = task.uncancel()
            if call.state is not None and call.state.overrule():
                others = task.uncancel()
            if others > 0:  # the client's own cancellation comes first
                raise
            raise expired() from None
        finally:
            deadline.stop()
            current_deadline.reset(token)
        if deadline.expired:  # the handler swallowed its cancellation: what it says now is too late
            task.uncancel()
            raise expired()
        return value

    return limited
