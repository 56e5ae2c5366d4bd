"""What a client signs: assertions that prove who it is (RFC 7523), and proofs that a token is its own (RFC 9449)."""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from redstart.client.errors import SignInError
from redstart.wire.jsonrpc import JsonObject

ASSERTION_SECONDS: Final = 300
_PROOF: Final = "ES256"


def base64url(data: bytes) -> str:
    """Base64 for URLs, without padding.

    >>> base64url(bytes([255]))
    '_w'
    """
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _signed(header: JsonObject, claims: JsonObject, key: object) -> str:
    from joserfc import jwt

    return jwt.encode(header, claims, key, algorithms=[header["alg"]])  # type: ignore[arg-type]


def need_joserfc() -> None:
    """Refuse at once what cannot be signed later."""
    try:
        import joserfc  # noqa: F401
    except ImportError as error:
        raise SignInError('to sign needs joserfc: pip install "redstart[auth]"') from error


def client_assertion(client_id: str, issuer: str, private_key: str, algorithm: str) -> str:
    """A text that proves to `issuer` that it comes from `client_id`."""
    from joserfc.errors import JoseError

    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "jti": secrets.token_urlsafe(16),
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
    }
    try:
        return _signed({"alg": algorithm, "typ": "JWT"}, claims, _private_key(private_key, algorithm))
    except (JoseError, ValueError) as error:  # without the key itself
        raise SignInError(f"private_key cannot sign with {algorithm}: {type(error).__name__}") from None


def _private_key(pem: str, algorithm: str) -> object:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    kind = RSAKey if algorithm[:2] in ("RS", "PS") else OKPKey if algorithm.startswith("Ed") else ECKey
    return kind.import_key(pem)


class DpopKey:
    """A key pair that binds tokens to this client. `stored` is a key that was kept with its tokens."""

    def __init__(self, stored: JsonObject | None = None) -> None:
        from joserfc.jwk import ECKey

        self._key = ECKey.import_key(stored) if stored else ECKey.generate_key("P-256")
        self._nonces: dict[tuple[str, str], str] = {}

    def kept(self) -> JsonObject:
        """The key as it is kept with its tokens."""
        return dict(self._key.as_dict(private=True))

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """A proof for one request, which no other request can use."""
        parts = urlsplit(url)
        claims: JsonObject = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = base64url(hashlib.sha256(token.encode()).digest())
        if (nonce := self._nonces.get(parts[:2])) is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "alg": _PROOF, "jwk": self._key.as_dict(private=False)}
        return _signed(header, claims, self._key)

    def learn(self, url: str, nonce: str) -> None:
        """Put what the server of `url` has sent into the next proofs for it."""
        self._nonces[urlsplit(url)[:2]] = nonce
