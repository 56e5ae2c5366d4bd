"""How a handler is run: on the loop, in a thread, with or without injected parameters, with or without a limit.

Chosen once, at registration, so that a call does not look for what it does not need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from redstart.features.errors import ToolError
from redstart.protocol.call import Call
from redstart.server.context import is_async
from redstart.server.inject import providers

if TYPE_CHECKING:
    from redstart.server.host import Host

Invoke = Callable[[Call, dict[str, Any]], Awaitable[Any]]


def compose_invoke(
    fn: Callable[..., Any],
    injected: dict[str, Any],
    host: Host,
    *,
    executor: str | None = None,
    timeout: float | None = None,
) -> Invoke:
    """The function that runs `fn` for one call."""
    filled = providers(fn, injected, host)
    if is_async(fn):
        invoke = _on_loop(fn)
    elif executor == "inline":
        invoke = _inline(fn)
    else:
        invoke = _in_thread(fn, host)
    if filled:
        invoke = _filling(invoke, filled)
    if timeout is not None:
        invoke = _limited(invoke, timeout, getattr(fn, "__name__", "the handler"))
    return invoke


def _on_loop(fn: Callable[..., Any]) -> Invoke:
    return lambda call, arguments: fn(**arguments)


def _inline(fn: Callable[..., Any]) -> Invoke:
    async def invoke(call: Call, arguments: dict[str, Any]) -> Any:
        return fn(**arguments)

    return invoke


def _in_thread(fn: Callable[..., Any], host: Host) -> Invoke:
    return lambda call, arguments: host.pool.run(fn, arguments)


def _filling(invoke: Invoke, filled: list[tuple[str, Callable[[Call], Any]]]) -> Invoke:
    def fill(call: Call, arguments: dict[str, Any]) -> Awaitable[Any]:
        for name, provide in filled:
            arguments[name] = provide(call)
        return invoke(call, arguments)

    return fill


def _limited(invoke: Invoke, timeout: float, name: str) -> Invoke:
    async def limited(call: Call, arguments: dict[str, Any]) -> Any:
        try:
            async with asyncio.timeout(timeout):
                return await invoke(call, arguments)
        except TimeoutError:
            raise ToolError(f"{name} took longer than its limit of {timeout:g} s and was stopped.") from None

    return limited
