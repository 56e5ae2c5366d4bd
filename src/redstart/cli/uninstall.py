"""`redstart uninstall birds`: take out of the configuration of clients what `redstart install` has written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from redstart.cli.configs import files, records
from redstart.cli.configs.clients import CLIENTS
from redstart.cli.configs.edit import EditError
from redstart.cli.configs.records import Installed
from redstart.cli.install import diff
from redstart.cli.output import CommandError, show_json
from redstart.schema.errors import nearest
from redstart.wire.jsonrpc import JsonObject


def act(arguments: argparse.Namespace) -> int:
    known = records.load()
    meant = [record for record in known if _is_meant(record, arguments)]
    if not meant:
        raise CommandError(_unknown(known, arguments))
    rows, failed = [], False
    for record in meant:
        try:
            rows.append(_removed(record, arguments))
        except EditError as error:
            failed = True
            rows.append({"client": record.client, "file": record.file, "state": "failed", "problem": str(error)})
            sys.stderr.write(f"redstart: {CLIENTS[record.client].title}: {record.file}, {error}; nothing was written\n")
    if arguments.json:
        show_json(rows)
    return 1 if failed else 0


def _is_meant(record: Installed, arguments: argparse.Namespace) -> bool:
    """Whether a record has the name and is of one of the clients; of a project, only of the folder we are in."""
    named = arguments.name == record.name or str(Path(arguments.name).absolute()) == record.target
    client = not arguments.clients or record.client in arguments.clients
    scope = arguments.scope in (None, record.scope)
    return named and client and scope and (record.scope == "user" or Path(record.file).is_relative_to(Path.cwd()))


def _unknown(known: list[Installed], arguments: argparse.Namespace) -> str:
    elsewhere = [record.file for record in known if record.name == arguments.name]
    if elsewhere:
        return f"{arguments.name} is installed elsewhere only: {', '.join(elsewhere)}"
    near = nearest(arguments.name, [record.name for record in known])
    advice = f"did you mean {near}?" if near else "see `redstart install --list`"
    return f"redstart has not installed {arguments.name}, and removes only what it has written; {advice}"


def _removed(record: Installed, arguments: argparse.Namespace) -> JsonObject:
    """Take one entry out; what was done."""
    file = Path(record.file)
    row: JsonObject = {"client": record.client, "file": record.file, "name": record.name}
    before = files.read(file)
    try:
        after = record.undone(files.decoded(before)).encode() if before is not None else None
    except EditError as error:
        if "there is no entry" not in str(error):
            raise
        after = before
    if arguments.dry_run:
        row |= {"state": "not written", "diff": "".join(diff(file, before, after or b"")) if before else ""}
        if not arguments.json:
            sys.stdout.write(row["diff"])
        return row
    if before is None or after is None or before == after:
        row["state"], text = "gone", f"{record.name} was not in {file} any more"
    else:
        row["backup"] = str(files.back_up(file, before, record.client))
        if record.created and not after.strip():
            files.remove(file, record.folders)  # we made it, and nobody else has written to it
        else:
            files.write(file, after, before)
        row["state"], text = "removed", f"removed {record.name} from {file}"
    records.save([other for other in records.load() if other != record])
    if not arguments.json:
        print(f"{CLIENTS[record.client].title}: {text}")
    return row
