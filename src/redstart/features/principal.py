"""The user of a request, also as a string: the key under which sessions, dialogues, tasks and state are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from msgspec import Struct, convert
from msgspec.structs import force_setattr

from redstart.features.rules import scope_list
from redstart.wire.types import Explained

_NAMES: Final = ("principal", "subject", "sub", "id", "username", "name")
EXPECTED: Final = (
    f"a non-empty str, or a dict or object with one of: {', '.join(_NAMES)} (a non-empty str, int or UUID)"
)


class User(Struct, frozen=True, tag_field="kind", tag="redstart.User", metaclass=Explained):
    """Who makes a request: the subject of a token, who issued it, and what it allows.

    >>> User("ada", scopes="notes:read notes:write").scopes == {"notes:read", "notes:write"}
    True
    """

    subject: str
    issuer: str = ""
    """The URL of the authorization server. Two of them may use the same subject for two people."""
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, object] = {}
    """What else the token, or the authorization server, says."""
    if TYPE_CHECKING:

        def __init__(
            self,
            subject: str,
            issuer: str = "",
            scopes: str | Iterable[str] = (),
            claims: Mapping[str, object] = {},
        ) -> None: ...

    def __post_init__(self) -> None:
        given: object = self.subject
        if not isinstance(given, str) or not given.strip():
            raise ValueError("subject of a User must be a non-empty text (str)")
        force_setattr(self, "scopes", frozenset(scope_list("scopes of a User", self.scopes)))

    @property
    def principal(self) -> str:
        """The key of this user. It has a space only after an issuer, which is a URL."""
        return f"{self.issuer} {self.subject}" if self.issuer else self.subject


def scopes_of(user: object) -> frozenset[str]:
    """What the token of a user allows: the `scopes`, or `scope` as a token has it, of a User, a dict or an object.

    >>> sorted(scopes_of({"sub": "ada", "scope": "read write"}))
    ['read', 'write']
    """
    if isinstance(user, User):
        return user.scopes
    for name in ("scopes", "scope"):
        value = user.get(name) if isinstance(user, Mapping) else getattr(user, name, None)
        if isinstance(value, str | list | tuple | set | frozenset):
            listed = value.split() if isinstance(value, str) else value
            return frozenset(one for one in listed if isinstance(one, str))
    return frozenset()


def restored_user(kept: object) -> object:
    """A user that was kept as JSON: a User as a User again, and anything else as it is."""
    return convert(kept, User) if isinstance(kept, dict) and kept.get("kind") == "redstart.User" else kept


def principal_key(user: object) -> str:
    """A stable key of what `auth=` returned; empty where nobody is known. TypeError: this is not a principal.

    >>> principal_key({"sub": "ada"})
    'ada'
    """
    if user is None:
        return ""
    key = _key(user if isinstance(user, str) else _named(user))
    if not key:
        raise TypeError(f"{_shown(user)} is not a user: expected {EXPECTED}")
    return key


def user_mark(user: object) -> str:
    """A user as a mark that is the same each time, but does not name the user; empty where nobody is known."""
    from hashlib import sha256

    key = principal_key(user)
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16] if key else ""


def _named(user: object) -> object:
    """The first of the names that has a value. A later name may be less precise, and two users may share its value."""
    if isinstance(user, type) or getattr(user, "is_authenticated", True) is False:
        return None
    for name in _NAMES:
        value = user.get(name) if isinstance(user, Mapping) else getattr(user, name, None)
        if value is not None and not callable(value):
            return value
    return None


def _key(value: object) -> str:
    good = isinstance(value, str | int | UUID) and not isinstance(value, bool)
    return str(value) if good and str(value).strip() else ""


def _shown(user: object) -> str:
    """The kind of a value, and the value itself only where that cannot be a secret."""
    kind = type(user).__name__
    harmless = isinstance(user, bool) or (isinstance(user, str | dict | list | tuple) and not user)
    return f"{kind} {user!r}" if harmless else f"This {kind}"
