"""`redstart doctor [file.py | URL | client]`: what is installed and set up, step by step, and what to do about it.

A server is started as a client would start it, in a process of its own with a time limit. If it has answered, it is
also loaded here, to look at its store and its keys. No key is ever printed.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from logging.handlers import BufferingHandler
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from redstart.cli import installation
from redstart.cli.installation import EXTRAS, Report, redacted
from redstart.cli.output import counted

if TYPE_CHECKING:
    from redstart.client import Client

LINES = 8
"""How many lines of a server's stderr are shown."""


class Case:
    """What is examined, and what later steps need from the start of the server."""

    def __init__(self, target: str | None, seconds: float) -> None:
        self.target = target
        self.seconds = seconds
        self.keys: list[str | bytes] = []
        self.noise: list[str] = []
        self.answers: dict[str, Report] = {}


class DoctorStep(NamedTuple):
    """One step: its name, and the function that looks."""

    name: str
    look: Callable[..., Report]
    needs: str = ""
    """The step that must succeed before this one."""


def act(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, str]] = []
    for step, report in _steps(arguments):
        rows.append({"step": step, **report._asdict()})
        if not arguments.json:
            _print(step, report)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 1 if any(row["state"] == "fail" for row in rows) else 0


def _steps(arguments: argparse.Namespace) -> Iterator[tuple[str, Report]]:
    """The results of the steps, for a URL, a client, a server, or the installation alone."""
    target: str | None = arguments.target
    if target is not None and target.startswith(("http://", "https://")):
        from redstart.cli.configs.launch import pairs, remote
        from redstart.cli.doctor_url import STEPS, UrlCase

        launch = remote(target, pairs(arguments.header, ":", "--header 'NAME: VALUE'"))
        case = UrlCase(launch.url, launch.headers, arguments.timeout)
        return _examine(case, [DoctorStep(*step) for step in STEPS])
    if target is not None and not os.path.exists(target) and _is_client(target):
        from redstart.cli.doctor_client import examined

        return examined(target, arguments.timeout)
    if target is not None:
        _find(target)
    return _examine(Case(target, arguments.timeout), ALONE if target is None else WITH_SERVER)


def _is_client(target: str) -> bool:
    try:
        from redstart.cli.configs.clients import CLIENTS
    except ImportError:  # the steps report it
        return False
    return target in CLIENTS


def _find(target: str) -> None:
    """CommandError if the target does not exist."""
    try:
        from redstart.cli.target import find
    except ImportError:  # the steps report it
        return
    find(target)


def _examine(case: object, steps: Iterable[DoctorStep]) -> Iterator[tuple[str, Report]]:
    """The results of the steps in their order. A step that needs a failed one is skipped."""
    hindered: dict[str, str] = {}
    for step in steps:
        failed = hindered.get(step.needs)
        report = Report("skip", f"not looked at, because {failed} failed") if failed else step.look(case)
        if failed or report.state == "fail":
            hindered[step.name] = failed or step.name
        yield step.name, report


def _print(step: str, report: Report) -> None:
    """Print one result. Advice has a line of its own, unless the state is ok."""
    before = "; " if report.state == "ok" else "\n"
    text = report.found + (before + report.advice if report.advice else "")
    line = f"{report.state:<5} {step:<15} " + text.replace("\n", "\n" + 6 * " ")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)


# ---------------------------------------------------------------- a server


def _start(case: Case) -> Report:
    """Start the server, and collect what the client logs about lines on stdout that are not messages."""
    log, records = logging.getLogger("redstart.client"), BufferingHandler(sys.maxsize)
    log.addHandler(records)
    try:
        with redirect_stderr(io.StringIO()) as stderr:
            report = asyncio.run(_visit(case))
    finally:
        log.removeHandler(records)
    case.noise = [redacted(record.getMessage()) for record in records.buffer]
    if report.state != "fail":
        return report
    lines = redacted(stderr.getvalue()).strip().splitlines()
    last = lines[-LINES:]
    head = [line for line in lines if line.startswith("redstart: ") and line not in last]  # above a long traceback
    return report._replace(found="\n  ".join((report.found, *case.noise[:1], *head, *last)))


async def _visit(case: Case) -> Report:
    """Start the server as a client does, and ask it in both eras: one pipe serves both."""
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
                    case.answers[step] = Report("fail", redacted(str(error)), "look at the log of the server")
    except ConnectionClosed as error:
        return Report("fail", f"it ended with exit status {error.exit_status} before it answered", advice)
    except TimeoutError as error:
        return Report("fail", str(error), "let nothing wait or work while the file is imported; or give it a --timeout")
    except ClientError as error:
        return Report("fail", redacted(str(error)), "look at the log of the server")
    return Report(
        "ok", f"{info.name} {info.version} answered initialize ({HANDSHAKE_VERSIONS[-1]}) after {after:.2f} s"
    )


async def _discover(client: Client) -> Report:
    from redstart.client.dialects import MODERN_VERSIONS, ModernDialect

    version = MODERN_VERSIONS[-1]
    await client.request("server/discover", ModernDialect(version, {}, {"name": "redstart"}).params(None, {}))
    return Report("ok", f"server/discover ({version}) is answered too")


async def _offers(client: Client) -> Report:
    tools, prompts = await client.list_tools(), await client.list_prompts()
    resources, templates = await client.list_resources(), await client.list_resource_templates()
    counts = {"tool": len(tools), "prompt": len(prompts), "resource": len(resources), "template": len(templates)}
    return Report("ok", ", ".join(counted(count, kind) for kind, count in counts.items()))


ASKED = {"discover": _discover, "offers": _offers}


def _answer(name: str, case: Case) -> Report:
    return case.answers[name]


def _stdout(case: Case) -> Report:
    if not case.noise:
        return Report("ok", "nothing but the protocol")
    advice = "what prints before redstart takes stdout is not in the file: look for a sitecustomize.py or a .pth file"
    return Report("fail", "\n  ".join(case.noise[:LINES]), advice)


def _store(case: Case) -> Report:
    from redstart.cli.target import TargetError, load

    try:
        with redirect_stdout(sys.stderr):
            server = load(str(case.target))
    except TargetError as error:
        advice = "a file that is loaded twice, one after the other, should not mind"
        return Report("fail", f"it started, but does not load once more: {redacted(str(error))}", advice)
    case.keys = server.runtime.given_keys
    store = os.environ.get("REDSTART_STORE") or server.options["store"]  # as `redstart run` does
    if store is None or store == "memory://":
        return Report("ok", "memory://: what happens once happens once in each process")
    # The rest of a URL may hold a password.
    return Report("ok", store.partition("://")[0] + "://…" if isinstance(store, str) else type(store).__name__)


def _keys(case: Case) -> Report:
    return installation.keys(case.keys)


INSTALLATION = (
    DoctorStep("python", installation.python),
    DoctorStep("redstart", installation.package),
    DoctorStep("libraries", installation.libraries, needs="redstart"),
    *(DoctorStep(f"extra {name}", partial(installation.extra, name), needs="redstart") for name in EXTRAS),
    DoctorStep("event loop", installation.event_loop, needs="libraries"),
    DoctorStep("request states", installation.request_states, needs="libraries"),
)
ALONE = (*INSTALLATION, DoctorStep("keys", _keys, needs="libraries"))
WITH_SERVER = (
    *INSTALLATION,
    DoctorStep("start", _start, needs="libraries"),
    DoctorStep("stdout", _stdout, needs="start"),
    *(DoctorStep(name, partial(_answer, name), needs="start") for name in ASKED),
    DoctorStep("store", _store, needs="start"),
    DoctorStep("keys", _keys, needs="store"),  # a server may have its own
)
