"""Runs a generator to its end, or to where it is cut: on the loop, or in a thread.

What it yields is content or a solution; `Progress` becomes a notification; `Ask` gets its answer sent back in.
It is closed when it is cut, when the call is cancelled and when its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from redstart.asking.questions import Ask
from redstart.execution.kinds import is_async
from redstart.features.solutions import Collected, Collector, Cut, Progress
from redstart.server.context import Context, current_call
from redstart.server.sync_context import SyncContext

if TYPE_CHECKING:
    from redstart.server.runtime import Host


class Stopped(Exception):
    """Nobody waits for this generator any more."""


def drive_async(fn: Callable[..., Any], host: Host, cut: Cut | None) -> Callable[..., Coroutine[Any, Any, Collected]]:
    """An `async def` that collects what the async generator function `fn` yields."""

    async def collect(**arguments: Any) -> Collected:
        call = current_call.get()
        collector = Collector(cut)
        context: Context[Any] = Context(call, host)
        async with aclosing(fn(**arguments)) as generator:
            answer: Any = None
            while True:
                try:
                    item = await generator.asend(answer)
                except StopAsyncIteration:
                    break
                answer = None
                if isinstance(item, Progress):
                    await context.progress(item.progress, item.total, item.message)
                elif isinstance(item, Ask):
                    answer = await context.elicit(item.message, item.schema, item.key)
                elif collector.take(item):
                    break
        return collector.collected()

    return collect


def drive_sync(fn: Callable[..., Any], host: Host, cut: Cut | None) -> Callable[..., Collected]:
    """A `def`, for a thread, that collects what the generator function `fn` yields."""

    def collect(**arguments: Any) -> Collected:
        call = current_call.get()
        context: SyncContext[Any] = SyncContext(call, host)

        def react(item: Any) -> Any:
            if isinstance(item, Progress):
                context.progress(item.progress, item.total, item.message)
                return None
            return context.elicit(item.message, item.schema, item.key)

        return run_generator(fn(**arguments), Collector(cut), react, lambda: call.open)

    return collect


def drive_inline(fn: Callable[..., Any], host: Host, cut: Cut | None) -> Callable[..., Collected]:
    """A `def`, for the loop itself, that collects what the generator function `fn` yields."""

    def collect(**arguments: Any) -> Collected:
        call = current_call.get()

        def react(item: Any) -> Any:
            if not isinstance(item, Progress):
                raise TypeError('an executor="inline" generator cannot ask: it would block the loop')
            Context[Any](call, host)._progress(item.progress, item.total, item.message)

        return run_generator(fn(**arguments), Collector(cut), react, lambda: call.open)

    return collect


def driven(fn: Callable[..., Any], host: Host, cut: Cut | None, *, inline: bool) -> Callable[..., Any]:
    """The function that runs the generator function `fn` in the way that suits it."""
    if is_async(fn):
        return drive_async(fn, host, cut)
    return drive_inline(fn, host, cut) if inline else drive_sync(fn, host, cut)


def run_generator(
    generator: Any, collector: Collector, react: Callable[[Any], Any], wanted: Callable[[], bool]
) -> Collected:
    """Collect a sync generator. `react` answers Progress and Ask; it is left as soon as `wanted` says no."""
    with closing(generator):
        answer: Any = None
        while True:
            try:
                item = generator.send(answer)
            except StopIteration as end:
                collector.returned = end.value
                break
            if not wanted():
                raise Stopped
            answer = None
            if isinstance(item, Progress | Ask):
                answer = react(item)
            elif collector.take(item):
                break
    return collector.collected()
