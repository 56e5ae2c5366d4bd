"""`redstart list server.py [NAME]`: what a server offers, or one thing of it in detail."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from redstart.cli.connect import WHERE, is_target, parted, server_options, use
from redstart.cli.output import OK, CommandError, near, printable, say, show, show_json, styled, table, width

if TYPE_CHECKING:
    from redstart.client import Client
    from redstart.wire.jsonrpc import JsonObject

Entry: TypeAlias = Any
"""A tool, a prompt, a resource or a template, as it was listed."""
Offers: TypeAlias = dict[str, list[Entry]]

PASSES_ON: Final = True
KINDS: Final = ("tools", "prompts", "resources", "templates")
WIRE: Final = {"templates": "resourceTemplates"}
"""The names of lists on the wire, where they are others."""
CAPABILITY: Final = {"templates": "resources"}
"""What a server must declare to be asked for a list, where that has another name."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TARGET [NAME]", help=f"{WHERE}; and what to show in detail")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", action="store_true", help=f"list the {kind} only")
    parser.add_argument("--json", action="store_true", help="print one JSON document, with all that the server sent")
    server_options(parser)


def act(arguments: argparse.Namespace) -> int:
    target, names = arguments.words[0] if arguments.words else None, arguments.words[1:]
    if len(arguments.words) == 1 and arguments.passed_on and not is_target(arguments.words[0]):
        target, names = parted(arguments.words, arguments.passed_on)
    if len(names) > 1:
        raise CommandError(f"one name at a time: {' '.join(names)}")
    kinds = [kind for kind in KINDS if getattr(arguments, kind)] or list(KINDS)

    async def work(client: Client) -> int:
        found = await offers(client, kinds)
        if names:
            found = _only(found, names[0])
        if arguments.json:
            show_json(_document(client, found))
        elif names:
            for kind, entries in found.items():
                for entry in entries:
                    show("\n".join(_detail(kind, entry)))
        else:
            _tell(client)
            _print(found)
        return OK

    return use(arguments, target, work)


async def offers(client: Client, kinds: Sequence[str] = KINDS) -> Offers:
    """What the server offers, by kind. What it does not declare is not asked for."""
    asked: dict[str, Callable[[], Awaitable[list[Entry]]]] = {
        "tools": client.list_tools,
        "prompts": client.list_prompts,
        "resources": client.list_resources,
        "templates": client.list_resource_templates,
    }
    declared = client.server_capabilities
    return {kind: await asked[kind]() for kind in kinds if CAPABILITY.get(kind, kind) in declared}


def name_of(entry: Entry) -> str:
    """What a person calls it: a tool and a prompt by name, a resource by its address."""
    return str(getattr(entry, "uri", None) or getattr(entry, "uri_template", None) or entry.name)


def _only(found: Offers, name: str) -> Offers:
    chosen = {kind: [e for e in entries if name in (e.name, name_of(e))] for kind, entries in found.items()}
    if not any(chosen.values()):
        names = [name_of(entry) for entries in found.values() for entry in entries]
        raise CommandError(f"the server has no {printable(name)}{near(name, names)}")
    return chosen


def _document(client: Client, found: Offers) -> JsonObject:
    import msgspec

    head = {"server": client.server_info, "protocolVersion": client.protocol_version}
    if client.instructions:
        head["instructions"] = client.instructions
    lists = {WIRE.get(kind, kind): entries for kind, entries in found.items()}
    document: JsonObject = msgspec.to_builtins({**head, **lists})
    return document


def _tell(client: Client) -> None:
    info = client.server_info
    head = styled(printable(f"{info.name} {info.version}"), "bold", sys.stderr)
    say(f"{head}, protocol {printable(client.protocol_version)}")
    if client.instructions:
        say(printable(client.instructions))


def _print(found: Offers) -> None:
    columns = width(sys.stdout)
    for kind, entries in found.items():
        if not entries:
            continue
        print(styled(f"{kind.capitalize()}", "bold", sys.stdout))
        for line in table([(_head(kind, entry), _summary(entry)) for entry in entries], columns):
            show(line)
    if not any(found.values()):
        say("the server offers no " + ", ".join(kind for kind in found or KINDS))


def _head(kind: str, entry: Entry) -> str:
    if kind == "tools":
        from redstart.cli.arguments import signature

        return f"{entry.name} {signature(entry.input_schema)}".rstrip()
    if kind == "prompts":
        words = [f"{a.name}=text" if a.required else f"[{a.name}=text]" for a in entry.arguments or ()]
        return " ".join([entry.name, *words])
    return name_of(entry)


def _summary(entry: Entry) -> str:
    """The title, if it says more than the name, and the first paragraph of the description."""
    first = (entry.description or "").strip().partition("\n\n")[0]
    return first or entry.title or (entry.name if name_of(entry) != entry.name else "")


def _detail(kind: str, entry: Entry) -> list[str]:
    lines = [styled(name_of(entry), "bold", None)]
    lines += [entry.title] if entry.title and entry.title != entry.name else []
    lines += ["", entry.description.strip()] if entry.description else []
    arguments = _arguments(kind, entry)
    if arguments:
        lines += ["", "Arguments", *table(arguments, width(sys.stdout))]
    if kind == "tools":
        if entry.output_schema:
            lines += ["", "Returns", "  " + _returns(entry.output_schema)]
        hints = [name for name, value in (entry.annotations or {}).items() if value is True]
        lines += ["", "Hints: " + ", ".join(hints)] if hints else []
    elif getattr(entry, "mime_type", None):
        lines += ["", f"Type: {entry.mime_type}"]
    return lines


def _arguments(kind: str, entry: Entry) -> list[tuple[str, str]]:
    if kind == "prompts":
        return [(a.name + (" (required)" if a.required else ""), a.description or "") for a in entry.arguments or ()]
    if kind != "tools" or not isinstance(entry.input_schema, dict):
        return []
    from redstart.cli.arguments import kind_name, properties_of, resolved

    schema = entry.input_schema
    rows = []
    for name, given in properties_of(schema, schema).items():
        inner = resolved(given, schema)
        words = [kind_name(inner, schema)]
        words += ["required"] if name in (schema.get("required") or ()) else []
        words += [f"default {json.dumps(inner['default'], ensure_ascii=False)}"] if "default" in inner else []
        rows.append(
            (f"{name} ({', '.join(words)})", str((given or {}).get("description") or inner.get("description") or ""))
        )
    return rows


def _returns(schema: object) -> str:
    from redstart.cli.arguments import kind_name, properties_of

    if not isinstance(schema, dict):
        return "JSON"
    fields = properties_of(schema, schema)
    if list(fields) == ["result"]:
        return kind_name(fields["result"], schema)
    return ", ".join(f"{name} ({kind_name(inner, schema)})" for name, inner in fields.items()) or "an object"
