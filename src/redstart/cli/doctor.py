"""`redstart doctor [file.py]`: what is installed and set up, step by step, and what to do about what is not.

A server is started as a client would start it, in a process of its own with a time limit. Only one that has answered is
also loaded here, for its store and its keys. No key is ever printed.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from redstart.cli import installation
from redstart.cli.installation import EXTRAS, Found, redacted

LINES = 8
"""How much of a server's stderr is shown."""


class Case:
    """What is examined, and what the start of the server has shown."""

    def __init__(self, target: str | None, seconds: float) -> None:
        self.target = target
        self.seconds = seconds
        self.keys: list[str | bytes] = []
        self.noise: list[str] = []
        self.answers: dict[str, Found] = {}


class Step(NamedTuple):
    name: str
    look: Callable[[Case], Found]
    needs: str = ""
    """The step without which this one says nothing."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", help="what `redstart run` takes (default: look at the installation only)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--timeout", type=float, default=10, help="seconds for each answer of the server (default 10)")


def act(arguments: argparse.Namespace) -> int:
    if arguments.target is not None and (missing := _missing(arguments.target)):
        sys.stderr.write(f"redstart: {missing}\n")
        return 2
    rows: list[dict[str, str]] = []
    for step, found in _examine(Case(arguments.target, arguments.timeout)):
        rows.append({"step": step, **found._asdict()})
        if not arguments.json:
            _print(step, found)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 1 if any(row["state"] == "fail" for row in rows) else 0


def _missing(target: str) -> str:
    """Why there is no such target; nothing is said where there is one."""
    try:
        from redstart.cli.target import TargetError, find
    except ImportError:  # for the steps to say
        return ""
    try:
        find(target)
    except TargetError as error:
        return str(error)
    return ""


def _examine(case: Case) -> Iterator[tuple[str, Found]]:
    """The steps in their order; one that needs a failed one is skipped, and says which."""
    hindered: dict[str, str] = {}
    for step in ALONE if case.target is None else WITH_SERVER:
        failed = hindered.get(step.needs)
        found = Found("skip", f"not looked at, because {failed} failed") if failed else step.look(case)
        if failed or found.state == "fail":
            hindered[step.name] = failed or step.name
        yield step.name, found


def _print(step: str, found: Found) -> None:
    """A line; what to do goes on a line of its own, except where nothing is wrong."""
    before = "; " if found.state == "ok" else "\n"
    text = found.found + (before + found.advice if found.advice else "")
    line = f"{found.state:<5} {step:<15} " + text.replace("\n", "\n" + 6 * " ")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)


# ---------------------------------------------------------------- a server


class _Ear(logging.Handler):
    """Hears what the client says of lines on stdout that are no messages."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    def emit(self, record: logging.LogRecord) -> None:
        self._case.noise.append(redacted(record.getMessage()))


def _start(case: Case) -> Found:
    log, ear = logging.getLogger("redstart.client"), _Ear(case)
    log.addHandler(ear)
    try:
        with redirect_stderr(io.StringIO()) as said:
            found = asyncio.run(_visit(case))
    finally:
        log.removeHandler(ear)
    if found.state != "fail":
        return found
    lines = redacted(said.getvalue()).strip().splitlines()
    last = lines[-LINES:]
    head = [line for line in lines if line.startswith("redstart: ") and line not in last]  # above a long traceback
    return found._replace(found="\n  ".join((found.found, *case.noise[:1], *head, *last)))


async def _visit(case: Case) -> Found:
    """Start the server as a client does, and ask it in both eras: that the other one is served shows on any pipe."""
    from redstart.client import Client, ClientError, ConnectionClosed
    from redstart.client.dialects import HANDSHAKE_VERSIONS

    command = [sys.executable, "-m", "redstart", "run", str(case.target)]
    advice = f"see all that it says with: redstart run {case.target} < {os.devnull}"
    began = perf_counter()
    try:
        async with Client(command, protocol=HANDSHAKE_VERSIONS[-1], timeout=case.seconds) as client:
            after, info = perf_counter() - began, client.server_info
            for step, ask in ASKED.items():
                try:
                    case.answers[step] = await ask(client)
                except (ClientError, TimeoutError) as error:
                    case.answers[step] = Found("fail", redacted(str(error)), "look at the log of the server")
    except ConnectionClosed as error:
        return Found("fail", f"it ended with exit status {error.exit_status} before it answered", advice)
    except TimeoutError as error:
        return Found("fail", str(error), "let nothing wait or work while the file is imported; or give it a --timeout")
    except ClientError as error:
        return Found("fail", redacted(str(error)), "look at the log of the server")
    return Found("ok", f"{info.name} {info.version} answered initialize ({HANDSHAKE_VERSIONS[-1]}) after {after:.2f} s")


async def _discover(client: Any) -> Found:
    from redstart.client.dialects import MODERN_VERSIONS, ModernDialect

    version = MODERN_VERSIONS[-1]
    await client.request("server/discover", ModernDialect(version, {}, {"name": "redstart"}).params(None, {}))
    return Found("ok", f"server/discover ({version}) is answered too")


async def _offers(client: Any) -> Found:
    tools, prompts = await client.list_tools(), await client.list_prompts()
    resources, templates = await client.list_resources(), await client.list_resource_templates()
    counts = {"tool": len(tools), "prompt": len(prompts), "resource": len(resources), "template": len(templates)}
    return Found("ok", ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in counts.items()))


ASKED = {"discover": _discover, "offers": _offers}


def _answer(name: str, case: Case) -> Found:
    return case.answers[name]


def _stdout(case: Case) -> Found:
    if not case.noise:
        return Found("ok", "nothing but the protocol")
    advice = "what prints before redstart takes stdout is not in the file: look for a sitecustomize.py or a .pth file"
    return Found("fail", "\n  ".join(case.noise[:LINES]), advice)


def _store(case: Case) -> Found:
    from redstart.cli.target import TargetError, load

    try:
        with redirect_stdout(sys.stderr):
            server = load(str(case.target))
    except TargetError as error:
        advice = "a file that is loaded twice, one after the other, should not mind"
        return Found("fail", f"it started, but does not load once more: {redacted(str(error))}", advice)
    case.keys = server.runtime.given_keys
    store = server.options["store"]
    if store is None or store == "memory://":
        return Found("ok", "memory://: what happens once happens once in each process")
    # The rest of a URL may hold a password.
    return Found("ok", store.partition("://")[0] + "://…" if isinstance(store, str) else type(store).__name__)


def _keys(case: Case) -> Found:
    return installation.keys(case.keys)


INSTALLATION = (
    Step("python", installation.python),
    Step("redstart", installation.package),
    Step("libraries", installation.libraries, needs="redstart"),
    *(Step(f"extra {name}", partial(installation.extra, name), needs="redstart") for name in EXTRAS),
    Step("event loop", installation.event_loop, needs="libraries"),
    Step("request states", installation.request_states, needs="libraries"),
)
ALONE = (*INSTALLATION, Step("keys", _keys, needs="libraries"))
WITH_SERVER = (
    *INSTALLATION,
    Step("start", _start, needs="libraries"),
    Step("stdout", _stdout, needs="start"),
    *(Step(name, partial(_answer, name), needs="start") for name in ASKED),
    Step("store", _store, needs="start"),
    Step("keys", _keys, needs="store"),  # a server may have its own
)
