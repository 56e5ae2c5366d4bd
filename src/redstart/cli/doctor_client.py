"""`redstart doctor cursor`: the file of a client, and whether its entries can work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from redstart.cli.configs import files
from redstart.cli.configs.clients import CLIENTS, ClientApp, Places
from redstart.cli.configs.edit import EditError
from redstart.cli.configs.launch import Launch
from redstart.cli.configs.records import FORMATS
from redstart.cli.installation import Report, redacted
from redstart.cli.start import StartError, found_command, short_path, visit
from redstart.wire.jsonrpc import JsonObject


def examined(name: str, seconds: float) -> Iterator[tuple[str, Report]]:
    """The steps for one client: the program, what it can find, its files, and each entry in them."""
    app, places = CLIENTS[name], Places.here()
    there = app.installed(places)
    advice = "" if there else "if it is installed, start it once"
    words = "seems to be here" if there else "does not seem to be here"
    yield "program", Report("ok" if there else "warn", f"{app.title} {words}", advice)
    yield "path", Report("ok", f"a desktop program looks in {short_path()}")
    for scope, file in _files(app, places):
        yield from _file(app, scope, file, seconds)


def _files(app: ClientApp, places: Places) -> Iterator[tuple[str, Path]]:
    yield "file", app.file(places)
    if app.project and (project := app.file(places, Path.cwd())).exists():
        yield "project file", project


def _file(app: ClientApp, scope: str, file: Path, seconds: float) -> Iterator[tuple[str, Report]]:
    try:
        data = files.read(file)
        if data is None:
            yield scope, Report("ok", f"{file} does not exist", "redstart install makes it")
            return
        entries = FORMATS[app.format].entries(files.decoded(data), app.path)
    except EditError as error:
        yield scope, Report("fail", f"{file}, {error}", "the client reads none of its servers; repair the file")
        return
    yield scope, Report("ok", f"{file}, {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}")
    for name, entry in entries.items():
        yield f"entry {name}", _entry(entry if isinstance(entry, dict) else {}, seconds)


def _entry(entry: JsonObject, seconds: float) -> Report:
    """Whether the program of an entry is found, the paths in it exist and, if it is redstart, whether it answers."""
    url = next((entry[key] for key in ("url", "serverUrl", "httpUrl", "uri") if isinstance(entry.get(key), str)), None)
    if url:
        return Report("ok", f"{redacted(url)}", f"look at it with: redstart doctor {redacted(url)}")
    launch = _launch(entry)
    if launch is None:
        return Report("warn", "it has neither a command nor a URL", "the client leaves it out")
    try:
        program = found_command(launch)
    except StartError as error:
        return Report("fail", error.reason, error.advice)
    gone = [word for word in launch.args if os.path.isabs(word) and not os.path.exists(word.rpartition(":")[0] or word)]
    gone = [word for word in gone if not os.path.exists(word)]
    if gone:
        return Report("fail", f"{gone[0]} does not exist", "has it been moved? install it again, or remove the entry")
    if launch.args[:2] != ("-m", "redstart"):
        return Report("ok", f"{program} is there; it was not started, because it is not redstart")
    try:
        answer = visit(launch, seconds)
    except StartError as error:
        return Report("fail", redacted(f"{error.step}: {error.reason}"), error.advice)
    return Report("ok", f"{answer.name} {answer.version} answered with {answer.tools} tools")


def _launch(entry: JsonObject) -> Launch | None:
    """The command of an entry, in whichever shape the client has it."""
    command = entry.get("command", entry.get("cmd"))
    words = command if isinstance(command, list) else [command, *(entry.get("args") or [])]
    if not words or not all(isinstance(word, str) for word in words):
        return None
    env = entry.get("env") or entry.get("environment") or entry.get("envs") or {}
    values = {key: value for key, value in env.items() if isinstance(value, str)} if isinstance(env, dict) else {}
    return Launch(words[0], tuple(words[1:]), {key: value for key, value in values.items() if "{" not in value})
