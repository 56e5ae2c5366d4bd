"""`auth=JWT(issuer=…, audience=…)`: tokens that an issuer has signed are checked here, with its public keys.

Spec: RFC 7519, RFC 8725 (what must be checked), RFC 9068 (access tokens as JWTs).
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Container, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeGuard
from urllib.parse import urlsplit

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from redstart.access.verifier import AuthError, TokenVerifier
from redstart.auth.checked import CheckedTokens
from redstart.auth.fetch import Fetcher, FetchError
from redstart.auth.keys import IssuerKeys
from redstart.features.errors import SettingsError
from redstart.features.principal import User
from redstart.features.rules import is_scope
from redstart.wire.jsonrpc import JsonObject, encode

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS: Final = ("RS256", "ES256", "PS256", "Ed25519", "RS384", "ES384", "PS384", "RS512", "ES512", "PS512")
_ALLOWED: Final = (*ALGORITHMS, "EdDSA")
TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
LEEWAY: Final = 30.0
"""Seconds by which the clocks of the issuer and of this machine may differ."""
REMEMBER: Final = 300.0
"""Seconds for which a check is remembered, unless the token expires or the keys change before."""
AWAY: Final = "The token could not be checked, because its issuer does not answer; try again later"


class _Head(Struct):
    alg: str
    kid: str | None = None
    typ: str = "JWT"


_head = Decoder(_Head)


class JWT(TokenVerifier):
    """Lets in callers with a token that this issuer has signed for this server.

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
        self._audiences = {audience} if isinstance(audience, str) else set(audience or ())
        if not self._audiences or not all(self._audiences):
            raise ValueError("audience of JWT must name this server: without it a token for any other one would do")
        if wrong := [name for name in algorithms if name not in _ALLOWED]:
            raise ValueError(f"algorithms of JWT: {wrong[0]!r:.50} is not allowed; allowed are {', '.join(_ALLOWED)}")
        self._algorithms = frozenset(algorithms)
        self._leeway = float(leeway)
        self._audience_claim, self._scope_claims = audience_claim, tuple(scope_claims)
        trusted = [issuer] if jwks_uri is None else [issuer, checked_url("jwks_uri", jwks_uri)]
        self._keys = IssuerKeys(issuer, jwks_uri, Fetcher(trusted))
        self._checked = CheckedTokens(REMEMBER)
        self._checked_changes = 0

    # ------------------------------------------------------------ what was checked before

    def remembered(self, token: str) -> User | None:
        user = self._current().get(token)
        if user is not None and self._keys.is_old:
            self._keys.refresh_soon()
        return user

    def _current(self) -> CheckedTokens:
        """The tokens that were checked with the keys that are known now."""
        if self._keys.changes != self._checked_changes:
            self._checked.clear()
            self._checked_changes = self._keys.changes
        return self._checked

    # ------------------------------------------------------------ the check

    async def _verify(self, token: str) -> User | None:
        head = _head_of(token)
        if head is None or head.alg not in self._algorithms or head.typ.lower() not in TYPES:
            return None
        try:
            claims = _signed(token, await self._keys.find(head.kid, head.alg), head.alg)
            # Where tokens do not name their key, only a signature that does not fit says that there may be a new one.
            if claims is None and head.kid is None and await self._keys.are_others():
                claims = _signed(token, await self._keys.find(None, head.alg), head.alg)
        except FetchError:
            raise AuthError(503, AWAY) from None
        user = None if claims is None else self._user(claims)
        if claims is not None and user is not None:
            self._current().put(token, user, claims["exp"] + self._leeway)
        return user

    def _user(self, claims: JsonObject) -> User | None:
        """The user of claims that the issuer has signed, if they are for this server and for now."""
        if "exp" not in claims or not is_current(claims, self._leeway):
            return None  # without a word: that tokens expire is nothing to look into
        if claims.get("iss") != self._issuer:
            return self._refused(claims, ("iss",), f"issuer= is {self._issuer!r}")
        if not names_any(claims.get(self._audience_claim), self._audiences):
            return self._refused(claims, (self._audience_claim,), f"audience= is {sorted(self._audiences)}")
        user = user_of(claims, self._issuer, scopes_in(claims, self._scope_claims))
        return user or self._refused(claims, ("sub", "cnf"), "a token must have sub, and no cnf")

    def close(self) -> None:
        self._keys.close()


def _head_of(token: str) -> _Head | None:
    """The first part of a token, which nobody has checked yet."""
    head, _, rest = token.partition(".")
    if rest.count(".") != 1:
        return None
    try:
        return _head.decode(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (DecodeError, ValueError, RecursionError):  # it may be nested deeply
        return None


def _signed(token: str, key: Key | None, algorithm: str) -> JsonObject | None:
    """The claims of a token, if this key has signed it by this algorithm."""
    from joserfc import jws, jwt
    from joserfc.errors import JoseError

    if key is None or key.alg not in (None, algorithm):
        return None
    try:
        # Not strict: a header that is not known is ignored, unless `crit` names it (RFC 7515, section 4).
        claims = dict(jwt.decode(token, key, registry=jws.JWSRegistry(None, [algorithm], False)).claims)
        encode(claims)  # a text that is not Unicode, as half of an emoji, could neither be kept nor sent
        return claims
    except (JoseError, ValueError, TypeError, RecursionError):
        return None


def is_current(claims: JsonObject, leeway: float) -> bool:
    """Whether claims are for now, by `exp` and `nbf` where they are there."""
    now = time.time()
    expires, begins = claims.get("exp", now + 1), claims.get("nbf", 0)
    return _is_time(expires) and _is_time(begins) and expires + leeway > now and begins - leeway <= now


def names_any(value: object, wanted: Container[str]) -> bool:
    """Whether a claim, which is a text or a list of them, names one of these."""
    return any(isinstance(one, str) and one in wanted for one in (value if isinstance(value, list) else [value]))


def user_of(claims: JsonObject, issuer: str, scopes: Iterable[str], subject: str = "sub") -> User | None:
    """The user whom claims are about; None if they do not say who that is.

    None too if they are for the holder of a key (`cnf`: DPoP, mutual TLS), because nobody asks for that key here.
    """
    named = claims.get(subject)
    named = str(named) if isinstance(named, int) and not isinstance(named, bool) else named
    if not isinstance(named, str) or not named.strip() or "cnf" in claims:
        return None
    return User(named, issuer, scopes, claims)


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12


def scopes_in(claims: JsonObject, names: Iterable[str]) -> list[str]:
    """The scopes that claims name: a text with spaces between them, and no other kind of space, or a list."""
    found: list[str] = []
    for name in names:
        value = claims.get(name)
        listed = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else ()
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
