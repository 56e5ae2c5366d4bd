"""`requestState`: what a dialogue remembers, in the hands of the client, and of no use to anybody else.

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
from functools import cache
from hashlib import sha256
from os import urandom
from pathlib import Path
from time import monotonic
from typing import Any, Final

from redstart.asking import KEY_VARIABLES
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
"""The moment from which the next warning of a wrong key may come: anybody can send such states."""

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
    """One per process: a reloaded server still opens what its predecessor sealed."""
    return secrets.token_bytes(32)


def found_keys(given: Sequence[str | bytes]) -> tuple[str, list[bytes]]:
    """Where keys come from and what is there, newest first: as given, else what one of two variables says.

    A variable that is set and leads to no key is an error: a random key instead would work for one process only.
    """
    in_list, in_file = KEY_VARIABLES
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
    # What is no whole path may be a key, put there by mistake: that is not for a log.
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


class _Key:
    """What is derived from one secret. A state begins with how it was made, and with the id of the key."""

    __slots__ = ("cipher", "encrypted", "mac", "signed")

    def __init__(self, secret: bytes, cipher: Any) -> None:
        id = _derived(secret, b"id")[:4]
        self.encrypted = b"\x01" + id
        self.signed = b"\x02" + id
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
        self._secrets: list[bytes] | None = None
        self._keys: list[_Key] | None = None

    def load(self) -> list[bytes]:
        """Read the keys, once; a SettingsError says which are not there."""
        if self._secrets is None:
            self._secrets = configured_keys(self._given)
        return self._secrets

    def _ready(self) -> list[_Key]:
        """The keys, derived on first use: a server that never asks does not import `cryptography`."""
        if self._keys is None:
            cipher = aes_gcm() if self._encrypt else None
            self._keys = [_Key(secret, cipher) for secret in self.load()]
        return self._keys

    @property
    def secret(self) -> bool:
        """Whether clients cannot read what they carry."""
        return self._ready()[0].cipher is not None

    def seal(self, payload: bytes, bound: bytes) -> str:
        """`payload` for a client to carry; it opens only with the same `bound`."""
        key = (self._keys or self._ready())[0]
        if key.cipher is not None:
            nonce = urandom(_NONCE)
            sealed = key.encrypted + nonce + key.cipher.encrypt(nonce, payload, key.encrypted + bound)
        else:
            sealed = key.signed + _signature(key, bound, payload) + payload
        text = b2a_base64(sealed, newline=False).decode()
        if len(text) > MAX_STATE:
            raise StateTooLarge(
                f"the state of this dialogue has {len(text)} bytes, and at most {MAX_STATE} are allowed: "
                "keep large results of steps elsewhere and return a reference"
            )
        return text

    def open(self, state: Any, bound: bytes) -> bytes:
        """The payload of a state that this ring sealed for `bound`; anything else is refused."""
        if type(state) is not str or len(state) > MAX_STATE:
            raise refused()
        try:
            sealed = a2b_base64(state, strict_mode=True)
        except ValueError:  # binascii.Error is one
            raise refused() from None
        # One spelling for each state, because a dialogue may be known by it: the last character could have several.
        over = len(sealed) % 3
        if over and b2a_base64(sealed[-over:], newline=False) != state[-4:].encode():
            raise refused()
        head = sealed[:_HEAD]
        for key in self._keys or self._ready():
            if head == key.encrypted or head == key.signed:
                payload = _decrypted(key, sealed, bound) if head == key.encrypted else _verified(key, sealed, bound)
                if payload is not None:
                    return payload
        self._note_other_keys(head, len(sealed))
        raise refused()

    def _note_other_keys(self, head: bytes, size: int) -> None:
        """Tell the operator of a state that looks like ours and has another key: no client can mend that."""
        global _warn_after
        keys, now = self._ready(), monotonic()
        known = any(head in (key.encrypted, key.signed) for key in keys)
        if known or size < _LEAST.get(head[:1], MAX_STATE) or now < _warn_after:
            return
        _warn_after = now + WARN_EVERY
        count = len(keys)
        how = "does not open with the key" if count == 1 else f"opens with none of the {count} keys"
        log.warning("a requestState %s of this server: do all its processes have the same REDSTART_KEYS?", how)


def _decrypted(key: _Key, sealed: bytes, bound: bytes) -> bytes | None:
    if key.cipher is None or len(sealed) < _HEAD + _NONCE + _TAG:
        return None
    body = _HEAD + _NONCE
    try:
        return key.cipher.decrypt(sealed[_HEAD:body], sealed[body:], key.encrypted + bound)  # type: ignore[no-any-return]
    except Exception as error:  # its class is in `cryptography`, which is not imported here
        if type(error).__name__ != "InvalidTag":
            raise
        return None


def _verified(key: _Key, sealed: bytes, bound: bytes) -> bytes | None:
    body = _HEAD + _MAC
    payload = sealed[body:]
    return payload if hmac.compare_digest(sealed[_HEAD:body], _signature(key, bound, payload)) else None


def _signature(key: _Key, bound: bytes, payload: bytes) -> bytes:
    return hmac.digest(key.mac, key.signed + sha256(bound).digest() + payload, "sha256")
