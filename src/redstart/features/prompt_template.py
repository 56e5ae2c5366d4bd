"""Prompt text with places to fill in: `{x}` is an argument, `{?x? in {x}}` is there only if `x` is given.

Compiled once. The value of an argument is never read as a template, and braces around a word that is not an argument
of the prompt are plain text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from redstart.features.errors import RegistrationError

_OPENING: Final = re.compile(r"\{(?:(?P<name>\w+)\}|\?(?P<block>\w+)\?)")


class Place(Struct, frozen=True):
    """An argument."""

    name: str

    def fill(self, given: Mapping[str, str]) -> str:
        return given.get(self.name, "")


class Block(Struct):
    """Text that appears only if an argument is given."""

    name: str
    parts: list[str | Place | Block]

    def fill(self, given: Mapping[str, str]) -> str:
        return fill(self.parts, given) if given.get(self.name) else ""


Parts = list[str | Place | Block]


def fill(parts: Parts, given: Mapping[str, str]) -> str:
    """The text with the arguments in their places."""
    return "".join(part if isinstance(part, str) else part.fill(given) for part in parts)


def compile_text(text: str, names: Collection[str], where: str) -> Parts:
    """The parts of `text`; a block that is not closed fails here.

    >>> parts = compile_text("Review{?language? this {language}} code: {code}", ["code", "language"], "here")
    >>> fill(parts, {"code": "x"}), fill(parts, {"code": "x", "language": "C"})
    ('Review code: x', 'Review this C code: x')
    """
    open_blocks: list[tuple[Block, int]] = []
    parts: Parts = []
    root, depth, at = parts, 0, 0
    while at < len(text):
        found = _OPENING.match(text, at)
        if found and found["name"] in names:
            parts.append(Place(found["name"]))
        elif found and found["block"] in names:
            block = Block(found["block"], [])
            parts.append(block)
            open_blocks.append((block, depth))
            parts, depth = block.parts, 0
        elif text[at] == "}" and open_blocks and depth == 0:
            depth = open_blocks.pop()[1]
            parts = open_blocks[-1][0].parts if open_blocks else root
            at += 1
            continue
        else:
            depth += (text[at] == "{") - (text[at] == "}" and depth > 0)
            parts.append(text[at])
            at += 1
            continue
        at = found.end()
    if open_blocks:
        raise RegistrationError(f"{where}: {{?{open_blocks[-1][0].name}? is not closed")
    return _joined(root)


def _joined(parts: Parts) -> Parts:
    """Neighbouring pieces of text as one."""
    out: Parts = []
    for part in parts:
        if isinstance(part, Block):
            part = Block(part.name, _joined(part.parts))
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        else:
            out.append(part)
    return out
