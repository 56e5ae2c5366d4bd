"""What the client remembers of a server's tools: which arguments go into headers, which results are wrapped.

Asked for when first needed, by one `tools/list` for everyone; forgotten when the server says that its tools changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from redstart.client.errors import InvalidReply, RequestError
from redstart.client.headers import Rules, header_rules
from redstart.wire.types import ListedTool

log = logging.getLogger("redstart.client")

_PLAIN: Final = {"type", "properties", "required", "$defs", "$schema"}


class CachedTool(Struct, frozen=True):
    """One tool: its header rules, and whether its results stand in `{"result": …}`."""

    rules: Rules = {}
    wrapped: bool = False


class ToolCache:
    """The tools by name. `fetch` lists them all and calls `learn`; over `http` some must be left out."""

    def __init__(self, fetch: Callable[[], Awaitable[object]], *, http: bool) -> None:
        self._fetch = fetch
        self._http = http
        self._tools: dict[str, CachedTool] | None = None
        self._lock = asyncio.Lock()

    def learn(self, tools: list[ListedTool], *, modern: bool) -> list[ListedTool]:
        """Remember `tools`, and return them without those whose `x-mcp-header` annotations are invalid."""
        known: dict[str, CachedTool] = {}
        valid = []
        for tool in tools:
            rules: Rules = {}
            if self._http and modern:
                try:
                    rules = header_rules(tool.input_schema)
                except ValueError as error:
                    log.warning("the tool %r is left out: %s", tool.name, error)
                    continue
            known[tool.name] = CachedTool(rules, is_wrapped(tool.output_schema, modern=modern))
            valid.append(tool)
        self._tools = known
        return valid

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Forget what may have changed."""
        if method == "notifications/tools/list_changed":
            self._tools = None

    def end(self, error: BaseException | None) -> None:
        """Nothing is left to hear; what is known stays."""

    def forget(self) -> None:
        """The next question asks the server again."""
        self._tools = None

    async def get(self, name: str) -> CachedTool:
        """What is known of `name`; a tool that is not listed has no rules."""
        if self._tools is None:
            async with self._lock:
                if self._tools is None:
                    await self._learn()
        return (self._tools or {}).get(name) or CachedTool()

    async def _learn(self) -> None:
        try:
            await self._fetch()
        except (RequestError, InvalidReply) as error:  # no list to be had: the call itself tells what is wrong
            log.debug("tools/list: %s", error)
            self._tools = {}


def is_wrapped(schema: Any, *, modern: bool) -> bool:
    """Whether an output schema only exists to make an object of another value.

    No revision has a sign for that: fastmcp sets a keyword, `mcp` names the model "<function>Output". Without either,
    a bare object with `result` alone counts as a wrapper in the handshake era, which needs wrappers, and only there.
    """
    if not isinstance(schema, dict):
        return False
    if schema.get("x-fastmcp-wrap-result") is True:
        return True
    if list(schema.get("properties") or ()) != ["result"] or schema.get("required") != ["result"]:
        return False
    return str(schema.get("title", "")).endswith("Output") or (not modern and schema.keys() <= _PLAIN)
