"""From what the user names to a transport: a Server, a URL, a command, a Python file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from redstart.client.memory import MemoryTransport
from redstart.client.stdio import StdioTransport
from redstart.client.transport import Transport
from redstart.features.principal import principal_key


def transport_for(
    target: Any,
    *,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: str = "inherit",
    timeout: float | None = None,
    user: Any = None,
    token: str | None = None,
) -> Transport:
    """The transport that reaches `target`; TypeError or ValueError says what a target may be."""
    _check_who(target, user, token, headers)
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        from redstart.client.http import HttpTransport

        if token is not None:
            headers = {**(headers or {}), "Authorization": f"Bearer {token}"}
        return HttpTransport(target, headers=headers, timeout=timeout)
    if isinstance(target, list | tuple):
        if not target:
            raise ValueError("an empty list is not a command")
        return StdioTransport(target, env=env, cwd=cwd, stderr=stderr)
    if isinstance(target, str | os.PathLike):
        path = os.fspath(target)
        if not isinstance(path, str) or not path.endswith(".py"):
            raise ValueError(f"{target!r} is not a target: {_TARGETS}")
        return StdioTransport([sys.executable, path], env=env, cwd=cwd, stderr=stderr)
    if not hasattr(target, "runtime") or not hasattr(target, "dispatch"):  # a Server, which is not imported for this
        raise TypeError(f"{target!r} is not a target: {_TARGETS}")
    return MemoryTransport(target, user, token)


def _check_who(target: Any, user: Any, token: str | None, headers: Mapping[str, str] | None) -> None:
    """Refuse what cannot say who the client is."""
    if user is None and token is None:
        return
    if user is not None and token is not None:
        raise ValueError("give either user= or token=: a token is what auth= makes a user of")
    if token is not None and not token.strip():
        raise TypeError("token= must be a non-empty str")
    principal_key(user)
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        if user is not None:
            raise ValueError("user= needs a Server object; a server behind a URL knows its users by token=")
        if any(name.lower() == "authorization" for name in headers or ()):
            raise ValueError("give either token= or the header Authorization, not both")
    elif isinstance(target, str | list | tuple | os.PathLike):
        raise ValueError("user= and token= need a Server object or a URL: a command has no users")
    elif token is not None and getattr(target, "auth", None) is None:
        raise ValueError("this server has no auth= that could read the token; user= says who the client is without it")


_TARGETS = 'expected a Server, a URL with http:// or https://, a command as a list ["npx", "server"], or a .py file'
