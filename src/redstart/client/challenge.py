"""What a refusal asks for (`WWW-Authenticate`), and what a request was sent with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

# A name is tried at its first letter only: else a long word would take time by the square of its length.
_PARAMETER: Final = re.compile(r'(?<![A-Za-z_])([A-Za-z_]++)\s*+=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


MAX_HEADER: Final = 16 * 1024


class Sent(Struct, frozen=True):
    """What a request was sent with: the token, if there was one, and the headers that have it."""

    headers: Mapping[str, str] = {}
    token: str | None = None


class Challenge(Struct, frozen=True):
    """What a refusal says in `WWW-Authenticate`."""

    status: int
    resource_metadata: str | None = None
    scope: str | None = None
    error: str | None = None
    peer: str | None = None
    """The address from which the refusal came."""


def read_challenge(status: int, headers: Iterable[str], peer: str | None = None) -> Challenge:
    """The parameters of all challenges; of two with the same name the first counts.

    >>> read_challenge(401, ['Bearer scope="a b", error="invalid_token"']).scope
    'a b'
    """
    found: dict[str, str] = {}
    for header in headers:
        for name, quoted, plain in _PARAMETER.findall(header[:MAX_HEADER]):
            if (value := re.sub(r"\\(.)", r"\1", quoted) or plain).isprintable():  # errors have it in their text
                found.setdefault(name.lower(), value)
    return Challenge(status, found.get("resource_metadata"), found.get("scope"), found.get("error"), peer)
