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

_TOKEN: Final = re.compile(r"\{(?P<name>\w+)\}|\{\?(?P<block>\w+)\?|[{}]")


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
    open_blocks = [Block("", [])]  # the first one is the whole text
    depths = [0]  # the plain braces that are open in each block
    at = 0
    for token in _TOKEN.finditer(text):
        parts = open_blocks[-1].parts
        parts.append(text[at : token.start()])
        at = token.end()
        if token["name"] in names:
            parts.append(Place(token["name"]))
        elif token["block"] in names:
            open_blocks.append(Block(token["block"], []))
            depths.append(0)
            parts.append(open_blocks[-1])
        elif token[0] == "}" and depths[-1] == 0 and len(open_blocks) > 1:
            open_blocks.pop()
            depths.pop()
        else:
            depths[-1] = max(0, depths[-1] + token[0].count("{") - token[0].count("}"))
            parts.append(token[0])
    if len(open_blocks) > 1:
        raise RegistrationError(f"{where}: {{?{open_blocks[-1].name}? is not closed")
    return [*open_blocks[0].parts, text[at:]]
