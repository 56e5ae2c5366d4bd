"""What `redstart doctor` reports about an installation: the interpreter, the libraries, the extras, the keys.

No key is ever printed. What needs a library is imported inside of the steps, so that a step can report its absence.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import NamedTuple

from redstart.features.startup_errors import IN_CODE

OLDEST = (3, 11)
EXTRAS = {
    "client": "a Client of URLs",
    "auth": "tokens of an issuer: JWT, Introspection",
    "seal": "encrypted request states",
    "redis": "a store at redis://",
    "postgres": "a store at postgresql://",
    "validate": "keywords of JSON Schema beyond the usual ones",
    "dev": "hearing of changed files at once, not each second",
    "otel": "spans and metrics of requests",
}
"""What each extra is for; empty if no code uses it yet."""
MODULES = {"opentelemetry-api": "opentelemetry"}
"""Libraries whose module has another name."""
SECRETS = re.compile(IN_CODE + "|[0-9A-Fa-f]{32,}")
"""Secrets in code, and everything that looks like the output of `openssl rand -hex`."""


class Report(NamedTuple):
    """The result of one step; `state` is ok, warn, fail or skip."""

    state: str
    found: str
    advice: str = ""


def python(_: object) -> Report:
    found = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info[:2] < OLDEST:
        return Report("fail", found, f"redstart needs Python {OLDEST[0]}.{OLDEST[1]} or newer")
    return Report("ok", found)


def package(_: object) -> Report:
    import redstart

    found = f"{redstart.__version__}, {Path(redstart.__file__).parent}"
    try:
        metadata.version("redstart")
    except metadata.PackageNotFoundError:
        return Report("fail", f"{found}, not installed, so that what it needs is not known", "pip install redstart")
    return Report("ok", found)


def libraries(_: object) -> Report:
    versions, absent, wrong = _installed("")
    if absent or wrong:
        missing = (f"{name} is not installed" for name in absent)
        return Report("fail", ", ".join((*missing, *wrong, *versions)), "pip install --upgrade redstart")
    return Report("ok", ", ".join(versions))


def extra(name: str, _: object) -> Report:
    purpose, install = EXTRAS[name], f'pip install "redstart[{name}]"'
    versions, absent, wrong = _installed(name)
    if absent:  # another extra may have installed one of two libraries
        if purpose:
            return Report("ok", f"not installed; for {purpose}", install)
        return Report("ok", "not installed; nothing uses it yet")
    if wrong:
        return Report("warn", ", ".join((*wrong, *versions)), install.replace("install", "install --upgrade", 1))
    return Report("ok", ", ".join(versions), f"for {purpose}" if purpose else "nothing uses it yet")


def _installed(extra: str) -> tuple[list[str], list[str], list[str]]:
    """The libraries of an extra, or of redstart itself: those installed, those absent, and what is wrong."""
    versions, absent, wrong = [], [], []
    for line in metadata.requires("redstart") or ():
        marked = re.search(r"""extra == ['"]([\w-]+)""", line)
        if (marked[1] if marked else "") != extra or ("!= 'win32'" in line and sys.platform == "win32"):
            continue
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        try:
            versions.append(f"{name} {(version := metadata.version(name))}")
            import_module(MODULES.get(name, name.replace("-", "_")))
        except metadata.PackageNotFoundError:
            absent.append(name)
            continue
        except Exception as error:
            wrong.append(f"{name} cannot be imported ({error})")
        least = re.search(r">=([\d.]+)", line)
        if least and _numbers(version) < _numbers(least[1]):
            wrong.append(f"{name} must be {least[1]} or newer")
    return versions, absent, wrong


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def event_loop(_: object) -> Report:
    from redstart.transports.loop import new_loop

    loop = new_loop()
    loop.close()
    asked = os.environ.get("REDSTART_LOOP")
    return Report("ok", type(loop).__module__.partition(".")[0] + (f" (REDSTART_LOOP={asked})" if asked else ""))


def request_states(_: object) -> Report:
    from redstart.asking.seal import aes_gcm

    if aes_gcm() is not None:
        return Report("ok", "encrypted (AES-256-GCM)")
    found = "clients can read what a dialogue remembers; results of steps stay in the store"
    return Report("warn", f"only signed (HMAC-SHA256): {found}", 'pip install "redstart[seal]"')


def keys(given: Sequence[str | bytes]) -> Report:
    from redstart.asking.seal import MAKE_ONE, SHORT_KEY, found_keys
    from redstart.features.errors import SettingsError

    try:
        source, listed = found_keys(given)
    except SettingsError as error:
        return Report("fail", error.problem, error.advice)
    if not listed:
        found = "one made by the process: dialogues do not survive a restart, and do not work across several workers"
        return Report("warn", found, f"set REDSTART_KEYS or REDSTART_KEY_FILE; {MAKE_ONE}")
    short = sum(len(key) < SHORT_KEY for key in listed)
    found = f"{len(listed)} from {source}" + ("; the first one seals, all of them open" if len(listed) > 1 else "")
    if short:
        return Report("warn", f"{found}; {short} with fewer than {SHORT_KEY} characters", MAKE_ONE)
    return Report("ok", found)


def redacted(text: str) -> str:
    """A text from the server, without keys and passwords."""
    with suppress(ValueError, OSError, ImportError):  # without keys there is nothing to hide
        from redstart.asking.seal import found_keys

        for key in found_keys(())[1]:
            text = text.replace(key.decode(errors="replace"), "***")
    return SECRETS.sub(lambda match: (match[1] or "") + "***", text)
