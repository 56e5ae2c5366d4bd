"""`x-mcp-header`: arguments that modern HTTP clients repeat in a header, so that a proxy can route by them.

Spec: /specification/2026-07-28/basic/transports/streamable-http (parameter headers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.features.errors import RegistrationError
from redstart.features.rules import Rule, wrong
from redstart.protocol.call import Call
from redstart.protocol.headers import TOKEN, ParamRule, param_rules
from redstart.wire.jsonrpc import decode


class Header(Struct, frozen=True):
    """Ask modern HTTP clients to repeat an argument in the header `Mcp-Param-<name>`.

    >>> Header("Region").json_schema_extra
    {'x-mcp-header': 'Region'}
    """

    name: str

    def __post_init__(self) -> None:
        Rule(_token, optional=False).check("name of a Header", self.name)

    @property
    def json_schema_extra(self) -> dict[str, str]:
        return {"x-mcp-header": self.name}


def _token(label: str, value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(TOKEN, value) else wrong(label, "a header name", value)


def header_rules(schema: Mapping[str, Any], where: str) -> list[ParamRule]:
    """The rules of a tool's input schema."""
    try:
        return param_rules(schema)
    except ValueError as error:
        raise RegistrationError(f"{where}: {error}") from None


def check_headers(rules: Sequence[ParamRule], call: Call, raw: Raw | UnsetType) -> None:
    """Refuse a call whose headers say something else than its arguments."""
    try:
        arguments = decode(raw) if raw is not UNSET else {}
    except ValueError:
        return  # the arguments are refused where they are bound
    if isinstance(arguments, dict):
        for rule in rules:
            rule.check(call.headers, arguments)  # type: ignore[arg-type]
