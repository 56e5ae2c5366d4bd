"""The event loop: uvloop where it is installed, unless REDSTART_LOOP=asyncio."""

from __future__ import annotations

import asyncio
import os


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop of the fastest kind there is."""
    if os.environ.get("REDSTART_LOOP") != "asyncio":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()
