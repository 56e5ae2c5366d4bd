"""Why a server does not start, for people: with the line of their code, and without secrets.

Nothing but the standard library is imported here: `redstart doctor` needs it where nothing else may be installed.
"""

from __future__ import annotations

import os
import re
import traceback

_BEFORE = r"""(\bkeys\s*=\s*[\[(]|\bclient_secret\s*=\s*(?=["'])|\bBearerTokens\(\s*\{)"""
_TO_THE_BRACKET = r"""(?:"[^"\n]*"|'[^'\n]*'|\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|[^][(){}"'])*"""
IN_CODE = rf"""{_BEFORE}{_TO_THE_BRACKET}|(?<=://)[^\s'"]+(?=@)"""
"""The secrets that a traceback may show: keys and tokens in a line of code, the user of a URL."""
NOT_SHOWN = (
    *(f"redstart/{room}" for room in ("access", "adopt", "asking", "auth", "cli", "client")),
    *(f"redstart/{room}" for room in ("execution", "features", "server", "store", "testing", "transports")),
    *("importlib", "contextlib.py", "/asyncio/", "uvloop/"),
)
"""Files that are left out of a traceback, because they are not the user's code."""


def not_started(name: str, error: BaseException) -> str:
    """Why a server did not start, without the secrets in lines of code."""
    return f"{name} did not start{where(error)}: {shown(error)}"


def shown(error: BaseException) -> str:
    """An error, and its traceback through the user's own code."""
    lines = traceback.format_exception(error)
    own = [line for line in lines if not any(part in line for part in NOT_SHOWN)]
    summary = "".join(traceback.format_exception_only(error)).rstrip().rpartition("\n")[2]
    return re.sub(IN_CODE, lambda match: (match[1] or "") + "***", f"{summary}\n{''.join(own).rstrip()}")


def where(error: BaseException) -> str:
    """Where in the user's code it happened: the innermost line that is neither Python's nor ours.

    A line of an installed library counts only if there is no other: the server itself may be installed.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    frames = [frame for frame in frames if is_own(frame.filename)] or frames
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def is_own(file: str) -> bool:
    """Whether a file is the user's own: neither ours, nor Python's, nor an installed library's."""
    return _is_foreign(file) and not _is_installed(file)


def _is_foreign(file: str) -> bool:
    """Whether a file is neither ours nor Python's own. (What pip installs may be in a folder of Python's.)"""
    ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
    pythons = os.path.join(os.path.dirname(os.__file__), "")
    return not file.startswith(("<", ours)) and (_is_installed(file) or not file.startswith(pythons))


def _is_installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(os.path.normpath(file).split(os.sep))
