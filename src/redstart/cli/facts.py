"""What `redstart dev` adds to the state of the page: entries for clients, and what `redstart check` says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from redstart.cli.configs.clients import CLIENTS, Places, finished
from redstart.cli.configs.launch import LaunchError, local, remote
from redstart.cli.configs.records import FORMATS
from redstart.cli.lint.facts import Finding, gathered, is_ignored
from redstart.cli.lint.rules import RULES
from redstart.inspector.failure import place_of
from redstart.server.server import Server
from redstart.wire.jsonrpc import JsonObject

MAX_CHECKED: Final = 300
"""A server with more tools is not checked for the page, because calls would wait meanwhile."""


def snippets(target: str, name: str, url: str) -> list[JsonObject]:
    """The entry for each client that `redstart install` knows, as a command and as a URL."""
    shown = "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in name)[:64]
    return [*_snippets(shown, "stdio", target), *_snippets(shown, "http", url)]


def _snippets(name: str, transport: str, target: str) -> Iterator[JsonObject]:
    places = Places.here()
    for client, app in CLIENTS.items():
        with suppress(LaunchError, OSError, ValueError):
            launch = remote(target, {}) if transport == "http" else local(target, {})
            entry = finished(client, name, app.entry(launch))
            yield {
                "client": client,
                "title": app.title,
                "kind": app.format,
                "file": _in_home(str(app.file(places, None)), places.home),
                "text": FORMATS[app.format].insert("", app.path, name, entry).text,
                "transport": transport,
                "note": app.then,
            }


def _in_home(path: str, home: str) -> str:
    """A path as people write it.

    >>> _in_home("/home/ada/.cursor/mcp.json", "/home/ada"), _in_home("/etc/x.json", "/home/ada")
    ('~/.cursor/mcp.json', '/etc/x.json')
    """
    return f"~{path[len(home) :]}" if path.startswith(os.path.join(home, "")) else path


def findings(server: Server) -> list[JsonObject]:
    """What the rules of `redstart check` say."""
    if len(server.tools) > MAX_CHECKED:
        return []
    facts = gathered(server)
    things = (*server.tools, *server.prompts, *server.resources)
    named = {declared.place: (declared.kind, declared.key) for declared in things}
    rules = [rule for rule in RULES if rule.default]
    found = dict.fromkeys(finding for rule in rules for finding in rule.find(rule.code, facts))
    return [_finding(finding, named) for finding in found if not is_ignored(finding)]


def _finding(finding: Finding, named: dict[str, tuple[str, str]]) -> JsonObject:
    kind, name = named.get(f"{finding.file}:{finding.line}", (None, None))
    place = place_of(finding.file, finding.line) if finding.file else None
    common = {"code": finding.code, "severity": "warning", "text": finding.message, "fix": None}
    return {**common, "kind": kind, "name": name, "place": place}
