"""Runs a generator to its end, or to where it is cut: on the loop, in a thread, or in a child process.

What it yields is content or a solution; `Progress` becomes a notification; `Ask` gets its answer sent back in.
It is closed when it is cut, when the call is cancelled and when its time is over.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import aclosing, closing
from typing import Final, TypeVar

from redstart.execution.dependencies import RequestContext
from redstart.features.output import Collected, Cut
from redstart.features.predicates import Ask, Collector, Progress
from redstart.features.registry import Function

R = TypeVar("R")
CONTEXT: Final = "the context of the generator"
"""The key of the context among the arguments. No parameter of a handler can have this name."""


class Stopped(Exception):
    """The call of this generator has ended."""


def on_loop(fn: Function, cut: Cut | None) -> Function:
    """An `async def` that collects what the generator function `fn` yields."""

    async def work(**arguments: object) -> Collected:
        context = arguments.pop(CONTEXT)
        assert isinstance(context, RequestContext)
        return await collect(fn(**arguments), cut, context)

    return work


def in_thread(fn: Function, cut: Cut | None) -> Function:
    """The same as a `def`, for a generator function that is not async."""
    work = on_loop(fn, cut)
    return lambda **arguments: at_once(work(**arguments))


async def collect(
    generator: AsyncGenerator[object, object] | Generator[object, object, object],
    cut: Cut | None,
    context: RequestContext,
) -> Collected:
    """All that the generator gives. The context is told of progress and is asked for answers."""
    collector = Collector(cut)
    steps = generator if isinstance(generator, AsyncGenerator) else _steps(generator, collector)
    answer: object = None
    async with aclosing(steps):
        while True:
            try:
                item = await steps.asend(answer)
            except StopAsyncIteration:
                break
            if context.cancelled:
                raise Stopped
            answer = None
            if isinstance(item, Progress):
                await _awaited(context.progress(item.progress, item.total, item.message))
            elif isinstance(item, Ask):
                answer = await _awaited(context.elicit(item.message, item.schema, item.key))
            elif collector.take(item):
                break
    return collector.collected()


async def _steps(generator: Generator[object, object, object], collector: Collector) -> AsyncGenerator[object, object]:
    """A generator in the form of an async one."""
    with closing(generator):
        answer: object = None
        while True:
            try:
                item = generator.send(answer)
            except StopIteration as end:
                collector.returned = end.value
                return
            answer = yield item


async def _awaited(value: object) -> object:
    """The result of a method of a context: of `Context` it is awaited, of `SyncContext` it is there."""
    return await value if inspect.isawaitable(value) else value


def at_once(work: Coroutine[object, object, R]) -> R:
    """The result of a coroutine that waits for nothing, without a loop."""
    try:
        work.send(None)
    except StopIteration as end:
        value: R = end.value
        return value
    work.close()
    raise RuntimeError("a generator that runs in a thread cannot wait for the loop")
