"""TOML, edited as text: an entry is a table of its own, appended at the end of the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise

from redstart.cli.configs.edit import BOM, Edited, EditError, Mark, check_change, cut, line_of, newline_of, quoted
from redstart.wire.jsonrpc import JsonObject

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(
    r'#[^\n]*|"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[\[\]{}\n]|[^\[\]{}\n"\'#]+',
    re.DOTALL,
)


def parse(text: str) -> JsonObject:
    """The data; EditError says in which line the file is broken."""
    try:
        return tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+)", str(error))
        reason = f"this is not valid TOML: {str(error).partition(' (at ')[0]}"
        raise EditError(reason, int(place[1]) if place else text.count("\n") + 1) from None


def entries(text: str, path: tuple[str, ...]) -> JsonObject:
    """The tables below `path`."""
    found: object = parse(text)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def insert(text: str, path: tuple[str, ...], name: str, value: object) -> Edited:
    """The text with one more table at its end."""
    before = parse(text)
    if name in entries(text, path):
        raise EditError(f"there is an entry {name} already")
    end = newline_of(text)
    gap = "" if not text.strip(BOM) else end if text.endswith("\n") else 2 * end
    body = gap + end.join(_rendered((*path, name), value)) + end
    try:
        after = parse(text + body)
    except EditError:
        shown = ".".join(path)
        line = next((line_of(text, match.start()) for match in re.finditer(rf"(?m)^\s*{shown}\b", text)), 0)
        raise EditError(f"{shown} is an inline table or a value; write it as [{shown}.NAME] tables", line) from None
    check_change(before, after, path, name)
    return Edited(text + body, Mark(body))


def replace(text: str, path: tuple[str, ...], name: str, value: object) -> Edited:
    """The text with another value for a table that is there."""
    spans = list(_spans(text, (*path, name)))
    if not spans:
        raise EditError(f"{'.'.join(path)}.{name} is not a table of its own, so that it cannot be replaced")
    (start, end) = spans[0][0], spans[-1][1]
    if any(first[1] != second[0] for first, second in pairwise(spans)):
        raise EditError(f"the tables of {name} do not stand together", line_of(text, start))
    body = newline_of(text).join(_rendered((*path, name), value)) + newline_of(text)
    edited = text[:start] + body + text[end:]
    check_change(parse(text), parse(edited), path, name)
    return Edited(edited, Mark(body, replaced=text[start:end]))


def remove(text: str, path: tuple[str, ...], name: str, mark: Mark) -> str:
    """The text without a table and the tables in it."""
    before = parse(text)
    if name not in entries(text, path):
        raise EditError(f"there is no entry {name}")
    if text.count(mark.body) == 1:
        start = text.index(mark.body)
        shorter = text[:start] + (mark.replaced or "") + text[start + len(mark.body) :]
    else:
        spans = list(_spans(text, (*path, name)))
        if not spans:
            raise EditError(f"{'.'.join(path)}.{name} is not a table of its own; remove it by hand")
        shorter = text
        for start, end in reversed(spans):
            shorter = cut(shorter, start, end)
    check_change(before, parse(shorter), path, name)
    return shorter


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def _rendered(path: tuple[str, ...], value: object) -> list[str]:
    """The lines of a table, and then those of the tables in it."""
    items = value.items() if isinstance(value, dict) else ()
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_scalar(inner)}" for key, inner in items if not isinstance(inner, dict)]
    for key, inner in items:
        if isinstance(inner, dict):
            lines += ["", *_rendered((*path, key), inner)]
    return lines


def _scalar(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    return quoted(value)


def _headers(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Where the lines with a table's name begin, and the name; a line inside of a string or an array is none."""
    depth, line, fresh = 0, len(text) - len(text.removeprefix(BOM)), True
    for match in _TOKEN.finditer(text.removeprefix(BOM)):
        token, start = match[0], match.start() + (len(text) - len(text.removeprefix(BOM)))
        if token == "\n":
            line, fresh = start + 1, True
        elif token in "[{" and fresh and depth == 0:
            end = text.find("\n", line)
            yield line, _name(text[line : end if end >= 0 else len(text)])
            fresh, depth = False, depth + 1
        elif token.strip():
            depth += (token in "[{") - (token in "]}")
            fresh = False


def _name(header: str) -> tuple[str, ...]:
    """The path in a line such as `[a."b c"]`."""
    data: object = parse(header.removeprefix(BOM).strip())
    names: list[str] = []
    while isinstance(data, dict) and data:
        (key,) = data
        names.append(key)
        data = data[key]
    return tuple(names)


def _spans(text: str, path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where the table and the tables in it stand, without the comments that precede the next one."""
    headers = [*_headers(text), (len(text), ())]
    for (start, name), (end, following) in pairwise(headers):
        if name[: len(path)] == path:
            yield start, end if following[: len(path)] == path else _content_end(text, start, end)


def _content_end(text: str, start: int, end: int) -> int:
    """The end without the empty lines and comments at it."""
    lines = text[start:end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        end -= len(lines.pop())
    return end
