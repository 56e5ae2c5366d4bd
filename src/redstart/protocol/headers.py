"""The rules of the `Mcp-*` headers: presence, agreement with the body, the base64 sentinel.

Spec: /specification/2026-07-28/basic/transports/streamable-http (headers). Names are compared in lower case,
values exactly; a value that plain ASCII cannot carry stands between `=?base64?` and `?=`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from redstart.wire.jsonrpc import HEADER_MISMATCH, JsonMapping, ProtocolError

Headers = Mapping[bytes, bytes]


class SteadyHeaders(dict[bytes, bytes]):
    """Headers that do not change: they are those of each request on a connection that has the same head."""

    agree_with: tuple[str, bytes, str | None] | None = None
    """The version, method and name with which they were last found to agree."""


VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
SESSION: Final = b"mcp-session-id"
LAST_EVENT: Final = b"last-event-id"
PARAM_PREFIX: Final = b"mcp-param-"
DECIDING: Final = frozenset((b"authorization", b"content-length", b"content-type", b"host", b"origin", LAST_EVENT))
"""Beside all `Mcp-*`: the headers that may stand only once."""

_PREFIX: Final = b"=?base64?"
_SUFFIX: Final = b"?="
_NUMBER: Final = r"-?[0-9]{1,32}(\.[0-9]{1,32})?([eE][+-]?[0-9]{1,3})?"
MAX_SAFE: Final = 2**53 - 1
TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"

_NAMED_SCHEMAS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords of JSON Schema whose value has one schema for each name."""
_VALUES: Final = ("default", "const", "enum", "examples")
"""Keywords whose value is data: an annotation in it means nothing."""


def mismatch(message: str) -> ProtocolError:
    return ProtocolError(HEADER_MISMATCH, message)


def check_agreement(headers: Headers, version: str, method: bytes, name: str | None) -> None:
    """Refuse a request whose headers do not agree with its body."""
    given = headers.get
    if given(VERSION) != version.encode():
        _explain(headers, VERSION, "MCP-Protocol-Version", version)
    if given(METHOD) != method:
        _explain(headers, METHOD, "Mcp-Method", method.decode())
    # The bytes of an identifier decide: other names may be encoded in the header, or may look as if they were.
    if name is not None and (given(NAME) != name.encode() or not name.isidentifier() or not name.isascii()):
        _compare_name(headers, name)


def _compare_name(headers: Headers, name: str) -> None:
    """Decode the header Mcp-Name and compare it with the name in the body: their bytes alone do not decide."""
    given = headers.get(NAME)
    if given is None:
        raise mismatch("The header Mcp-Name is missing")
    if decode_value(given, "Mcp-Name") != name:
        raise mismatch("The header Mcp-Name does not agree with the body")


def _explain(headers: Headers, key: bytes, shown: str, wanted: str) -> None:
    value = headers.get(key)
    if value is None:
        raise mismatch(f"The header {shown} is missing")
    if value.strip(b" \t") != wanted.encode():
        raise mismatch(f"The header {shown} does not agree with the body")


def decode_value(value: bytes, shown: str) -> str:
    """The text of a header value; only the exact sentinel means base64."""
    value = value.strip(b" \t")
    try:
        if value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX) + len(_SUFFIX):
            payload = value[len(_PREFIX) : -len(_SUFFIX)]
            decoded = binascii.a2b_base64(payload, strict_mode=True)
            if b64encode(decoded) != payload:  # too much padding, or unused bits that are not zero
                raise ValueError
            return decoded.decode()
        return value.decode("ascii")
    except ValueError:
        raise mismatch(f"The header {shown} is not valid: expected ASCII or strict base64 of UTF-8") from None


def encode_value(text: str) -> str:
    """A header value for `text`: plain where ASCII can carry it, else behind the sentinel."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


class ParamRule:
    """One `x-mcp-header` of a tool: where the value is in the arguments, and the header that repeats it."""

    __slots__ = ("key", "path", "shown")

    def __init__(self, header: str, path: tuple[str, ...]) -> None:
        self.key = PARAM_PREFIX + header.lower().encode()
        self.shown = f"Mcp-Param-{header}"
        self.path = path

    def value(self, arguments: object) -> object:
        """The argument that the header repeats; None if it is absent."""
        for name in self.path:
            arguments = arguments.get(name) if isinstance(arguments, Mapping) else None
        return arguments

    def check(self, headers: Headers, arguments: object) -> None:
        """Refuse a header that does not agree with the arguments."""
        value = self.value(arguments)
        given = headers.get(self.key)
        if value is None:
            if given is not None:  # a proxy may have routed by it
                raise mismatch(f"The header {self.shown} is there, but the arguments do not have its value")
            return
        if given is None:
            raise mismatch(f"The header {self.shown} is missing, but the arguments have its value")
        if not self._same(decode_value(given, self.shown), value):
            raise mismatch(f"The header {self.shown} does not agree with the arguments")

    def _same(self, text: str, value: object) -> bool:
        if isinstance(value, bool):
            return text == ("true" if value else "false")
        if isinstance(value, int | float):
            # Python reads 4_2 and +42 as numbers, JSON does not; beyond MAX_SAFE two readers may see two numbers.
            if not re.fullmatch(_NUMBER, text) or not -MAX_SAFE <= value <= MAX_SAFE:
                return False
            return int(text) == value if text.lstrip("-").isdigit() else float(text) == value
        return bool(text == value)


def param_rules(schema: object) -> list[ParamRule]:
    """The rules that follow from the annotations of an input schema; ValueError says what is wrong with one.

    >>> [rule.shown for rule in param_rules({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})]
    ['Mcp-Param-Region']
    """
    rules: dict[bytes, ParamRule] = {}
    for path, annotated in _annotations(schema):
        name = annotated["x-mcp-header"]
        if not path or "" in path:
            raise ValueError(
                f"x-mcp-header {name!r} is not reachable through properties alone, so clients must refuse the tool: "
                "put it on an argument, or on a property of an object, not inside of an array, a union or a $ref"
            )
        where = f"x-mcp-header of {'.'.join(path)!r}"
        if not isinstance(name, str) or not re.fullmatch(TOKEN, name):
            raise ValueError(f"{where} must be a header name (an HTTP token), not {name!r}")
        if annotated.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"{where} needs the type string, integer or boolean")
        rule = ParamRule(name, path)
        if rule.key in rules:
            raise ValueError(f"{where}: two arguments have the same header {name!r}")
        rules[rule.key] = rule
    return list(rules.values())


def _annotations(schema: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], JsonMapping]]:
    """Every subschema with an `x-mcp-header`, and its path: "" stands for any keyword but `properties`."""
    if isinstance(schema, list):
        for item in schema:
            yield from _annotations(item, (*path, ""))
    if not isinstance(schema, Mapping):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            for name, subschema in value.items():
                yield from _annotations(subschema, (*path, name if keyword == "properties" else ""))
        elif keyword not in _VALUES:
            yield from _annotations(value, (*path, ""))


def duplicated(pairs: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """A header that occurs twice, but may occur once only: two programs could read different values."""
    seen = set()
    for name, _ in pairs:
        if name in DECIDING or name.startswith(b"mcp-"):
            if name in seen:
                return name
            seen.add(name)
    return None
