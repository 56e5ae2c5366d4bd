"""How a handler is run: on the loop, in a thread, in a process, with or without dependencies and limits.

The way is chosen once, at registration, so that a call does not check for features that it does not use. The threads
and processes themselves belong to the Runner of the call.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from redstart.execution import dependencies
from redstart.execution.dependencies import ContextFor, Plan, RequestContext, make_plan
from redstart.execution.limits import CallLimits, Gate, current_deadline, gated, loop_of, timed
from redstart.execution.threads import Job, Pool
from redstart.features.errors import RegistrationError, log, place
from redstart.features.options import Visible
from redstart.features.output import Cut
from redstart.features.registry import Arguments, Function, Invoke
from redstart.features.tools import CompiledTool
from redstart.protocol.call import Call, Timings
from redstart.schema.callables import is_async, is_generator, kind_of, name_of

if TYPE_CHECKING:
    from redstart.execution.processes import Children
    from redstart.features.prompts import CompiledPrompt
    from redstart.features.resources import CompiledResource


class Runner:
    """What the calls of a server run in: its threads, its processes, and the gate of all its tools together."""

    def __init__(self, limits: CallLimits, threads: int, processes: int | None) -> None:
        self.limits = limits
        """The limits of everything that does not have its own."""
        self.gate = Gate("The server", limits.concurrency or sys.maxsize, limits.queue)
        self.pool = Pool(threads)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._processes = processes
        self._children: Children | None = None

    def children(self) -> Children:
        """The processes of `executor="process"` tools, made on first use. They end with the loop that runs."""
        from redstart.execution.processes import Children

        if self._children is not None and self._children.loop is not asyncio.get_running_loop():
            self.close()
        if self._children is None:
            self._children = Children(self._processes)
        return self._children

    def close(self) -> None:
        """Let the threads go and end the processes."""
        children, self._children = self._children, None
        if children is not None:
            children.close()
        self.pool.close()


def runner_of(call: Call) -> Runner:
    """What runs `call`."""
    runner = call.runner
    assert isinstance(runner, Runner)
    return runner


def _pool_of(call: Call) -> Pool:
    return runner_of(call).pool


def _children_of(call: Call) -> Children:
    return runner_of(call).children()


class Executor:
    """Gives everything that a server registers the function that runs its handler."""

    def __init__(self, limits: CallLimits, context_for: ContextFor) -> None:
        self._limits = limits
        self._context_for = context_for

    def injected(self, annotation: object, default: object) -> bool:
        """Whether a parameter is filled by the server, not by the client."""
        return dependencies.injected(annotation, default)

    def context_for(self, fn: Function) -> type[RequestContext]:
        """The kind of context that suits `fn`."""
        return self._context_for(is_async(fn))

    def seen_by(self, visible: Visible) -> Callable[[Call], bool]:
        """The check whether the user of a call may see what has this `visible=`."""
        from redstart.execution.visibility import seen_by

        return seen_by(visible, self._context_for)

    def equip(self, thing: CompiledTool | CompiledPrompt | CompiledResource, invoke: Invoke | None = None) -> None:
        """Give `thing` the function that runs its handler, or `invoke` in place of that, within its limits."""
        fn: Function | None = thing.handler
        assert fn is not None
        timeout = self._timeout(fn, thing.executor, thing.declared.timeout)
        on_loop = kind_of(fn) == "coroutine" and thing.executor != "process"
        direct = on_loop and invoke is None and timeout is None and not thing.injected
        if invoke is not None:
            thing.invoke = invoke
        elif isinstance(thing, CompiledTool):
            tool, convert = thing.declared, thing.output.converted
            thing.invoke = self.compose(
                fn, thing.injected, executor=thing.executor, cut=tool.cut, typed=tool.typed, convert=convert
            )
        else:
            thing.invoke = self.compose(fn, thing.injected, executor=thing.executor, convert=thing.converted)
        if timeout is not None:
            thing.invoke = timed(thing.invoke, timeout, name_of(fn))
        if isinstance(thing, CompiledTool):
            self._limit(thing, fn if direct else None)

    def _timeout(self, fn: Function, executor: str | None, own: float | None) -> float | None:
        """The time of a handler: its own, or that of the server. Nothing can stop a `def` on the loop."""
        timeout = self._limits.timeout if own is None else own
        if timeout is None or timeout == math.inf:
            return None
        if executor != "inline" or is_async(fn):
            return timeout
        if own is not None:
            raise RegistrationError(
                f"{place(fn)}: {name_of(fn)} runs inline, where nothing can stop it; leave out timeout= or inline"
            )
        return None

    def _limit(self, thing: CompiledTool, direct: Function | None) -> None:
        """Put a tool behind its gates. Without any, a call may await `direct`, the handler itself."""
        tool, limits = thing.declared, self._limits
        if limits.concurrency is not None:
            thing.invoke = gated(thing.invoke, lambda call: runner_of(call).gate)
        if tool.concurrency is not None:
            own = Gate(f"The tool {tool.name}", tool.concurrency, limits.queue)
            thing.invoke = gated(thing.invoke, lambda call: own)
        thing.plain = direct if limits.concurrency is None and tool.concurrency is None else None
        thing.result_limit = limits.result_bytes if tool.max_result_bytes is None else tool.max_result_bytes

    def compose(
        self,
        fn: Function,
        injected: Arguments,
        *,
        executor: str | None = None,
        cut: Cut | None = None,
        typed: bool = True,
        convert: Callable[[object], object] | None = None,
    ) -> Invoke:
        """The function that runs `fn` for one call, without limits.

        `injected` has the annotations of the parameters that the server fills.
        `cut` says where the solutions of a generator end; without it what a generator yields is content.
        `typed` says that the arguments follow from the signature, rather than from a schema given by hand.
        `convert` is done to the value in the thread of `fn`, where it has one.
        """
        if executor == "thread" and is_async(fn):
            text = 'is an `async def` and runs on the loop; write `def` for "thread"'
            raise RegistrationError(f"{place(fn)}: {name_of(fn)} {text}")
        on_loop = executor != "process" and (executor == "inline" or is_async(fn))
        plan = make_plan(fn, injected, self._context_for, in_thread=not on_loop)
        if executor == "process":
            from redstart.execution.processes import in_process, locate  # here, because most servers have no such tool

            return in_process(fn, plan, locate(fn, typed=typed, cut=cut), self._context_for(False), _children_of)
        work = self._generator(fn, plan, cut, on_loop) if is_generator(fn) else fn
        if on_loop:
            return self._on_loop(work if is_async(work) else _inline(work), plan)
        return self._in_thread(_converting(work, convert), plan, name_of(fn))

    def _generator(self, fn: Function, plan: Plan, cut: Cut | None, on_loop: bool) -> Function:
        """The function that runs a generator to its end. It takes a context besides the arguments."""
        from redstart.execution import generators  # loaded here because most servers have none

        plan.wants = (*plan.wants, (generators.CONTEXT, self._context_for(on_loop)))
        return generators.on_loop(fn, cut) if on_loop else generators.in_thread(fn, cut)

    def _on_loop(self, work: Function, plan: Plan) -> Invoke:
        if plan.early:
            return dependencies.on_loop(work, plan, _pool_of)
        wants = plan.wants

        def start(call: Call, arguments: Arguments) -> Awaitable[object]:
            for name, make in wants:
                arguments[name] = make(call)
            return work(**arguments)  # type: ignore[no-any-return]

        return start

    def _in_thread(self, work: Function, plan: Plan, name: str) -> Invoke:
        if plan.early or plan.late:
            return dependencies.in_thread(work, plan, _pool_of)
        wants = plan.wants

        def start(call: Call, arguments: Arguments) -> Awaitable[object]:
            for key, make in wants:
                arguments[key] = make(call)
            pool = runner_of(call).pool
            job = pool.run(work if call.timings is None else _timed(work, call.timings), arguments, loop_of(call))
            if current_deadline.get() is not None:
                job.add_done_callback(partial(name_stuck, pool))
            return job

        def name_stuck(pool: Pool, job: asyncio.Future[object]) -> None:
            deadline = current_deadline.get()
            assert isinstance(job, Job)
            if job.cancelled() and job.thread and deadline is not None and deadline.expired:
                text = "the thread %s still runs %s after its limit; another may take its place (%d such threads)"
                log.warning(text, job.thread, name, pool.counts.lost)

        return start


def _timed(work: Function, timings: Timings) -> Function:
    """`work`, which notes when a thread has begun it."""

    def begin(**arguments: object) -> object:
        timings.started = perf_counter()
        return work(**arguments)

    return begin


def _inline(fn: Function) -> Function:
    async def work(**arguments: object) -> object:
        return fn(**arguments)

    return work


def _converting(work: Function, convert: Callable[[object], object] | None) -> Function:
    return work if convert is None else lambda **arguments: convert(work(**arguments))
