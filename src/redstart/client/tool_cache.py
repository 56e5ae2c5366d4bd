"""What the client remembers of a server's tools: which arguments go into headers, what their results look like.

One `tools/list` brings it when it is first needed; it is forgotten when the server says that its tools have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import UNSET, Struct

from redstart.client.errors import InvalidReply, RequestError
from redstart.protocol.headers import ParamRule, param_rules
from redstart.schema.errors import ShapeError
from redstart.schema.json_schema import SchemaError, Validator, compile_schema
from redstart.wire.jsonrpc import JsonObject
from redstart.wire.types import ListedTool

log = logging.getLogger("redstart.client")

_PLAIN: Final = {"type", "properties", "required", "$defs", "$schema"}


class CachedTool(Struct, frozen=True):
    """One tool: its header rules, whether its results are wrapped as `{"result": …}`, whether it must be a task."""

    rules: Sequence[ParamRule] = ()
    wrapped: bool = False
    task_required: bool = False
    output_schema: JsonObject | None = None
    """Without a validator that this client has, results are not checked."""


class ToolCache:
    """The tools by name. `fetch` lists all of them and calls `learn`."""

    def __init__(self, fetch: Callable[[], Awaitable[object]]) -> None:
        self._fetch = fetch
        self._tools: dict[str, CachedTool] | None = None
        self._validators: dict[str, Validator | None] = {}
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
            wrapped = is_wrapped(tool.output_schema, modern=modern)
            schema = tool.output_schema if isinstance(tool.output_schema, dict) else None
            cached[tool.name] = CachedTool(rules, wrapped, _task_required(tool.execution), schema)
            valid.append(tool)
        self._tools = cached
        self._validators.clear()
        return valid

    def known(self, name: str) -> CachedTool | None:
        """What is known of a tool without asking."""
        return (self._tools or {}).get(name)

    async def check(self, name: str, structured: object) -> None:
        """Refuse a structured result that is not what the tool's output schema promises."""
        tool = self.known(name) if structured is UNSET else await self.get(name)
        if tool is None or tool.output_schema is None:
            return
        if structured is UNSET:
            raise InvalidReply(f"tools/call of {name}: the result lacks the structured content of the output schema")
        validator = self._validator(name, tool.output_schema)
        try:
            if validator is not None:
                validator.check(structured, "result")
        except ShapeError as error:
            raise InvalidReply(f"tools/call of {name}: the result does not fit the output schema: {error}") from error

    def _validator(self, name: str, schema: JsonObject) -> Validator | None:
        """A schema, compiled once. One that this client cannot check (extra `validate`) is not checked."""
        if name not in self._validators:
            try:
                self._validators[name] = compile_schema(schema, where=f"the output schema of {name}")
            except (SchemaError, RecursionError) as error:
                log.debug("results of %s are not checked: %s", name, error)
                self._validators[name] = None
        return self._validators[name]

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


def _task_required(execution: object) -> bool:
    return isinstance(execution, dict) and execution.get("taskSupport") == "required"


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
