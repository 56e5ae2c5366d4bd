"""What the client remembers of a server's tools: which arguments go into headers, which results are wrapped.

One `tools/list` brings it when it is first needed; it is forgotten when the server says that its tools have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from redstart.client.errors import InvalidReply, RequestError
from redstart.protocol.headers import ParamRule, param_rules
from redstart.wire.jsonrpc import JsonObject
from redstart.wire.types import ListedTool

log = logging.getLogger("redstart.client")

_PLAIN: Final = {"type", "properties", "required", "$defs", "$schema"}


class CachedTool(Struct, frozen=True):
    """One tool: its header rules, and whether its results are wrapped as `{"result": …}`."""

    rules: Sequence[ParamRule] = ()
    wrapped: bool = False


class ToolCache:
    """The tools by name. `fetch` lists all of them and calls `learn`."""

    def __init__(self, fetch: Callable[[], Awaitable[object]]) -> None:
        self._fetch = fetch
        self._tools: dict[str, CachedTool] | None = None
        self._lock = asyncio.Lock()

    def learn(self, tools: list[ListedTool], *, http: bool, modern: bool) -> list[ListedTool]:
        """Remember `tools`. Returns them without those whose header annotations are invalid, if headers are sent."""
        cached: dict[str, CachedTool] = {}
        valid = []
        for tool in tools:
            try:
                rules = param_rules(tool.input_schema) if http and modern else []
            except (ValueError, RecursionError) as error:
                log.warning("the tool %r is left out: %s", tool.name, error)
                continue
            cached[tool.name] = CachedTool(rules, is_wrapped(tool.output_schema, modern=modern))
            valid.append(tool)
        self._tools = cached
        return valid

    def notified(self, method: str, params: JsonObject) -> None:
        """Forget the tools if a notification says that they have changed."""
        if method == "notifications/tools/list_changed":
            self.forget()

    def end(self, error: BaseException | None) -> None:
        """No more notifications will come; the tools stay known."""

    def forget(self) -> None:
        """Ask the server again when a tool is next needed."""
        self._tools = None

    async def get(self, name: str) -> CachedTool:
        """What is known of the tool `name`. A tool that is not listed has no rules."""
        async with self._lock:
            if self._tools is None:
                try:
                    await self._fetch()
                except (RequestError, InvalidReply) as error:  # the call itself will report the error
                    log.debug("tools/list: %s", error)
                    self._tools = {}
        return (self._tools or {}).get(name, CachedTool())


def is_wrapped(schema: object, *, modern: bool) -> bool:
    """Whether an output schema only exists to make an object of another value.

    No revision has a mark for that: fastmcp sets a keyword, `mcp` names the model "<function>Output". Without both,
    a bare object with `result` alone counts as a wrapper in the handshake era, where results must be objects.
    """
    if not isinstance(schema, dict):
        return False
    if schema.get("x-fastmcp-wrap-result") is True:
        return True
    if list(schema.get("properties") or ()) != ["result"] or schema.get("required") != ["result"]:
        return False
    return str(schema.get("title", "")).endswith("Output") or (not modern and schema.keys() <= _PLAIN)
