"""THE table: every method and notification, its parameters, its eras and its flags.

A method that is not here does not exist. Adding one: its shapes in `wire/types.py`, a row here, a feature function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import msgspec

from redstart.wire import types as t

HANDSHAKE: Final = 1
MODERN: Final = 2
BOTH: Final = HANDSHAKE | MODERN


class Method(str):
    """One row: a method's name, and what is known of it, so that `call.method == "tools/call"` holds.

    `names` is the parameter that `Mcp-Name` repeats; `capability` is what a server must offer.
    """

    def __new__(cls, name: str, *row: Any, **options: Any) -> Method:
        return super().__new__(cls, name)

    def __init__(
        self,
        name: str,
        params: type[t.Params],
        eras: int,
        *,
        names: str | None = None,
        capability: str | None = None,
        may_ask: bool = False,
        list_of: str | None = None,
    ) -> None:
        self.name = name
        self.raw = name.encode()
        self.params = params
        self.eras = eras
        self.names = names
        self.capability = capability
        self.may_ask = may_ask
        self.list_of = list_of
        self.routing = _routing(names)
        self.notification = name.startswith("notifications/")

    @cached_property
    def decode(self) -> Callable[[bytes | msgspec.Raw], Any]:
        """The decoder of the params, made on first use: a server is asked for few of the methods."""
        return msgspec.json.Decoder(self.params).decode

    def __repr__(self) -> str:
        return f"Method({self.name!r})"


def _routing(names: str | None) -> tuple[bytes, ...]:
    """The keys of the params that decide where a request goes: none of them may stand twice."""
    wire = "taskId" if names == "task_id" else names
    keys = ["_meta", *((wire, "arguments") if wire else ())]
    return tuple(f'"{key}"'.encode() for key in keys)


_ROWS: Final = (
    Method("initialize", t.InitializeParams, HANDSHAKE),
    Method("ping", t.Params, HANDSHAKE),
    Method("server/discover", t.Params, MODERN),
    Method("tools/list", t.PageParams, BOTH, capability="tools", list_of="tools"),
    Method("tools/call", t.CallToolParams, BOTH, capability="tools", names="name", may_ask=True),
    Method("prompts/list", t.PageParams, BOTH, capability="prompts", list_of="prompts"),
    Method("prompts/get", t.GetPromptParams, BOTH, capability="prompts", names="name", may_ask=True),
    Method("resources/list", t.PageParams, BOTH, capability="resources", list_of="resources"),
    Method("resources/templates/list", t.PageParams, BOTH, capability="resources", list_of="resource_templates"),
    Method("resources/read", t.ReadResourceParams, BOTH, capability="resources", names="uri", may_ask=True),
    Method("resources/subscribe", t.UriParams, HANDSHAKE, capability="resources"),
    Method("resources/unsubscribe", t.UriParams, HANDSHAKE, capability="resources"),
    Method("completion/complete", t.CompleteParams, BOTH, capability="completions"),
    Method("logging/setLevel", t.SetLevelParams, HANDSHAKE, capability="logging"),
    Method("subscriptions/listen", t.ListenParams, MODERN),
    Method("tasks/get", t.TaskParams, BOTH, capability="tasks", names="task_id"),
    Method("tasks/cancel", t.TaskParams, BOTH, capability="tasks", names="task_id"),
    Method("tasks/update", t.UpdateTaskParams, MODERN, capability="tasks", names="task_id"),
    Method("tasks/result", t.TaskParams, HANDSHAKE, capability="tasks"),
    Method("tasks/list", t.PageParams, HANDSHAKE, capability="tasks"),
    Method("notifications/initialized", t.Params, HANDSHAKE),
    Method("notifications/cancelled", t.CancelledParams, BOTH),
    Method("notifications/progress", t.Params, HANDSHAKE),
    Method("notifications/roots/list_changed", t.Params, HANDSHAKE),
)

METHODS: Final = {row.name: row for row in _ROWS}
"""Every row by its name."""

ALIASES: Final = {"initialized": METHODS["notifications/initialized"]}
"""What older systems send instead of the spec's name."""


def decode_params(raw: bytes | msgspec.Raw) -> t.Params:
    """The parameters of a method that is not in the table: enough to tell the era."""
    return msgspec.json.decode(raw, type=t.Params)
