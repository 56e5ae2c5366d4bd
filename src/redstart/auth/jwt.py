"""`auth=JWT(issuer=…, audience=…)`: tokens that an issuer has signed are checked here, with its public keys.

Spec: RFC 7519, RFC 8725 (what must be checked), RFC 9068 (access tokens as JWTs).
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeGuard
from urllib.parse import urlsplit

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from redstart.auth.fetch import Fetcher, FetchError
from redstart.auth.keys import IssuerKeys
from redstart.features.errors import SettingsError
from redstart.features.principal import User
from redstart.features.rules import is_scope
from redstart.server.authenticate import AuthError, TokenVerifier
from redstart.wire.jsonrpc import JsonObject

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS: Final = ("RS256", "ES256", "PS256", "Ed25519", "RS384", "ES384", "PS384", "RS512", "ES512", "PS512")
_ALLOWED: Final = (*ALGORITHMS, "EdDSA")
TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
LEEWAY: Final = 30.0
"""Seconds by which the clocks of the issuer and of this machine may differ."""
REMEMBERED: Final = 4096
"""Tokens whose check is remembered."""
REMEMBER: Final = 300.0
"""Seconds for which a check is remembered, unless the token expires or the keys change before."""
AWAY: Final = "The token could not be checked, because its issuer does not answer; try again later"


class _Head(Struct):
    alg: str
    kid: str
    typ: str = "JWT"


_head = Decoder(_Head)


class JWT(TokenVerifier):
    """Lets in who has a token that this issuer has signed for this server.

    >>> auth = JWT(issuer="https://login.example.com", audience="https://mcp.example.com/mcp", scopes="mcp")
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str | Iterable[str],
        scopes: str | Iterable[str] = (),
        jwks_uri: str | None = None,
        algorithms: Sequence[str] = ALGORITHMS,
        leeway: float = LEEWAY,
        audience_claim: str = "aud",
        scope_claims: Sequence[str] = ("scope", "scp"),
    ) -> None:
        need_extra()
        super().__init__(self._verify, authorization_servers=[checked_url("issuer", issuer)], scopes=scopes)
        self._issuer = issuer
        self._audiences = {audience} if isinstance(audience, str) else set(audience)
        if not self._audiences or not all(self._audiences):
            raise ValueError("audience of JWT must name this server: without it a token for any other one would do")
        for name in algorithms:
            if name not in _ALLOWED:
                raise ValueError(f"algorithms of JWT: {name!r:.50} is not allowed; allowed are {', '.join(_ALLOWED)}")
        self._algorithms = frozenset(algorithms)
        self._leeway = leeway
        self._audience_claim = audience_claim
        self._scope_claims = tuple(scope_claims)
        trusted = [issuer] if jwks_uri is None else [issuer, checked_url("jwks_uri", jwks_uri)]
        self._keys = IssuerKeys(issuer, jwks_uri, Fetcher(trusted))
        self._known: dict[bytes, tuple[float, User]] = {}
        self._known_changes = 0

    # ------------------------------------------------------------ what was checked before

    def remembered(self, token: str) -> User | None:
        found = self._current().get(blake2b(token.encode()).digest())
        if found is None or found[0] <= time.time():
            return None
        if self._keys.is_old:
            self._keys.refresh_soon()
        return found[1]

    def _current(self) -> dict[bytes, tuple[float, User]]:
        """What is known of tokens, by their hashes. Nothing, after a change of the keys."""
        if self._keys.changes != self._known_changes:
            self._known.clear()
            self._known_changes = self._keys.changes
        return self._known

    def _remember(self, token: str, user: User, expires: float) -> None:
        known = self._current()
        while len(known) >= REMEMBERED:
            del known[next(iter(known))]
        digest = blake2b(token.encode()).digest()
        known.pop(digest, None)
        known[digest] = min(expires, time.time() + REMEMBER), user

    # ------------------------------------------------------------ the check

    async def _verify(self, token: str) -> User | None:
        head = _head_of(token)
        if head is None or head.alg not in self._algorithms or head.typ.lower() not in TYPES:
            return None
        try:
            key = await self._keys.find(head.kid)
        except FetchError:
            raise AuthError(503, AWAY) from None
        claims = None if key is None else _signed(token, key, head.alg)
        user = None if claims is None else self._user(claims)
        if claims is not None and user is not None:
            self._remember(token, user, claims["exp"] + self._leeway)
        return user

    def _user(self, claims: JsonObject) -> User | None:
        """The user of claims that the issuer has signed, if they are for this server and for now."""
        now, expires, begins = time.time(), claims.get("exp"), claims.get("nbf", 0)
        if not (_is_time(expires) and _is_time(begins)):
            return None
        if expires + self._leeway <= now or begins - self._leeway > now or claims.get("iss") != self._issuer:
            return None
        audience = claims.get(self._audience_claim)
        named = audience if isinstance(audience, list) else [audience]
        subject = claims.get("sub")
        if not any(isinstance(one, str) and one in self._audiences for one in named) or not isinstance(subject, str):
            return None
        return User(subject, self._issuer, scopes_in(claims, self._scope_claims), claims) if subject.strip() else None

    def close(self) -> None:
        self._keys.close()


def _head_of(token: str) -> _Head | None:
    """The first part of a token, which nobody has checked yet."""
    head, _, rest = token.partition(".")
    if rest.count(".") != 1:
        return None
    try:
        return _head.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (DecodeError, ValueError):
        return None


def _signed(token: str, key: Key, algorithm: str) -> JsonObject | None:
    """The claims of a token, if this key has signed it by this algorithm."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    if key.alg not in (None, algorithm):
        return None
    try:
        return dict(jwt.decode(token, key, algorithms=[algorithm]).claims)
    except (JoseError, ValueError, TypeError):
        return None


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12


def scopes_in(claims: JsonObject, names: Iterable[str]) -> list[str]:
    """The scopes that claims name: a text with spaces between them, or a list."""
    found: list[str] = []
    for name in names:
        value = claims.get(name)
        listed = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
        found += (one for one in listed if isinstance(one, str) and is_scope(one))
    return found


def checked_url(label: str, url: str) -> str:
    """A URL that the operator has given: https, or http for this machine."""
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or (parts.scheme != "https" and not local):
        raise ValueError(f"{label} must be like https://login.example.com, not {url!r:.100}")
    return url


def need_extra() -> None:
    """Say which extra is missing, when the server is made and not with the first token."""
    if find_spec("joserfc") is None or find_spec("httpx2") is None:
        raise SettingsError("this auth= needs joserfc and httpx2", 'pip install "redstart[auth]"')
