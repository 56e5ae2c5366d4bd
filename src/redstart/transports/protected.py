"""An endpoint with `auth=` as a protected resource: it reads the token, challenges, and says where tokens come from.

Spec: RFC 6750 (challenges), RFC 9728 (metadata), /specification/2026-07-28/basic/authorization.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

from redstart.access.authenticator import Authenticator
from redstart.access.verifier import AuthError, is_token
from redstart.transports.address import client_site
from redstart.transports.guard import LOOPBACK, split_host
from redstart.transports.request import IN_PATHS, JSON, LATER, HttpRequest, Rejection
from redstart.transports.routes import read_request
from redstart.wire.jsonrpc import encode

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
ISSUER_METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
OAUTH: Final = "/oauth/"
"""Where tokens are given out: below the endpoint, so that what passes its path on to us passes these on too."""
_HOST: Final = re.compile(r"[\w.:\[\]-]{1,300}", re.ASCII)
_KEPT: Final = (b"cache-control", b"public, max-age=300")
_VARY: Final = (b"vary", b"Origin")
_MALFORMED: Final = "The header Authorization must be: Bearer, a space, and a token of visible ASCII characters"
_IN_QUERY: Final = (
    "A token in the URL is refused, because URLs are written to logs. Send it as the header Authorization: Bearer …"
)


class ProtectedResource:
    """One endpoint whose callers need a token."""

    def __init__(self, authenticator: Authenticator, name: str, path: str, public_url: str | None) -> None:
        self._authenticator = authenticator
        self._name = name
        self._path = path
        self._public = None if public_url is None else urlsplit(public_url)
        self._public_path = self._public.path.rstrip("/") if self._public is not None else ""
        """Where a proxy takes a part of the path away, the path that clients see."""
        self._paths = {WELL_KNOWN, WELL_KNOWN + path, WELL_KNOWN + self._public_path}
        if authenticator.issuer is not None and public_url is not None:
            authenticator.issuer.check_site(public_url)

    async def admit(self, request: HttpRequest) -> None:
        """Find the user of a request, or refuse it with a challenge."""
        request.challenge = self.challenge
        try:
            given = read_request(request) if self._authenticator.by_request else None
            request.user = await self._authenticator.user(_bearer_token(request), given)
            ours = self._authenticator.issuer is not None  # else a user has what claims its application likes
            if ours and getattr(request.user, "claims", {}).get("aud") != self._own_url(request):
                raise AuthError(401, "The token is for another server", "invalid_token")
        except AuthError as error:
            later = [LATER] if error.status == 503 else []
            said = [self.challenge(request, error.code)] if error.status < 500 else later
            raise Rejection(error.status, str(error), *said) from None

    def challenge(self, request: HttpRequest, code: str, scopes: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """The header that tells a client what its token must be, and where to get one.

        It names all scopes that the operation needs: a client asks for exactly those.
        """
        verifier = self._authenticator.verifier
        needed = " ".join(dict.fromkeys((*verifier.scopes, *scopes)))
        said = {"error": code, "scope": needed}
        if self._servers(request) and (site := self._site(request)):
            # Inside of another application only what is below our own path reaches us.
            inserted = "" if request.root else self._public_path or self._path
            said["resource_metadata"] = f"{site}{quote(request.root, IN_PATHS)}{WELL_KNOWN}{inserted}"
        fields = ", ".join(f'{name}="{value}"' for name, value in said.items() if value)
        return b"www-authenticate", f"Bearer {fields}".rstrip().encode("latin-1", "replace")

    async def describe(self, request: HttpRequest) -> bool:
        """Answer a request for the metadata, or for tokens; False if this is not one, or if no issuer is known."""
        issuer = self._authenticator.issuer
        if issuer is not None and (name := self._page(request)):
            return await issuer.serve(request, self._own_issuer(request), name, client_site(request.scope))
        servers = self._servers(request)
        if not servers or request.path.rstrip("/") not in self._paths:
            return False
        if request.scope["method"] not in ("GET", "HEAD"):
            raise Rejection(405, "The metadata can only be read", (b"allow", b"GET, HEAD"))
        said: dict[str, object] = {
            "resource": self._resource(request),
            "authorization_servers": servers,
            "bearer_methods_supported": ["header"],
            "resource_name": self._name,
        }
        if self._authenticator.verifier.scopes:
            said["scopes_supported"] = self._authenticator.verifier.scopes
        await request.reply(200, encode(said), [JSON, _KEPT] if request.granted else [JSON, _KEPT, _VARY])
        return True

    def _servers(self, request: HttpRequest) -> Sequence[str]:
        """Where clients get tokens."""
        if self._authenticator.issuer is None:
            return self._authenticator.verifier.authorization_servers
        return [self._own_issuer(request)] if self._site(request) else []

    def _page(self, request: HttpRequest) -> str:
        """Which part of our own authorization server a request is for: `metadata`, `token`, …; empty if none."""
        path, ours = request.path.rstrip("/"), self._path.rstrip("/")
        for known in ISSUER_METADATA:
            if path in (known, known + ours, known + self._public_path, ours + known):
                return "metadata"
        for below in (ours, "" if request.root else ours):
            if path.startswith(below + OAUTH):
                return path[len(below + OAUTH) :]
        return ""

    def _own_issuer(self, request: HttpRequest) -> str:
        """The URL of our own authorization server. Without `public_url` it is one of this machine."""
        host = request.headers.get(b"host", b"").decode("latin-1")
        if self._public is None and split_host(host)[0] not in LOOPBACK:
            raise Rejection(421, "OAuthProxy needs to know the URL of this server: give it public_url=")
        return self._own_url(request)

    def _own_url(self, request: HttpRequest) -> str:
        """The URL of this endpoint as the tokens that we give out name it."""
        return self._resource(request).rstrip("/")

    def _resource(self, request: HttpRequest) -> str:
        """The URL of this endpoint."""
        return f"{self._site(request)}{self._public_path or quote(request.root, IN_PATHS) or self._path}"

    def _site(self, request: HttpRequest) -> str:
        """The scheme and host under which clients reach the endpoint; empty where a Host header cannot be a host."""
        if self._public is not None:
            return f"{self._public.scheme}://{self._public.netloc.rpartition('@')[2]}".lower()
        host = request.headers.get(b"host", b"").decode("latin-1")
        return f"{request.scope.get('scheme', 'http')}://{host.lower()}" if _HOST.fullmatch(host) else ""


def _bearer_token(request: HttpRequest) -> str:
    """The token of a request; empty if it has none. AuthError: it is sent as it must not be."""
    if b"access_token=" in request.scope.get("query_string", b""):
        raise AuthError(400, _IN_QUERY, "invalid_request")
    scheme, _, token = request.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        return ""
    if not is_token(token):
        raise AuthError(400, _MALFORMED, "invalid_request")
    return token
