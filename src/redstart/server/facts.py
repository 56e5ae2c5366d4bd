"""What both kinds of context know without asking anybody, and the two notifications they can send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic

from msgspec import UNSET

from redstart.execution.dependencies import RequestContext
from redstart.protocol.call import Call
from redstart.schema.errors import nearest
from redstart.wire.check import checked
from redstart.wire.jsonrpc import Id, decode
from redstart.wire.meta import LOG_LEVELS, Implementation
from redstart.wire.types import LogParams, ProgressParams

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from redstart.server.runtime import Runtime

    App = TypeVar("App", default=Any)
else:  # a default is known to type checkers, and to Python only since 3.13
    from typing import TypeVar

    App = TypeVar("App")

_OURS = {
    "request_context": "lifespan",
    "lifespan_context": "lifespan",
    "report_progress": "progress",
    "get_state": "state.get",
    "set_state": "state.set",
    "delete_state": "state.delete",
}
"""What other frameworks call it."""
_LEVEL = {name: rank for rank, name in enumerate(LOG_LEVELS)}


class Facts(RequestContext, Generic[App]):
    """What both kinds of context know without asking anybody."""

    __slots__ = ("_call", "_runtime")

    def __init__(self, call: Call, runtime: Runtime) -> None:
        self._call = call
        self._runtime = runtime

    if not TYPE_CHECKING:  # a type checker knows the names, and must not be told that there may be others

        def __getattr__(self, name: str) -> Any:
            """Name ours: other frameworks say `report_progress`, `get_state`, `lifespan_context`."""
            ours = _OURS.get(name)
            known = [known for known in dir(type(self)) if not known.startswith("_")]
            near = ours or (None if name.startswith("_") else nearest(name, known))
            hint = f"; write ctx.{near}" if near else ""
            raise AttributeError(f"ctx.{name}: a {type(self).__name__} does not have this name{hint}")

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
        return None if info is UNSET else info

    @property
    def meta(self) -> dict[str, Any]:
        """The whole `_meta` of the request."""
        return decode(self._call.raw_params).get("_meta") or {}

    @property
    def lifespan(self) -> App:
        """What the server's `lifespan=` yielded."""
        return self._runtime.lifespan_state  # type: ignore[no-any-return]

    @property
    def can_elicit(self) -> bool:
        """Whether this client can be asked a question in a form."""
        return self._can_ask and self._call.capabilities.has("elicitation.form")

    @property
    def can_elicit_url(self) -> bool:
        """Whether this client can send its user to a web page."""
        dialect = self._call.dialect
        knows = dialect.modern or dialect.url_required
        return knows and self._can_ask and self._call.capabilities.has("elicitation.url")

    @property
    def can_sample(self) -> bool:
        """Whether this client lends its model."""
        return self._can_ask and self._call.capabilities.has("sampling")

    @property
    def _can_ask(self) -> bool:
        """Whether anything can reach the client before the result, where that is how questions travel."""
        return not self._call.dialect.asks or getattr(self._call.channel, "can_ask", True)

    def _progress(self, progress: float, total: float | None, message: str | None) -> bool:
        call = self._call
        token = call.meta.progress_token if call.meta else UNSET
        params = checked(ProgressParams("" if token is UNSET else token, progress, total, message), "ctx.progress()")
        if token is UNSET or (call.progress is not None and progress <= call.progress):
            return False
        if call.dialogue is not None and call.dialogue.replaying:
            return False
        if not call.dialect.progress_messages:
            params.message = None
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
        params = checked(LogParams(level, data, logger or None), "ctx.log()")
        if _LEVEL[level] < _LEVEL[wanted] or "logging" not in self._runtime.hub.offers:
            return False
        if call.dialogue is not None and call.dialogue.replaying:
            return False
        message = call.link.notify(call, "notifications/message", params)
        if message is None:
            return False
        call.channel.send(message)
        return True
