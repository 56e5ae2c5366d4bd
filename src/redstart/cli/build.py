"""`redstart build mcpb | server-json | docker`: what other programs and registries want to have of a server."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from redstart.cli.configs import files
from redstart.cli.configs.edit import EditError
from redstart.cli.lint.facts import ServerFacts, gathered
from redstart.cli.output import printable
from redstart.cli.packaging import (
    BuildError,
    ProjectFile,
    bundle,
    collected,
    dockerfile,
    dockerignore,
    manifest,
    requirements,
    server_json,
)
from redstart.cli.target import ready

FOR_ALL: Final = 0o666
"""The permissions of a file that is made for others, before the umask takes some away."""


def act(arguments: argparse.Namespace) -> int:
    server = ready(arguments.target)
    try:
        name, data = _built(arguments, gathered(server))
        out = arguments.out or name
        if out == "-":
            sys.stdout.buffer.write(data)
            return 0
        files.write(Path(out), data, files.read(Path(out)), FOR_ALL)
        if arguments.kind == "docker" and not (ignored := Path(out).with_name(".dockerignore")).exists():
            files.write(ignored, dockerignore().encode(), None, FOR_ALL)
            print(ignored)
    except EditError as error:
        raise BuildError(str(error)) from None
    print(out)
    return 0


def _built(arguments: argparse.Namespace, facts: ServerFacts) -> tuple[str, bytes]:
    """The usual name of the file, and what is in it."""
    place = Path(arguments.target.partition(":")[0])
    if not place.is_file():
        raise BuildError(f"{arguments.target} is not a file; name the file with the server")
    project = ProjectFile.around(place.resolve())
    entry = place.resolve().relative_to(project.folder).as_posix()
    if arguments.kind == "server-json":
        document = server_json(facts, project, arguments.name, arguments.url)
        return "server.json", (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    if arguments.kind == "docker":
        return "Dockerfile", dockerfile(project, entry).encode()
    document = manifest(facts, project, entry, arguments.manifest, arguments.env)
    content, private = collected(project.folder) if project.table else ({entry: place.read_bytes()}, [])
    if private:
        shown = printable(", ".join(private[:5])) + (" …" if len(private) > 5 else "")
        sys.stderr.write(f"redstart: not in the bundle, because others should not have it: {shown}\n")
    if not project.table:
        content["pyproject.toml"] = requirements(document["name"], document["version"])
    return f"{document['name']}-{document['version']}.mcpb", bundle(document, content)
