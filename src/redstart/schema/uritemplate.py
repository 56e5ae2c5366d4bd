"""RFC 6570 URI templates, levels 1 to 3, and the way back: from a URI to the variables.

The matcher marks, from the right, at which positions the rest of the template fits: time is proportional to
len(uri) times the number of parts, whatever the input. No regular expression is built from a template.
A plain `{x}` never crosses "/", "?" or "#"; `{+x}` and `{#x}` may. Where several splits fit, earlier variables take
as much as they can. Beyond level 3 there is `{/x*}`, `{?x*}` and `{&x*}`: a list of segments or repeated values.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec

RESERVED = ":/?#[]@!$&'()*+,;="
UNRESERVED = "-._~"
# quote() would encode the % of a triplet, so literals and {+x} are cut at triplets first.
TRIPLET = re.compile(r"(%[0-9A-Fa-f]{2})")
DRIVE = re.compile(r"[A-Za-z]:")
NAME = re.compile(r"[A-Za-z0-9_](?:\.?[A-Za-z0-9_])*$")


class Operator(msgspec.Struct, frozen=True):
    """One row of RFC 6570, appendix A; `stops` are the characters that a match does not cross."""

    first: str
    sep: str
    named: bool
    if_empty: str
    reserved: bool
    stops: str


OPERATORS = {
    "": Operator("", ",", False, "", False, "/?#"),
    "+": Operator("", ",", False, "", True, ""),
    "#": Operator("#", ",", False, "", True, ""),
    ".": Operator(".", ".", False, "", False, "/?#"),
    "/": Operator("/", "/", False, "", False, "?#"),
    ";": Operator(";", ";", True, "", False, "/?#"),
    "?": Operator("?", "&", True, "=", False, "?#"),
    "&": Operator("&", "&", True, "=", False, "?#"),
}
EXPLODED = ("/", "?", "&")


class Expression(msgspec.Struct):
    operator: Operator
    names: tuple[str, ...]
    exploded: frozenset[str]
    stops: str

    def expand(self, values: Mapping[str, Any]) -> str:
        op = self.operator
        pieces = [piece for name in self.names for piece in self._pieces(name, values.get(name))]
        return op.first + op.sep.join(pieces) if pieces else ""

    def _pieces(self, name: str, value: Any) -> list[str]:
        if value is None:
            return []
        items = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
        encoded = [_encode(item, self.operator.reserved) for item in items]
        if isinstance(value, list | tuple) and name not in self.exploded:
            encoded = [",".join(encoded)] if encoded else []
        if not self.operator.named:
            return encoded
        return [f"{name}={item}" if item else name + self.operator.if_empty for item in encoded]

    def split(self, text: str) -> list[tuple[str, str]] | None:
        """The (variable, raw value) pairs of a matched piece, or None."""
        op = self.operator
        if not op.named:
            if op.first == "/" and self.exploded:
                return [(self.names[0], item) for item in text.split("/")]
            items = text.split(op.sep, len(self.names) - 1) if len(self.names) > 1 else [text]
            return list(zip(self.names, items, strict=False))
        pairs = []
        for item in text.split(op.sep):
            name, _, value = item.partition("=")
            if name not in self.names:
                return None
            pairs.append((name, value))
        return pairs


class Template:
    """A compiled template.

    >>> Template("notes://{name}").match("notes://todo")
    {'name': 'todo'}

    A value that could lead out of a directory does not match: an absolute path, a drive letter, a ".." segment, a
    backslash, NUL, and "/" unless by `{+x}` or `{#x}`, however often encoded. Variables listed in `unsafe` are taken
    as they come.
    """

    def __init__(self, text: str, *, unsafe: Iterable[str] = ()) -> None:
        self.text = text
        self.parts = _parse(text)
        expressions = [part for part in self.parts if isinstance(part, Expression)]
        segments = {name for part in expressions if not part.operator.reserved for name in part.names}
        self.variables: tuple[str, ...] = tuple(dict.fromkeys(name for part in expressions for name in part.names))
        self._paths = frozenset(self.variables) - segments
        self.unsafe = frozenset(unsafe)
        if not self.unsafe <= set(self.variables):
            unknown = sorted(self.unsafe - set(self.variables))
            raise ValueError(f"URI template {text!r} has no variable {', '.join(unknown)}")

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def expand(self, values: Mapping[str, Any]) -> str:
        """The URI; a variable that is missing or None leaves nothing."""
        return "".join(part if isinstance(part, str) else part.expand(values) for part in self.parts)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """The variables of a URI, decoded once, or None."""
        values = self._values(uri)
        return None if values is None or any(not self.allows(*pair) for pair in values.items()) else values

    def refused(self, uri: str) -> str | None:
        """The text for a URI that does not match because of a variable: which one, and what it must be."""
        for name, value in (self._values(uri) or {}).items():
            if not self.allows(name, value):
                what = "a relative path, without '..'" if name in self._paths else "one segment, without '..', '/'"
                return f"{name} must be {what}, a backslash or NUL"
        return None

    def allows(self, name: str, value: str | list[str]) -> bool:
        """Whether a variable may hold `value`."""
        return name in self.unsafe or _is_safe(value, name in self._paths)

    def _values(self, uri: str) -> dict[str, str | list[str]] | None:
        """The values of the variables, before the check whether they are allowed."""
        uri = _encode(uri, True)
        head = self.parts[0] if self.parts else ""
        if isinstance(head, str) and not uri.startswith(head):
            return None
        marks = self._marks(uri)
        if not marks[0][0]:
            return None
        out: dict[str, str | list[str]] = {}
        for expression, text in self._pieces(uri, marks):
            if text is not None and not _add_values(expression, text, out):
                return None
        return out

    def _marks(self, uri: str) -> list[bytearray]:
        """For each part, the positions from which it and all that follow fit."""
        after = bytearray(len(uri) + 1)
        after[len(uri)] = 1
        marks = [after]
        for part in reversed(self.parts):
            here = bytearray(len(uri) + 1)
            if isinstance(part, str):
                _mark_literal(part, uri, marks[-1], here)
            else:
                _mark_expression(part, uri, marks[-1], here)
            marks.append(here)
        return marks[::-1]

    def _pieces(self, uri: str, marks: list[bytearray]) -> Iterable[tuple[Expression, str | None]]:
        """What each expression matched; None where it is absent."""
        at = 0
        for part, after in zip(self.parts, marks[1:], strict=True):
            if isinstance(part, str):
                at += len(part)
                continue
            start = at + len(part.operator.first)
            end = -1
            if uri.startswith(part.operator.first, at):
                limit = min((cut for stop in part.stops if (cut := uri.find(stop, start)) >= 0), default=len(uri))
                end = after.rfind(1, start, limit + 1)
            if end < 0:
                yield part, None
            else:
                yield part, uri[start:end]
                at = end


def _add_values(expression: Expression, text: str, out: dict[str, str | list[str]]) -> bool:
    """Add the values in a matched piece to `out`; False where they do not fit."""
    pairs = expression.split(text)
    if pairs is None:
        return False
    lists: dict[str, list[str]] = {}
    for name, raw in pairs:
        value = _decode(raw)
        if value is None:
            return False
        if name in expression.exploded:
            lists.setdefault(name, []).append(value)
        elif out.setdefault(name, value) != value:
            return False
    return all(out.setdefault(name, values) == values for name, values in lists.items())


def _mark_literal(literal: str, uri: str, after: bytearray, here: bytearray) -> None:
    at = uri.find(literal)
    while at >= 0:
        here[at] = after[at + len(literal)]
        at = uri.find(literal, at + 1)


def _mark_expression(expression: Expression, uri: str, after: bytearray, here: bytearray) -> None:
    first, stops = expression.operator.first, expression.stops
    reachable = after[len(uri)]  # whether the rest fits at or after this position, with no stop between
    if first:
        here[len(uri)] = after[len(uri)]
    for at in range(len(uri) - 1, -1, -1):
        char = uri[at]
        if first:
            here[at] = after[at] or (reachable and char == first)
        else:
            here[at] = reachable and char not in stops
        reachable = after[at] or (reachable and char not in stops)


def _parse(text: str) -> list[str | Expression]:
    parts: list[str | Expression] = []
    at = 0
    while at < len(text):
        if text[at] == "{":
            end = text.find("}", at)
            if end < 0:
                raise ValueError(f"URI template {text!r}: the brace at {at} is not closed")
            parts.append(_expression(text[at + 1 : end], text, parts))
            at = end + 1
        else:
            end = text.find("{", at)
            end = len(text) if end < 0 else end
            if "}" in text[at:end]:
                raise ValueError(f"URI template {text!r}: a closing brace without an opening one")
            parts.append(_encode(text[at:end], True))
            at = end
    return parts


def _expression(body: str, text: str, before: list[str | Expression]) -> Expression:
    sign = body[:1] if body[:1] in OPERATORS else ""
    operator = OPERATORS[sign]
    specs = body[len(sign) :].split(",")
    exploded = {spec[:-1] for spec in specs if spec.endswith("*")}
    names = tuple(spec.removesuffix("*") for spec in specs)
    for name in names:
        if not NAME.match(name):
            raise ValueError(
                f"URI template {text!r}: {{{body}}} is not a variable" + (PREFIX_HINT if ":" in name else "")
            )
    if exploded and (sign not in EXPLODED or (sign == "/" and len(names) > 1)):
        raise ValueError(f"URI template {text!r}: {{{body}}} is not supported; write {{+{names[0]}}} for any path")
    if before and isinstance(before[-1], Expression):
        if not operator.first:
            raise ValueError(f"URI template {text!r}: {{{body}}} needs a literal between it and the variable before")
        before[-1].stops += operator.first  # otherwise nothing would be left for this variable
    return Expression(operator, names, frozenset(exploded), operator.stops)


PREFIX_HINT = " (the length prefix of level 4 is not supported)"


def _encode(text: str, reserved: bool) -> str:
    if not reserved:
        return quote(text, safe=UNRESERVED)
    if text.isascii() and text.isalnum():
        return text
    pieces = TRIPLET.split(text)
    pieces[::2] = [quote(piece, safe=UNRESERVED + RESERVED) for piece in pieces[::2]]
    return "".join(pieces)


def _decode(raw: str) -> str | None:
    if "%" not in raw:
        return raw
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None


def _is_safe(value: str | list[str], slashes: bool) -> bool:
    """Whether the value stays inside of the directory that it is joined to, even if it is decoded several times."""
    if isinstance(value, list):
        return all(_is_safe(item, slashes) for item in value) and _is_safe("/".join(value), True)
    for _ in range(4):
        if "\0" in value or "\\" in value or ("/" in value and not slashes):
            return False
        if value.startswith("/") or DRIVE.match(value) or ".." in value.split("/"):
            return False
        again = unquote(value) if "%" in value else value
        if again == value:
            return True
        value = again
    return False
