"""The contract of an `auth=` that is more than a function, and what it may use of its server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from redstart.features.errors import log
from redstart.features.principal import User
from redstart.features.rules import scope_list

if TYPE_CHECKING:
    from redstart.asking.seal import KeyRing
    from redstart.store.shared import SharedState

Authenticate: TypeAlias = Callable[..., Any]
MAX_TOKEN: Final = 16 * 1024
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


def is_token(value: object) -> bool:
    """Whether a value can be a bearer token: a text of visible ASCII characters."""
    return isinstance(value, str) and len(value) <= MAX_TOKEN and _TOKEN.fullmatch(value) is not None


class AuthError(Exception):
    """The caller is not let in. `code` is the error of RFC 6750, empty where no token was sent or `auth=` failed."""

    def __init__(self, status: int, text: str, code: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Keeper(Protocol):
    """The server of an `auth=`, as far as that may need it: where to keep things, and the keys to seal them with."""

    name: str
    given_keys: list[str | bytes]

    @property
    def store(self) -> SharedState: ...
    @property
    def keys(self) -> KeyRing: ...
    @property
    def shares(self) -> bool: ...


class WebRequest(Protocol):
    """An HTTP request and its reply, as far as an authorization server needs them."""

    scope: MutableMapping[str, Any]
    headers: dict[bytes, bytes]
    reason: str

    async def body(self) -> bytes: ...
    async def reply(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None: ...


class AuthorizationServer(Protocol):
    """Answers the requests by which clients get tokens. Its issuer is the URL of the endpoint."""

    def check_site(self, issuer: str) -> None: ...
    async def serve(self, request: WebRequest, issuer: str, name: str, client: str) -> bool: ...


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
        self._told: set[str] = set()

    def __call__(self, token: str) -> object:
        return self.verify(token)

    def remembered(self, token: str) -> object:
        """The user of a token that was checked a moment ago, if that is known at once."""
        return None

    def _refused(self, claims: Mapping[str, object], names: Sequence[str], why: str) -> User | None:
        """No user, for a token of its issuer. Mostly an option is wrong, so the log has its claims, and what is wanted.

        Once for each reason: who has such a token must not be able to fill the log.
        """
        about = ", ".join(f"{name} is {claims.get(name)!r:.200}" for name in names)
        if names[0] not in self._told:
            self._told.add(names[0])
            log.warning("auth= refuses a token of its issuer: %s, and %s (this is said once)", about, why)
        return None

    def open(self, server: Keeper) -> AuthorizationServer | None:
        """The server is served over HTTP. What this returns gives out the tokens, if that is not done elsewhere."""
        return None

    def close(self) -> None:
        """The server stops."""
