"""The `_meta` keys: the modern envelope, the progress token, the trace context.

Spec: /specification/2026-07-28/basic#meta.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from redstart.wire.jsonrpc import MAX_ID, MAX_ID_LENGTH

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
CLIENT_INFO: Final = PREFIX + "clientInfo"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
TASKS_EXTENSION: Final = PREFIX + "tasks"
RELATED_TASK: Final = PREFIX + "related-task"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"

Token: TypeAlias = Annotated[int, Meta(ge=-MAX_ID, le=MAX_ID)] | Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
"""A progress token, and the id of a request where params name it."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@cache
def _parts(path: str) -> tuple[str, str]:
    name, _, rest = path.partition(".")
    return name, rest


class ClientCapabilities(Struct, frozen=True):
    """What a client declared. A capability is declared only by an object: null, true or "yes" declare nothing."""

    elicitation: Any = UNSET
    sampling: Any = UNSET
    roots: Any = UNSET
    tasks: Any = UNSET
    extensions: Any = UNSET
    experimental: Any = UNSET

    def has(self, path: str) -> bool:
        """Whether `"sampling"`, `"sampling.tools"`, `"elicitation.form"` … is declared.

        `elicitation: {}` means forms, so the form mode is declared unless only other modes are named.
        """
        name, rest = _parts(path)
        value = getattr(self, name, UNSET)
        if not isinstance(value, dict):
            return False
        if not rest:
            return True
        if path == "elicitation.form" and "form" not in value:
            return "url" not in value
        return isinstance(value.get(rest), dict)


class Implementation(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The name and version of a client or a server."""

    name: str
    version: str = field(default_factory=str)  # always sent, even if empty
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Any = None


class RequestMeta(Struct, frozen=True):
    """The `_meta` of a request. Unknown keys are skipped; a handler reads them with `ctx.meta`.

    It is frozen, because requests whose `_meta` has the same bytes share one. Handlers see its client.
    """

    protocol_version: str | UnsetType = field(name=PROTOCOL_VERSION, default=UNSET)
    client_capabilities: ClientCapabilities | UnsetType = field(name=CLIENT_CAPABILITIES, default=UNSET)
    client_info: Implementation | UnsetType = field(name=CLIENT_INFO, default=UNSET)
    log_level: str | UnsetType = field(name=LOG_LEVEL, default=UNSET)
    progress_token: Token | UnsetType = field(name="progressToken", default=UNSET)
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET
    baggage: str | UnsetType = UNSET
