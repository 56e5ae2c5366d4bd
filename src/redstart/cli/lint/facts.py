"""What the rules look at: the things that a server offers, and the source of their functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from redstart.schema.errors import ShapeError
from redstart.server.server import Server
from redstart.wire.jsonrpc import JsonObject

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_NOQA = re.compile(r"#\s*noqa(?::\s*([A-Z0-9, ]+))?", re.IGNORECASE)


class SourceChange(NamedTuple):
    """A piece of source that may be replaced safely."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


class Finding(NamedTuple):
    """What a rule has found."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    change: SourceChange | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        return f"{place}{self.code} {self.message}"


class Offered(NamedTuple):
    """A tool, a prompt, a resource or a template."""

    kind: str
    name: str
    description: str
    schema: JsonObject
    annotations: Mapping[str, object]
    file: str
    line: int
    tokens: int
    misfits: Mapping[str, ShapeError]
    """Why defaults do not fit, by argument."""

    @property
    def properties(self) -> JsonObject:
        found = self.schema.get("properties", {})
        return found if isinstance(found, dict) else {}

    @property
    def function(self) -> FunctionNode | None:
        return function_at(self.file, self.line)

    def found(self, code: str, message: str, line: int = 0, change: SourceChange | None = None) -> Finding:
        return Finding(code, f"{self.kind} {self.name}: {message}", self.file, line or self.line, change)


class ServerFacts(NamedTuple):
    """All that a server offers."""

    server: str
    things: list[Offered]
    version: str = ""

    def of(self, *kinds: str) -> Iterator[Offered]:
        return (thing for thing in self.things if thing.kind in kinds)


def gathered(server: Server) -> ServerFacts:
    things = [
        _offered(kind, item)
        for kind in ("tool", "prompt", "resource", "template")
        for item in getattr(server, f"{kind}s").items.values()
    ]
    return ServerFacts(server.name, things, server.version)


def _offered(kind: str, item: object) -> Offered:
    declared = item.declared  # type: ignore[attr-defined]  # any Compiled
    schema = getattr(item, "input_schema", None) or {}
    description = item.description or ""  # type: ignore[attr-defined]
    seen = {"name": declared.name, "description": description, "input_schema": schema}
    file, _, line = declared.place.rpartition(":")
    known = file.endswith(".py") and line.isdecimal()
    annotations = getattr(declared, "annotations", None) or {}
    return Offered(
        kind,
        declared.key if kind in ("tool", "prompt") else declared.name,
        description,
        schema,
        annotations if isinstance(annotations, Mapping) else {},
        file if known else "",
        int(line) if known else 0,
        len(msgspec.json.encode(seen)) // 4,  # about four bytes a token
        {} if (signature := getattr(item, "signature", None)) is None else signature.misfits(),
    )


@cache
def source(file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


@cache
def parsed(file: str) -> ast.Module:
    try:
        return ast.parse(source(file))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def function_at(file: str, line: int) -> FunctionNode | None:
    """The function whose first line, of a decorator or of its own, is this one."""
    for node in ast.walk(parsed(file)) if file else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= node.lineno:
                return node
    return None


def is_ignored(finding: Finding) -> bool:
    """Whether a comment `# noqa: RS101` on the line, or on a line of the function's head, takes the finding back."""
    lines = source(finding.file).splitlines() if finding.file else []
    numbers = {finding.line}
    node = function_at(finding.file, finding.line)
    if node is not None:
        numbers |= set(range(finding.line, node.body[0].lineno))
    for number in numbers:
        match = _NOQA.search(lines[number - 1]) if 0 < number <= len(lines) else None
        if match and (match[1] is None or finding.code in re.split(r"[,\s]+", match[1].upper())):
            return True
    return False
