"""`redstart check file.py`: look at a server as clients of every revision do, and report what models and people lack.

Status 1 if there is a problem. No tool, prompt or resource is called.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from redstart.cli.configs import files
from redstart.cli.configs.edit import EditError
from redstart.cli.lint.blocking import with_changes
from redstart.cli.lint.facts import Finding, gathered, is_ignored, source
from redstart.cli.lint.rules import REVISIONS, RULES, LintRule
from redstart.cli.output import FAILED, CommandError, counted
from redstart.cli.target import ready
from redstart.features.startup_errors import not_started
from redstart.schema.errors import nearest
from redstart.server.server import Server

NAMES = sorted({client for rule in RULES for client in rule.clients})


def act(arguments: argparse.Namespace) -> int:
    rules = _chosen(arguments)
    if arguments.rules:
        for rule in RULES:
            print(f"{rule.code}  {rule.title}{'' if rule.default else ' (off by default)'}")
        return 0
    server = ready(arguments.target)
    try:
        found = _found(server, rules, _wants(REVISIONS, arguments))
    except Exception as error:
        if error is not server.runtime.failure:
            raise
        raise CommandError(not_started(server.name, error), FAILED) from None
    if arguments.fix:
        found = _fixed(found)
    text = FORMATS[arguments.output_format](found)
    if text:
        print(text)
    sys.stderr.write(f"{_summary(server, found, arguments.fix)}\n")
    return 1 if found else 0


def _chosen(arguments: argparse.Namespace) -> list[LintRule]:
    """The rules that are wanted."""
    codes = [rule.code for rule in RULES]
    for given in (*_listed(arguments.select), *_listed(arguments.ignore)):
        if given != REVISIONS and not any(code.startswith(given) for code in codes):
            near = nearest(given, codes)
            raise CommandError(
                f"there is no rule {given}{f'; there is {near}' if near else ''}; see redstart check --rules"
            )
    clients = _listed(arguments.client)
    for client in clients:
        if client.lower() not in NAMES:
            raise CommandError(f"no rule is about the client {client}; known are {', '.join(NAMES)}")
    wanted = {client.lower() for client in clients}
    return [
        rule
        for rule in RULES
        if (_wants(rule.code, arguments) if rule.default else _selected(rule.code, arguments))
        and (not wanted or not rule.clients or wanted & set(rule.clients))
    ]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _selected(code: str, arguments: argparse.Namespace) -> bool:
    return any(code.startswith(part) for part in _listed(arguments.select))


def _wants(code: str, arguments: argparse.Namespace) -> bool:
    ignored = any(code.startswith(part) for part in _listed(arguments.ignore))
    return not ignored and (not arguments.select or _selected(code, arguments))


def _found(server: Server, rules: list[LintRule], with_revisions: bool) -> list[Finding]:
    """What the rules say, by file and line, and then the problems that clients of each revision would have."""
    from redstart.testing.behaviour import problems

    trouble = asyncio.run(problems(server))
    facts = gathered(server)
    found = [finding for rule in rules for finding in rule.find(rule.code, facts) if not is_ignored(finding)]
    found = sorted(dict.fromkeys(found), key=lambda finding: (finding.file, finding.line, finding.code))
    return [*map(_for_clients, found), *(Finding(REVISIONS, problem) for problem in trouble if with_revisions)]


def _for_clients(finding: Finding) -> Finding:
    """The finding with the names of the clients that it is about."""
    clients = next((rule.clients for rule in RULES if rule.code == finding.code), ())
    return finding._replace(message=f"{finding.message} ({', '.join(clients)})") if clients else finding


def _fixed(found: list[Finding]) -> list[Finding]:
    """Change what can be changed; the findings that are left."""
    left = [finding for finding in found if finding.change is None]
    for file in dict.fromkeys(finding.file for finding in found if finding.change is not None):
        mine = [finding for finding in found if finding.file == file and finding.change is not None]
        before = source(file)
        try:
            after = with_changes(before, [finding.change for finding in mine if finding.change])
            data = Path(file).read_bytes()
            if data.decode() != before:
                raise EditError("it has other line ends than \\n, or has been changed; nothing was written")
            files.write(Path(file), after.encode(), data)
        except (SyntaxError, EditError) as error:
            sys.stderr.write(f"redstart: {file}: {error}\n")
            left += mine
            continue
        for finding in mine:
            sys.stderr.write(f"fixed {finding}\n")
    return left


def _summary(server: Server, found: list[Finding], fixed: bool) -> str:
    counts = len(server.tools), len(server.prompts), len(server.resources) + len(server.templates)
    offered = map(counted, counts, ("tool", "prompt", "resource"))
    fixable = sum(finding.change is not None for finding in found)
    verdict = counted(len(found), "problem") if found else "nothing wrong in any revision"
    more = f" ({fixable} can be changed with --fix)" if fixable and not fixed else ""
    return f"{server.name}: {', '.join((*offered, verdict))}{more}"


# ---------------------------------------------------------------- output


def _text(found: list[Finding]) -> str:
    return "\n".join(map(str, found))


def _json(found: list[Finding]) -> str:
    rows = [
        {
            "code": one.code,
            "message": one.message,
            "file": one.file,
            "line": one.line,
            "fixable": one.change is not None,
        }
        for one in found
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def _github(found: list[Finding]) -> str:
    """Commands that the runner of GitHub shows beside the line; what has a meaning in them is escaped."""
    lines = []
    for one in found:
        text = one.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        file = one.file.replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
        place = f"file={file},line={one.line}," if one.file else ""
        lines.append(f"::warning {place}title={one.code}::{text}")
    return "\n".join(lines)


FORMATS: dict[str, Callable[[list[Finding]], str]] = {"text": _text, "json": _json, "github": _github}
