"""`redstart read server.py notes://todo`: read a resource. Text is printed; bytes go to a file, or into a pipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from redstart.cli.connect import WHERE, is_pair, parted_with_arguments, server_options, use
from redstart.cli.output import OK, CommandError, is_terminal, near, printable, say, show, show_json

if TYPE_CHECKING:
    from redstart.client import Client
    from redstart.wire.types import ReadResourceResult

PASSES_ON: Final = True


def options(parser: argparse.ArgumentParser) -> None:
    more = f"{WHERE}; an address; for a template such as notes://{{name}}, its variables as name=value"
    parser.add_argument("words", nargs="*", metavar="TARGET URI NAME=VALUE", help=more)
    parser.add_argument("-o", "--output", metavar="PATH", help="write to a file or a folder/, and not to stdout")
    parser.add_argument("--json", action="store_true", help="print the whole result as one JSON document")
    server_options(parser)


def act(arguments: argparse.Namespace) -> int:
    target, name, words = parted_with_arguments(arguments, is_pair)

    async def work(client: Client) -> int:
        uri = await _address(client, name, words)
        return _show(await client.read_resource(uri), arguments)

    return use(arguments, target, work)


async def _address(client: Client, uri: str | None, words: Sequence[str]) -> str:
    """The URI that is meant. A template needs a value for each of its variables."""
    from redstart.cli.list import name_of, offers

    if uri is None:
        found = await offers(client, ("resources", "templates"))
        names = [name_of(entry) for entries in found.values() for entry in entries]
        raise CommandError(printable(f"which resource? There is: {', '.join(names) or 'none'}"))
    if "{" in uri:
        return _expanded(uri, words)
    if words:
        raise CommandError(f"{uri} has no variables, so {words[0]} has no meaning")
    if "://" not in uri and ":" not in uri:  # not an address: the name of a resource
        found = await offers(client, ("resources", "templates"))
        entries = [entry for listed in found.values() for entry in listed]
        chosen = next((entry for entry in entries if entry.name == uri), None)
        if chosen is None:
            raise CommandError(f"there is no resource {uri}{near(uri, [name_of(e) for e in entries])}")
        return name_of(chosen) if hasattr(chosen, "uri") else _expanded(chosen.uri_template, words)
    return uri


def _expanded(text: str, words: Sequence[str]) -> str:
    from redstart.schema.uritemplate import Template

    try:
        template = Template(text)
    except ValueError as error:
        raise CommandError(printable(str(error))) from None
    given = dict(word.split("=", 1) for word in words)
    for name in given:
        if name not in template.variables:
            raise CommandError(printable(f"{text} has no variable {name}{near(name, template.variables)}"))
    if absent := [name for name in template.variables if name not in given]:
        raise CommandError(printable(f"{text} needs {', '.join(f'{name}=…' for name in absent)}"))
    return template.expand(given)


def _show(result: ReadResourceResult, arguments: argparse.Namespace) -> int:
    from redstart.cli.blocks import Blob, of_resource, paths_for, write

    if arguments.json:
        import msgspec

        show_json({"contents": msgspec.to_builtins(result.contents)})
        return OK
    parts = [of_resource(one) for one in result.contents]
    if arguments.output:
        kinds = [one.mime_type or "text/plain" for one in result.contents]
        blobs = [
            part if isinstance(part, Blob) else Blob(part.encode(), kind, "text")
            for part, kind in zip(parts, kinds, strict=True)
        ]
        name = result.contents[0].uri.rstrip("/").rpartition("/")[2] if result.contents else "resource"
        for path, blob in zip(paths_for(arguments.output, blobs, name), blobs, strict=True):
            write(path, blob)
        return OK
    for part in parts:
        if isinstance(part, str):
            show(part)
        elif is_terminal(sys.stdout):
            size = f"{part.mime_type}, {len(part.data)} bytes"
            raise CommandError(f"{size}: not for a terminal; write --output FILE, or send it into a pipe")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(part.data)
    if not parts:
        say("the resource is empty")
    return OK
