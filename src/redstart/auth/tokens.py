"""Tokens that the operator hands out: a table of them, kept as hashes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from hmac import compare_digest

from redstart.access.verifier import TokenVerifier, is_token
from redstart.features.principal import User


class BearerTokens(TokenVerifier):
    """Lets in callers with one of these tokens.

    >>> auth = BearerTokens({"s3cret": "ada", "t0ken": User("bob", scopes="notes:read")})
    """

    def __init__(self, tokens: Mapping[str, User | str], *, scopes: str | Iterable[str] = ()) -> None:
        super().__init__(self._refuse, scopes=scopes)
        self._key = secrets.token_bytes(32)
        self._users: dict[bytes, tuple[bytes, User]] = {}
        for token, user in {**tokens}.items():
            if not is_token(token):  # an error never shows a token
                raise ValueError("a token of BearerTokens must be a non-empty text of visible ASCII characters")
            digest = self._digest(token)
            self._users[digest] = digest, user if isinstance(user, User) else User(user)

    def _digest(self, token: str) -> bytes:
        return blake2b(token.encode(), key=self._key).digest()

    def remembered(self, token: str) -> User | None:
        # The key of the hash is secret, so the time of the look-up says nothing about the tokens that are known.
        digest = self._digest(token)
        known, user = self._users.get(digest, (b"", None))
        return user if compare_digest(known, digest) else None

    async def _refuse(self, token: str) -> None:
        """A token that is not in the table is not valid."""
