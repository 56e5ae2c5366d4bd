"""From what the user names to a transport: a Server, a URL, a command, a Python file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from redstart.client.memory import MemoryTransport
from redstart.client.stdio import StdioTransport
from redstart.client.transport import Transport


def transport_for(
    target: Any,
    *,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: str = "inherit",
    timeout: float | None = None,
) -> Transport:
    """The transport that reaches `target`; TypeError or ValueError says what a target may be."""
    if stderr not in ("inherit", "capture"):
        raise ValueError(f'stderr={stderr!r}: expected "inherit" or "capture"')
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        from redstart.client.http import HttpTransport

        return HttpTransport(target, headers=headers, timeout=timeout)
    if isinstance(target, list | tuple):
        if not target:
            raise ValueError("an empty list is no command")
        return StdioTransport(target, env=env, cwd=cwd, stderr=stderr)
    if isinstance(target, str | os.PathLike):
        path = os.fspath(target)
        if not isinstance(path, str) or not path.endswith(".py"):
            raise ValueError(f"{target!r} is no target: {_TARGETS}")
        return StdioTransport([sys.executable, path], env=env, cwd=cwd, stderr=stderr)
    if target is None or isinstance(target, bytes | int | dict):
        raise TypeError(f"{target!r} is no target: {_TARGETS}")
    return MemoryTransport(target)


_TARGETS = 'expected a Server, a URL with http:// or https://, a command as a list ["npx", "server"], or a .py file'
