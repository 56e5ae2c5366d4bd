"""`redstart install file.py cursor`: put a server into the configuration of clients, after it has been started once.

Nothing is written if the server does not answer, or if a file cannot be edited safely. `redstart uninstall` undoes it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from redstart.cli.configs import files, records
from redstart.cli.configs.clients import CLIENTS, ClientApp, Places, finished
from redstart.cli.configs.edit import Edited, EditError
from redstart.cli.configs.launch import (
    Launch,
    LaunchError,
    is_url,
    local,
    pairs,
    references,
    remote,
    resolved,
    without_secrets,
)
from redstart.cli.configs.records import FORMATS, Installed, Written
from redstart.cli.output import CommandError, show_json
from redstart.cli.start import StartError, Visit, visit
from redstart.cli.target import find, load
from redstart.schema.errors import nearest
from redstart.wire.jsonrpc import JsonObject

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What all clients take as the name of a server."""


class EntryPlan(NamedTuple):
    """What is to be done for one client."""

    client: str
    file: Path
    name: str
    entry: JsonObject
    inputs: list[JsonObject]


class FileChange(NamedTuple):
    """The bytes of a file before and after, and the record of it."""

    before: bytes | None
    after: bytes
    record: Installed


def act(arguments: argparse.Namespace) -> int:
    return _list(arguments.json) if arguments.list else _install(arguments)


# ---------------------------------------------------------------- what is asked for


def _install(arguments: argparse.Namespace) -> int:
    if arguments.target is None:
        raise CommandError("say what to install: redstart install server.py cursor")
    chosen = _chosen(arguments)
    given = pairs(arguments.env, "=", "--env KEY=VALUE, or --env KEY for a variable that the client looks up")
    launch = _launch(arguments, given)
    name = _name(arguments)
    visited = None
    if not (arguments.no_verify or arguments.print):
        visited = _verified(launch, given, arguments.timeout)
    project = Path.cwd() if arguments.scope == "project" else None
    rows, failed = [], False
    for client in chosen:
        try:
            plan = _plan(client, name, launch, arguments, project)
            rows.append(_printed(plan, arguments.json) if arguments.print else _done(plan, arguments, visited))
        except (LaunchError, EditError) as error:
            failed = True
            rows.append({"client": client, "state": "failed", "problem": str(error)})
            sys.stderr.write(f"redstart: {CLIENTS[client].title}: {error}\n")
    if arguments.json:
        show_json(rows)
    return 1 if failed else 0


def _chosen(arguments: argparse.Namespace) -> list[str]:
    """The clients that are meant."""
    unknown = [client for client in arguments.clients if client not in CLIENTS]
    if unknown:
        near = nearest(unknown[0], list(CLIENTS))
        hint = f"did you mean {near}?" if near else f"known are {', '.join(CLIENTS)}"
        raise CommandError(f"{unknown[0]} is not a known client; {hint}")
    places = Places.here()
    detected = [name for name, client in CLIENTS.items() if client.installed(places)]
    if arguments.all:
        if not detected:
            raise CommandError(f"no client is installed here; name one: {', '.join(CLIENTS)}")
        return detected
    if not arguments.clients:
        here = f" (found here: {', '.join(detected)})" if detected else ""
        raise CommandError(f"say for which client, or --all{here}: {', '.join(CLIENTS)}")
    lacking = [name for name in arguments.clients if arguments.scope == "project" and not CLIENTS[name].project]
    if lacking:
        raise CommandError(f"{CLIENTS[lacking[0]].title} has no file for a project; leave out --scope project")
    return list(dict.fromkeys(arguments.clients))


def _launch(arguments: argparse.Namespace, given: dict[str, str]) -> Launch:
    if is_url(arguments.target):
        if arguments.env:
            raise CommandError("--env is for a server that the client starts; for a URL write --header")
        return remote(arguments.target, pairs(arguments.header, ":", "--header 'NAME: VALUE'"))
    if arguments.header:
        raise CommandError("--header is for a URL; for a server that the client starts write --env")
    find(arguments.target)
    return local(arguments.target, given)


def _name(arguments: argparse.Namespace) -> str:
    """What the client calls the server."""
    if arguments.name:
        if not NAME.fullmatch(arguments.name):
            raise CommandError(f"--name: {arguments.name!r} is not letters, digits, '_' and '-', at most 64")
        return str(arguments.name)
    if is_url(arguments.target):
        host = re.sub(r"^https?://([^/:]*).*", r"\1", arguments.target)
        return _as_name(host.replace(".", "-"))
    with redirect_stdout(sys.stderr):  # what the file prints must not be part of what is printed
        return _as_name(load(arguments.target).name)


def _as_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64] or "server"


def _verified(launch: Launch, given: dict[str, str], seconds: float) -> Visit:
    """What the server answers to a handshake; CommandError if it does not answer."""
    literal = {name: value for name, value in given.items() if value != f"${{{name}}}"}
    try:
        return visit(resolved(launch, os.environ, literal), seconds)
    except StartError as error:
        raise CommandError(
            f"nothing was written, because the server does not work as a client would start it.\n"
            f"Step {error.step}: {error.reason}\n{error.advice[0].upper() + error.advice[1:]}. "
            "(--no-verify writes without this check.)"
        ) from None


# ---------------------------------------------------------------- one client


def _plan(client: str, name: str, launch: Launch, arguments: argparse.Namespace, project: Path | None) -> EntryPlan:
    app = CLIENTS[client]
    hidden: list[str] = []
    if app.reference:
        launch, hidden = without_secrets(launch)
    for secret in hidden:
        sys.stderr.write(f"redstart: {app.title}: the value of {secret} is not written; {_asked(app, secret)}\n")
    if project is not None and not app.project:  # with --all
        raise LaunchError("it has no file for a project")
    if arguments.dev and client != "vscode":
        raise LaunchError("--dev is for VS Code")
    entry = finished(client, name, app.entry(launch, arguments.dev))
    file = app.file(Places.here(), project)
    if project is not None and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(project)):
        raise LaunchError(f"{file} leads out of the project")  # a repository may have brought this link
    return EntryPlan(client, file, name, entry, app.inputs(references(launch)))


def _asked(app: ClientApp, secret: str) -> str:
    return "it asks for it" if "input:" in app.reference else f"set {secret} in the environment of the client"


def change(plan: EntryPlan, target: str, scope: str, force: bool) -> FileChange:
    """The file with the entry; nothing is written yet."""
    app = CLIENTS[plan.client]
    before = files.read(plan.file)
    text = files.decoded(before or b"")
    known = [record for record in records.load() if record.same_place(plan.client, plan.file, plan.name)]
    created, folders = before is None, files.missing_folders(plan.file)
    for record in known:  # an entry of ours is written anew
        with suppress(EditError):  # somebody has removed it
            text, created, folders = record.undone(text), record.created, record.folders
    editor = FORMATS[app.format]
    edited: Edited
    if plan.name in editor.entries(text, app.path):
        if not force:
            raise EditError(
                f"{plan.file} has an entry {plan.name} that redstart did not write; give it another --name, "
                "or --force to replace it"
            )
        edited = editor.replace(text, app.path, plan.name, plan.entry)
    else:
        edited = editor.insert(text, app.path, plan.name, plan.entry)
    edits = [Written(app.path, plan.name, *edited.mark)]
    text = edited.text
    for item in plan.inputs:
        if item["id"] not in _ids(text):
            edited = editor.insert(text, ("inputs",), "", item)
            text = edited.text
            edits.append(Written(("inputs",), "", *edited.mark))
    record = Installed(plan.client, scope, str(plan.file), plan.name, target, tuple(edits), created, folders)
    return FileChange(before, text.encode(), record)


def _ids(text: str) -> set[object]:
    """The ids of the questions that VS Code asks already."""
    document = FORMATS["json"].parse(text).value
    inputs = document.get("inputs", []) if isinstance(document, dict) else []
    return {item.get("id") for item in inputs if isinstance(item, dict)} if isinstance(inputs, list) else set()


def _done(plan: EntryPlan, arguments: argparse.Namespace, visited: Visit | None) -> JsonObject:
    """Write the entry, or show the diff; what was done."""
    target = arguments.target if is_url(arguments.target) else str(Path(arguments.target).absolute())
    try:
        changed = change(plan, target, arguments.scope, arguments.force)
    except EditError as error:
        raise (
            error if str(plan.file) in str(error) else EditError(f"{plan.file}, {error}; nothing was written")
        ) from None
    row: JsonObject = {"client": plan.client, "file": str(plan.file), "name": plan.name, "entry": plan.entry}
    if arguments.dry_run:
        row |= {"state": "not written", "diff": "".join(diff(plan.file, changed.before, changed.after))}
        if not arguments.json:
            sys.stdout.write(row["diff"])
        return row
    if changed.before == changed.after:
        return _said(row, arguments.json, "unchanged", f"{plan.name} is there already")
    if changed.before is not None:
        row["backup"] = str(files.back_up(plan.file, changed.before, plan.client))
    files.write(plan.file, changed.after, changed.before)
    rest = [record for record in records.load() if not record.same_place(plan.client, plan.file, plan.name)]
    records.save([*rest, changed.record])
    row["next"] = CLIENTS[plan.client].then
    return _said(row, arguments.json, "written", f"wrote {plan.name} to {plan.file}{_seen(visited)}")


def _seen(visited: Visit | None) -> str:
    if visited is None:
        return ""
    if visited.authorization:
        return " (it answers, and wants authorization)"
    return f" ({visited.name} {visited.version} answered with {visited.tools} tool{'s' * (visited.tools != 1)})"


def _said(row: JsonObject, quiet: bool, state: str, text: str) -> JsonObject:
    row["state"] = state
    if not quiet:
        print(f"{CLIENTS[row['client']].title}: {text}")
        if "next" in row:
            sys.stderr.write(f"Next: {row['next']}.\n")
        if "backup" in row:
            sys.stderr.write(f"The file as it was: {row['backup']}\n")
    return row


def diff(file: Path, before: bytes | None, after: bytes) -> Iterator[str]:
    """A unified diff; a line without an end says so."""
    old = (before or b"").decode().splitlines(keepends=True)
    name = str(file) if before is not None else os.devnull
    for line in unified_diff(old, after.decode().splitlines(keepends=True), name, str(file)):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _printed(plan: EntryPlan, quiet: bool) -> JsonObject:
    """The entry as the file would hold it, a link and a badge."""
    app = CLIENTS[plan.client]
    snippet = FORMATS[app.format].insert("", app.path, plan.name, plan.entry).text
    for item in plan.inputs:
        snippet = FORMATS[app.format].insert(snippet, ("inputs",), "", item).text
    row: JsonObject = {"client": plan.client, "file": str(plan.file), "name": plan.name, "entry": plan.entry}
    row |= {"state": "printed", "snippet": snippet}
    if app.link is not None:
        row["link"], row["badge"] = app.link(plan.name, plan.entry)
    if not quiet:
        sys.stderr.write(f"{app.title}, {plan.file}:\n")
        print("\n".join(row[part].rstrip() for part in ("snippet", "link", "badge") if part in row))
    return row


# ---------------------------------------------------------------- what is installed


def _list(as_json: bool) -> int:
    shown = ("client", "scope", "name", "file", "target")
    rows = [{**{key: getattr(record, key) for key in shown}, "state": state(record)} for record in records.load()]
    if as_json:
        show_json(rows)
    for row in () if as_json else rows:
        print(f"{row['name']:<16} {row['client']:<15} {row['scope']:<8} {row['state']:<8} {row['file']}")
    if not rows:
        sys.stderr.write("Nothing is installed.\n")
    return 0


def state(record: Installed) -> str:
    """Whether an entry is still there: present, changed, gone, or broken."""
    app = CLIENTS[record.client]
    try:
        data = files.read(Path(record.file))
        text = files.decoded(data or b"")
        if record.name not in FORMATS[app.format].entries(text, app.path):
            return "gone"
    except EditError:
        return "broken"
    return "present" if record.edits[0].body in text else "changed"
