"""From what the user names to a transport: a Server, a URL, a command, a Python file, a configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from redstart.client.config import from_config, is_config
from redstart.client.errors import ClientError
from redstart.client.options import ClientOptions
from redstart.client.stdio import StdioTransport
from redstart.client.transport import Transport
from redstart.features.principal import principal_key

_TARGETS = (
    'expected a Server, a URL with http:// or https://, a command as a list ["npx", "server"], a .py file, '
    'or a configuration with "mcpServers", as a dict or a .json file'
)


def transport_for(target: object, options: ClientOptions) -> Transport:
    """The transport that reaches `target`; TypeError or ValueError says what a target may be."""
    if is_config(target):
        target, options = from_config(target, options)
    elif options["server"] is not None:
        raise ValueError("server= names an entry of a configuration, and the target is not one")
    user, token = options["user"], options["token"]
    if user is not None and token is not None:
        raise ValueError("give either user= or token=: a token is what auth= makes a user of")
    if token is not None and not token.strip():
        raise TypeError("token= must be a non-empty str")
    principal_key(user)
    is_url = isinstance(target, str) and target.startswith(("http://", "https://"))
    if options["auth"] is not None and not is_url:
        raise ValueError("auth= needs a URL: other servers have no authorization server")
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        return _url(target, options)
    if isinstance(target, str | os.PathLike | list | tuple):
        return _command(target, options)
    return _server(target, options)


def _url(url: str, options: ClientOptions) -> Transport:
    headers = dict(options["headers"] or {})
    if options["user"] is not None:
        raise ValueError("user= needs a Server object; a server behind a URL knows its users by token=")
    if options["token"] is not None or options["auth"] is not None:
        if options["token"] is not None and options["auth"] is not None:
            raise ValueError("give either token= or auth=: auth= gets a token")
        if any(name.lower() == "authorization" for name in headers):
            raise ValueError("give either token= or auth= or the header Authorization, not more than one")
    if options["token"] is not None:
        headers["Authorization"] = f"Bearer {options['token']}"
    for name, value in headers.items():
        if value != value.strip() or not (value.isascii() and value.isprintable()):  # not shown: it may be a secret
            raise ValueError(f"the header {name} must be visible ASCII characters, with spaces only between them")
    try:
        from redstart.client.http import HttpTransport
        from redstart.client.http_endpoint import HttpEndpoint
    except ImportError as error:
        raise ClientError('a URL needs httpx2: pip install "redstart[client]"') from error
    authorization = None
    if options["auth"] is not None:
        from redstart.client.oauth.authorization import Authorization

        authorization = Authorization(options["auth"], url)
    return HttpTransport(HttpEndpoint(url, headers, options["timeout"], authorization))


def _command(target: str | os.PathLike[str] | Sequence[str], options: ClientOptions) -> Transport:
    if options["user"] is not None or options["token"] is not None:
        raise ValueError("user= and token= need a Server object or a URL: a command has no users")
    if isinstance(target, str | os.PathLike):
        path = os.fspath(target)
        if not path.endswith(".py"):
            raise ValueError(f"{target!r} is not a target: {_TARGETS}")
        target = [sys.executable, path]
    if not target:
        raise ValueError("an empty list is not a command")
    return StdioTransport(target, options)


def _server(target: object, options: ClientOptions) -> Transport:
    from redstart.client.memory import MemoryTransport
    from redstart.server.server import Server

    if not isinstance(target, Server):
        raise TypeError(f"{target!r} is not a target: {_TARGETS}")
    if options["token"] is not None and target.options["auth"] is None:
        raise ValueError("this server has no auth= that could read the token; user= says who the client is without it")
    return MemoryTransport(target, options["user"], options["token"])
