"""A store in memory whose calls fail when a test says so: before their effect, or after it, when the answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from redstart.store.memory import MemoryStore
from redstart.store.shared import StoreAway

Fault = Callable[[str], str]
"""What happens to a call, by the name of its method: "" nothing, "before" or "after" its effect it fails, "slow"."""


class ShakyStore(MemoryStore):
    def __init__(self, fault: Fault = lambda name: "") -> None:
        super().__init__()
        self.fault = fault

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if not name.startswith(("task_", "kv_")):
            return value
        return self._shaken(name, value)

    def _shaken(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(call)
        async def shaken(*args: Any, **kwargs: Any) -> Any:
            fault = self.fault(name)
            await asyncio.sleep(0.05 if fault == "slow" else 0)
            if fault == "before":
                raise StoreAway("the test says so")
            result = await call(*args, **kwargs)
            if fault == "after":
                raise StoreAway("the test says so, after the effect")
            return result

        return shaken
