"""About handlers and the request they run for: which kind a function is, and the context from deep inside one."""

from __future__ import annotations

import asyncio
from typing import Any

from redstart.server.context import Context, current_call
from redstart.server.sync_context import SyncContext


def current_context() -> Any:
    """The context of the request that is being served here: `Context` on the loop, `SyncContext` in a thread.

    >>> current_context()
    Traceback (most recent call last):
    ...
    RuntimeError: no request is being served here
    """
    call = current_call.get(None)
    if call is None:
        raise RuntimeError("no request is being served here")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return SyncContext(call, call.link.owner)
    return Context(call, call.link.owner)
