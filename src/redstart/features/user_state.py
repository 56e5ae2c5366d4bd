"""`ctx.state`: values that a server keeps for one user between calls, in the store, as JSON.

The user is part of the key of a value: see `store.shared.scoped`. Over HTTP without `auth=` the user is not known, and
two unknown users must not share a state, so it is refused there. On stdio there is one client, the local user.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from redstart.features.errors import ToolError, Unencodable
from redstart.features.principal import principal_key
from redstart.features.results import to_json
from redstart.store.shared import scoped
from redstart.wire.jsonrpc import decode

if TYPE_CHECKING:
    from redstart.protocol.call import Call
    from redstart.store.shared import SharedState

T = TypeVar("T")
_NOBODY = (
    "ctx.state belongs to a user, and this server does not know who is asking. "
    "Give the server auth=, so that each user has a state of their own."
)


class State:
    """The values of the user who makes a call.

    >>> async def count(ctx: Context) -> int:
    ...     seen = await ctx.state.get("seen", 0) + 1
    ...     await ctx.state.set("seen", seen, ttl=3600)
    ...     return seen
    """

    __slots__ = ("_server_name", "_store", "_user")

    def __init__(self, call: Call, store: SharedState, server_name: str) -> None:
        self._store = store
        self._server_name = server_name
        self._user = principal_key(call.user)
        if call.headers is not None and not self._user:
            raise ToolError(_NOBODY)

    def _key(self, key: str) -> str:
        return scoped(self._user, "state", self._server_name, key)

    @overload
    async def get(self, key: str) -> Any: ...
    @overload
    async def get(self, key: str, default: T) -> T: ...
    async def get(self, key: str, default: object = None) -> Any:
        """The value that was set, or `default` if there is none or its time is over."""
        found = await self._store.kv_get(self._key(key))
        return default if found is None else decode(found)

    async def set(self, key: str, value: object, ttl: float | None = None) -> None:
        """Keep a value of JSON, for `ttl` seconds or until it is deleted."""
        if ttl is not None and not ttl > 0:
            raise ValueError(f"ttl must be a positive number of seconds, not {ttl!r}")
        try:
            kept = to_json(value)
        except Unencodable as error:
            raise TypeError(f"ctx.state.set({key!r:.50}, …): {error}") from None
        await self._store.kv_set(self._key(key), kept, ttl)

    async def delete(self, key: str) -> None:
        """Delete a value. It is not an error if there is none."""
        await self._store.kv_delete(self._key(key))


class SyncState:
    """As State, without `await`."""

    __slots__ = ("_state", "_wait")

    def __init__(self, state: State, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._state = state
        self._wait = wait

    @overload
    def get(self, key: str) -> Any: ...
    @overload
    def get(self, key: str, default: T) -> T: ...
    def get(self, key: str, default: object = None) -> Any:
        """The value that was set, or `default` if there is none or its time is over."""
        return self._wait(self._state.get(key, default))

    def set(self, key: str, value: object, ttl: float | None = None) -> None:
        """Keep a value of JSON, for `ttl` seconds or until it is deleted."""
        self._wait(self._state.set(key, value, ttl))

    def delete(self, key: str) -> None:
        """Delete a value. It is not an error if there is none."""
        self._wait(self._state.delete(key))
