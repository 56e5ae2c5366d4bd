"""Start a server exactly as a client would, and say at which step it fails.

A desktop program starts its servers with a short PATH and without what a shell has set. What works only in a terminal
fails here too.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from redstart.cli.configs.launch import Launch

SHORT_PATH: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
KEPT: Final = {"HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "PATH"}
"""What a desktop program passes on."""


class StartError(Exception):
    """A server cannot be used; the step, the reason, and what to do."""

    def __init__(self, step: str, reason: str, advice: str) -> None:
        self.step, self.reason, self.advice = step, reason, advice
        super().__init__(f"{step}: {reason}\n{advice}")


class Visit(NamedTuple):
    """What a server has answered."""

    name: str
    version: str
    revision: str
    tools: int
    authorization: bool = False
    """Whether it has answered only that it wants a token."""


def short_path() -> str:
    return SHORT_PATH.get(sys.platform, os.environ.get("PATH", ""))


def found_command(launch: Launch) -> str:
    """The program of an entry, as a desktop program finds it; StartError if it does not."""
    path = launch.env.get("PATH", short_path())
    if program := shutil.which(launch.command, path=path):
        return program
    reason = f"there is no program {launch.command}"
    if os.path.isabs(launch.command):
        raise StartError("command", reason, "install it again, or run redstart install again")
    where = shutil.which(launch.command)
    advice = f"write the whole path {where}" if where else "install it, and write its whole path"
    raise StartError("command", f"{reason} in {path}, the PATH of a desktop program", advice)


def visit(launch: Launch, seconds: float) -> Visit:
    """Start the server, or connect to it, shake hands and list its tools."""
    if not launch.url:
        found_command(launch)
    return asyncio.run(_visited(launch, seconds))


async def _visited(launch: Launch, seconds: float) -> Visit:
    from redstart.client import Client, ClientError, ConnectionClosed

    step = "connect" if launch.url else "start"
    target: object = launch.url or _clean(launch)
    options = _options(launch, seconds)
    try:
        async with Client(target, protocol="auto", **options) as client:  # type: ignore[arg-type]
            step = "tools/list"
            tools = len(await client.list_tools()) if "tools" in client.server_capabilities else 0
            return Visit(client.server_info.name, client.server_info.version, client.protocol_version, tools)
    except ConnectionClosed as error:
        advice = "read its log" if launch.url else f"run it in a terminal: {' '.join((launch.command, *launch.args))}"
        raise StartError(step, _words(error), advice) from None
    except TimeoutError as error:
        raise StartError(
            step, str(error), "let nothing wait while the file is imported; or give it a --timeout"
        ) from None
    except ClientError as error:
        if bool(launch.url) and await asyncio.to_thread(_is_unauthorized, launch, seconds):
            return Visit("", "", "", 0, authorization=True)
        raise StartError(step, str(error), "look at the URL and at the log of the server") from None


def _is_unauthorized(launch: Launch, seconds: float) -> bool:
    """Whether the server answers 401: a client reports what is in the body of such an answer, not its status."""
    parts = urlsplit(launch.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **launch.headers}
    try:
        connection.request("POST", parts.path or "/", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', headers)
        return connection.getresponse().status == 401
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _options(launch: Launch, seconds: float) -> dict[str, object]:
    if launch.url:
        return {"headers": dict(launch.headers), "timeout": seconds}
    env = {"PATH": short_path(), **launch.env}
    return {"env": env, "cwd": Path.home().anchor or "/", "stderr": "capture", "timeout": seconds}


def _clean(launch: Launch) -> list[str]:
    """The command without the variables of this shell; names only, because a command line is seen by all users."""
    command = [launch.command, *launch.args]
    env = shutil.which("env")
    if sys.platform == "win32" or env is None:
        return command
    dropped = [name for name in os.environ if name not in {*KEPT, *launch.env} and not name.startswith("LC_")]
    return [env, *(word for name in dropped for word in ("-u", name)), *command]


def _words(error: Exception) -> str:
    """An error without the long list of variables that `env` got."""
    text = str(error)
    with suppress(ValueError):
        return "it" + text[text.index("' ", text.index("the server ")) + 1 :]
    return text
