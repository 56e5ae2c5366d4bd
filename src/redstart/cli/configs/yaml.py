"""The YAML that a client writes itself, edited as text: block mappings at the top of one document.

There is no YAML parser here. Lines are told apart by their indentation, and what needs more than that (several
documents, flow mappings with entries, tabs) is refused.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final, NamedTuple

from redstart.cli.configs.edit import BOM, Edited, EditError, Mark, body_around, cut, newline_of, quoted
from redstart.wire.jsonrpc import JsonObject

_KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#&*!|>%@`\[\]{},"'?:-][^#:]*?)\s*:(?=\s|$)(.*)""", re.DOTALL
)
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_WORDS: Final = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


class _Line(NamedTuple):
    number: int
    start: int
    text: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" "))

    @property
    def empty(self) -> bool:
        return not self.text.strip()

    @property
    def comment(self) -> bool:
        return self.text.lstrip().startswith("#")

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class _Block(NamedTuple):
    """A mapping below a key at the top: the line of the key, and the lines below it."""

    key: _Line
    value: str
    lines: list[_Line]
    indent: int


def _lines(text: str) -> list[_Line]:
    """The lines, each checked as far as it can be."""
    at, lines = len(BOM) if text.startswith(BOM) else 0, []
    for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+$", text[at:]), 1):
        lines.append(_Line(number, at, line))
        at += len(line)
        content = line.rstrip()
        if line.startswith("\t"):
            raise EditError("this is not valid YAML: a tab as indentation", number)
        top = content and content[0] not in " #"
        if top and content != "---" and not content.startswith("- ") and content != "-" and not _KEY.match(content):
            raise EditError(f"only plain mappings can be edited, and this is none: {content[:60]}", number)
        if content == "---" and any(not (line.empty or line.comment) for line in lines[:-1]):
            raise EditError("the file holds several documents", number)
    return lines


def _block(text: str, key: str) -> _Block | None:
    lines = _lines(text)
    tops = [line for line in lines if not (line.empty or line.comment) and line.indent == 0]
    found = [line for line in tops if _name(line) == key]
    if len(found) > 1:
        raise EditError(f"{key} is there twice", found[1].number)
    if not found:
        return None
    place = tops.index(found[0])
    end = tops[place + 1].start if place + 1 < len(tops) else len(text)
    inner = [line for line in lines if found[0].start < line.start < end]
    content = [line for line in inner if not (line.empty or line.comment)]
    match = _KEY.match(found[0].text)
    value = re.sub(r"(^|\s)#.*", "", match[2] if match else "").strip()
    indent = content[0].indent if content else 2
    if content and (value or _name(content[0]) is None):
        raise EditError(f"{key} is not a block mapping", found[0].number)
    if wrong := next((line for line in content if line.indent < indent), None):
        raise EditError("the indentation is not that of the lines above", wrong.number)
    if place + 1 < len(tops) and tops[place + 1].text.startswith("-"):
        raise EditError(f"{key} is a list, not a mapping", found[0].number)
    return _Block(found[0], value, inner, indent)


def _name(line: _Line) -> str | None:
    match = _KEY.match(line.text.strip())
    if match is None:
        return None
    key = match[1]
    if key.startswith('"'):
        try:
            return str(json.loads(key))
        except ValueError:
            return None
    return key[1:-1].replace("''", "'") if key.startswith("'") else key


def _child(block: _Block, name: str) -> tuple[int, int] | None:
    """Where an entry begins and ends, without what stands behind it."""
    content = [line for line in block.lines if not line.empty]
    for place, line in enumerate(content):
        if line.indent == block.indent and not line.comment and _name(line) == name:
            end = line.end
            for other in content[place + 1 :]:
                if other.indent <= block.indent:
                    break
                end = other.end
            return line.start, end
    return None


def entries(text: str, path: tuple[str, ...]) -> JsonObject:
    """The names below the one key of `path`, each with its plain scalars."""
    block = _block(text, path[0])
    found: JsonObject = {}
    if block and block.value.startswith("{"):
        with suppress(ValueError):
            found.update(json.loads(block.value))
    name = ""
    for line in block.lines if block else ():
        key = None if line.empty or line.comment else _name(line)
        if block and key is not None and line.indent == block.indent:
            name = key
            found[name] = {}
        elif block and key is not None and name and line.indent > block.indent:
            match = _KEY.match(line.text.strip())
            value = match[2].strip() if match else ""
            if value and key not in found[name]:
                found[name][key] = json.loads(value) if re.fullmatch(r'"(?:[^"\\]|\\.)*"', value) else value
    return found


def insert(text: str, path: tuple[str, ...], name: str, value: object) -> Edited:
    """The text with one more entry, as the last one below the one key of `path`."""
    end, block = newline_of(text), _block(text, path[0])
    if block is None:
        lines = [f"{path[0]}:", *_rendered(name, value, 2)]
        gap = "" if not text.strip(BOM) or text.endswith("\n") else end
        body = gap + end.join(lines) + end
        return Edited(text + body, Mark(body))
    if name in entries(text, path):
        raise EditError(f"there is an entry {name} already", block.key.number)
    if block.value == "{}":
        at = text.index("{}", block.key.start) + 1
        body = quoted({name: value})[1:-1]
        return Edited(text[:at] + body + text[at:], Mark(body))
    if block.value:
        raise EditError(f"{path[0]} is not a block mapping", block.key.number)
    keeps = any(re.search(r"[|>]\d?\+", line.text) for line in block.lines)  # empty lines at the end are its content
    last = [line for line in block.lines if keeps or (not line.empty and line.indent >= block.indent)]
    at = last[-1].end if last else block.key.end
    lines = _rendered(name, value, block.indent)
    ended = text[:at].endswith("\n")
    body = ("" if ended else end) + end.join(lines) + (end if ended else "")
    return Edited(text[:at] + body + text[at:], Mark(body))


def replace(text: str, path: tuple[str, ...], name: str, value: object) -> Edited:
    """The text with another value for an entry that is there."""
    block = _block(text, path[0])
    span = _child(block, name) if block else None
    if block is None or span is None:
        raise EditError(f"{path[0]}.{name} is not a block mapping, so that it cannot be replaced")
    end = newline_of(text)
    old = text[span[0] : span[1]]
    body = end.join(_rendered(name, value, block.indent)) + (end if old.endswith("\n") else "")
    return Edited(text[: span[0]] + body + text[span[1] :], Mark(body, replaced=old))


def remove(text: str, path: tuple[str, ...], name: str, mark: Mark) -> str:
    """The text without an entry."""
    block = _block(text, path[0])
    span = _child(block, name) if block else None
    at = span[0] if span else text.find(mark.body)
    start = body_around(text, mark.body, at) if at >= 0 else -1
    if start >= 0:
        return text[:start] + (mark.replaced or "") + text[start + len(mark.body) :]
    if span is None:
        raise EditError(f"there is no entry {name}")
    return text[: span[0]] + (mark.replaced or "") + cut(text, 0, span[1])


def _rendered(name: str, value: object, indent: int) -> list[str]:
    space = indent * " "
    if isinstance(value, dict) and value:
        inner = [line for key, item in value.items() for line in _rendered(key, item, indent + 2)]
        return [f"{space}{_scalar(name)}:", *inner]
    if isinstance(value, list) and value:
        return [f"{space}{_scalar(name)}:", *(f"{space}  - {_scalar(item)}" for item in value)]
    return [f"{space}{_scalar(name)}: {_scalar(value)}"]


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return quoted(value)
