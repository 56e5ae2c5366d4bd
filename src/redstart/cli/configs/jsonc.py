"""JSON with comments and trailing commas, edited as text.

A small parser notes where each entry begins and ends. It is strict in everything else: what it does not understand is
refused, so that a broken file is never written to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from redstart.cli.configs.edit import BOM, Edited, EditError, Mark, body_around, check_change, cut, line_of, newline_of
from redstart.wire.jsonrpc import JsonObject

DEEPEST: Final = 200
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*(?:(?!\*/)[^\r\n])*\*/|//[^\r\n]*))*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_INDENT = re.compile(r"\n([ \t]+)[^\s]")


class JsonNode(NamedTuple):
    """A value, and where it stands."""

    start: int
    end: int
    value: object
    members: list[Member] | None = None
    """Of an object or an array."""


class Member(NamedTuple):
    """One entry of an object, or with an empty key one item of an array."""

    key: str
    start: int
    node: JsonNode
    comma: int
    """Where the comma behind it is, or -1."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len(BOM) if text.startswith(BOM) else 0

    def document(self) -> JsonNode:
        self._skip()
        if self.at == len(self.text):
            raise EditError("the file holds no JSON", line_of(self.text, self.at))
        node = self._value(0)
        self._skip()
        if self.at != len(self.text):
            raise self._unexpected("after the end of the JSON value")
        return node

    def _skip(self) -> None:
        match = _TRIVIA.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _unexpected(self, where: str) -> EditError:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end of the file"
        return EditError(f"this is not valid JSON: {found} {where}", line_of(self.text, self.at))

    def _value(self, depth: int) -> JsonNode:
        if depth > DEEPEST:
            raise EditError(f"the JSON is nested more than {DEEPEST} deep", line_of(self.text, self.at))
        start = self.at
        if self.text.startswith(("{", "["), start):
            return self._container("}" if self.text[start] == "{" else "]", depth)
        match = _STRING.match(self.text, start) or _SCALAR.match(self.text, start)
        if match is None:
            raise self._unexpected("where a value is expected")
        self.at = match.end()
        return JsonNode(start, self.at, self._decoded(match[0], start))

    def _decoded(self, source: str, at: int) -> object:
        try:
            return json.loads(source)
        except ValueError as error:
            raise EditError(f"this is not valid JSON: {error}", line_of(self.text, at)) from None

    def _container(self, closing: str, depth: int) -> JsonNode:
        start = self.at
        self.at += 1
        members: list[Member] = []
        while True:
            self._skip()
            if self.text.startswith(closing, self.at) and (not members or members[-1].comma >= 0):
                break
            if members and members[-1].comma < 0:
                raise self._unexpected(f"where a comma or {closing!r} is expected")
            members.append(self._member(closing, depth))
            if members[-1].comma < 0 and self.text.startswith(closing, self.at):
                break
        self.at += 1
        value: object = [member.node.value for member in members]
        if closing == "}":
            value = {member.key: member.node.value for member in members}
        return JsonNode(start, self.at, value, members)

    def _member(self, closing: str, depth: int) -> Member:
        start, key = self.at, ""
        if closing == "}":
            match = _STRING.match(self.text, start)
            if match is None:
                raise self._unexpected("where a name in double quotes is expected")
            key, self.at = str(self._decoded(match[0], start)), match.end()
            self._skip()
            if not self.text.startswith(":", self.at):
                raise self._unexpected(f"where the colon behind {match[0]} is expected")
            self.at += 1
            self._skip()
        node = self._value(depth + 1)
        self._skip()
        comma = self.at if self.text.startswith(",", self.at) else -1
        self.at += comma >= 0
        return Member(key, start, node, comma)


def parse(text: str) -> JsonNode:
    """The document; EditError says in which line it is broken.

    >>> parse('{"a": [1, 2,], /* b */ }').value
    {'a': [1, 2]}
    """
    return _Reader(text).document()


def entries(text: str, path: tuple[str, ...]) -> JsonObject:
    """The entries below `path`."""
    node = parse(text) if text.strip(BOM).strip() else None
    for key in path:
        node = None if node is None else _child(text, node, key)
    return node.value if node is not None and isinstance(node.value, dict) else {}


def insert(text: str, path: tuple[str, ...], name: str, value: object) -> Edited:
    """The text with one more entry below `path`, as the last one there. An empty `name` appends to an array."""
    if not text.strip(BOM).strip():
        body = json.dumps(_nested(path, name, value), indent=2, ensure_ascii=False) + "\n"
        return Edited(text + body, Mark(body))
    root = node = parse(text)
    _check_object(text, root, "the file")
    rest = list(path)
    while rest and (inner := _child(text, node, rest[0])) is not None:
        node, key = inner, rest.pop(0)
        if name or rest:
            _check_object(text, node, json.dumps(key))
        elif not isinstance(node.value, list):
            raise EditError(f"{json.dumps(key)} is not a JSON array", line_of(text, node.start))
    (key, *inside) = (*rest, name) if rest else (name,)
    if name and not rest and _child(text, node, name) is not None:
        raise EditError(f"there is an entry {name} already", line_of(text, node.start))
    new = _nested(tuple(inside[:-1]), inside[-1], value) if inside else value
    edited = _appended(text, node, root, key, new)
    if name:
        check_change(_object(root), _object(parse(edited.text)), path, name)
    return edited


def replace(text: str, path: tuple[str, ...], name: str, value: object) -> Edited:
    """The text with another value for an entry that is there."""
    member = _located(text, path, name)
    if member is None:
        raise EditError(f"there is no entry {name}")
    body = _rendered(text, "\n" not in text.strip(), value, _margin(text, member.start))
    old = text[member.node.start : member.node.end]
    return Edited(text[: member.node.start] + body + text[member.node.end :], Mark(body, replaced=old))


def remove(text: str, path: tuple[str, ...], name: str, mark: Mark) -> str:
    """The text without an entry; exactly as before, unless what `insert` or `replace` has written was changed since."""
    member = _located(text, path, name) if name else None
    if name and member is None:
        raise EditError(f"there is no entry {name}")
    at = member.node.start if member else text.find(mark.body)
    if mark.replaced is not None and member:
        return text[: member.node.start] + mark.replaced + text[member.node.end :]
    start = body_around(text, mark.body, at) if at >= 0 else -1
    if start >= 0 and (exact := _without_body(text, start, mark)) is not None:
        return exact
    if member is None:
        raise EditError("what was written has been changed since")
    return _without_member(text, path, name)


def _without_body(text: str, start: int, mark: Mark) -> str | None:
    """The text without what was inserted at `start`, and without the comma that belongs to it; None if unclear."""
    end = start + len(mark.body)
    shorter = cut(text, start, end)
    if not shorter.strip(BOM).strip():
        return shorter
    if mark.comma:
        match = _TRIVIA.match(text, end)
        behind = match.end() if match else end
        if text.startswith(",", behind):  # somebody has added an entry behind ours: its comma goes
            shorter = cut(cut(text, behind, behind + 1), start, end)
        else:
            comma = max(comma for comma in _commas(parse(text)) if comma < start)
            shorter = cut(shorter, comma, comma + 1)
    try:
        parse(shorter)
    except EditError:
        return None
    return shorter


def _without_member(text: str, path: tuple[str, ...], name: str) -> str:
    """Remove an entry that has been changed, with one of the commas around it and the space before it."""
    node = parse(text)
    before = _object(node)
    for key in path:
        node = _child(text, node, key) or node
    members = node.members or []
    place = next(number for number, member in enumerate(members) if member.key == name)
    member = members[place]
    previous = members[place - 1] if place else None
    start = previous.comma + 1 if previous else node.start + 1
    comments = [match.end() for match in _COMMENT.finditer(text, start, member.start)]
    start = comments[-1] if comments else start
    end = member.comma + 1 if member.comma >= 0 else member.node.end
    shorter = cut(text, start, end)
    if member.comma < 0 and previous is not None:
        shorter = cut(shorter, previous.comma, previous.comma + 1)
    check_change(before, _object(parse(shorter)), path, name)
    return shorter


def _commas(node: JsonNode) -> Iterator[int]:
    """Where the commas are: not those in strings and comments."""
    for member in node.members or ():
        yield member.comma
        yield from _commas(member.node)


def _object(node: JsonNode) -> JsonObject:
    return node.value if isinstance(node.value, dict) else {}


def _check_object(text: str, node: JsonNode, what: str) -> None:
    if not isinstance(node.value, dict):
        raise EditError(f"{what} is not a JSON object", line_of(text, node.start))


def _child(text: str, node: JsonNode, key: str) -> JsonNode | None:
    found = [member for member in node.members or () if member.key == key and isinstance(node.value, dict)]
    if len(found) > 1:
        raise EditError(f"{json.dumps(key)} is there twice", line_of(text, found[1].start))
    return found[0].node if found else None


def _located(text: str, path: tuple[str, ...], name: str) -> Member | None:
    node = parse(text)
    for key in path:
        inner = _child(text, node, key)
        if inner is None:
            return None
        node = inner
    if _child(text, node, name) is None:
        return None
    return next(member for member in node.members or () if member.key == name)


def _nested(path: tuple[str, ...], name: str, value: object) -> object:
    document: object = {name: value} if name else [value]
    for key in reversed(path):
        document = {key: document}
    return document


def _margin(text: str, at: int) -> str:
    """The white space before the first character of the line."""
    start = text.rfind("\n", 0, at) + 1
    return text[start : start + len(text[start:at]) - len(text[start:at].lstrip(" \t"))]


def _unit(text: str) -> str:
    """One step of indentation: that of the first line that has one."""
    match = _INDENT.search(text)
    return "  " if match is None else "\t" if match[1][0] == "\t" else match[1]


def _rendered(text: str, inline: bool, value: object, margin: str) -> str:
    if inline:
        tight = re.search(r'":[^ ]', text) is not None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if tight else (", ", ": "))
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (newline_of(text) + margin).join(lines)


def _appended(text: str, node: JsonNode, root: JsonNode, key: str, value: object) -> Edited:
    """The text with one more member at the end of a container."""
    members = node.members or []
    inline = "\n" not in text[node.start : node.end] and (bool(members) or "\n" not in text.strip())
    inline = inline and bool(root.members)
    margin = _margin(text, node.start) + _unit(text)
    if members and not text[text.rfind("\n", 0, members[-1].start) + 1 : members[-1].start].strip(" \t"):
        margin = _margin(text, members[-1].start)
    tight = re.search(r'":[^ ]', text) is not None
    name = json.dumps(key, ensure_ascii=False) + (":" if inline and tight else ": ") if key else ""
    member = name + _rendered(text, inline, value, margin)
    before = ("" if tight or not members else " ") if inline else newline_of(text) + margin
    if not members:
        return _first(text, node, before + member, inline)
    last = members[-1]
    end = last.node.end if last.comma < 0 else last.comma + 1
    same = _SAME_LINE.match(text, end)
    point = same.end() if same else end
    body = before + member + ("," if last.comma >= 0 else "")
    comma = "," if last.comma < 0 else ""
    return Edited(text[:end] + comma + text[end:point] + body + text[point:], Mark(body, comma=bool(comma)))


def _first(text: str, node: JsonNode, body: str, inline: bool) -> Edited:
    """The text with the first member of a container that may hold comments."""
    comments = [match.end() for match in _COMMENT.finditer(text, node.start + 1, node.end - 1)]
    point = comments[-1] if comments else node.start + 1
    if not inline and "\n" not in text[point : node.end]:
        body += newline_of(text) + _margin(text, node.start)
    return Edited(text[:point] + body + text[point:], Mark(body))
