"""`requestState`: what a dialogue remembers, in the hands of the client, and of no use to anybody else.

AES-256-GCM where `cryptography` is installed (the extra `seal`), else signed with HMAC-SHA256; then the client can
read it, so the results of steps stay out of it. It opens only for the principal, server, method and parameters that
it was made for. Spec: /specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import binascii
import hmac
import os
import secrets
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from redstart.features.errors import log
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError

MAX_STATE: Final = 32 * 1024
ENCRYPTED: Final = b"\x01"
SIGNED: Final = b"\x02"
_SHORT: Final = 16
_HEAD: Final = 5
"""Bytes of a sealed state before its payload: how it was made, and which key made it."""

WRONG: Final = (
    "requestState was altered, or it belongs to another request, user or server. Send the request again without it."
)
EXPIRED: Final = "requestState has expired. Send the request again without it, to begin anew."
USED: Final = "requestState has been used before, and it is for one use only."


class StateTooLarge(Exception):
    """A dialogue has grown beyond what a client should carry."""


def refused(reason: str = WRONG) -> ProtocolError:
    """The answer to a state that does not open."""
    return ProtocolError(INVALID_PARAMS, reason)


@cache
def _process_key() -> bytes:
    """One per process: a reloaded server still opens what its predecessor sealed."""
    return secrets.token_bytes(32)


def configured_keys(given: Sequence[str | bytes]) -> list[bytes]:
    """The keys, newest first: as given, from REDSTART_KEYS (with commas), from REDSTART_KEY_FILE (one a line)."""
    keys = [key.encode() if isinstance(key, str) else bytes(key) for key in given]
    if not keys and (listed := os.environ.get("REDSTART_KEYS")):
        keys = [key.strip().encode() for key in listed.split(",")]
    if not keys and (path := os.environ.get("REDSTART_KEY_FILE")):
        keys = [line.strip() for line in Path(path).read_bytes().splitlines()]
    keys = [key for key in keys if key]
    if any(len(key) < _SHORT for key in keys):
        log.warning("a key of this server has fewer than %d characters: make one with `openssl rand -hex 32`", _SHORT)
    return keys or [_process_key()]


def aes_gcm() -> Any:
    """The AES-GCM of `cryptography`, or None where it is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        return None
    return AESGCM


class _Key:
    __slots__ = ("cipher", "id", "mac")

    def __init__(self, secret: bytes, cipher: Any) -> None:
        self.id = _derived(secret, b"id")[:4]
        self.mac = _derived(secret, b"mac")
        self.cipher = None if cipher is None else cipher(_derived(secret, b"aes"))


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"redstart requestState v1 " + purpose, "sha256")


class KeyRing:
    """The keys of a server: the newest seals, any of them opens.

    >>> ring = KeyRing(["a key of at least 16 characters"])
    >>> ring.open(ring.seal(b"secret", b"for ada"), b"for ada")
    b'secret'
    """

    def __init__(self, keys: Sequence[str | bytes] = (), *, encrypt: bool = True) -> None:
        self._given = list(keys)
        self._encrypt = encrypt
        self._keys: list[_Key] | None = None

    def _ready(self) -> list[_Key]:
        """The keys, derived on first use: a server that never asks does not import `cryptography`."""
        if self._keys is None:
            cipher = aes_gcm() if self._encrypt else None
            self._keys = [_Key(secret, cipher) for secret in configured_keys(self._given)]
        return self._keys

    @property
    def secret(self) -> bool:
        """Whether clients cannot read what they carry."""
        return self._ready()[0].cipher is not None

    def seal(self, payload: bytes, bound: bytes) -> str:
        """`payload` for a client to carry; it opens only with the same `bound`."""
        key = self._ready()[0]
        if key.cipher is not None:
            head = ENCRYPTED + key.id
            nonce = os.urandom(12)
            sealed = head + nonce + key.cipher.encrypt(nonce, payload, head + bound)
        else:
            head = SIGNED + key.id
            sealed = head + _signature(key, head, bound, payload) + payload
        text = binascii.b2a_base64(sealed, newline=False).decode()
        if len(text) > MAX_STATE:
            raise StateTooLarge(
                f"the state of this dialogue has {len(text)} bytes, and at most {MAX_STATE} are allowed: "
                "keep large results of steps elsewhere and return a reference"
            )
        return text

    def open(self, state: Any, bound: bytes) -> bytes:
        """The payload of a state that this ring sealed for `bound`; anything else is refused."""
        if not isinstance(state, str) or len(state) > MAX_STATE or not state.isascii():
            raise refused()
        sealed = _unwrapped(state)
        head, body = sealed[:_HEAD], sealed[_HEAD:]
        for key in self._ready():
            if key.id == head[1:]:
                payload = _opened(key, head, body, bound)
                if payload is not None:
                    return payload
        raise refused()


def _unwrapped(state: str) -> bytes:
    """Strict base64: one spelling for each state, because a dialogue may be known by it."""
    try:
        sealed = binascii.a2b_base64(state, strict_mode=True)
    except (binascii.Error, ValueError):
        raise refused() from None
    if binascii.b2a_base64(sealed, newline=False) != state.encode():
        raise refused()
    return sealed


def _opened(key: _Key, head: bytes, body: bytes, bound: bytes) -> bytes | None:
    if head[:1] == ENCRYPTED and key.cipher is not None and len(body) >= 28:
        try:
            return bytes(key.cipher.decrypt(body[:12], body[12:], head + bound))
        except Exception as error:  # its class is in `cryptography`, which is not imported here
            if type(error).__name__ != "InvalidTag":
                raise
            return None
    if head[:1] == SIGNED and len(body) >= 32:
        payload = body[32:]
        if hmac.compare_digest(body[:32], _signature(key, head, bound, payload)):
            return payload
    return None


def _signature(key: _Key, head: bytes, bound: bytes, payload: bytes) -> bytes:
    return hmac.digest(key.mac, head + sha256(bound).digest() + payload, "sha256")
