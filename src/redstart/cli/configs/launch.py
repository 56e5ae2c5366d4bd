"""How a client reaches a server: a command with its environment, or a URL with its headers.

A value may refer to a variable of the client's environment as `${NAME}`; each client has its own way to write that.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from redstart.cli.output import CommandError

REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET: Final = re.compile(r"(?i)(?:^|_)(?:token|secret|password|passwd|pwd|api_?key|key|credentials?|auth)(?:$|_)")
"""Names of variables whose values are not written where a client can refer to them."""
SECRET_HEADERS: Final = {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}
INLINE_METADATA = re.compile(r"(?m)^# /// script\s*$")


class LaunchError(CommandError):
    """What was typed cannot become an entry; the text says why."""


class Launch(NamedTuple):
    """A command or a URL."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}


def is_url(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def local(target: str, env: Mapping[str, str]) -> Launch:
    """The command that starts `target` from any folder: absolute paths, because desktop programs have a short PATH.

    A script with inline metadata (PEP 723) is run by uv, which installs what it asks for.
    """
    where, mark, inner = target.rpartition(":")
    file = where if mark and os.path.exists(where) else target
    if not os.path.exists(file):  # a module: it must be found from any directory
        return Launch(sys.executable, ("-m", "redstart", "run", target), {"PYTHONPATH": os.getcwd(), **env})
    path = str(Path(file).resolve())
    uv = shutil.which("uv")
    if uv and file == target and path.endswith(".py") and INLINE_METADATA.search(Path(path).read_text("utf-8")):
        return Launch(uv, ("run", "--script", path), env)
    suffix = f":{inner}" if file != target else ""
    return Launch(sys.executable, ("-m", "redstart", "run", path + suffix), env)


def remote(url: str, headers: Mapping[str, str]) -> Launch:
    parts = urlsplit(url)
    if not parts.hostname or parts.username or parts.password:
        raise LaunchError(f"{parts.scheme}://…: a URL needs a host, and no user or password in it; write --header")
    return Launch(url=url, headers=headers)


def pairs(given: Sequence[str], mark: str, example: str) -> dict[str, str]:
    """`K=V` or `Name: value` of the command line; without a value the variable of that name is referred to."""
    found = {}
    for text in given:
        key, sign, value = text.partition(mark)
        key = key.strip()
        if not key or (not sign and mark != "=") or "\n" in text:
            raise LaunchError(f"write {example}")
        found[key] = value.strip() if mark == ":" else value if sign else f"${{{key}}}"
    return found


def references(launch: Launch) -> list[str]:
    """The variables that the entry refers to, in their order."""
    values = [*launch.env.values(), *launch.headers.values()]
    return list(dict.fromkeys(name for value in values for name in REFERENCE.findall(value)))


def without_secrets(launch: Launch) -> tuple[Launch, list[str]]:
    """The same launch with a reference instead of each value that is a secret by its name, and these names."""
    hidden = [name for name, value in launch.env.items() if SECRET.search(name) and not REFERENCE.search(value)]
    env = {name: f"${{{name}}}" if name in hidden else value for name, value in launch.env.items()}
    for name, value in launch.headers.items():
        if name.lower() in SECRET_HEADERS and not REFERENCE.search(value):
            raise LaunchError(
                f"the value of {name} would be written into the file, but the client can read it from its environment: "
                f"write --header '{name}: Bearer ${{TOKEN}}' and set TOKEN"
            )
    return launch._replace(env=env), hidden


def resolved(launch: Launch, environment: Mapping[str, str], given: Mapping[str, str]) -> Launch:
    """The launch with the values that a client would put in; a variable that is not set becomes an empty text."""

    def value(match: re.Match[str]) -> str:
        return given.get(match[1], environment.get(match[1], ""))

    env = {name: REFERENCE.sub(value, text) for name, text in launch.env.items()}
    return launch._replace(env=env, headers={name: REFERENCE.sub(value, text) for name, text in launch.headers.items()})
