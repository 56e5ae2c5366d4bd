"""The clients of an authorization server: registered by themselves, or known by a document at the URL that is their id.

Spec: RFC 7591 (registration), draft-ietf-oauth-client-id-metadata-document, RFC 8252 (redirects of applications).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hmac import compare_digest
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from redstart.auth.fetch import Fetcher, FetchError
from redstart.auth.records import Kept, digest, secret
from redstart.store.shared import StoreFull
from redstart.transports.outgoing import split_url
from redstart.wire.jsonrpc import JsonObject, encode

METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
SCHEMES: Final = ("cursor", "vscode", "vscode-insiders", "windsurf")
"""Private schemes without a dot that applications in use have registered with operating systems."""
MAX_REDIRECTS: Final = 10
MAX_URI: Final = 2000
MAX_LISTED: Final = 4096
"""The bytes of all redirect URIs of a client, which are a part of its id."""
MAX_NAME: Final = 80
MAX_DOCUMENT: Final = 16 * 1024
USED: Final = 365 * 24 * 3600.0
"""Seconds for which a client is kept after somebody has signed in with it."""
FRESH: Final = 300.0
MOST: Final = 256
"""Documents of clients that are remembered, and for how many seconds."""
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+")


class OAuthError(Exception):
    """A request that an authorization server does not grant: the code of the error, and a text for people."""

    def __init__(self, code: str, text: str, status: int = 400, headers: Mapping[str, str] = {}) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.status = status
        self.headers = headers


class OAuthClient(Struct, frozen=True):
    """A client that may ask for tokens."""

    id: str
    name: str
    redirects: list[str]
    method: str = "none"
    secret: str = ""
    """The hash of its secret."""

    @property
    def verified_host(self) -> str:
        """The host that vouches for the client by a document; empty for one that has registered itself."""
        return (urlsplit(self.id).hostname or "") if is_document(self.id) else ""

    def has_redirect(self, uri: str) -> bool:
        return any(is_same_redirect(known, uri) for known in self.redirects)

    def check(self, given: str) -> bool:
        """Whether this is its secret; a public client has none, and gives none."""
        return compare_digest(self.secret, digest(given) if given else "")


def is_document(client_id: str) -> bool:
    return client_id.startswith(("https://", "http://"))


class OAuthClients:
    """Finds clients, and registers them."""

    def __init__(self, kept: Kept, schemes: Iterable[str], trusted: Iterable[str]) -> None:
        self._kept = kept
        self._schemes = frozenset(schemes)
        self._fetcher = Fetcher(trusted, MAX_DOCUMENT, redirects=0)
        self._read: dict[str, tuple[float, OAuthClient]] = {}

    async def find(self, id: str) -> OAuthClient | None:
        """The client of this id. OAuthError: the document of a client cannot be used, and the text says why."""
        if not is_document(id):
            # What anybody may ask for must not fill the store, so the id is the registration. A client in use is kept
            # too, and looked for there first: it may outlive the key of its id, which is then nothing to warn of.
            known = await self._kept.get("client", id, OAuthClient) or self._kept.open("client", id, OAuthClient)
            return None if known is None else replace(known, id=id)
        until, client = self._read.get(id, (0.0, None))
        if client is None or until < time.monotonic():
            client = await self._fetch(id)
            while len(self._read) >= MOST:
                del self._read[next(iter(self._read))]
            self._read[id] = time.monotonic() + FRESH, client
        return client

    async def _fetch(self, id: str) -> OAuthClient:
        # Only ASCII: a person must not take a letter of another alphabet for one of a host that is known.
        parts = split_url(id if len(id) <= MAX_URI and _VISIBLE.fullmatch(id) else "")
        if parts.path in ("", "/") or {".", ".."} & set(parts.path.split("/")) or parts.fragment:
            raise OAuthError("invalid_client", "A client_id that is a URL must be https://…, with a path")
        try:
            document = await self._fetcher.get(id)
        except FetchError as error:
            raise OAuthError("invalid_client", f"The document of this client cannot be read: {error}") from None
        if document.get("client_id") != id or not _name(document):
            raise OAuthError("invalid_client", "The document of this client needs a client_name, and this client_id")
        if document.get("token_endpoint_auth_method", "none") != "none" or "client_secret" in document:
            raise OAuthError("invalid_client", 'A client with a document must have token_endpoint_auth_method "none"')
        return OAuthClient(id, _name(document), self._redirects(document))

    def register(self, document: JsonObject) -> JsonObject:
        """Register a client as it describes itself; the response for it."""
        redirects = self._redirects(document)
        method = document.get("token_endpoint_auth_method", "client_secret_basic")
        if method not in METHODS:
            raise OAuthError("invalid_client_metadata", f"token_endpoint_auth_method is one of {', '.join(METHODS)}")
        for field, known in (("grant_types", "authorization_code"), ("response_types", "code")):
            listed = document.get(field, [known])
            if not isinstance(listed, list) or known not in listed:
                raise OAuthError("invalid_client_metadata", f"{field} must have {known}")
        password, name = "" if method == "none" else secret(), _name(document) or "An application without a name"
        id = self._kept.seal("client", OAuthClient("", name, redirects, method, digest(password) if password else ""))
        said: JsonObject = {"client_id": id, "client_id_issued_at": int(time.time()), "client_name": name}
        said |= {"redirect_uris": redirects, "response_types": ["code"], "token_endpoint_auth_method": method}
        said |= {"grant_types": ["authorization_code", "refresh_token"]}
        if password:
            said |= {"client_secret": password, "client_secret_expires_at": 0}
        return said

    async def used(self, id: str) -> None:
        """Somebody has signed in with this client: it is kept for long."""
        if not is_document(id) and (client := await self.find(id)) is not None:
            with suppress(StoreFull):  # it is known by its id as long as the keys are the same
                await self._kept.put("client", id, client, USED)

    def _redirects(self, document: JsonObject) -> list[str]:
        listed = document.get("redirect_uris")
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise OAuthError("invalid_redirect_uri", "redirect_uris must be a list of texts")
        if not 0 < len(listed) <= MAX_REDIRECTS or len(encode(listed)) > MAX_LISTED:
            raise OAuthError("invalid_redirect_uri", f"redirect_uris: 1 to {MAX_REDIRECTS}, in all {MAX_LISTED} bytes")
        for one in listed:
            if not is_redirect(one, self._schemes):
                raise OAuthError("invalid_redirect_uri", f"{one[:200]} cannot be a redirect_uri: {_ALLOWED}")
        return listed


_ALLOWED: Final = "allowed are https, http on this machine, and schemes with a dot, without a fragment and a user"


def _name(document: JsonObject) -> str:
    """The name of a client for a page: short, and without characters that people do not see."""
    name = document.get("client_name")
    return "".join(filter(str.isprintable, name))[:MAX_NAME].strip() if isinstance(name, str) else ""


def is_redirect(uri: object, schemes: Iterable[str] = SCHEMES) -> bool:
    """Whether a client may have this redirect URI.

    >>> [is_redirect(uri) for uri in ("https://app.example.com/back", "com.example.app:/back", "javascript:alert(1)")]
    [True, True, False]
    """
    if not isinstance(uri, str) or len(uri) > MAX_URI or not _VISIBLE.fullmatch(uri) or "\\" in uri:
        return False
    parts = split_url(uri)
    if "#" in uri or parts.username is not None:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme == "http":
        return parts.hostname in LOOPBACK
    return parts.scheme in schemes or _SCHEME.fullmatch(parts.scheme) is not None


def is_same_redirect(known: str, given: str) -> bool:
    """Whether a redirect URI is the one that is known, to the letter. On this machine the port may be another one.

    >>> is_same_redirect("http://127.0.0.1/back", "http://127.0.0.1:50123/back")
    True
    """
    if known == given:
        return True
    ours, theirs = split_url(known), split_url(given)
    same = (ours.scheme, ours.hostname, ours[2:]) == (theirs.scheme, theirs.hostname, theirs[2:])
    return same and ours.scheme == "http" and is_redirect(given)
