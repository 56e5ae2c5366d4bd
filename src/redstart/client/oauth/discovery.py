"""From a 401 to the authorization server: the metadata of the resource, the metadata of the server.

Spec: /specification/2026-07-28/basic/authorization/authorization-server-discovery, RFC 9728, RFC 8414, RFC 9207.
"""

from __future__ import annotations

from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from redstart.client.challenge import Challenge
from redstart.client.errors import SignInError
from redstart.client.oauth.web import OAuthWeb, checked_url
from redstart.transports.outgoing import shown, split_url

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

D = TypeVar("D", bound=Struct)


class ResourceMetadata(Struct, frozen=True):
    """The metadata of an MCP server as a resource (RFC 9728)."""

    resource: str
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None


class IssuerMetadata(Struct, frozen=True):
    """The metadata of an authorization server (RFC 8414)."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes_supported: list[str] = []
    code_challenge_methods_supported: list[str] = []
    token_endpoint_auth_methods_supported: list[str] = []
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


async def find_resource(web: OAuthWeb, url: str, challenge: Challenge) -> ResourceMetadata | None:
    """The metadata of the MCP server at `url`; None if it has none, as before 2025-06-18."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    places = [challenge.resource_metadata] if challenge.resource_metadata else []
    places += [] if places else dict.fromkeys((origin + _RESOURCE + parts.path.rstrip("/"), origin + _RESOURCE))
    for place in places:
        answer = await web.get(place, "the metadata of the resource")
        if answer.status == 200:
            found = _read(ResourceMetadata, answer.body, "the metadata of the resource", place)
            if not _covers(found.resource, url):
                text = f"{shown(place)} is about another resource, {shown(found.resource)}, and not about {shown(url)}"
                raise SignInError(text)
            return found
        if challenge.resource_metadata:
            raise SignInError(f"the metadata of the resource {shown(place)}: HTTP {answer.status}")
    return None


def _covers(resource: str, url: str) -> bool:
    """Whether `resource` is the server at `url`: the same origin, and the same path or one above it."""
    named, here = split_url(resource), urlsplit(url)
    same = (named.scheme.lower(), named.netloc.lower()) == (here.scheme.lower(), here.netloc.lower())
    return same and (here.path.rstrip("/") + "/").startswith(named.path.rstrip("/") + "/")


async def find_server(web: OAuthWeb, issuer: str) -> IssuerMetadata | None:
    """The metadata of the authorization server `issuer`, at the first of its places that has a document."""
    parts = checked_url(issuer, "the authorization server")
    path = parts.path.rstrip("/")
    places = [_SERVER + path, _OPENID + path, *([path + _OPENID] if path else [])]
    for place in places:
        url = urlunsplit((parts.scheme, parts.netloc, place, "", ""))
        answer = await web.get(url, "the metadata of the authorization server")
        if answer.status == 200 and answer.body:
            found = _read(IssuerMetadata, answer.body, "the metadata of the authorization server", url)
            if found.issuer != issuer:  # exactly: RFC 8414, section 3.3
                raise SignInError(f"{shown(url)} names another issuer, {shown(found.issuer)}, and not {shown(issuer)}")
            return found
    return None


async def discover(web: OAuthWeb, url: str, challenge: Challenge) -> tuple[ResourceMetadata | None, IssuerMetadata]:
    """Where tokens for the server at `url` come from."""
    resource = await find_resource(web, url, challenge)
    if resource is not None:
        if not resource.authorization_servers:
            raise SignInError(f"{shown(url)} names no authorization server")
        issuer = resource.authorization_servers[0]
        server = await find_server(web, issuer)
        if server is None:
            raise SignInError(f"the authorization server {shown(issuer)} has no metadata (RFC 8414)")
        return resource, server
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return None, await find_server(web, origin) or _of_march(origin)


def _of_march(origin: str) -> IssuerMetadata:
    """The endpoints of a server without any metadata, as the revision of March 2025 has them."""
    return IssuerMetadata(
        origin,
        f"{origin}/token",
        f"{origin}/authorize",
        f"{origin}/register",
        code_challenge_methods_supported=["S256"],
    )


def _read(kind: type[D], body: object, what: str, url: str) -> D:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise SignInError(f"{what} {shown(url)} is not valid: {error}") from None
