"""The authorization server that MCP clients expect, in front of an identity provider that does not register clients.

A person sees which client asks, and agrees, before the browser is sent to the provider; and the same browser must come
back from there. Nothing is kept before that. The tokens are our own: what the provider gives us stays here.
Spec: OAuth 2.1, RFC 8414, 7591, 7636, 8707, 9207, 7009; /specification/2026-07-28/basic/authorization.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from redstart.access.verifier import AuthError, WebRequest
from redstart.auth import pages, records
from redstart.auth.clients import LOOPBACK, METHODS, OAuthClient, OAuthClients, OAuthError, is_document
from redstart.auth.fetch import FetchError
from redstart.auth.records import Kept, SignIn, Turn, Wanted, digest, secret
from redstart.auth.upstream import SignInRefused, Upstream, is_due
from redstart.execution.threads import Pool
from redstart.features.audit import note_refusal
from redstart.features.errors import SettingsError, log
from redstart.features.principal import User
from redstart.schema.callables import is_async
from redstart.transports.outgoing import split_url
from redstart.wire.jsonrpc import JsonObject, ProtocolError, decode, encode

Allow = Callable[[User], Any]

PAGE_SECONDS: Final = 900.0
"""How long a person may take to agree, and how long to sign in at the provider."""
CODE_SECONDS: Final = 60.0
GRACE: Final = 30.0
"""Seconds for which the last refresh token still works: its client may not have got the answer, or may run twice."""
MAX_BODY: Final = 64 * 1024
MAX_STATE: Final = 4096
BURST, RATES = 100.0, {"register": 0.2, "page": 2.0, "agree": 0.2, "refresh": 0.2, "sign-in": 50 / 86400}
"""How often one address may register clients, open the page or agree, and one person refresh tokens or sign in: at
once, and a second after that. What is kept of those who agree and sign in is then a small part of the room for all of
them, and one person does not use up what the provider allows to the application of all."""
ALLOW_SECONDS: Final = 10.0
_CHALLENGE: Final = re.compile(r"[\w-]{43}", re.ASCII)
_VERIFIER: Final = re.compile(r"[\w.~-]{43,128}", re.ASCII)
_NO_STORE: Final = (b"cache-control", b"no-store")
_JSON: Final = (b"content-type", b"application/json")

UNKNOWN_CLIENT: Final = (
    "The application that sends you here is not known. Remove this server there, and connect it again."
)
WRONG_REDIRECT: Final = "The application wants the answer at an address that it has not registered (redirect_uri)."
FOREIGN: Final = "This was begun in another browser. If somebody has sent you a link, do not go on; else begin again."
OVER: Final = "This sign-in has expired, or it was used before. Start again in your application."
AWAY: Final = "Something that this server needs for a sign-in does not answer. Try again in a minute."


class Denied(OAuthError):
    """What a client asks for is refused, and the client is told so at its redirect URI, which was checked."""

    def __init__(self, asked: Wanted, code: str, text: str) -> None:
        super().__init__(code, text)
        self.asked = asked


class Policy(Struct, frozen=True):
    """What an operator has decided about tokens."""

    scopes: tuple[str, ...]
    """What every token has."""
    optional: tuple[str, ...]
    """What else clients may ask for."""
    allow: Allow | None
    claims: tuple[str, ...]
    token_seconds: float
    sign_in_seconds: float
    pool: Pool = field(default_factory=Pool)
    """For an `allow` that is not async: one that hangs must not hold the default executor, and the end of the loop."""

    async def granted(self, user: User, scopes: Iterable[str]) -> list[str]:
        """Which of these scopes a person may have. SignInRefused: this person is not let in."""
        found: object = True
        known = (*self.scopes, *self.optional)  # those of today
        if (allow := self.allow) is not None:
            try:
                async with asyncio.timeout(ALLOW_SECONDS):
                    found = await (allow(user) if is_async(allow) else self.pool.run(lambda: allow(user), {}))
            except Exception as error:  # it is the operator's, and may ask another service
                raise AuthError(503, f"allow= has failed: {type(error).__name__}: {error}") from error
        if found is True:
            return [one for one in scopes if one in known]
        listed = found.split() if isinstance(found, str) else found
        # A word such as "no", a row of a database and {"admin": False} are not a yes, although they are not empty.
        allowed = [one for one in known if isinstance(listed, list | tuple | set | frozenset) and one in listed]
        if not allowed or not set(self.scopes) <= set(allowed):
            if listed and not allowed:
                log.warning("allow= must return True, False, or scopes of scopes= and optional_scopes=: see the docs")
            raise SignInRefused("This account is not allowed to use this server")
        return [one for one in scopes if one in allowed]


class OAuthVisit(Struct, frozen=True):
    """One request to the authorization server."""

    request: WebRequest
    issuer: str
    client: str
    """The address that it comes from."""

    def query(self) -> dict[str, str]:
        return _fields(self.request.scope.get("query_string", b""))

    async def body(self) -> bytes:
        body = await self.request.body()
        if len(body) > MAX_BODY:
            raise OAuthError("invalid_request", f"The body is larger than {MAX_BODY} bytes", 413)
        return body

    async def form(self) -> dict[str, str]:
        kind = self.request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/x-www-form-urlencoded":
            raise OAuthError("invalid_request", "The body must be application/x-www-form-urlencoded")
        return _fields(await self.body())

    def cookie_name(self, browser: str) -> str:
        """One of 16 names, so that a page that is loaded twice does not take the cookie of the other one away."""
        prefix = "__Host-" if self.issuer.startswith("https:") else ""
        return f"{prefix}redstart-{browser[0]}"

    def is_browser(self, browser: str) -> bool:
        """Whether this is the browser whose cookie has this hash."""
        name, cookies = self.cookie_name(browser), self.request.headers.get(b"cookie", b"")[:MAX_BODY]
        pairs = (one.strip().partition("=") for one in cookies.decode("latin-1").split(";"))
        return any(name == named and compare_digest(digest(text), browser) for named, _, text in pairs)

    async def redirect(self, url: str) -> None:
        headers = [(b"location", url.encode("latin-1", "replace")), _NO_STORE, (b"referrer-policy", b"no-referrer")]
        await self.request.reply(303, b"", headers)

    async def answer(self, asked: Wanted, **said: str) -> None:
        """Send the browser back to the client, and say who answers (RFC 9207)."""
        said = {**said, "state": asked.state, "iss": self.issuer}
        text = urlencode({name: value for name, value in said.items() if value})
        await self.redirect(f"{asked.redirect_uri}{'&' if '?' in asked.redirect_uri else '?'}{text}")

    async def json(self, said: Mapping[str, object], status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        await self.request.reply(status, encode(said), [_JSON, _NO_STORE, *headers])


class IssuingServer:
    """Serves the pages and endpoints of one `OAuthProxy`."""

    def __init__(self, name: str, kept: Kept, clients: OAuthClients, upstream: Upstream, policy: Policy) -> None:
        self._name = name
        self._kept = kept
        self._clients = clients
        self._upstream = upstream
        self._policy = policy

    def check_site(self, issuer: str) -> None:
        """Refuse a URL with http://, because tokens would cross the network unencrypted."""
        parts = urlsplit(issuer)
        if parts.scheme != "https" and parts.hostname not in LOOPBACK:
            raise SettingsError("OAuthProxy needs a public_url= with https://", "put a proxy with TLS before it")

    async def serve(self, request: WebRequest, issuer: str, name: str, client: str) -> bool:
        """Answer a request; False if there is no such page."""
        if name not in _PAGES:
            return False
        method, answer, for_people = _PAGES[name]
        visit = OAuthVisit(request, issuer, client)
        try:
            if request.scope["method"] != method:
                raise OAuthError("invalid_request", f"This is for {method} only", 405, {"allow": method})
            await answer(self, visit)
        except OAuthError as refusal:
            await self._refuse(visit, refusal, for_people)
        except (AuthError, FetchError, ProtocolError) as error:
            log.error("a sign-in failed: %s", error)
            away = OAuthError("temporarily_unavailable", AWAY, 503, {"retry-after": "5"})
            await self._refuse(visit, away, for_people)
        return True

    async def _refuse(self, visit: OAuthVisit, refusal: OAuthError, for_people: bool) -> None:
        visit.request.reason = refusal.text
        text = refusal.text.translate(_UNQUOTED)
        # Before a person has agreed, a link to us must not lead to any website that has registered itself (RFC 9700).
        asked = refusal.asked if isinstance(refusal, Denied) else None
        if asked is not None and (asked.browser or asked.redirect_uri[:6].lower() != "https:"):
            note_refusal("sign-in refused", None, reason=refusal.text[:500], client=visit.client)
            await visit.answer(asked, error=refusal.code, error_description=text)
            return
        headers = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
        if for_people:
            await visit.request.reply(refusal.status, pages.problem(refusal.text), [*pages.HEADERS, *headers])
        else:
            await visit.json({"error": refusal.code, "error_description": text}, refusal.status, *headers)

    async def _limit(self, what: str, whom: str) -> None:
        wait = await self._kept.may(what, whom, RATES[what], BURST)
        if wait:
            text = "Too many requests come from you, or from your address; try again in a minute"
            raise OAuthError("temporarily_unavailable", text, 429, {"retry-after": str(int(wait) + 1)})

    # ------------------------------------------------------------ what clients are told

    async def _metadata(self, visit: OAuthVisit) -> None:
        issuer = visit.issuer
        found: JsonObject = {"issuer": issuer}
        for name, page in (("authorization", "authorize"), ("registration", "register"), ("revocation", "revoke")):
            found[f"{name}_endpoint"] = f"{issuer}/oauth/{page}"
        found.update(token_endpoint=f"{issuer}/oauth/token", token_endpoint_auth_methods_supported=METHODS)
        found.update(revocation_endpoint_auth_methods_supported=METHODS, code_challenge_methods_supported=["S256"])
        found.update(response_types_supported=["code"], authorization_response_iss_parameter_supported=True)
        found.update(grant_types_supported=list(_GRANTS), client_id_metadata_document_supported=True)
        if scopes := [*self._policy.scopes, *self._policy.optional]:
            found["scopes_supported"] = scopes
        # What an OpenID provider must say: some clients look only for one.
        found.update(jwks_uri=f"{issuer}/oauth/jwks", subject_types_supported=["public"])
        found.update(response_modes_supported=["query"], id_token_signing_alg_values_supported=[])
        await visit.json(found)

    async def _jwks(self, visit: OAuthVisit) -> None:
        """Our tokens are sealed for ourselves, so there is no public key."""
        await visit.json({"keys": []})

    async def _register(self, visit: OAuthVisit) -> None:
        await self._limit("register", visit.client)
        try:
            document = decode(await visit.body())
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise OAuthError("invalid_client_metadata", "The body must be a JSON object")
        await visit.json(self._clients.register(document), 201)

    # ------------------------------------------------------------ a person signs in

    async def _authorize(self, visit: OAuthVisit) -> None:
        await self._limit("page", visit.client)
        fields = visit.query()
        client = await self._clients.find(fields.get("client_id", ""))
        if client is None:
            raise OAuthError("invalid_client", UNKNOWN_CLIENT)
        if not client.has_redirect(fields.get("redirect_uri", "")) or len(encode(fields.get("state", ""))) > MAX_STATE:
            raise OAuthError("invalid_request", WRONG_REDIRECT)
        asked = self._asked(client, fields, visit.issuer)
        browser = digest(cookie := secret())
        asked = replace(asked, expires=time.time() + PAGE_SECONDS, browser=browser)
        form, provider = self._kept.seal("asked", asked), self._upstream.application.provider
        page = pages.consent(self._name, provider, client, asked, f"{visit.issuer}/oauth/consent", form)
        secure = "; Secure" if visit.issuer.startswith("https:") else ""
        kept = f"{visit.cookie_name(browser)}={cookie}; Path=/; HttpOnly; SameSite=Lax; Max-Age={2 * PAGE_SECONDS:.0f}"
        await visit.request.reply(200, page, [*pages.HEADERS, (b"set-cookie", f"{kept}{secure}".encode())])

    def _asked(self, client: OAuthClient, fields: dict[str, str], issuer: str) -> Wanted:
        """What a client asks for, if it may; else it is told at its redirect URI."""
        known, wanted = (*self._policy.scopes, *self._policy.optional), fields.get("scope", "").split()
        scopes = [one for one in known if one in self._policy.scopes or one in wanted]
        challenge = fields.get("code_challenge", "")
        to, state = fields["redirect_uri"], fields.get("state", "")
        asked = Wanted(client.id, client.name, to, state, challenge, scopes, issuer)
        if fields.get("response_type") != "code":
            raise Denied(asked, "unsupported_response_type", "response_type must be code")
        if fields.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
            raise Denied(asked, "invalid_request", "PKCE is required: a code_challenge with the method S256")
        _check_resource(fields, issuer, asked)
        return asked

    async def _consent(self, visit: OAuthVisit) -> None:
        await self._limit("agree", visit.client)
        fields = await visit.form()
        asked = self._kept.open("asked", fields.get("asked", ""), Wanted)
        if asked is None or asked.expires < time.time() or asked.resource != visit.issuer:
            raise OAuthError("invalid_request", OVER)
        if not visit.is_browser(asked.browser):
            raise OAuthError("access_denied", FOREIGN, 403)
        if fields.get("answer") != "allow":
            raise Denied(asked, "access_denied", "The person did not agree")
        state, transaction = secret(), records.Transaction(asked, secret(), secret())
        url = await self._upstream.sign_in_url(state, transaction, f"{visit.issuer}/oauth/callback")
        await self._kept.put("transaction", state, transaction, PAGE_SECONDS)
        await visit.redirect(url)

    async def _callback(self, visit: OAuthVisit) -> None:
        fields = visit.query()
        transaction = await self._kept.take("transaction", fields.get("state", ""), records.Transaction)
        if transaction is None:
            raise OAuthError("invalid_request", OVER)
        asked, provider = transaction.asked, self._upstream.application
        if not visit.is_browser(asked.browser):
            raise OAuthError("access_denied", FOREIGN, 403)
        if asked.resource != visit.issuer or fields.get("iss", provider.issuer) != provider.issuer:
            raise OAuthError("invalid_request", "The answer does not come from the identity provider of this server")
        if "code" not in fields:
            raise Denied(asked, "access_denied", f"{provider.provider} says no: {fields.get('error', '')[:50]!a}")
        try:
            user, tokens = await self._upstream.redeem(fields["code"], transaction, f"{visit.issuer}/oauth/callback")
            scopes = await self._policy.granted(user, asked.scopes)
            if await self._kept.may("sign-in", user.principal, RATES["sign-in"], BURST):
                raise SignInRefused("This account has signed in too often. Try again in an hour")
            expires, code = time.time() + self._policy.sign_in_seconds, secret()
            who = asked.client_id, scopes, asked.resource, user.subject, user.issuer, dict(user.claims)
            await self._kept.put("code", code, records.Code(asked, SignIn(*who, expires), tokens), CODE_SECONDS)
            await self._clients.used(asked.client_id)
        except SignInRefused as error:
            raise Denied(asked, "access_denied", str(error)) from None
        except Exception as error:  # the provider is away, or allow= has failed
            log.error("a sign-in failed: %s", error, exc_info=error.__cause__ if type(error) is AuthError else error)
            raise Denied(asked, "server_error", "The sign-in failed; the log of the server says why") from None
        await visit.answer(asked, code=code)

    # ------------------------------------------------------------ tokens

    async def _token(self, visit: OAuthVisit) -> None:
        form = await visit.form()
        client_id = await self._known_client(visit, form)
        grant = _GRANTS.get(form.get("grant_type", ""))
        if grant is None:
            raise OAuthError("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")
        await grant(self, visit, form, client_id)

    async def _known_client(self, visit: OAuthVisit, form: dict[str, str]) -> str:
        """The id of the client that sends this, which has proved that it is the one if it has a secret."""
        scheme, _, pair = visit.request.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        id, password, headers = form.get("client_id", ""), form.get("client_secret", ""), {}
        if scheme.lower() == "basic":
            headers = {"www-authenticate": "Basic"}
            try:
                named, _, given = b64decode(pair, validate=True).decode().partition(":")
            except ValueError:
                named = given = ""
            if password or id not in ("", unquote_plus(named)):
                raise OAuthError("invalid_request", "The client names itself twice")
            id, password = unquote_plus(named), unquote_plus(given)
        # A document has no secret, so it is not needed here: what a client sends belongs to its id.
        client = OAuthClient(id, "", []) if is_document(id) else await self._clients.find(id)
        if client is None or not client.check(password):
            raise OAuthError("invalid_client", "The client is not known, or its secret is wrong", 401, headers)
        return client.id

    async def _redeem(self, visit: OAuthVisit, form: dict[str, str], client_id: str) -> None:
        """An authorization code becomes tokens, once."""
        code, verifier = form.get("code", ""), form.get("code_verifier", "")
        found = await self._kept.take("code", code, records.Code)
        id = digest(f"sign-in {code}")
        if found is None:
            if await self._kept.get("sign-in", id, SignIn) is not None:
                await self._kept.end(id)
                note_refusal("code used twice", None, client=visit.client)
            raise OAuthError("invalid_grant", "The code is not valid, has expired, or was used before")
        asked = found.asked
        if asked.client_id != client_id or asked.resource != visit.issuer:
            raise OAuthError("invalid_grant", "The code was given to another client")
        if form.get("redirect_uri", asked.redirect_uri) != asked.redirect_uri:
            raise OAuthError("invalid_grant", "redirect_uri is not the one of the authorization request")
        proof = urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
        if not _VERIFIER.fullmatch(verifier) or not compare_digest(proof, asked.challenge):
            raise OAuthError("invalid_grant", "code_verifier does not belong to the code_challenge")
        _check_resource(form, visit.issuer)
        await self._kept.put("upstream", id, found.tokens, found.sign_in.expires - time.time())
        if not await self._kept.advance(id, found.sign_in):
            raise OAuthError("invalid_grant", "The sign-in has ended")
        await self._give(visit, id, found.sign_in, found.sign_in.scopes)

    async def _refresh(self, visit: OAuthVisit, form: dict[str, str], client_id: str) -> None:
        """A refresh token becomes tokens, once; used again after a moment, it ends the sign-in."""
        turn = self._kept.open("refresh", form.get("refresh_token", ""), Turn)
        found = None if turn is None else await self._kept.get("sign-in", turn.id, SignIn)
        if turn is None or found is None or found.client_id != client_id or found.resource != visit.issuer:
            raise OAuthError("invalid_grant", "The refresh token is not valid, or the sign-in has ended")
        _check_resource(form, visit.issuer)
        wanted = form.get("scope", "").split() or found.scopes
        if not set(wanted) <= set(found.scopes):
            raise OAuthError("invalid_scope", "The refresh token does not have all of these scopes")
        await self._limit("refresh", f"{found.provider} {found.subject}")
        found = await self._after(turn)
        # For a moment after a turn its client may not have got the answer, and sends the same token again.
        if found is not None and (found.generation != turn.generation + 1 or time.time() - found.rotated > GRACE):
            await self._kept.end(turn.id)
            note_refusal("refresh token used twice", User(found.subject, found.provider), client=visit.client)
            found = None
        if found is None:
            raise OAuthError("invalid_grant", "The refresh token was used before, or the sign-in has ended")
        await self._give(visit, turn.id, found, [one for one in wanted if one in found.scopes])

    async def _after(self, turn: Turn) -> SignIn | None:
        """A sign-in after this turn, which one process at a time takes. One that does not come to an end holds nothing
        for long, and the same token may be sent again."""
        deadline = time.monotonic() + records.PATIENCE
        while time.monotonic() < deadline:
            found = await self._kept.get("sign-in", turn.id, SignIn)
            if found is None or found.generation > turn.generation:
                return found
            if await self._kept.put("turn", turn.id, True, records.PATIENCE / 2, nx=True):
                try:
                    return await self._advance(turn, found)
                finally:
                    await self._kept.delete("turn", turn.id)
            await asyncio.sleep(0.05)
        raise AuthError(503, AWAY)

    async def _advance(self, turn: Turn, found: SignIn) -> SignIn | None:
        """The next generation of a sign-in, after the provider and the operator have been asked again."""
        try:
            user = await self.renew(turn.id)
            if user is not None and user.subject != found.subject:
                raise SignInRefused("the provider names somebody else")
            found.claims = found.claims if user is None else dict(user.claims)
            scopes = await self._policy.granted(User(found.subject, found.provider, (), found.claims), found.scopes)
        except SignInRefused as error:
            log.info("a sign-in has ended: %s", error)
            await self._kept.end(turn.id)
            return None
        now = await self._kept.get("sign-in", turn.id, SignIn)
        if now is None or now.generation > turn.generation:  # this took long, and another one has gone on
            return now
        found.scopes, found.generation, found.rotated = scopes, turn.generation + 1, time.time()
        return found if await self._kept.advance(turn.id, found) else None

    async def renew(self, id: str, check: bool = True) -> User | None:
        """Ask the provider again about a sign-in, one process at a time; the user, if it says anything new.

        Without `check` it is asked only if its token is about to expire.
        """
        deadline, seconds = time.monotonic() + records.PATIENCE, self._policy.sign_in_seconds
        while time.monotonic() < deadline:
            tokens = await self._kept.get("upstream", id, records.UpstreamTokens)
            if tokens is None:
                raise SignInRefused("it is not known any more")
            alone = bool(tokens.refresh) and is_due(tokens)
            if not alone and not check:
                return None
            if alone and not await self._kept.put("renewing", id, True, records.PATIENCE, nx=True):
                await asyncio.sleep(0.05)  # a refresh token of the provider must not be used twice
                continue
            try:
                return await self._upstream.renew(tokens, lambda new: self._kept.keep("upstream", id, new, seconds))
            finally:
                if alone:
                    await self._kept.delete("renewing", id)
        raise AuthError(503, AWAY)

    async def _give(self, visit: OAuthVisit, id: str, sign_in: SignIn, scopes: list[str]) -> None:
        now, seconds, scope = int(time.time()), self._policy.token_seconds, " ".join(scopes)
        claims = {name: sign_in.claims[name] for name in self._policy.claims if name in sign_in.claims}
        claims.update(iss=visit.issuer, aud=sign_in.resource, sub=sign_in.subject, idp=sign_in.provider, sid=id)
        claims.update(client_id=sign_in.client_id, scope=scope, iat=now, exp=now + seconds)
        said = {"access_token": self._kept.seal("access", claims), "token_type": "Bearer", "expires_in": int(seconds)}
        said["refresh_token"] = self._kept.seal("refresh", Turn(id, sign_in.generation))
        if scope:
            said["scope"] = scope
        await visit.json(said, 200, (b"pragma", b"no-cache"))

    async def _revoke(self, visit: OAuthVisit) -> None:
        """End the sign-in of a token (RFC 7009). A token that is not known counts as ended."""
        form = await visit.form()
        client_id = await self._known_client(visit, form)
        text = form.get("token", "")
        turn = self._kept.open("refresh", text, Turn)
        claims = self._kept.open("access", text, JsonObject) or {}
        id = turn.id if turn is not None else claims.get("sid", "")
        found = await self._kept.get("sign-in", id, SignIn) if id else None
        if found is not None and found.client_id == client_id:
            await self._kept.end(id)
        await visit.json({})


def _check_resource(fields: Mapping[str, str], issuer: str, asked: Wanted | None = None) -> None:
    """Tokens are for this server only (RFC 8707). Capitals in the scheme and the host mean nothing."""
    given = split_url(fields.get("resource", issuer))
    if given._replace(netloc=given.netloc.lower()).geturl().rstrip("/") != issuer:
        text = f"Tokens are given out for {issuer} only, not for another resource"
        raise Denied(asked, "invalid_target", text) if asked is not None else OAuthError("invalid_target", text)


def _fields(text: bytes) -> dict[str, str]:
    """The fields of a query or a form. None may stand twice, and an empty one counts as absent."""
    try:
        pairs = parse_qsl(text.decode(), max_num_fields=50, errors="strict")
    except ValueError:
        raise OAuthError("invalid_request", "The parameters cannot be read, or there are too many") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise OAuthError("invalid_request", f"The parameter {name[:50]} stands twice")
    return found


_UNQUOTED: Final = {ord('"'): "'", ord("\\"): "/"}
_PAGES: Final[dict[str, tuple[str, Callable[[IssuingServer, OAuthVisit], Awaitable[None]], bool]]] = {
    "metadata": ("GET", IssuingServer._metadata, False),
    "jwks": ("GET", IssuingServer._jwks, False),
    "register": ("POST", IssuingServer._register, False),
    "authorize": ("GET", IssuingServer._authorize, True),
    "consent": ("POST", IssuingServer._consent, True),
    "callback": ("GET", IssuingServer._callback, True),
    "token": ("POST", IssuingServer._token, False),
    "revoke": ("POST", IssuingServer._revoke, False),
}
"""The method of each page, what answers it, and whether people see it."""
_GRANTS: Final = {"authorization_code": IssuingServer._redeem, "refresh_token": IssuingServer._refresh}
