"""The public keys of an issuer: found by discovery, kept, and read again when a key is missing or they are old.

Spec: RFC 8414 and OpenID Connect Discovery (the documents), RFC 7517 (the keys).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from redstart.auth.fetch import Fetcher, FetchError
from redstart.features.errors import log
from redstart.wire.jsonrpc import JsonObject

if TYPE_CHECKING:
    from joserfc.jwk import Key

MAX_AGE: Final = 600.0
"""Seconds after which the keys are read again in the background: a key that was withdrawn is not used for long."""
MAX_STALE: Final = 24 * 3600.0
"""Seconds for which keys are used while the issuer cannot be reached."""
PAUSE: Final = 30.0
"""Seconds between two attempts: tokens with made-up key ids must not make us a source of load."""
RETRY: Final = 2.0
"""The same while there are no keys at all."""
MAX_KEYS: Final = 100
_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class IssuerKeys:
    """The keys by which one issuer signs tokens."""

    def __init__(self, issuer: str, jwks_uri: str | None, fetcher: Fetcher) -> None:
        self.changes = 0
        """How often the keys were other ones than before."""
        self._issuer = issuer
        self._jwks_uri = jwks_uri
        self._fetcher = fetcher
        self._keys: list[Key] = []
        self._listed: object = None
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The key of this id. A token without an id is checked with the only key that fits its algorithm, if it is one.

        FetchError: there are no keys, because the issuer cannot be reached.
        """
        now = time.monotonic()
        stale, found = now - self._read_at > MAX_STALE, self._choose(kid, algorithm)
        if stale or found is None:
            await self._refresh(RETRY if stale else PAUSE)
            if now - self._read_at > MAX_STALE:
                raise FetchError(f"the keys of {self._issuer} cannot be read")
            return self._choose(kid, algorithm)
        if self.is_old:
            self._start(PAUSE)
        return found

    def _choose(self, kid: str | None, algorithm: str) -> Key | None:
        if kid is not None:
            return next((key for key in reversed(self._keys) if key.kid == kid), None)
        fitting = [key for key in self._keys if _fits(key, algorithm)]
        return fitting[0] if len(fitting) == 1 else None

    async def are_others(self) -> bool:
        """Whether the keys are other ones when they are read again, unless that was tried a moment ago."""
        before = self.changes
        await self._refresh(PAUSE)
        return self.changes != before

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._read_at > MAX_AGE

    def refresh_soon(self) -> None:
        """Read the keys again in the background, unless that was tried a moment ago."""
        self._start(PAUSE)

    async def _refresh(self, pause: float) -> None:
        """Read the keys again, unless that was tried a moment ago. All who wait meanwhile wait for the same attempt."""
        self._start(pause)
        if self._reading is not None:
            await asyncio.shield(self._reading)

    def _start(self, pause: float) -> None:
        if self._reading is None and time.monotonic() - self._tried_at > pause:
            self._tried_at = time.monotonic()
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            url = self._jwks_uri or await self._discover()
            document = await self._fetcher.get(url)
            keys = _signing_keys(document)
            self._read_at = time.monotonic()
            if document != self._listed:
                self._listed, self._keys = document, keys
                self.changes += 1
        except Exception as error:  # whatever is in a document, the keys that are known stay in use
            log.error("the keys of the issuer %s were not read: %s", self._issuer, error)
        finally:
            self._reading = None

    async def _discover(self) -> str:
        """Where the keys are, by the metadata of the issuer."""
        document = await discover(self._issuer, self._fetcher)
        url = document.get("jwks_uri")
        if not isinstance(url, str):
            raise FetchError("its metadata has no jwks_uri")
        return url

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()


async def discover(issuer: str, fetcher: Fetcher) -> JsonObject:
    """The metadata of an authorization server, from the first place where it is, if it is about this issuer."""
    problems = []
    for url in metadata_urls(issuer):
        try:
            document = await fetcher.get(url)
        except FetchError as error:
            problems.append(str(error))
            continue
        if document.get("issuer") != issuer:
            raise FetchError(f"{url} is about another issuer: {document.get('issuer')!r:.200}")
        return document
    raise FetchError("; ".join(problems))


def metadata_urls(issuer: str) -> list[str]:
    """The places of an issuer's metadata, in the order in which they are tried.

    >>> metadata_urls("https://login.example.com")[1]
    'https://login.example.com/.well-known/openid-configuration'
    """
    parts = urlsplit(issuer)
    site, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = [f"{site}/.well-known/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")]
    return [*urls, f"{site}{path}/.well-known/openid-configuration"] if path else urls


def _fits(key: Key, algorithm: str) -> bool:
    """Whether a key can have signed by this algorithm."""
    known = key.as_dict(private=False)
    curve = _CURVES.get(algorithm, known.get("crv"))
    return (known["kty"], known.get("crv")) == (_TYPES[algorithm[:2]], curve) and key.alg in (None, algorithm)


def _signing_keys(document: JsonObject) -> list[Key]:
    """The public keys that may sign; a kind of key that is not known is left out."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise FetchError(f"the document has no list of at most {MAX_KEYS} keys")
    found = []
    for one in listed:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or one.get("kty") not in _TYPES.values():
            continue
        try:
            found.append(import_key(one))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.warning("a key of an issuer was left out: %s", type(error).__name__)
    return found
