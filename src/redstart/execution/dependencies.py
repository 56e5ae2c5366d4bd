"""What a handler gets besides its arguments: its context, and what `Depends` provides.

Decided once, at registration, by the annotations, as a Plan: what to make, in which order, and what to clean up.
What is sync is made in the handler's own thread. What is async is made on the loop; if a thread uses it, it is
cleaned up after that thread has ended, even if the call was given up long before.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Annotated, TypeAlias, get_args, get_origin

from msgspec import Struct

from redstart.execution.threads import Job, Pool
from redstart.features.errors import RegistrationError, place
from redstart.features.registry import Arguments, Function, Invoke
from redstart.features.rules import HANDLER, caller
from redstart.protocol.call import Call
from redstart.schema.callables import Kind, is_async, kind_of, name_of, target_of


class Depends(Struct, frozen=True):
    """A parameter that the server fills with what `provide` returns, or yields and cleans up after the call.

    >>> from typing import Annotated
    >>> def settings() -> dict[str, str]:
    ...     return {"unit": "C"}
    >>> def forecast(city: str, options: Annotated[dict[str, str], Depends(settings)]) -> str:
    ...     return f"{city}: 7 °{options['unit']}"
    """

    provide: Function

    def __post_init__(self) -> None:
        HANDLER.check("provide of Depends", self.provide)


class RequestContext:
    """The request that a handler serves. What the server gives to handlers (`Context`, `SyncContext`) is one.

    Execution knows no more of it than this. The methods of `Context` are coroutines, those of `SyncContext` block.
    """

    __slots__ = ()

    def __init__(self, call: Call) -> None:
        raise NotImplementedError

    @property
    def cancelled(self) -> bool:
        raise NotImplementedError

    @property
    def can_elicit(self) -> bool:
        raise NotImplementedError

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> object:
        raise NotImplementedError

    def elicit(self, message: str, schema: object, key: str | None) -> object:
        raise NotImplementedError


MakeContext: TypeAlias = Callable[[Call], RequestContext]


ContextFor: TypeAlias = Callable[[bool], type[RequestContext]]
"""From whether a handler is an `async def` to the class of its context. A handler may ask for a subclass of it."""


def context_class(fn: Function, name: str, annotation: object, context_for: ContextFor) -> type[RequestContext]:
    """The class of the context for the parameter `name` of `fn`; without an annotation the one that suits `fn`."""
    right = context_for(is_async(fn))
    kind = right if annotation is inspect.Parameter.empty else _context_class(annotation)
    if kind is None or not issubclass(kind, right):
        form = "an `async def`" if is_async(fn) else "a `def`"
        text = f"{place(fn)}: {name_of(fn)} is {form}, so write `{name}: {right.__name__}`"
        if kind is not None and _is_foreign(kind):
            text += f", from `from redstart import {right.__name__}`; this one is {kind.__module__}.{kind.__name__}"
        raise RegistrationError(text)
    return kind


def injected(annotation: object, default: object) -> bool:
    """Whether a parameter is for the server to fill."""
    return _context_class(annotation) is not None or _depends(annotation, default) is not None


def _context_class(annotation: object) -> type | None:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and (issubclass(kind, RequestContext) or _is_foreign(kind)):
        return kind
    options = get_args(annotation)
    for option in options if len(options) == 2 and type(None) in options else ():
        if option is not type(None):
            return _context_class(option)
    return None


def _is_foreign(kind: type) -> bool:
    """Whether a class is the context of another framework. Clients cannot send one, so the server must fill it."""
    return kind.__name__ == "Context" and kind.__module__.partition(".")[0] in ("fastmcp", "mcp")


def _depends(annotation: object, default: object) -> Depends | None:
    for mark in (default, *getattr(annotation, "__metadata__", ())):
        if isinstance(mark, Depends):
            return mark
        if mark is Depends:
            raise RegistrationError(f"{caller()}: write Depends(function), not Depends alone")
    return None


# ---------------------------------------------------------------- planning

Wants: TypeAlias = tuple[tuple[str, Function], ...]
"""Names of parameters, each with the function of the dependency that fills it, or with one that makes a context."""
Made: TypeAlias = dict[Function, object]
"""What the functions of dependencies have provided."""


class Dependency(Struct, frozen=True):
    """One thing to make for a call: once, however many parameters ask for it."""

    provide: Function
    kind: Kind
    wants: Wants


class Plan(Struct):
    """Everything that a handler is given, in the order in which it is made."""

    early: list[Dependency]
    """Made on the loop before the handler starts: what is async, and what that needs."""
    late: list[Dependency]
    """Made in the handler's own thread, because a connection may belong to its thread."""
    wants: Wants

    @property
    def takes_context(self) -> bool:
        made = {step.provide for step in (*self.early, *self.late)}
        wants = [*self.wants, *(want for step in (*self.early, *self.late) for want in step.wants)]
        return any(source not in made for _, source in wants)


def make_plan(fn: Function, wanted: Arguments, context_for: ContextFor, *, in_thread: bool) -> Plan:
    """What to make for the injected parameters `wanted` of `fn`."""
    steps: dict[Function, Dependency] = {}
    wants = tuple((name, _source(fn, name, annotation, context_for, steps, [])) for name, annotation in wanted.items())
    order = list(steps.values())
    early: set[Function] = set()
    for step in reversed(order):
        if not in_thread or step.kind in ("coroutine", "async generator") or step.provide in early:
            early |= {step.provide, *(source for _, source in step.wants)}
    return Plan([s for s in order if s.provide in early], [s for s in order if s.provide not in early], wants)


def _source(
    fn: Function,
    name: str,
    annotation: object,
    context_for: ContextFor,
    steps: dict[Function, Dependency],
    path: Sequence[Function],
) -> Function:
    """The function that makes a context, or the function of the dependency that makes the value."""
    depends = _depends(annotation, inspect.signature(fn).parameters[name].default)
    if depends is None:
        return context_class(fn, name, annotation, context_for)
    provide = depends.provide
    if provide in path:
        circle = " → ".join(name_of(f) for f in [*path[path.index(provide) :], provide])
        raise RegistrationError(f"{place(provide)}: these dependencies need each other: {circle}")
    if provide not in steps:
        wanted = dict(_injected_parameters(provide))
        below = [*path, provide]
        wants = tuple((each, _source(provide, each, kind, context_for, steps, below)) for each, kind in wanted.items())
        steps[provide] = Dependency(provide, kind_of(provide), wants)
    return provide


def _injected_parameters(provide: Function) -> Iterator[tuple[str, object]]:
    """The parameters of the function of a dependency, with their annotations. A client sends none of them."""
    target = target_of(provide)
    for parameter in target.resolved():
        if injected(parameter.annotation, parameter.default):
            yield parameter.name, parameter.annotation
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise target.fail(
                "nothing provides it. Annotate it with Depends(...) or a context, or give it a default.", parameter.name
            )


# ---------------------------------------------------------------- calls

PoolOf: TypeAlias = Callable[[Call], Pool]
"""From a call to the threads of the server that runs it."""
_closing: set[asyncio.Task[None]] = set()
"""Keeps the tasks that clean up late alive."""


def on_loop(work: Function, plan: Plan, pool_of: PoolOf) -> Invoke:
    """Run `work`, whose result is awaited, with what the plan makes."""

    async def invoke(call: Call, arguments: Arguments) -> object:
        async with AsyncExitStack() as stack:
            made = await _enter(plan.early, stack, call, pool_of(call))
            return await work(**arguments, **_values(plan.wants, made, call))

    return invoke


def in_thread(work: Function, plan: Plan, pool_of: PoolOf) -> Invoke:
    """Run `work` in a thread with what the plan makes."""

    async def invoke(call: Call, arguments: Arguments) -> object:
        pool = pool_of(call)
        async with AsyncExitStack() as stack:
            made = await _enter(plan.early, stack, call, pool)
            return await _result(pool.run(partial(run_here, work, plan, made, call), arguments), stack)

    return invoke


async def _result(job: Job, stack: AsyncExitStack) -> object:
    """The result of a job. If the call is given up, the thread may still use what was made, so that is closed later."""
    try:
        return await job
    except asyncio.CancelledError:
        if job.cancelled():
            job.after = partial(_close_later, stack.pop_all())
        raise


def _close_later(stack: AsyncExitStack) -> None:
    task = asyncio.get_running_loop().create_task(stack.aclose())
    _closing.add(task)
    task.add_done_callback(_closing.discard)


def run_here(work: Function, plan: Plan, made: Made, call: Call | None, /, **arguments: object) -> object:
    """Make what the plan makes late, run `work` and clean up, all in this thread."""
    with ExitStack() as stack:
        for step in plan.late:
            wanted = _values(step.wants, made, call)
            if step.kind == "generator":
                manager = contextmanager(step.provide)(**wanted)
                made[step.provide] = manager.__enter__()
                stack.push(_seeing(manager.__exit__))
            else:
                made[step.provide] = step.provide(**wanted)
        return work(**arguments, **_values(plan.wants, made, call))


def _values(wants: Wants, made: Made, call: Call | None) -> Arguments:
    """The keyword arguments that are wanted: what was made, and contexts."""
    return {name: made[source] if source in made else source(call) for name, source in wants}


def _seeing(leave: Function) -> Function:
    """A dependency gets the exception of its handler. It cannot suppress that exception."""

    def left(*error: object) -> None:
        leave(*error)

    return left


async def _enter(steps: list[Dependency], stack: AsyncExitStack, call: Call, pool: Pool) -> Made:
    made: Made = {}
    for step in steps:
        wanted = _values(step.wants, made, call)
        if step.kind == "coroutine":
            made[step.provide] = await step.provide(**wanted)
        elif step.kind == "async generator":
            made[step.provide] = await _enter_async(step.provide, wanted, stack)
        elif step.kind == "generator":
            made[step.provide] = await _enter_in_thread(step.provide, wanted, stack, pool)
        else:
            made[step.provide] = await pool.run(step.provide, wanted)
    return made


async def _enter_async(provide: Function, wanted: Arguments, stack: AsyncExitStack) -> object:
    manager = asynccontextmanager(provide)(**wanted)
    value: object = await manager.__aenter__()

    async def leave(*error: object) -> None:
        await manager.__aexit__(*error)  # type: ignore[arg-type]

    stack.push_async_exit(leave)
    return value


async def _enter_in_thread(provide: Function, wanted: Arguments, stack: AsyncExitStack, pool: Pool) -> object:
    manager = contextmanager(provide)(**wanted)
    job = pool.run(manager.__enter__, {})

    async def leave(*error: object) -> None:
        if job.thread and job.error is None:  # it has been entered
            await pool.run(lambda: manager.__exit__(*error), {})  # type: ignore[arg-type]

    stack.push_async_exit(leave)
    return await _result(job, stack)
