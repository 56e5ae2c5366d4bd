"""`requestState` is carried by the client, so it is sealed: only this server can make one or change it.

AES-256-GCM where `cryptography` is installed (the extra `seal`), else signed with HMAC-SHA256; then the client can
read it, so the results of steps stay out of it. It opens only for the principal, server, method and parameters that
it was made for. Spec: /specification/2026-07-28/basic/patterns/mrtr.
"""

from __future__ import annotations

import hmac
import os
import secrets
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from functools import cache, cached_property
from hashlib import sha256
from os import urandom
from pathlib import Path
from time import monotonic
from typing import Any, Final

from redstart.features.errors import SettingsError, log
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError

MAX_STATE: Final = 32 * 1024
SHORT_KEY: Final = 16
_HEAD: Final = 5
_NONCE: Final = 12
_TAG: Final = 16
_MAC: Final = 32
_LEAST: Final = {b"\x01": _HEAD + _NONCE + _TAG, b"\x02": _HEAD + _MAC}
"""The least size of a state, by how it was made."""
WARN_EVERY: Final = 60.0
_warn_after = 0.0
"""When the next warning of a wrong key may be logged. Anybody can send such states, so warnings are rare."""

MAKE_ONE: Final = "make a key with: openssl rand -hex 32"
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
    """One per process, so that a reloaded server opens the states of the server before it."""
    return secrets.token_bytes(32)


def found_keys(given: Sequence[str | bytes]) -> tuple[str, list[bytes]]:
    """Where the keys come from, and the keys, newest first: those given, else those of an environment variable.

    A variable that is set but holds no key is an error: a random key instead would work for one process only.
    """
    in_list, in_file = "REDSTART_KEYS", "REDSTART_KEY_FILE"
    if given:
        return "Server(keys=…)", [key.encode() if isinstance(key, str) else bytes(key) for key in given]
    if (listed := os.environ.get(in_list)) is not None:  # with commas
        parts = [key.strip() for key in listed.split(",")]
        keys = [key.encode(errors="surrogateescape") for key in parts if key]
        if not keys:
            raise SettingsError(f"{in_list} is set, but there is no key in it", f"unset it, or {MAKE_ONE}")
        return in_list, keys
    if (path := os.environ.get(in_file)) is not None:  # one a line
        return in_file, _keys_of_file(in_file, path)
    return "", []


def _keys_of_file(variable: str, path: str) -> list[bytes]:
    if not path:
        raise SettingsError(f"{variable} is set, but names no file", f"unset it, or {MAKE_ONE}")
    # Text that is not an absolute path may be a key, put there by mistake. A key must not be logged.
    shown = path if os.path.isabs(path) else f"its path, looked for in {os.getcwd()}"
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        advice = f"let it be a file that this user can read, one key a line; {MAKE_ONE}"
        raise SettingsError(f"{variable}: {shown}: {error.strerror}", advice) from None
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise SettingsError(f"{variable}: there is no key in {shown}", f"write one key a line; {MAKE_ONE}")
    return keys


def configured_keys(given: Sequence[str | bytes]) -> list[bytes]:
    """The keys, newest first, or one for this process where there are none."""
    keys = found_keys(given)[1]
    if any(len(key) < SHORT_KEY for key in keys):
        log.warning(
            "a key of this server has fewer than %d characters: make one with `openssl rand -hex 32`", SHORT_KEY
        )
    return keys or [_process_key()]


def aes_gcm() -> Any:
    """The AES-GCM of `cryptography`, or None where it is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        return None
    return AESGCM


class SealingKey:
    """What is derived from one secret. A state begins with how it was made, and with the id of the key."""

    __slots__ = ("_mac", "cipher", "encrypted", "signed")

    def __init__(self, secret: bytes, encrypt: bool) -> None:
        def derived(purpose: bytes) -> bytes:
            return hmac.digest(secret, b"redstart requestState v1 " + purpose, "sha256")

        cipher = aes_gcm() if encrypt else None
        self.cipher = None if cipher is None else cipher(derived(b"aes"))
        self._mac = derived(b"mac")
        id = derived(b"id")[:4]
        self.encrypted, self.signed = b"\x01" + id, b"\x02" + id

    def open(self, sealed: bytes, bound: bytes) -> bytes | None:
        """The payload, or None if this key did not seal it for `bound`."""
        head = sealed[:_HEAD]
        if head == self.signed:
            payload = sealed[_HEAD + _MAC :]
            genuine = hmac.compare_digest(sealed[_HEAD : _HEAD + _MAC], self.signature(payload, bound))
            return payload if genuine else None
        if head != self.encrypted or self.cipher is None or len(sealed) < _LEAST[b"\x01"]:
            return None
        from cryptography.exceptions import InvalidTag

        body = _HEAD + _NONCE
        try:
            return bytes(self.cipher.decrypt(sealed[_HEAD:body], sealed[body:], head + bound))
        except InvalidTag:
            return None

    def signature(self, payload: bytes, bound: bytes) -> bytes:
        return hmac.digest(self._mac, self.signed + sha256(bound).digest() + payload, "sha256")


class KeyRing:
    """The keys of a server: the newest seals, any of them opens.

    >>> ring = KeyRing(["a key of at least 16 characters"])
    >>> ring.open(ring.seal(b"secret", b"for ada"), b"for ada")
    b'secret'
    """

    def __init__(self, keys: Sequence[str | bytes] = (), *, encrypt: bool = True) -> None:
        self._given = keys
        self._encrypt = encrypt

    @cached_property
    def _secrets(self) -> list[bytes]:
        return configured_keys(self._given)

    @cached_property
    def _keys(self) -> list[SealingKey]:
        """The keys, derived on first use: a server that never asks does not import `cryptography`."""
        return [SealingKey(secret, self._encrypt) for secret in self._secrets]

    def load(self) -> list[bytes]:
        """Read the keys, once; a SettingsError says which are not there."""
        return self._secrets

    @property
    def secret(self) -> bool:
        """Whether clients cannot read what they carry."""
        return self._keys[0].cipher is not None

    def seal(self, payload: bytes, bound: bytes, most: int | None = None) -> str:
        """`payload` for a client to carry; it opens only with the same `bound`, and has at most `most` bytes."""
        key = self._keys[0]
        if key.cipher is None:
            sealed = key.signed + key.signature(payload, bound) + payload
        else:
            nonce = urandom(_NONCE)
            sealed = key.encrypted + nonce + key.cipher.encrypt(nonce, payload, key.encrypted + bound)
        text = b2a_base64(sealed, newline=False).decode()
        if len(text) > (most := most or MAX_STATE):
            raise StateTooLarge(f"requestState would have {len(text)} bytes, and at most {most} are allowed")
        return text

    def open(self, state: object, bound: bytes, what: str = "requestState", most: int | None = None) -> bytes:
        """The payload of a state that this ring sealed for `bound`; anything else is refused. A warning says `what`."""
        if type(state) is not str or len(state) > (most or MAX_STATE):
            raise refused()
        try:
            sealed = a2b_base64(state, strict_mode=True)
        except ValueError:  # binascii.Error is one
            raise refused() from None
        # Base64 can spell the last character in several ways. One is accepted, because a state may name a dialogue.
        over = len(sealed) % 3
        if over and b2a_base64(sealed[-over:], newline=False) != state[-4:].encode():
            raise refused()
        for key in self._keys:
            payload = key.open(sealed, bound)
            if payload is not None:
                return payload
        self._warn_of_other_keys(sealed, what)
        raise refused()

    def _warn_of_other_keys(self, sealed: bytes, what: str) -> None:
        """Warn the operator of a state that was made with another key: only the operator can correct that."""
        global _warn_after
        head, count, now = sealed[:_HEAD], len(self._keys), monotonic()
        known = any(head in (key.encrypted, key.signed) for key in self._keys)
        if known or len(sealed) < _LEAST.get(head[:1], MAX_STATE) or now < _warn_after:
            return
        _warn_after = now + WARN_EVERY
        how = "does not open with the key" if count == 1 else f"opens with none of the {count} keys"
        log.warning("a %s %s of this server: do all its processes have the same REDSTART_KEYS?", what, how)
