"""What the client remembers of a server's tools: which arguments go into headers, which results are wrapped.

Asked for when first needed, by one `tools/list` for everyone; forgotten when the server says that its tools changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from redstart.client.errors import ClientError
from redstart.client.headers import Rules, header_rules
from redstart.wire.types import ListedTool

log = logging.getLogger("redstart.client")

_PLAIN: Final = {"type", "properties", "required", "$defs", "$schema"}


class Known(Struct, frozen=True):
    """One tool: its header rules, and whether its results stand in `{"result": …}`."""

    rules: Rules = {}
    wrapped: bool = False


class KnownTools:
    """The tools by name. `fetch` lists them all and calls `learn`; `strict` leaves out what HTTP clients must."""

    def __init__(self, fetch: Callable[[], Awaitable[object]], *, strict: bool) -> None:
        self._fetch = fetch
        self._strict = strict
        self._tools: dict[str, Known] | None = None
        self._lock = asyncio.Lock()

    def learn(self, tools: list[ListedTool]) -> list[ListedTool]:
        """Remember `tools`, and return them without those whose `x-mcp-header` annotations are invalid."""
        known: dict[str, Known] = {}
        valid = []
        for tool in tools:
            rules: Rules = {}
            if self._strict:
                try:
                    rules = header_rules(tool.input_schema)
                except ValueError as error:
                    log.warning("the tool %r is left out: %s", tool.name, error)
                    continue
            known[tool.name] = Known(rules, _is_wrapped(tool.output_schema))
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

    async def get(self, name: str) -> Known:
        """What is known of `name`; a tool that is not listed has no rules."""
        if self._tools is None:
            async with self._lock:
                if self._tools is None:
                    await self._learn()
        return (self._tools or {}).get(name) or Known()

    async def _learn(self) -> None:
        try:
            await self._fetch()
        except (ClientError, TimeoutError) as error:  # the call itself will tell what is wrong
            log.debug("tools/list: %s", error)


def _is_wrapped(schema: Any) -> bool:
    """Whether an output schema only exists to make an object of another value.

    No revision has a sign for that: fastmcp sets a keyword, `mcp` names the model "<function>Output", and redstart's
    wrapper has no keyword beyond the necessary.
    """
    if not isinstance(schema, dict):
        return False
    if schema.get("x-fastmcp-wrap-result") is True:
        return True
    if list(schema.get("properties") or ()) != ["result"] or schema.get("required") != ["result"]:
        return False
    return str(schema.get("title", "")).endswith("Output") or schema.keys() <= _PLAIN
