"""Tokens that were checked a moment ago: their hashes, and whose they are."""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import Final

from redstart.features.principal import User

MOST: Final = 4096


class CheckedTokens:
    """The users of tokens, each for a time. Tokens that were refused are not in it: anybody can make those up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = float(seconds)
        self._known: dict[bytes, tuple[float, float, User]] = {}

    def get(self, token: str) -> User | None:
        found = self._known.get(blake2b(token.encode()).digest())
        return found[2] if found is not None and found[0] > time.time() and found[1] > time.monotonic() else None

    def put(self, token: str, user: User, expires: float) -> None:
        """Remember a user for a time, whatever clock is set back, but not after the token has expired."""
        known, digest = self._known, blake2b(token.encode()).digest()
        known.pop(digest, None)
        while len(known) >= MOST:
            del known[next(iter(known))]
        known[digest] = expires, time.monotonic() + self._seconds, user

    def clear(self) -> None:
        self._known.clear()
