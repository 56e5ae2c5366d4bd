"""How a call of a provider's tool is answered: by `tool_call` first, then by the method itself.

The list entry, the schema and the decoder are those of the method. What `tool_call` returns is formatted for the model
and need not agree with the annotation of the method, so such a tool is listed without an output schema from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from redstart.execution.dependencies import RequestContext
from redstart.execution.dependencies import injected as is_injected
from redstart.features.errors import RegistrationError, ToolError, log, place
from redstart.features.output import Collected, Output
from redstart.features.registry import Compiler
from redstart.features.results import blocks, is_content, is_media
from redstart.features.tools import CompiledTool, Tool
from redstart.protocol.call import Call
from redstart.schema.callables import target_of
from redstart.wire import types as t
from redstart.wire.jsonrpc import decode


def _bare() -> None: ...


def _documented() -> None:
    """A docstring."""


async def _bare_later() -> None: ...


async def _documented_later() -> None:
    """A docstring."""


_EMPTY_BODIES: Final = {fn.__code__.co_code for fn in (_bare, _documented, _bare_later, _documented_later)}


def is_declaration(fn: Callable[..., object]) -> bool:
    """Whether `fn` has a signature and a docstring but no code: it only declares the tool."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return code is not None and code.co_code in _EMPTY_BODIES and {None, ..., fn.__doc__}.issuperset(code.co_consts)


class ToolCall:
    """The `tool_call` of a provider, with `elicit` or without.

    Where `elicit` has a default, it is there only if provider and client can; where it has none, it is always there,
    and using it ends a call whose client cannot be asked. (Skipped instead, the method itself would run unasked.)
    A third parameter annotated as a Context is not for `elicit`; it is filled as in any other handler.
    """

    def __init__(self, fn: Callable[..., object], declared: frozenset[str] | None) -> None:
        parameters = target_of(fn).resolved()
        self._filled = {p.name: p.annotation for p in parameters if is_injected(p.annotation, p.default)}
        rest = [p for p in parameters if p.name not in self._filled]
        if len(rest) not in (2, 3) or any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in rest):
            raise RegistrationError(f"{place(fn)}: write tool_call(self, name, arguments) or (…, elicit)")
        self._fn = fn
        self._names = [p.name for p in rest[:2]]
        self._elicit = rest[2].name if len(rest) == 3 else None
        self._required = len(rest) == 3 and rest[2].default is rest[2].empty
        self._elicits = self._required if declared is None else "elicitation" in declared
        if self._required and not self._elicits:
            log.warning("%s: tool_call takes elicit, but capabilities() do not name elicitation: not used", place(fn))

    def compile(self, compiler: Compiler) -> Callable[[Call, str, dict[str, object]], Awaitable[object]]:
        """The function that asks the provider; NotImplemented says that it leaves the call to the method."""
        invoke = compiler.compose(self._fn, self._filled)
        make_context = compiler.context_for(self._fn)

        async def answer(call: Call, name: str, arguments: dict[str, object]) -> object:
            given: dict[str, object] = dict(zip(self._names, (name, arguments), strict=True))
            if self._elicit is not None:
                ctx: RequestContext = make_context(call)
                if self._elicits and (self._required or ctx.can_elicit):
                    given[self._elicit] = _elicit_of(ctx)
                elif self._required:
                    return NotImplemented  # it has no default, so it must be given
            value = await invoke(call, given)
            if inspect.isawaitable(value):  # a plain function may return a coroutine
                value = await value
            if type(value) is Collected and value.returned is NotImplemented and not value.items:
                return NotImplemented
            return value

        return answer


def _elicit_of(ctx: RequestContext) -> Callable[..., object]:
    """The `elicit(message, schema)` that `tool_call` gets."""

    def elicit(message: str, schema: object = str, key: str | None = None) -> object:
        return ctx.elicit(message, schema, key)

    return elicit


class _OwnResult(Struct):
    """What the method itself has returned, with the output schema of its annotation."""

    value: object
    output: Output


class _ProvidedOutput(Output):
    """Turns what `tool_call` returned into a result: in a list, each text is one content item."""

    __slots__ = ()

    def result(self, value: object, structured: str) -> t.ToolResult:
        if type(value) is _OwnResult:
            return value.output.result(value.value, structured)
        if isinstance(value, list | tuple) and value and not is_media(value) and all(map(_is_item, value)):
            content, failed = blocks(list(value))
            value = t.ToolResult(content=content, is_error=True if failed else None)
        return super().result(value, structured)


def _is_item(value: object) -> bool:
    return isinstance(value, str) or is_content(value)


class ProvidedTool:
    """A tool of a provider that has a `tool_call`: the same tool, but its calls go to `tool_call` first."""

    kind: ClassVar = Tool.kind

    def __init__(self, tool: Tool, tool_call: ToolCall, *, defined: bool) -> None:
        self.tool = tool
        self.key = tool.key
        self.visible, self.scopes = tool.visible, tool.scopes
        self._tool_call = tool_call
        self._defined = defined

    def compile(self, compiler: Compiler) -> CompiledTool:
        tool = self.tool
        own = tool.compile_types(compiler)
        ask = self._tool_call.compile(compiler)
        # The limits are those of `dispatch`; the method runs within them, and must not wait for a second place.
        run = compiler.compose(
            own.handler,
            own.injected,
            executor=own.executor,
            cut=tool.cut,
            typed=tool.typed,
            convert=own.output.converted,
        )

        def bind(raw: bytes | Raw | None) -> dict[str, object]:
            bound = own.bind(raw)
            sent: dict[str, object] = (decode(raw) if raw else None) or {}
            if tool.typed:
                sent = {name: bound.get(name, value) for name, value in sent.items()}
            return {"sent": sent, "bound": bound}

        async def dispatch(call: Call, arguments: dict[str, dict[str, object]]) -> object:
            value = await ask(call, tool.name, arguments["sent"])
            if value is not NotImplemented:
                return value
            if self._defined:
                value = await run(call, arguments["bound"])
                if value is not NotImplemented:
                    return _OwnResult(value, own.output)
            text = "the tool %s is listed by its provider, but neither tool_call nor a method answers for it"
            log.error(text, tool.name)
            raise ToolError(f"{tool.name} is listed, but its provider does not answer for it.")

        output = _ProvidedOutput(Any, tool.output_schema, None, None, f"{tool.place}: result of {tool.name}")
        compiled = replace(own, bind=bind, output=output, injected={}, executor=None)
        compiler.equip(compiled, dispatch)
        return compiled
