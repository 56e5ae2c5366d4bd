"""`x-mcp-header`: arguments that modern HTTP clients repeat in a header, so that a proxy can route by them.

Spec: /specification/2026-07-28/basic/transports/streamable-http (parameter headers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from redstart.features.errors import RegistrationError
from redstart.features.rules import Rule, wrong
from redstart.protocol.headers import TOKEN, ParamRule, param_rules


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


def _token(label: str, value: object) -> str:
    return value if isinstance(value, str) and re.fullmatch(TOKEN, value) else wrong(label, "a header name", value)


def header_rules(schema: Mapping[str, object], where: str) -> list[ParamRule]:
    """The rules of a tool's input schema."""
    try:
        return param_rules(schema)
    except ValueError as error:
        raise RegistrationError(f"{where}: {error}") from None
