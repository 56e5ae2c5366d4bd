"""`auth=`: finds the user of a bearer token, within a time limit. On stdio there is no token, but a local user."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Final

from redstart.access.verifier import Authenticate, AuthError, Keeper, TokenVerifier
from redstart.execution.threads import Pool
from redstart.features.errors import ErrorPolicy, log
from redstart.features.principal import User, principal_key, scopes_of
from redstart.features.rules import Wrong
from redstart.schema.callables import is_async

SECONDS: Final = 10.0
"""How long `auth=` may take for one request."""
THREADS: Final = 8
"""The size of a pool only for `auth=`: when tools use all of their threads, tokens can still be checked."""
UNKNOWN: Final = "A valid bearer token is needed"


def checked_auth(label: str, value: object) -> Callable[..., object]:
    if not callable(value):  # the value may be a secret, so only its type is shown
        expected = "a class of redstart.auth, as BearerTokens({…}), a function of the token that returns the user"
        raise Wrong(label, expected, f"a {type(value).__name__}")
    by_token, by_request = _parameters(value)
    try:
        inspect.signature(value).bind(*("token",) * by_token, **dict.fromkeys(("request",) * by_request))
    except ValueError:
        pass  # a builtin without a signature
    except TypeError:
        raise Wrong(label, "a function of the token that returns the user", "one of other parameters") from None
    return value


def _parameters(fn: Callable[..., object]) -> tuple[bool, bool]:
    """Whether `auth=` takes the token, and whether it takes the request, as a parameter of this name."""
    try:
        parameters = inspect.signature(fn).parameters
    except ValueError:
        return True, False
    others = [one for name, one in parameters.items() if name != "request" and one.default is one.empty]
    return "request" not in parameters or bool(others), "request" in parameters


def local_user(scopes: tuple[str, ...], *, applied: bool) -> User:
    """Who the client on stdio is. No token can come from there, so `auth=` is not applied, and this is logged."""
    if not applied:
        has = f"has the scopes {' '.join(scopes)}" if scopes else "has no scopes; Server(stdio_scopes=…) gives it some"
        log.warning("auth= is not applied on stdio: every call is made by the local user, who %s", has)
    return User("local", scopes=scopes)


class Authenticator:
    """Calls `auth=`, and accepts what it returns only if that can be used as a principal."""

    def __init__(self, auth: Authenticate, errors: ErrorPolicy, server: Keeper) -> None:
        self._server = server
        self._errors = errors
        self._pool = Pool(THREADS)
        self._logged: set[type] = set()
        self.use(auth)

    def use(self, auth: Authenticate) -> None:
        """From now on find users by this function."""
        self.verifier = auth if isinstance(auth, TokenVerifier) else TokenVerifier(auth)
        self.issuer = self.verifier.open(self._server)
        self._verify = self.verifier.verify
        self._is_async = is_async(self._verify)
        self._by_token, self.by_request = _parameters(self._verify)

    async def user(self, token: str, request: object = None) -> object:
        """The user of this token, or AuthError. Without a token `auth=` is called only if it takes just the request."""
        if not token and self._by_token:
            raise AuthError(401, UNKNOWN)
        user = self.verifier.remembered(token)
        if user is None:
            user = await self._checked(token, request)
        needed = self.verifier.scopes
        if needed and not scopes_of(user).issuperset(needed):
            raise AuthError(403, f"The token needs the scopes: {' '.join(needed)}", "insufficient_scope")
        return user

    async def _checked(self, token: str, request: object) -> object:
        try:
            async with asyncio.timeout(SECONDS) as limit:
                user = await self._call((token,) * self._by_token, {"request": request} if self.by_request else {})
        except AuthError:
            raise
        except Exception as error:
            raise self._failure(error, limit.expired()) from None
        try:
            if not principal_key(user):
                raise AuthError(401, UNKNOWN, "invalid_token")
        except AuthError:
            raise
        except Exception as error:  # a property of the user object may raise anything
            text = f"auth= refused a caller, because of what it returned. {error}. None refuses without this line."
            self._warn(type(user), text)
            raise AuthError(401, UNKNOWN, "invalid_token") from None
        return user

    async def _call(self, token: tuple[str, ...], request: dict[str, object]) -> object:
        if self._is_async:
            return await self._verify(*token, **request)
        user = await self._pool.run(lambda: self._verify(*token, **request), {})
        return await user if inspect.isawaitable(user) else user

    def _failure(self, error: Exception, late: bool) -> AuthError:
        if late:
            log.error("auth= took more than %g seconds for a request", SECONDS)
            return AuthError(503, f"The token could not be checked within {SECONDS:g} seconds; try again later")
        text = self._errors.text(error, "auth=")
        self._warn(type(error), "auth= raised an exception, which is a 500: return None for a token that is not valid")
        return AuthError(500, text)

    def _warn(self, kind: type, text: str) -> None:
        """Log a text once for each type of user or error, so that callers cannot fill the log or the memory."""
        if kind not in self._logged:
            self._logged.add(kind)
            log.warning("%s", text)

    def close(self) -> None:
        self._pool.close()
        self.verifier.close()
