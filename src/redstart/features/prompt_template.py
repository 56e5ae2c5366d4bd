"""Prompt text with placeholders: `{x}` is an argument, and `{?x? in {x}}` is left out if `x` is not given.

A text is compiled once. The value of an argument is never read as a template. Braces around a word that is not an
argument of the prompt are plain text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from redstart.features.errors import RegistrationError

_TOKEN: Final = re.compile(r"\{(?P<name>\w+)\}|\{\?(?P<optional>\w+)\?|[{}]")


class Placeholder(Struct, frozen=True):
    """Where an argument is filled in."""

    name: str

    def fill(self, given: Mapping[str, str]) -> str:
        return given.get(self.name, "")


class OptionalText(Struct):
    """Text that appears only if an argument is given."""

    name: str
    parts: list[str | Placeholder | OptionalText]

    def fill(self, given: Mapping[str, str]) -> str:
        return fill(self.parts, given) if given.get(self.name) else ""


Parts = list[str | Placeholder | OptionalText]


def fill(parts: Parts, given: Mapping[str, str]) -> str:
    """The text with the arguments filled in."""
    return "".join(part if isinstance(part, str) else part.fill(given) for part in parts)


def compile_text(text: str, names: Collection[str], where: str) -> Parts:
    """The parts of `text`. Optional text that is not closed is refused.

    >>> parts = compile_text("Review{?language? this {language}} code: {code}", ["code", "language"], "here")
    >>> fill(parts, {"code": "x"}), fill(parts, {"code": "x", "language": "C"})
    ('Review code: x', 'Review this C code: x')
    """
    open_parts = [OptionalText("", [])]  # the first one is the whole text, the others are inside of each other
    depths = [0]  # how many plain braces are open in each of them
    at = 0
    for token in _TOKEN.finditer(text):
        parts = open_parts[-1].parts
        parts.append(text[at : token.start()])
        at = token.end()
        if token["name"] in names:
            parts.append(Placeholder(token["name"]))
        elif token["optional"] in names:
            open_parts.append(OptionalText(token["optional"], []))
            depths.append(0)
            parts.append(open_parts[-1])
        elif token[0] == "}" and depths[-1] == 0 and len(open_parts) > 1:
            open_parts.pop()
            depths.pop()
        else:
            depths[-1] = max(0, depths[-1] + token[0].count("{") - token[0].count("}"))
            parts.append(token[0])
    if len(open_parts) > 1:
        raise RegistrationError(f"{where}: {{?{open_parts[-1].name}? is not closed")
    return [*open_parts[0].parts, text[at:]]
