"""The token endpoint of an authorization server: how a client proves who it is there, and what it gets."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from redstart.client.errors import SignInError
from redstart.client.oauth.signing import DpopKey, client_assertion
from redstart.client.oauth.web import OAuthWeb, WebAnswer
from redstart.transports.outgoing import shown
from redstart.wire.jsonrpc import JsonObject

LEEWAY: Final = 30.0
"""Seconds before its end at which a token is renewed."""
LONGEST: Final = 1e9
"""The seconds for which a token may be good; a number of JSON may have hundreds of digits."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,65536}")
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


class Registration(Struct, omit_defaults=True):
    """What an authorization server knows a client by. `private_key` is ours, and is not kept."""

    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None
    redirect_uris: list[str] = []
    scope: str | None = None


class TokenSet(Struct, omit_defaults=True, kw_only=True):
    """The tokens for one server, and what is needed to renew them."""

    access_token: str
    token_type: str = "Bearer"
    refresh_token: str | None = None
    expires_at: float | None = None
    scope: str = ""
    issuer: str
    token_endpoint: str
    auth_methods: list[str] = []
    resource: str
    client: Registration
    dpop_key: JsonObject | None = None

    @property
    def expired(self) -> bool:
        """Whether a server will refuse the token, or soon will."""
        return self.expires_at is not None and self.expires_at - LEEWAY <= time.time()


class TokenEndpoint:
    """Requests to one token endpoint. `signing` is the private key of a client that has one, and its algorithm."""

    def __init__(
        self,
        web: OAuthWeb,
        issuer: str,
        url: str,
        auth_methods: list[str],
        signing: tuple[str, str] | None = None,
        dpop: DpopKey | None = None,
    ) -> None:
        self._web = web
        self.issuer = issuer
        self.url = url
        self.auth_methods = auth_methods
        self._signing = signing
        self.dpop = dpop

    async def request(self, form: dict[str, str], client: Registration, scope: str) -> TokenSet:
        """The tokens for `form`; SignInError with the error code of the server, if it refuses."""
        answer = await self._post(form, client)
        if answer.status == 400 and answer.body.get("error") == "use_dpop_nonce" and self.dpop is not None:
            self.dpop.learn(self.url, answer.headers.get("DPoP-Nonce", ""))
            answer = await self._post(form, client)
        if answer.status != 200:
            raise refusal("the token endpoint", self.url, answer)
        return self._tokens(answer.body, form, client, scope)

    async def _post(self, form: dict[str, str], client: Registration) -> WebAnswer:
        headers = dict(_FORM)
        form = {**form, **self._identity(client, headers)}
        if self.dpop is not None:
            headers["DPoP"] = self.dpop.proof("POST", self.url)
        return await self._web.post(self.url, "the token endpoint", headers, urlencode(form).encode())

    def _identity(self, client: Registration, headers: dict[str, str]) -> dict[str, str]:
        """What says who the client is: fields of the form, or a header."""
        if self._signing is not None:
            signed = client_assertion(client.client_id, self.issuer, *self._signing)
            return {"client_id": client.client_id, "client_assertion_type": _ASSERTION, "client_assertion": signed}
        secret = client.client_secret
        known = self.auth_methods or ["client_secret_basic"]
        usual = next((method for method in ("client_secret_basic", "client_secret_post") if method in known), "none")
        method = client.token_endpoint_auth_method or usual
        if secret is None or method == "none":
            return {"client_id": client.client_id}
        if method == "client_secret_post":
            return {"client_id": client.client_id, "client_secret": secret}
        pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
        headers["Authorization"] = "Basic " + b64encode(pair.encode()).decode()
        return {}

    def _tokens(self, body: JsonObject, form: dict[str, str], client: Registration, scope: str) -> TokenSet:
        token, kind, seconds = body.get("access_token"), body.get("token_type", "Bearer"), body.get("expires_in")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise SignInError(f"the token endpoint {shown(self.url)} answered without a usable access_token")
        if not isinstance(kind, str) or kind.lower() != ("bearer" if self.dpop is None else "dpop"):
            raise SignInError(f"the token endpoint {shown(self.url)} gave a token of the type {kind!r:.50}")
        granted, refresh = body.get("scope"), body.get("refresh_token")
        return TokenSet(
            access_token=token,
            token_type="Bearer" if self.dpop is None else "DPoP",
            refresh_token=refresh if isinstance(refresh, str) else form.get("refresh_token"),
            expires_at=time.time() + min(max(seconds, 0), LONGEST) if isinstance(seconds, int | float) else None,
            scope=granted if isinstance(granted, str) else scope,
            issuer=self.issuer,
            token_endpoint=self.url,
            auth_methods=self.auth_methods,
            resource=form.get("resource", ""),
            client=client,
            dpop_key=None if self.dpop is None else self.dpop.kept(),
        )


def refusal(what: str, url: str, answer: WebAnswer) -> SignInError:
    """The error for an answer that is not the one that was asked for."""
    code, description = answer.body.get("error"), answer.body.get("error_description")
    said = ": ".join(str(part)[:300] for part in (code, description) if isinstance(part, str) and part.isprintable())
    text = f"{what} {shown(url)} refuses: {said}" if said else f"{what} {shown(url)}: HTTP {answer.status}"
    lasts = answer.status < 500 and answer.status != 429  # else it may say something else in a moment
    return SignInError(text, code=code if isinstance(code, str) and lasts else None)


def kept(tokens: TokenSet) -> JsonObject:
    """Tokens as a store keeps them."""
    found: JsonObject = msgspec.to_builtins(tokens)
    return found


def joined(scopes: Iterable[str]) -> str:
    """Scopes as OAuth writes them: each once, in order.

    >>> joined(["b", "a", "b"])
    'b a'
    """
    return " ".join(dict.fromkeys(scopes))
