"""Tools: what a model may call.

A Tool is what a user declares. Registering it compiles its schema, its decoder, its header rules and the conversion of
its result, so that a call is one dict look-up, one decode, the function and one encode.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, Final, Unpack

from msgspec import UNSET, Raw, UnsetType

from redstart.features.errors import ErrorPolicy, RegistrationError, ToolError, Unanswered, Unencodable, log, place
from redstart.features.options import ANNOTATIONS, Declared, ToolOptions
from redstart.features.output import Cut, Output
from redstart.features.registry import Arguments, Catalog, Compiled, Compiler, Function, Injected
from redstart.features.results import finished, size
from redstart.features.rules import HANDLER, NAME, OptionError, caller, checked, did_you_mean, showing
from redstart.protocol.call import Call
from redstart.protocol.dialect import Dialect
from redstart.protocol.headers import ParamRule
from redstart.schema.callables import with_local_names
from redstart.schema.errors import ShapeError
from redstart.schema.signature import Signature, compile_signature
from redstart.schema.types import UnsupportedType
from redstart.wire import types as t
from redstart.wire.jsonrpc import INTERNAL_ERROR, MISSING_CLIENT_CAPABILITY, ProtocolError, decode

_NAME: Final = r"[A-Za-z0-9_.-]{1,128}"


class Tool(Declared):
    """A function that a model may call, and what clients are told about it. Registering it does not change it.

    >>> from redstart import Parameter
    >>> tool = Tool("shout", handler=lambda args: args["text"].upper(), parameters=[Parameter("text", required=True)])
    >>> tool.name
    'shout'
    """

    kind: ClassVar = "tool"
    handler: Function

    @showing(ToolOptions)
    def __init__(
        self,
        name: str = "",
        *,
        handler: Function,
        cut: Cut | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        self.handler = HANDLER.check(f"handler of {name}" if name else "handler", handler)
        name = NAME.check("name", name) or getattr(handler, "__name__", "")
        given = checked(ToolOptions, "a tool", options, after=f" of {name or 'the tool'}")
        super().__init__(name, place(handler), given)
        self.parameters = given["parameters"]
        self.input_schema = given["input_schema"]
        self.output_schema = given["output_schema"]
        self.return_type = given["return_type"]
        self.annotations = given["annotations"]
        self.task = given["task"]
        self.concurrency = given["concurrency"]
        self.max_result_bytes = given["max_result_bytes"]
        self.outputs = given["outputs"]
        self.single_use = given["single_use"]
        self.apply_defaults = given["apply_defaults"]
        self.detach = given["detach"]
        self.retries = given["retries"]
        self.on_cancel = given["on_cancel"]
        if self.apply_defaults and self.input_schema is None:
            raise OptionError(f"{caller()}: apply_defaults of {name} needs an input_schema")
        self.cut = cut
        if cut is None and given["solutions"] is not None:
            from redstart.features.predicates import cut_for

            self.cut = cut_for(given["solutions"])
        self.typed = self.parameters is None and self.input_schema is None
        """Whether the arguments follow from the handler's own signature."""
        self.lenient = False
        """Whether types unknown to JSON are allowed: such an argument is a string, such a result has no schema."""

    # ------------------------------------------------------------ registration

    def compile(self, compiler: Compiler) -> CompiledTool:
        """Decide everything that can be decided now; what cannot be served fails here, with file and line."""
        compiled = self.compile_types(compiler)
        compiler.equip(compiled)
        return compiled

    def compile_types(self, compiler: Compiler) -> CompiledTool:
        """The compiled form, but for the way in which its handler runs."""
        if not re.fullmatch(_NAME, self.name):
            hint = "give it one with name=" if self.name in ("", "<lambda>") else "use letters, digits, _ . -"
            raise RegistrationError(f"{self.place}: {self.name!r} is not a valid tool name; {hint}")
        self._warn_of_annotations()
        injected, handler = compiler.injected, self.handler
        schema: Mapping[str, object]
        signature: Signature | None
        if self.typed:
            signature = with_local_names(
                handler,
                lambda names: compile_signature(handler, injected=injected, names=names, lenient=self.lenient),
            )
            self._warn_of_bare_context(signature)
            described, schema = signature.description, signature.input_schema
            bind, filled, returns = signature.bind, signature.injected, signature.returns
        else:
            from redstart.features.raw_tools import compile_explicit

            explicit = compile_explicit(
                self.name, handler, self.parameters, self.input_schema, injected, self.place, self.apply_defaults
            )
            described, schema, signature = inspect.getdoc(handler) or "", explicit.schema, explicit.signature
            bind, filled, returns = explicit.bind, explicit.injected, explicit.returns
        wanted = returns if self.return_type is UNSET else self.return_type
        return CompiledTool(
            declared=self,
            description=described if self.description is None else self.description,
            input_schema=schema,
            signature=signature,
            injected=filled,
            bind=bind,
            output=self._output(wanted),
            header_rules=_header_rules(schema, self.place),
            handler=handler,
            executor=self.executor,
        )

    def _output(self, annotation: object) -> Output:
        where = f"{self.place}: result of {self.name}"
        try:
            return Output(annotation, self.output_schema, self.outputs, self.cut, where)
        except UnsupportedType:
            if not self.lenient:
                raise
            return Output(Any, self.output_schema, self.outputs, self.cut, where)

    def _warn_of_annotations(self) -> None:
        """Warn of unknown annotations: they may belong to an extension, but most often they are misspelled."""
        for name in self.annotations or ():
            if name not in ANNOTATIONS:
                hint = did_you_mean(name, ANNOTATIONS)
                log.warning("%s: annotations of %s: no client knows %r%s", self.place, self.name, name, hint)

    def _warn_of_bare_context(self, signature: Signature) -> None:
        """Warn of `ctx` without an annotation: it becomes an argument that models must give."""
        if any(field.name == "ctx" and field.annotation is Any for field in signature.fields):
            kind = "Context" if inspect.iscoroutinefunction(self.handler) else "SyncContext"
            text = "%s: ctx of %s is an argument of the tool, because it has no annotation; write `ctx: %s`"
            log.warning(text, self.place, self.name, kind)


class CompiledTool(Compiled[Tool], kw_only=True):
    """A tool as its calls need it."""

    handler: Function
    input_schema: Mapping[str, Any]
    signature: Signature | None
    """What the schema was made from, unless it was given."""
    bind: Callable[[bytes | Raw | None], Arguments]
    output: Output
    header_rules: tuple[ParamRule, ...]
    plain: Function | None = None
    """The handler itself, where awaiting it is all there is to a call."""
    result_limit: int | None = None
    """How many bytes a result may have."""

    def texts(self) -> Iterator[tuple[str, object]]:
        yield from super().texts()
        yield "input schema", self.input_schema

    def entry(self, dialect: Dialect) -> object:
        """The entry of `tools/list`."""
        hints = self.declared.annotations or {}
        listed = t.ListedTool(
            self.key,
            input_schema=self.input_schema,
            output_schema=self.output.listed(dialect.structured),
            annotations={name: hint for name, hint in hints.items() if hint is not None} or None,
            execution=None if self.declared.task == "forbidden" else {"taskSupport": self.declared.task},
            **self.facts(),
        )
        return dialect.entry(listed)


def tool_of(fn: Function, injected: Injected) -> Tool:
    """The tool for a function, which `@predicate` may have marked."""
    marks = getattr(fn, "__redstart_predicate__", None)
    if marks is None:
        return Tool(handler=fn)
    from redstart.features.predicates import predicate_options

    return Tool(handler=fn, **predicate_options(fn, injected, **marks))


def _header_rules(schema: Mapping[str, object], where: str) -> tuple[ParamRule, ...]:
    """The arguments that modern HTTP clients repeat in a header."""
    if "x-mcp-header" not in str(schema):
        return ()
    from redstart.features.param_headers import header_rules

    return tuple(header_rules(schema, where))


class Tools:
    """`tools/call`."""

    def __init__(self, catalog: Catalog[CompiledTool], errors: ErrorPolicy) -> None:
        self.catalog = catalog
        self.items = catalog.items
        self.errors = errors

    def call(self, call: Call) -> Awaitable[t.ToolResult]:
        params: t.CallToolParams = call.params
        tool = self.items.get(params.name)
        if tool is None or (tool.admits is not None and call.task is None and not tool.admits(call)):
            raise self.catalog.unknown(params.name, call)  # a task was allowed when it was created
        call.needed_scopes = tool.declared.scopes  # and those of the tools that it calls
        raw = params.arguments
        if tool.header_rules and call.headers is not None and call.dialect.modern:
            check_headers(tool.header_rules, call, raw)
        return self._run(call, tool, None if raw is UNSET else raw, call.dialect.structured)

    async def run(self, call: Call, name: str, raw: bytes) -> t.ToolResult:
        """The result of the tool `name` for another handler: whole, whatever the revision of `call`."""
        tool = self.catalog.find(name, call)
        if tool is None:
            raise self.catalog.unknown(name, call)
        return await self._run(call, tool, raw, "whole")

    async def _run(self, call: Call, tool: CompiledTool, raw: bytes | Raw | None, structured: str) -> t.ToolResult:
        try:
            if tool.declared.needs:
                check_needs(call, tool.declared.needs)
            try:
                arguments = tool.bind(raw)
            except ShapeError as error:
                return t.ToolResult(content=[t.Text(str(error))], is_error=True)
            if call.timings is not None:
                call.timings.checked = call.timings.started = perf_counter()
            plain = tool.plain
            value = await (tool.invoke(call, arguments) if plain is None else plain(**arguments))
            if call.timings is not None:
                call.timings.ended = perf_counter()
            result = tool.output.result(value, structured)
        except ProtocolError as error:
            if not isinstance(error, Unanswered):
                raise
            return error.result(promised=tool.output.schema is not None)
        except asyncio.CancelledError as error:
            if call.dialogue is not None and call.dialogue.ended:  # a question has ended this run
                raise
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failed(tool, error)  # of something that the handler awaited: the client still waits
        except (Exception, SystemExit) as error:
            return self._failed(tool, error)
        if tool.result_limit is not None and size(result) > tool.result_limit:
            return _too_big(tool, size(result))
        return result

    def _failed(self, tool: CompiledTool, error: BaseException) -> t.ToolResult:
        """The result for a failure. Exception text is sent only if `expose_errors` allows it."""
        if isinstance(error, ToolError):
            try:
                return finished(error.result())
            except Unencodable as bad:  # in the content of the ToolError itself
                error = bad
        if isinstance(error, Unencodable | ShapeError):
            error = ValueError(f"{tool.declared.place}: {tool.key} returned what it must not: {error}")
        text = self.errors.text(error, f"The tool {tool.key}")
        return t.ToolResult(content=[t.Text(text)], is_error=True)


def check_headers(rules: Sequence[ParamRule], call: Call, raw: Raw | UnsetType) -> None:
    """Refuse a call whose headers do not agree with its arguments."""
    try:
        arguments = decode(raw) if raw is not UNSET else {}
    except ValueError:
        return  # the arguments are refused where they are bound
    if isinstance(arguments, dict):
        for rule in rules:
            rule.check(call.headers, arguments)  # type: ignore[arg-type]


def check_needs(call: Call, needs: Sequence[str]) -> None:
    """Refuse a call whose client did not declare what the tool needs."""
    lacking = [need for need in needs if not call.capabilities.has(need)]
    if not lacking:
        return
    if not call.dialect.modern:
        raise ToolError(f"This tool needs a client that supports {' and '.join(lacking)}; this client does not.")
    raise missing_capability(lacking)


def require(call: Call, needs: Sequence[str]) -> None:
    """As `check_needs`, for what is not a tool: every refusal is a ProtocolError."""
    try:
        check_needs(call, needs)
    except ToolError as error:
        raise ProtocolError(INTERNAL_ERROR, str(error)) from error


def missing_capability(paths: Sequence[str], question: str = "") -> ProtocolError:
    """The refusal that names the missing capabilities, in the form in which a client declares them."""
    required: dict[str, dict[str, object]] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        required.setdefault(name, {})
        if rest:
            required[name][rest] = {}
    words = " and ".join(paths)
    return ProtocolError(
        MISSING_CLIENT_CAPABILITY,
        f"This request needs the client capability {words}" + (f". The question was: {question}" if question else ""),
        {"requiredCapabilities": required},
    )


def _too_big(tool: CompiledTool, size: int) -> t.ToolResult:
    text = (
        f"The result of {tool.key} has {size} bytes, more than its limit of {tool.result_limit}. "
        "Narrow the request: ask for fewer items, a shorter range or less detail."
    )
    return t.ToolResult(content=[t.Text(text)], is_error=True)
