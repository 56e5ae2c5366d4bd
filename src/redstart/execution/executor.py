"""How a handler is run: on the loop, in a thread, in a process, with or without dependencies and limits.

Chosen once, at registration, so that a call does not look for what it does not need.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from redstart.execution import dependencies
from redstart.execution.dependencies import Contexts, MakeContext, Plan, make_plan
from redstart.execution.kinds import Arguments, Function, Invoke, is_async, is_generator, name_of
from redstart.execution.limits import CallLimits, Gate, current_deadline, gated, loop_of, timed
from redstart.execution.threads import Job, Pool
from redstart.features.errors import RegistrationError, log, place
from redstart.features.solutions import Cut
from redstart.features.tools import CompiledTool
from redstart.protocol.call import Call

if TYPE_CHECKING:
    from redstart.execution.processes import Children
    from redstart.features.prompts import CompiledPrompt
    from redstart.features.resources import CompiledResource


class Executor:
    """Gives everything that a server registers the function that runs its handler."""

    def __init__(self, pool: Pool, contexts: Contexts, limits: CallLimits, processes: int | None) -> None:
        self.contexts = contexts
        self.limits = limits
        """What holds for everything that does not have limits of its own."""
        self.gate: Gate | None = None
        """The gate of all tools together."""
        if limits.concurrency is not None:
            self.gate = Gate("The server", limits.concurrency, limits.queue)
        self._pool = pool
        self._processes = processes
        self._children: Children | None = None

    def injected(self, annotation: object, default: object) -> bool:
        """Whether a parameter is filled by the server, not by the client."""
        return dependencies.injected(annotation, default)

    def context_for(self, fn: Function) -> MakeContext:
        """The function that makes the kind of context that suits `fn`."""
        return self.contexts.make(fn, "", inspect.Parameter.empty)

    def equip(self, thing: CompiledTool | CompiledPrompt | CompiledResource, invoke: Invoke | None = None) -> None:
        """Give `thing` the function that runs its handler, or runs `invoke` in place of it."""
        assert thing.handler is not None
        fn: Function = thing.handler
        own, limits = thing.declared.timeout, self.limits
        timeout = limits.timeout if own is None else own
        if timeout == math.inf or (own is None and thing.executor == "inline" and not is_async(fn)):
            timeout = None
        if not isinstance(thing, CompiledTool):
            thing.invoke = self.compose(
                fn, thing.injected, executor=thing.executor, timeout=timeout, convert=thing.converted
            )
            return
        tool = thing.declared
        gates = [] if self.gate is None else [self.gate]
        if tool.concurrency is not None:
            gates.insert(0, Gate(f"The tool {tool.name}", tool.concurrency, limits.queue))
        thing.invoke = self.compose(
            fn,
            thing.injected,
            executor=thing.executor,
            timeout=timeout,
            gates=gates,
            cut=tool.cut,
            typed=tool.typed,
            convert=thing.output.converted,
            invoke=invoke,
        )
        plain = (
            invoke is None
            and is_async(fn)
            and not is_generator(fn)
            and not thing.injected
            and thing.executor != "process"
        )
        thing.plain = fn if plain and timeout is None and not gates else None
        thing.result_limit = limits.result_bytes if tool.max_result_bytes is None else tool.max_result_bytes

    def compose(
        self,
        fn: Function,
        injected: Arguments,
        *,
        executor: str | None = None,
        timeout: float | None = None,
        gates: Sequence[Gate] = (),
        cut: Cut | None = None,
        typed: bool = True,
        convert: Callable[[object], object] | None = None,
        invoke: Invoke | None = None,
    ) -> Invoke:
        """The function that runs `fn` for one call.

        `injected` has the annotations of the parameters that the server fills.
        `cut` says where the solutions of a generator end; without it what a generator yields is content.
        `typed` says that the arguments follow from the signature, rather than from a schema given by hand.
        `convert` is done to the value in the thread of `fn`, where it has one.
        `invoke` is run in place of `fn`, within the same limits.
        """
        if invoke is None:
            invoke = self._run(fn, injected, executor, timeout, cut, typed, convert)
        if timeout is not None:
            invoke = timed(invoke, timeout, name_of(fn))
        for gate in reversed(gates):
            invoke = gated(invoke, gate)
        return invoke

    def _run(
        self,
        fn: Function,
        injected: Arguments,
        executor: str | None,
        timeout: float | None,
        cut: Cut | None,
        typed: bool,
        convert: Callable[[object], object] | None,
    ) -> Invoke:
        _check_options(fn, executor, timeout)
        on_loop = executor != "process" and (executor == "inline" or is_async(fn))
        plan = make_plan(fn, injected, self.contexts, in_thread=not on_loop)
        if executor == "process":
            from redstart.execution.processes import in_process  # most servers have no such tool

            return in_process(fn, plan, self.children, self.contexts.maker(self.contexts.blocking), cut, typed)
        work = self._generator(fn, plan, cut, on_loop) if is_generator(fn) else fn
        if on_loop:
            return self._on_loop(work if is_async(work) else _inline(work), plan)
        return self._in_thread(_converting(work, convert), plan, name_of(fn), timeout)

    def _generator(self, fn: Function, plan: Plan, cut: Cut | None, on_loop: bool) -> Function:
        """The function that runs a generator to its end. It takes a context besides the arguments."""
        from redstart.execution import generators  # most servers have none

        kind = self.contexts.awaiting if on_loop else self.contexts.blocking
        plan.wants = (*plan.wants, (generators.CONTEXT, self.contexts.maker(kind)))
        return generators.on_loop(fn, cut) if on_loop else generators.in_thread(fn, cut)

    def _on_loop(self, work: Function, plan: Plan) -> Invoke:
        if plan.early:
            return dependencies.on_loop(work, plan, self._pool)
        wants = plan.wants

        def start(call: Call, arguments: Arguments) -> Awaitable[object]:
            for name, make in wants:
                arguments[name] = make(call)
            return work(**arguments)  # type: ignore[no-any-return]

        return start

    def _in_thread(self, work: Function, plan: Plan, name: str, timeout: float | None) -> Invoke:
        if plan.early or plan.late:
            return dependencies.in_thread(work, plan, self._pool)
        wants, pool = plan.wants, self._pool

        def start(call: Call, arguments: Arguments) -> Awaitable[object]:
            for key, make in wants:
                arguments[key] = make(call)
            job = pool.run(work, arguments, loop_of(call))
            if timeout is not None:
                job.add_done_callback(name_stuck)
            return job

        def name_stuck(job: asyncio.Future[object]) -> None:
            deadline = current_deadline.get()
            assert isinstance(job, Job)
            if job.cancelled() and job.thread and deadline is not None and deadline.expired:
                text = "the thread %s still runs %s after its limit; another may take its place (%d such threads)"
                log.warning(text, job.thread, name, pool.counts.lost)

        return start

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
        self._pool.close()


def _check_options(fn: Function, executor: str | None, timeout: float | None) -> None:
    if executor == "thread" and is_async(fn):
        raise RegistrationError(
            f'{place(fn)}: {name_of(fn)} is an `async def` and runs on the loop; write `def` for "thread"'
        )
    if timeout is not None and executor == "inline" and not is_async(fn):
        raise RegistrationError(
            f"{place(fn)}: {name_of(fn)} runs inline, where nothing can stop it; leave out timeout= or inline"
        )


def _inline(fn: Function) -> Function:
    async def work(**arguments: object) -> object:
        return fn(**arguments)

    return work


def _converting(work: Function, convert: Callable[[object], object] | None) -> Function:
    return work if convert is None else lambda **arguments: convert(work(**arguments))
