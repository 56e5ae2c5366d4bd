"""`redstart test URL`, `redstart test -- COMMAND`: our behavioural suite on any server.

`redstart check` looks at the code of a server; this looks at what it does, revision by revision.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from redstart.cli.connect import WHERE, check_revision, client_of, in_words, pairs, place, server_options
from redstart.cli.output import CONNECT, FAILED, OK, CommandError, counted, one_line, say, show_json, styled

if TYPE_CHECKING:
    from redstart.cli.connect import Place
    from redstart.testing.behaviour import Observation

PASSES_ON: Final = True
SPOKEN: Final = "the revision is spoken"
COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "dim"}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help=WHERE)
    parser.add_argument("--all", action="store_true", help="show the checks that pass, and those that do not fit, too")
    parser.add_argument("--strict", action="store_true", help="warnings count as failures")
    parser.add_argument("--json", action="store_true", help="print one JSON document with every check")
    server_options(parser)
    parser.epilog = (
        "No tool is called that could have an effect: only those that declare readOnlyHint, and names that do not "
        "exist. --protocol tries one revision only. The status is 1 if a check fails."
    )


def act(arguments: argparse.Namespace) -> int:
    import asyncio

    where = place(arguments.target, arguments.passed_on)
    arguments.quiet = True  # the suite starts the server many times
    with in_words(where.shown):
        found = asyncio.run(_findings(arguments, where))
    states = Counter(finding.state for finding in found)
    if arguments.json:
        show_json([finding._asdict() for finding in found])
    else:
        _print(found, arguments.all)
    say(", ".join(_totals(states, found)))
    return FAILED if states["fail"] or (arguments.strict and states["warn"]) else OK


async def _findings(arguments: argparse.Namespace, where: Place) -> list[Observation]:
    from redstart.testing.behaviour import REVISIONS, findings
    from redstart.testing.probes import HttpProbe, PipeProbe

    check_revision(arguments.protocol)
    seconds = arguments.timeout or 60.0
    headers, env = pairs(arguments.header, ":", "--header"), pairs(arguments.env, "=", "--env")
    if arguments.token:
        headers["Authorization"] = f"Bearer {arguments.token}"

    def connect(revision: str) -> Any:
        arguments.protocol = revision
        return client_of(arguments, where)

    def probe() -> HttpProbe | PipeProbe:
        if isinstance(where.target, str):
            return HttpProbe(where.target, headers, seconds)
        return PipeProbe(where.target, env or None, seconds)

    revisions = REVISIONS if arguments.protocol == "auto" else (arguments.protocol,)
    found: list[Observation] = []
    async for finding in findings(connect, probe, revisions):
        if not found or found[-1].revision != finding.revision:
            say(styled(f"trying {finding.revision} …", "dim", sys.stderr))
        found.append(finding)
    if all(finding.state == "skip" for finding in found):
        why = one_line(found[-1].found)[:400]
        raise CommandError(f"{where.shown} speaks none of the revisions that were tried: {why}", CONNECT)
    return found


def _print(found: Sequence[Observation], everything: bool) -> None:
    """Each outcome once, with the revisions in which it was the same."""
    print(f"speaks {', '.join(_spoken(found))}")
    grouped: dict[tuple[str, str], list[Observation]] = {}
    for finding in found:
        grouped.setdefault((finding.state, finding.check), []).append(finding)
    for (state, check), same in grouped.items():
        if check == SPOKEN:
            for finding in same:
                print(f"does not speak {finding.revision}: {one_line(finding.found)[:400]}")
        elif everything or state in ("warn", "fail"):
            print(f"{styled(f'{state:<5}', COLOURS[state], sys.stdout)} {check}")
            if same[0].found:
                print(f"      {one_line(same[0].found)[:400]}")
            where = f"      in {', '.join(finding.revision for finding in same)}; spec: {same[0].spec}"
            print(styled(where, "dim", sys.stdout))


def _spoken(found: Sequence[Observation]) -> list[str]:
    return list(dict.fromkeys(finding.revision for finding in found if finding.check != SPOKEN))


def _totals(states: Counter[str], found: Sequence[Observation]) -> list[str]:
    words = [counted(len(_spoken(found)), "revision"), counted(states["ok"], "check") + " passed"]
    words += [counted(states["warn"], "warning")] if states["warn"] else []
    words += [counted(states["fail"], "failure")] if states["fail"] else ["no failure"]
    return words
