"""`auth=`: finds the user of a bearer token, within a time limit."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterable
from typing import Final

from redstart.execution.threads import Pool
from redstart.features.errors import ErrorPolicy, log
from redstart.features.principal import principal_key, scopes_of
from redstart.features.rules import scope_list
from redstart.schema.callables import is_async
from redstart.server.settings import Authenticate, auth_parameters

SECONDS: Final = 10.0
"""How long `auth=` may take for one request."""
THREADS: Final = 8
"""The size of a pool only for `auth=`: when tools use all of their threads, tokens can still be checked."""

MAX_TOKEN: Final = 16 * 1024
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
UNKNOWN: Final = "A valid bearer token is needed"


def is_token(value: object) -> bool:
    """Whether a value can be a bearer token: a text of visible ASCII characters."""
    return isinstance(value, str) and len(value) <= MAX_TOKEN and _TOKEN.fullmatch(value) is not None


class AuthError(Exception):
    """The caller is not let in. `code` is the error of RFC 6750, empty where no token was sent or `auth=` failed."""

    def __init__(self, status: int, text: str, code: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class TokenVerifier:
    """An `auth=` that also says where clients get tokens, and which scopes every token needs.

    >>> verifier = TokenVerifier(lambda token: None, authorization_servers=["https://login.example.com"])
    >>> verifier.authorization_servers
    ('https://login.example.com',)
    """

    def __init__(
        self,
        verify: Authenticate,
        *,
        authorization_servers: Iterable[str] = (),
        scopes: str | Iterable[str] = (),
    ) -> None:
        self.verify = verify
        self.authorization_servers = tuple(authorization_servers)
        self.scopes = scope_list("scopes", scopes)

    def __call__(self, token: str) -> object:
        return self.verify(token)

    def remembered(self, token: str) -> object:
        """The user of a token that was checked a moment ago, if that is known at once."""
        return None

    def close(self) -> None:
        """The server stops."""


class Authenticator:
    """Calls `auth=`, and accepts what it returns only if that can be used as a principal."""

    def __init__(self, auth: Authenticate, errors: ErrorPolicy) -> None:
        self.verifier = auth if isinstance(auth, TokenVerifier) else TokenVerifier(auth)
        self._verify = self.verifier.verify
        self._errors = errors
        self._is_async = is_async(self._verify)
        self._by_token, self.by_request = auth_parameters(self._verify)
        self._pool = Pool(THREADS)
        self._logged: set[type] = set()

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
