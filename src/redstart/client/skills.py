"""Skills that a server offers: listed without their files, and checked when a file is read.

A file counts only if its size and digest are those of the list, and the front matter of SKILL.md is the one that the
list has shown: what a user has agreed to is what is loaded. Nothing is read before it is asked for.
Spec: SEP-2640, the extension io.modelcontextprotocol/skills.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec
from msgspec import Struct

from redstart.client.errors import InvalidReply
from redstart.client.requests import Requests
from redstart.client.results import resource_result
from redstart.wire.jsonrpc import JsonObject

_DIGESTS: Final = ("sha256", "sha384", "sha512")
_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"( *)([A-Za-z0-9_.-]+):(?: +(.*))?")
_ITEM: Final = re.compile(r"( *)- +(.*)")
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None, "~": None, "": None}


class SkillFile(Struct):
    """One file of a skill, as the list has it."""

    uri: str
    digest: str
    size: int


class Skill(Struct):
    """A skill: the URI of its SKILL.md, what that says of itself, and its files.

    >>> Skill("skill://pdf/SKILL.md", {"name": "pdf", "description": "Fill PDF forms"}).name
    'pdf'
    """

    uri: str
    frontmatter: JsonObject = {}
    resources: list[SkillFile] = []

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.frontmatter.get("name", ""))


class SkillList(Struct, rename="camel"):
    """A page of `skills/list`."""

    skills: list[Skill]
    next_cursor: str | None = None


async def read_file(requests: Requests, skill: Skill, uri: str) -> bytes:
    """The content of a file of `skill`, if it is what the list says."""
    listed = next((file for file in skill.resources if file.uri == uri), None)
    if listed is None:
        raise ValueError(f"the skill {skill.name!r} has no file {uri!r}; it has: {[f.uri for f in skill.resources]}")
    contents = resource_result(await requests.result("resources/read", {"uri": uri})).contents
    found = next((content for content in contents if content.uri == uri), None)
    if found is None:
        raise InvalidReply(f"resources/read: the answer has no content of {uri}")
    data = found.text.encode() if found.text is not None else bytes(found.blob or b"")
    _check(listed, data)
    if uri == skill.uri and front_matter(data.decode("utf-8", "replace"), uri) != skill.frontmatter:
        raise InvalidReply(f"{uri} says something else of itself than the list of skills did, so it is not loaded")
    return data


def _check(listed: SkillFile, data: bytes) -> None:
    if len(data) != listed.size:
        raise InvalidReply(f"{listed.uri} has {len(data)} bytes, and not {listed.size} as the list of skills says")
    kind, _, digest = listed.digest.partition(":")
    if kind not in _DIGESTS:
        raise InvalidReply(f"{listed.uri} has a digest that cannot be checked: {kind[:50]!r}")
    if hashlib.new(kind, data).hexdigest() != digest.lower():
        raise InvalidReply(f"{listed.uri} does not have the digest of the list of skills, so it is not loaded")


# ---------------------------------------------------------------- front matter


def front_matter(text: str, uri: str) -> JsonObject:
    """The front matter of a SKILL.md: the part of YAML that skills use. Other YAML is an error, and not a guess.

    >>> front_matter("---\\nname: pdf\\nversion: 2\\n---\\nBody", "skill://pdf/SKILL.md")
    {'name': 'pdf', 'version': 2}
    """
    found = _FRONT.match(text)
    if found is None:
        raise InvalidReply(f"{uri} has no front matter")
    lines = [line for line in found[1].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    value, rest = _block(lines, 0, uri)
    if rest or not isinstance(value, dict):
        raise _unreadable(uri, rest[0] if rest else "")
    return value


def _unreadable(uri: str, line: str) -> InvalidReply:
    return InvalidReply(f"the front matter of {uri} cannot be read, so the skill is not loaded: {line.strip()[:100]!r}")


def _block(lines: list[str], indent: int, uri: str) -> tuple[object, list[str]]:
    """The fields or items that are indented by `indent`, and the lines after them."""
    if lines and (item := _ITEM.fullmatch(lines[0])) and len(item[1]) == indent:
        items = []
        while lines and (item := _ITEM.fullmatch(lines[0])) and len(item[1]) == indent:
            items.append(_scalar(item[2], lines[0], uri))
            lines = lines[1:]
        return items, lines
    fields: JsonObject = {}
    while lines and (field := _FIELD.fullmatch(lines[0])) and len(field[1]) == indent:
        line, lines = lines[0], lines[1:]
        deeper = bool(lines) and _depth(lines[0]) > indent
        if field[2] in fields:
            raise _unreadable(uri, line)
        if field[3] in ("|", ">", "|-", ">-") and deeper:
            fields[field[2]], lines = _text(field[3], lines, indent)
        elif not field[3] and (deeper or (lines and _ITEM.fullmatch(lines[0]) and _depth(lines[0]) == indent)):
            fields[field[2]], lines = _block(lines, _depth(lines[0]), uri)
        elif deeper:
            raise _unreadable(uri, lines[0])
        else:
            fields[field[2]] = _scalar(field[3] or "", line, uri)
    return fields, lines


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _text(style: str, lines: list[str], indent: int) -> tuple[str, list[str]]:
    count = next((number for number, line in enumerate(lines) if _depth(line) <= indent), len(lines))
    first = _depth(lines[0])
    joined = ("\n" if style[0] == "|" else " ").join(line[first:] for line in lines[:count])
    return joined + ("" if style.endswith("-") else "\n"), lines[count:]


def _scalar(text: str, line: str, uri: str) -> object:
    text = text.strip()
    if text.startswith('"'):
        try:
            return msgspec.json.decode(text, type=str)
        except msgspec.MsgspecError:
            raise _unreadable(uri, line) from None
    if text.startswith("'"):
        if len(text) < 2 or not text.endswith("'"):
            raise _unreadable(uri, line)
        return text[1:-1].replace("''", "'")
    if text[:1] in ("[", "{", "&", "*", "!", "|", ">", "%", "@", "`") or " #" in text or ": " in text:
        raise _unreadable(uri, line)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]+\.[0-9]+", text):
        return float(text)
    return text
