"""What a handler may hold: the request it serves, and the words it may send while it works.

`async def` handlers take `Context`, `def` handlers `SyncContext`: the same names, blocking.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import UNSET

from redstart.protocol.call import Call
from redstart.wire.jsonrpc import Id, decode
from redstart.wire.meta import LOG_LEVELS, Implementation
from redstart.wire.types import LogParams, ProgressParams

if TYPE_CHECKING:
    from redstart.server.host import Host

App = TypeVar("App")
R = TypeVar("R")

_LEVEL = {name: rank for rank, name in enumerate(LOG_LEVELS)}

current_call: contextvars.ContextVar[Call] = contextvars.ContextVar("redstart.call")


class _Facts(Generic[App]):
    """What both kinds of context know without asking anybody."""

    __slots__ = ("_call", "_host")

    def __init__(self, call: Call, host: Host) -> None:
        self._call = call
        self._host = host

    @property
    def request_id(self) -> Id:
        """The id that the client gave this request."""
        return self._call.id

    @property
    def cancelled(self) -> bool:
        """Whether the client has given up on this request; a long loop should look now and then."""
        return not self._call.open

    @property
    def user(self) -> Any:
        """Who is asking: what `auth=` returned, or None."""
        return self._call.principal

    @property
    def headers(self) -> Mapping[str, str]:
        """The HTTP headers of the request, in lower case; empty on stdio."""
        headers = self._call.headers or {}
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}

    @property
    def protocol_version(self) -> str:
        """The protocol revision of this request."""
        return self._call.dialect.version

    @property
    def client(self) -> Implementation | None:
        """What the client says it is; never a reason to trust it."""
        info = self._call.client_info
        return None if info is UNSET else info  # type: ignore[return-value]

    @property
    def meta(self) -> dict[str, Any]:
        """The whole `_meta` of the request."""
        return decode(self._call.raw_params).get("_meta") or {}

    @property
    def lifespan(self) -> App:
        """What the server's `lifespan=` yielded."""
        return self._host.lifespan_state  # type: ignore[no-any-return]

    @property
    def can_elicit(self) -> bool:
        """Whether this client can be asked a question in a form."""
        return self._call.capabilities.has("elicitation.form")

    def _progress(self, progress: float, total: float | None, message: str | None) -> bool:
        call = self._call
        token = call.meta.progress_token if call.meta else UNSET
        if token is UNSET or (call.progress is not None and progress <= call.progress):
            return False
        params = ProgressParams(token, progress)  # type: ignore[arg-type]
        if total is not None:
            params.total = total
        if message is not None and call.dialect.progress_messages:
            params.message = message
        data = call.link.notify(call, "notifications/progress", params)
        if data is None:
            return False
        call.progress = progress
        call.channel.send(data)
        return True

    def _log(self, level: str, data: Any, logger: str | None) -> bool:
        call = self._call
        wanted = call.log_level
        if call.session is not None:
            wanted = call.session.log_level
        if wanted is UNSET:
            if call.dialect.modern:
                return False
            wanted = "info"
        if _LEVEL[level] < _LEVEL[wanted]:  # type: ignore[index]
            return False
        message = call.link.notify(call, "notifications/message", LogParams(level, data, logger or UNSET))
        if message is None:
            return False
        call.channel.send(message)
        return True


class Context(_Facts[App]):
    """The request that an `async def` handler serves.

    >>> async def crunch(path: str, ctx: Context) -> str:
    ...     await ctx.progress(1, total=3, message="reading")
    ...     return path
    """

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Tell the client how far the work is. False, and nothing sent, where it did not ask."""
        sent = self._progress(progress, total, message)
        if sent:
            await self._call.channel.drain()
        return sent

    async def log(self, level: str, data: Any, *, logger: str | None = None) -> bool:
        """Send a log message to the client, if it wants that level."""
        sent = self._log(level, data, logger)
        if sent:
            await self._call.channel.drain()
        return sent

    async def debug(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level debug."""
        return await self.log("debug", data, logger=logger)

    async def info(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level info."""
        return await self.log("info", data, logger=logger)

    async def warning(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level warning."""
        return await self.log("warning", data, logger=logger)

    async def error(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level error."""
        return await self.log("error", data, logger=logger)


class SyncContext(_Facts[App]):
    """The request that a `def` handler serves: as Context, without `await`.

    >>> def crunch(path: str, ctx: SyncContext) -> str:
    ...     ctx.progress(1, total=3, message="reading")
    ...     return path
    """

    __slots__ = ("_async",)

    def __init__(self, call: Call, host: Host) -> None:
        super().__init__(call, host)
        self._async: Context[App] = Context(call, host)

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        return self._host.wait(work)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> bool:
        """Tell the client how far the work is. False, and nothing sent, where it did not ask."""
        return self._wait(self._async.progress(progress, total, message))

    def log(self, level: str, data: Any, *, logger: str | None = None) -> bool:
        """Send a log message to the client, if it wants that level."""
        return self._wait(self._async.log(level, data, logger=logger))

    def debug(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level debug."""
        return self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level info."""
        return self.log("info", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level warning."""
        return self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> bool:
        """Log at level error."""
        return self.log("error", data, logger=logger)


def is_async(fn: Any) -> bool:
    """Whether calling `fn` gives something to await or to iterate asynchronously."""
    call = getattr(fn, "__call__", None)  # noqa: B004 — the method itself is wanted
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (inspect.unwrap(fn), call) if f)
