"""How a call of a provider's tool finds its answer: `tool_call` first, then the method itself.

The list entry, the schema and the decoder are the method's. What `tool_call` gives is formatted for the model and keeps
no promise of the method's annotation, so such a tool is listed without an inferred output schema.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from redstart.execution.dependencies import injected as is_injected
from redstart.execution.kinds import is_async
from redstart.features.errors import RegistrationError, ToolError, log, place
from redstart.features.output import Output
from redstart.features.registry import Compiler, Invoke
from redstart.features.results import blocks, is_content, is_media
from redstart.features.scopes import local_names
from redstart.features.solutions import Collected
from redstart.features.tools import CompiledTool, Tool
from redstart.schema.callables import find_target
from redstart.server.context import Context
from redstart.server.handling import elicit_callable
from redstart.server.sync_context import SyncContext
from redstart.wire import types as t
from redstart.wire.jsonrpc import decode

_EMPTY_BODY: Final = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "POP_TOP"} | {
    "CALL_INTRINSIC_1",  # what 3.12 and later put around every coroutine
    "RERAISE",
}


def is_declaration(fn: Any) -> bool:
    """Whether `fn` has a signature and a docstring but does nothing: it says what the tool is, not how it works."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None:
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname != "RESUME"]
    return all(s.opname in _EMPTY_BODY for s in steps) and all(
        s.argval in (None, Ellipsis) for s in steps if s.opname in ("LOAD_CONST", "RETURN_CONST")
    )


class ToolCall:
    """The `tool_call` of a provider, with `elicit` or without.

    Where `elicit` has a default, it is there only if provider and client can; where it has none, it is always there,
    and using it ends a call whose client cannot be asked. (Skipped instead, the method itself would run unasked.)
    A third parameter annotated as a Context is not for `elicit`; it is filled as in any other handler.
    """

    def __init__(self, fn: Callable[..., Any], declared: frozenset[str] | None) -> None:
        target = find_target(fn, None, local_names(fn))
        kinds = {p.name: target.resolve(p.annotation, p.name) for p in target.parameters}
        filled = {p.name: kinds[p.name] for p in target.parameters if is_injected(kinds[p.name], p.default)}
        rest = [p for p in target.parameters if p.name not in filled]
        if len(rest) not in (2, 3) or any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in rest):
            raise RegistrationError(f"{place(fn)}: write tool_call(self, name, arguments) or (…, elicit)")
        self._names = [p.name for p in rest]
        self._elicit = rest[2].name if len(rest) == 3 else None
        self._required = len(rest) == 3 and rest[2].default is rest[2].empty
        self._elicits = self._required if declared is None else "elicitation" in declared
        if self._required and not self._elicits:
            log.warning("%s: tool_call takes elicit, but capabilities() do not name elicitation: not used", place(fn))
        self._context: Any = Context if is_async(fn) else SyncContext
        self._fn = fn
        self._filled = filled

    def compile(self, compiler: Compiler) -> Invoke:
        """The function that runs `tool_call`."""
        return compiler.compose(self._fn, self._filled)

    async def answer(self, invoke: Invoke, name: str, arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        """What the provider says; NotImplemented where it leaves the call to the method."""
        given: dict[str, Any] = dict(zip(self._names, (name, arguments), strict=False))
        if self._elicit is not None:
            if self._elicits and (self._required or ctx.can_elicit):
                given[self._elicit] = elicit_callable(self._context(ctx._call, ctx._runtime))
            elif self._required:
                return NotImplemented  # it cannot work without
        value = await invoke(ctx._call, given)
        if inspect.isawaitable(value):  # of a plain function that hands on what an async one gave
            value = await value
        if type(value) is Collected and value.returned is NotImplemented and not value.items:
            return NotImplemented
        return value


class _Sent(Struct):
    """The arguments of one call: those that were sent, as the method types them, and all that the method takes."""

    sent: dict[str, Any]
    bound: dict[str, Any]


class _Own(Struct):
    """What the method itself has returned, and what it promises."""

    value: Any
    output: Output


class _Said(Output):
    """What `tool_call` gave becomes a result: in a list, each text is an item of its own."""

    __slots__ = ()

    def result(self, value: Any, structured: str) -> t.ToolResult:
        if type(value) is _Own:
            return value.output.result(value.value, structured)
        if isinstance(value, list | tuple) and value and not is_media(value) and all(map(_is_item, value)):
            content, failed = blocks(list(value))
            value = t.ToolResult(content=content, is_error=True if failed else None)
        return super().result(value, structured)


def _is_item(value: Any) -> bool:
    return isinstance(value, str) or is_content(value)


class Dispatched(Tool):
    """A tool of a provider that has a `tool_call`."""

    def __init__(self, own: Tool, ask: ToolCall, *, defined: bool) -> None:
        vars(self).update(vars(own))  # it is that tool, but for who answers
        self._ask = ask
        self._defined = defined

    def compile(self, compiler: Compiler) -> CompiledTool:
        own = self.compile_types(compiler)
        # The limits are those of `dispatch`; the method runs within them, and must not wait for a second place.
        run = compiler.compose(
            own.handler,
            own.injected,
            executor=own.executor,
            cut=self.cut,
            typed=self.typed,
            convert=own.output.converted,
        )
        ask = self._ask.compile(compiler)

        def bind(raw: bytes | Raw | None) -> dict[str, Any]:
            bound = own.bind(raw)
            sent: dict[str, Any] = (decode(raw) if raw else None) or {}
            if self.typed:
                sent = {name: bound.get(name, value) for name, value in sent.items()}
            return {"given": _Sent(sent, bound)}

        async def dispatch(given: _Sent, ctx: Context[Any]) -> Any:
            """Ask the provider, then the method."""
            value = await self._ask.answer(ask, self.name, given.sent, ctx)
            if value is not NotImplemented:
                return value
            if self._defined:
                value = await run(ctx._call, given.bound)
                if value is not NotImplemented:
                    return _Own(value, own.output)
            text = "the tool %s is listed by its provider, but neither tool_call nor a method answers for it"
            log.error(text, self.name)
            raise ToolError(f"{self.name} is listed, but its provider does not answer for it.")

        output = _Said(Any, self.output_schema, None, None, f"{self.place}: result of {self.name}")
        compiled = replace(own, injected={"ctx": Context}, bind=bind, output=output, handler=dispatch, executor=None)
        compiler.equip(compiled)
        return compiled
