"""What an authorization server keeps: sealed texts that clients carry, and sealed records in the store.

A record is sealed for its kind and its id, so that nobody can put one in the place of another.
The id is a secret that a client has, so the key in the store is a hash of it.
"""

from __future__ import annotations

import time
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final, TypeVar

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode

from redstart.access.verifier import Keeper
from redstart.store.shared import scoped
from redstart.wire.jsonrpc import JsonObject, ProtocolError, encode

T = TypeVar("T")
_TO_URL: Final = str.maketrans("+/", "-_")
_FROM_URL: Final = str.maketrans("-_", "+/")
MAX_RECORD: Final = 512 * 1024
"""The bytes of a sealed record in the store."""
PATIENCE: Final = 10.0
"""Seconds to wait for another process that renews the same sign-in."""


class Wanted(Struct, frozen=True):
    """What a client asks a person for, after it was checked."""

    client_id: str
    client_name: str
    redirect_uri: str
    state: str
    challenge: str
    scopes: list[str]
    resource: str
    expires: float = 0.0
    browser: str = ""
    """The hash of the cookie of the browser in which this was shown to the person."""


class Transaction(Struct, frozen=True):
    """A person has agreed, and is at the identity provider."""

    asked: Wanted
    verifier: str
    nonce: str


class UpstreamTokens(Struct, frozen=True):
    """The tokens of the identity provider. They never leave this server."""

    access: str
    refresh: str = ""
    expires: float = 0.0
    """0: it does not say."""


class SignIn(Struct):
    """One person, signed in with one client: a family of tokens. `generation` counts the refresh tokens."""

    client_id: str
    scopes: list[str]
    resource: str
    subject: str
    provider: str
    claims: JsonObject
    expires: float
    generation: int = 0
    rotated: float = 0.0


class Code(Struct, frozen=True):
    """An authorization code that nobody has used yet."""

    asked: Wanted
    sign_in: SignIn
    tokens: UpstreamTokens


class Turn(Struct, frozen=True):
    """What a refresh token says."""

    id: str
    generation: int


def secret() -> str:
    """A new secret, of 256 bits."""
    return token_urlsafe(32)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class Kept:
    """The sealed texts and records of one server."""

    def __init__(self, server: Keeper) -> None:
        self._server = server

    def _bound(self, kind: str, id: str = "") -> bytes:
        return f"redstart oauth v1\0{self._server.name}\0{kind}\0{id}".encode()

    def seal(self, kind: str, value: object, id: str = "") -> str:
        """A value as a text that only this server can make and read, and that may stand in a URL."""
        return self._server.keys.seal(encode(value), self._bound(kind, id), MAX_RECORD).rstrip("=").translate(_TO_URL)

    def open(self, kind: str, text: str, type: type[T], id: str = "") -> T | None:
        """What a text of this kind says; None if this server has not made it."""
        try:
            padded, what = text.translate(_FROM_URL) + "=" * (-len(text) % 4), "token of OAuthProxy"
            return decode(self._server.keys.open(padded, self._bound(kind, id), what, MAX_RECORD), type=type)
        except (ProtocolError, ValidationError, DecodeError):
            return None

    def _key(self, kind: str, id: str) -> str:
        # What is kept before anybody has signed in must not take the room of those who have.
        room = {"client": "clients", "transaction": "visitors"}.get(kind, "oauth")
        return scoped(f"{room} {self._server.name}", kind, digest(id))

    async def put(self, kind: str, id: str, value: object, seconds: float, nx: bool = False) -> bool:
        """Keep a record for a time. With `nx` False, if there is one already."""
        sealed = self.seal(kind, value, id).encode()
        return await self._server.store.kv_set(self._key(kind, id), sealed, max(seconds, 1.0), nx)

    async def get(self, kind: str, id: str, type: type[T]) -> T | None:
        found = await self._server.store.kv_get(self._key(kind, id))
        return None if found is None else self.open(kind, found.decode(), type, id)

    async def take(self, kind: str, id: str, type: type[T]) -> T | None:
        """Get a record and remove it: of several callers one gets it."""
        found = await self._server.store.kv_take(self._key(kind, id))
        return None if found is None else self.open(kind, found.decode(), type, id)

    async def delete(self, kind: str, id: str) -> None:
        await self._server.store.kv_delete(self._key(kind, id))

    async def may(self, what: str, client: str, rate: float, burst: float) -> float:
        """Count a request of an address or a person: 0 if it may be answered, else the seconds to wait."""
        allowed, wait = await self._server.store.take(self._key(f"rate {what}", client), rate, burst)
        return 0.0 if allowed else wait

    # ------------------------------------------------------------ sign-ins

    async def end(self, id: str) -> None:
        """End a sign-in. The mark stays, so that a process that renews it at this moment does not bring it back."""
        await self.delete("upstream", id)  # which makes room for the mark, where there is none
        await self.put("ended", id, True, 3600.0)
        await self.delete("sign-in", id)
        await self.delete("upstream", id)

    async def keep(self, kind: str, id: str, value: object, seconds: float) -> bool:
        """Keep a record of a sign-in; False: it has ended."""
        await self.put(kind, id, value, seconds)
        if ended := await self.get("ended", id, bool):
            await self.delete(kind, id)
        return not ended

    async def advance(self, id: str, sign_in: SignIn) -> bool:
        """Keep a sign-in with its next generation; False: it has ended."""
        return await self.keep("sign-in", id, sign_in, sign_in.expires - time.time())
