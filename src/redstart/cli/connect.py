"""How a command that uses a server reaches it: TARGET, URL or a command after `--`; the exit status of each failure.

A server that is named by a file or a module runs in a process of its own, as a client would start it. What it prints to
stderr is shown, and a crash of it does not end the command.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from redstart.cli.output import CONNECT, PROTOCOL, USAGE, CommandError, printable

if TYPE_CHECKING:
    from redstart.client import Client

T = TypeVar("T")

URLS: Final = ("http://", "https://")
WHERE: Final = "file.py, package.module, an installed server, or a URL (default: the project's; or `-- COMMAND …`)"


def server_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that uses a server."""
    group = parser.add_argument_group("the connection")
    newest = "the revision to speak, by its date (default: the newest that both sides know)"
    group.add_argument("--protocol", metavar="REVISION", default="auto", help=newest)
    wait = "for each answer of the server (default 60; 0 for no limit)"
    group.add_argument("--timeout", type=_seconds, default=60.0, metavar="SECONDS", help=wait)
    group.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="a header for a URL")
    bearer = "the bearer token for a URL (or REDSTART_TOKEN)"
    group.add_argument("--token", default=os.environ.get("REDSTART_TOKEN"), help=bearer)
    variable = "a variable for a server that is started"
    group.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help=variable)
    group.add_argument("--quiet", action="store_true", help="do not pass on what a server writes to its stderr")


def _seconds(text: str) -> float | None:
    return number(text, "a number of seconds, or 0 for no limit") or None


def number(text: str, words: str, least: float = 0, most: float = sys.float_info.max) -> float:
    """A number of the command line within its bounds."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not least <= found <= most:
        raise argparse.ArgumentTypeError(f"{words}, not {text}")
    return found


def whole_number(text: str, most: int, least: int = 1, words: str = "a whole number") -> int:
    """A whole number of the command line within its bounds."""
    if not text.isdecimal() or not least <= int(text[: len(str(most)) + 1]) <= most:
        raise argparse.ArgumentTypeError(f"{words} from {least} to {most}, not {text}")
    return int(text)


class Place(NamedTuple):
    """Where the server is: a URL, or a command that starts it; and how to name it to a person."""

    target: str | list[str]
    shown: str
    own: bool = False
    """Whether `redstart run` serves it, so that its newest revision is known without a probe."""


def place(target: str | None, passed_on: Sequence[str]) -> Place:
    """The server that is meant. With a TARGET, what follows `--` is for its script; without, it is a command."""
    if target is None and passed_on:
        return Place(list(passed_on), " ".join(passed_on))
    if target is not None and target.startswith(URLS):
        if passed_on:
            raise CommandError(f"{target} is a URL: no script there gets what follows `--`")
        return Place(target, target)
    from redstart.cli.project import chosen, find

    target = chosen(target)
    find(target)
    more = ["--", *passed_on] if passed_on else []
    return Place([sys.executable, "-m", "redstart", "run", target, *more], target, own=True)


def is_target(word: str) -> bool:
    """Whether a word has the form of a TARGET, and not of the name of a tool.

    >>> [is_target(word) for word in ("server.py", "https://example.com/mcp", "add", "notes://todo")]
    [True, True, False, False]
    """
    if word.startswith(URLS) or word.partition(":")[0].endswith(".py"):
        return True
    return Path(word).is_dir() and not word.isidentifier()


def parted(words: Sequence[str], passed_on: Sequence[str]) -> tuple[str | None, list[str]]:
    """TARGET and the other words of a command, where TARGET may be left out.

    >>> parted(["server.py", "add"], []), parted(["add"], ["npx", "server"]), parted(["shop", "add"], [])
    (('server.py', ['add']), (None, ['add']), ('shop', ['add']))
    """
    if not words:
        return None, []
    if is_target(words[0]) or len(words) > 1:
        return words[0], list(words[1:])
    return None, list(words)


def parted_with_arguments(
    arguments: argparse.Namespace, is_argument: Callable[[str], bool]
) -> tuple[str | None, str | None, list[str]]:
    """TARGET, the name of a tool, prompt or resource, and its arguments; the first two may be left out."""
    words = arguments.words
    first = next((n for n, word in enumerate(words) if is_argument(word)), len(words))
    target, rest = parted(words[:first], arguments.passed_on)
    if len(rest) > 1:
        raise CommandError(f"{rest[1]} is not an argument: write name=value")
    return target, rest[0] if rest else None, words[first:]


def is_pair(word: str) -> bool:
    """Whether a word is `name=text`, and not a URI."""
    return "=" in word and "://" not in word


@contextmanager
def in_words(shown: str = "the server", quiet: bool = True, own: bool = False) -> Iterator[None]:
    """Failures of a client as `CommandError`, with their exit status. `own`: `redstart run` serves it."""
    from redstart.client import ClientError, ConnectionClosed, HttpError, InvalidReply, NotSupported, RequestError

    try:
        yield
    except RequestError as error:
        hint = sampling_hint(str(error))
        if isinstance(error.__cause__, HttpError) and error.__cause__.status == 401:
            hint += _http_hint(401)
        raise CommandError(printable(f"{shown} answered with an error: {error}") + hint, PROTOCOL) from error
    except (InvalidReply, NotSupported) as error:
        refused = error.__cause__  # a path where there is nothing, found after other paths were tried
        if isinstance(refused, HttpError):
            raise CommandError(printable(str(error)) + _http_hint(refused.status), CONNECT) from error
        raise CommandError(printable(str(error)), PROTOCOL) from error
    except ConnectionClosed as error:
        if own and error.exit_status == USAGE and any("redstart: " in line for line in error.stderr):
            said = "\n".join(error.stderr).removeprefix("redstart: ") if quiet else ""
            raise CommandError(said) from error  # nothing was begun, and `redstart run` has said why
        text = str(error).partition("; the end of its stderr")[0]
        if error.exit_status is not None:
            text = f"{shown} ended with exit status {error.exit_status}"
        said = "".join(f"\n  {line}" for line in error.stderr) if quiet else ""  # else it has been passed on already
        raise CommandError(printable(text + said), CONNECT) from error
    except HttpError as error:
        raise CommandError(printable(str(error)) + _http_hint(error.status), CONNECT) from error
    except (ClientError, TimeoutError, OSError) as error:
        raise CommandError(printable(str(error) or type(error).__name__), CONNECT) from error


def sampling_hint(text: str) -> str:
    """The advice for an error about sampling. Servers word it in their own ways, so the word itself is looked for."""
    if "sampling" not in text.casefold():
        return ""
    return "\nThe command line has no model, so it does not declare sampling: use a client that has one."


def _http_hint(status: int) -> str:
    if status in (401, 403):
        return "\nGive a token with --token or REDSTART_TOKEN, or another header with --header NAME:VALUE."
    if status in (404, 405):
        return "\nThe endpoint may have another path: most servers have /mcp."
    return ""


def pairs(given: Sequence[str], mark: str, option: str) -> dict[str, str]:
    """`NAME:VALUE` or `KEY=VALUE`, as a dict."""
    split = [word.partition(mark) for word in given]
    for name, found, _ in split:
        if not name.strip() or not found:
            raise CommandError(f"write {option} {'NAME:VALUE' if mark == ':' else 'KEY=VALUE'}")
    return {name.strip(): value.strip() if mark == ":" else value for name, _, value in split}


def check_revision(protocol: str) -> None:
    """CommandError if `--protocol` is not the date of a revision."""
    from redstart.client.dialects import HANDSHAKE_VERSIONS, MODERN_VERSIONS

    known = (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS)
    if protocol not in ("auto", *known):
        raise CommandError(f"--protocol is one of {', '.join(known)}, not {protocol}")


def connection_options(arguments: argparse.Namespace, where: Place) -> dict[str, Any]:
    """The options of a client that those of the command line mean; CommandError if one does not fit the server."""
    headers, env = pairs(arguments.header, ":", "--header"), pairs(arguments.env, "=", "--env")
    if isinstance(where.target, str):
        return {"timeout": arguments.timeout, "headers": headers or None, "token": arguments.token or None}
    if headers:
        raise CommandError("--header is for a URL; --env KEY=VALUE sets a variable of a server that is started")
    stderr = "capture" if arguments.quiet else "inherit"
    return {"timeout": arguments.timeout, "env": env or None, "stderr": stderr}


def client_of(arguments: argparse.Namespace, where: Place, **options: Any) -> Client:
    """A client for the server; CommandError if an option does not fit it."""
    from redstart.client import Client, ClientError
    from redstart.client.dialects import MODERN_VERSIONS

    check_revision(arguments.protocol)
    given = {"protocol": arguments.protocol, **connection_options(arguments, where), **options}
    if where.own and arguments.protocol == "auto":
        given["protocol"] = MODERN_VERSIONS[-1]
    try:
        return Client(where.target, **given)
    except ClientError as error:
        raise CommandError(str(error), CONNECT) from None
    except (TypeError, ValueError) as error:
        raise CommandError(str(error).removeprefix("Client: ")) from None


def use(
    arguments: argparse.Namespace,
    target: str | None,
    work: Callable[[Client], Coroutine[Any, Any, int]],
    **options: Any,
) -> int:
    """Connect, do the work, and return its status. Ctrl-C ends it in order, so that no server is left over."""
    import asyncio  # slow to load, and --help does not need it

    where = place(target, arguments.passed_on)
    client = client_of(arguments, where, **options)

    async def connected() -> int:
        async with client:
            return await work(client)

    with in_words(where.shown, arguments.quiet, where.own):
        return asyncio.run(connected())
