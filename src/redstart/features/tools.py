"""Tools: what a model may call.

A Tool is compiled when it is registered: its schema, its decoder, its header rules, the way its result becomes
content. What is left for a call is one dict look-up, one decode, the function, one encode.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from msgspec import UNSET, Raw, Struct, UnsetType

from redstart.features.errors import ErrorPolicy, RegistrationError, ToolError, place
from redstart.features.registry import Registry, Visible
from redstart.features.results import Unencodable, finished, free_result, to_json
from redstart.protocol.call import Call
from redstart.protocol.headers import ParamRule
from redstart.schema.problems import ShapeError
from redstart.schema.signature import Signature, compile_signature
from redstart.schema.types import Shape, compile_type
from redstart.wire import types as t
from redstart.wire.jsonrpc import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY, ProtocolError, decode

if TYPE_CHECKING:
    from redstart.schema.validator import Validator

Invoke = Callable[[Call, dict[str, Any]], Awaitable[Any]]
Injected = Callable[[Any, Any], bool]
Task = Literal["forbidden", "optional", "required"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Parameter(Struct):
    """One argument of an explicit Tool.

    >>> Parameter("expression", "string", "Math expression to evaluate", required=True).required
    True
    """

    name: str
    type: Any = "string"
    description: str = ""
    required: bool = False
    default: Any = UNSET


class Header(Struct, frozen=True):
    """Ask modern HTTP clients to repeat an argument in the header `Mcp-Param-<name>`.

    >>> Header("Region").json_schema_extra
    {'x-mcp-header': 'Region'}
    """

    name: str

    @property
    def json_schema_extra(self) -> dict[str, str]:
        return {"x-mcp-header": self.name}


class Tool:
    """A function that a model may call, and what is told about it.

    >>> tool = Tool("shout", handler=lambda args: args["text"].upper(), parameters=[Parameter("text", required=True)])
    >>> tool.name
    'shout'
    """

    def __init__(
        self,
        name: str = "",
        *,
        handler: Callable[..., Any],
        description: str | None = None,
        title: str | None = None,
        parameters: Sequence[Parameter] | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        return_type: Any = UNSET,
        annotations: Mapping[str, Any] | None = None,
        icons: Sequence[t.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        task: Task | bool = "forbidden",
        needs: Sequence[str] = (),
        executor: Literal["inline", "thread", "process"] | None = None,
        timeout: float | None = None,
        visible: Visible | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        self.handler = handler
        self.name = name or getattr(handler, "__name__", "")
        self.description = description
        self.title = title
        self.parameters = parameters
        self.input_schema: Any = input_schema
        self.output_schema: Any = output_schema
        self.return_type = return_type
        self.annotations = annotations
        self.icons = icons
        self.meta = meta
        self.task: Task = ("optional" if task else "forbidden") if isinstance(task, bool) else task
        self.needs = tuple(needs)
        self.executor = executor
        self.timeout = timeout
        self.visible = visible
        self.tags = frozenset(tags)
        self.sees: Callable[[Call], bool] | None = None
        self.place = place(handler)
        self.injected: dict[str, Any] = {}
        self.bind: Callable[[bytes | Raw | None], dict[str, Any]]
        self.invoke: Invoke
        self.header_rules: tuple[ParamRule, ...] = ()
        self._shape: Shape | None = None
        self._output: Validator | None = None

    @property
    def key(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    # ------------------------------------------------------------ registration

    def compile(self, injected: Injected) -> None:
        """Decide everything that can be decided now; what cannot be served fails here, with file and line."""
        if not _NAME.fullmatch(self.name):
            hint = "give it one with name=" if self.name in ("", "<lambda>") else "use letters, digits, _ . -"
            raise RegistrationError(f"{self.place}: {self.name!r} is no name for a tool; {hint}")
        signature = compile_signature(self.handler, injected=injected) if self._infers() else None
        if signature is not None:
            self.injected = signature.injected
            self.bind = signature.bind
            self.input_schema = signature.input_schema
        else:
            signature = self._compile_explicit(injected)
        if self.description is None:
            self.description = signature.description
        self._compile_output(signature.returns)
        self.header_rules = tuple(_header_rules(self.input_schema, self.place))

    def _infers(self) -> bool:
        return self.parameters is None and self.input_schema is None

    def _compile_explicit(self, injected: Injected) -> Signature:
        """A handler with a given schema: it takes the arguments by name, or all of them as one dict."""
        arguments = [p for p in _parameters(self.handler) if not injected(_annotation(self.handler, p), p.default)]
        self.injected = {p.name: _annotation(self.handler, p) for p in _parameters(self.handler) if p not in arguments}
        if self.input_schema is None:
            given = [(p.name, p.type, p.description, p.required, p.default) for p in self.parameters or ()]
            signature = Signature.from_parameters(self.name, given)
            read = signature.bind
            self.input_schema = signature.input_schema
        else:
            if self.input_schema.get("type") != "object":
                raise RegistrationError(f'{self.place}: the input schema of {self.name} must have "type": "object"')
            from redstart.schema.validator import compile_schema

            validator = compile_schema(self.input_schema, where=f"{self.place}: input schema of {self.name}")
            signature = Signature.from_parameters(self.name, [])
            read = _checking(validator)
        self.bind = _as_one_dict(read, arguments, self.input_schema)
        signature.description = (inspect.getdoc(self.handler) or "") if self.description is None else self.description
        return signature

    def _compile_output(self, returns: Any) -> None:
        where = f"{self.place}: result of {self.name}"
        if self.output_schema is not None:
            from redstart.schema.validator import compile_schema

            self._output = compile_schema(self.output_schema, where=where)
            return
        wanted = returns if self.return_type is UNSET else self.return_type
        if is_data(wanted):
            self._shape = compile_type(wanted, where=where)
            self.output_schema = self._shape.schema()

    # ------------------------------------------------------------ listing

    def entry(self, dialect: Any) -> Any:
        """The entry of `tools/list`."""
        listed = t.ListedTool(
            self.name,
            title=_given(self.title),
            description=self.description or UNSET,
            input_schema=self.input_schema,
            annotations=_given(self.annotations),
            icons=list(self.icons) if self.icons else UNSET,
            meta=dict(self.meta) if self.meta else UNSET,
        )
        if self.output_schema is not None and dialect.structured != "none":
            listed.output_schema = self.output_schema
            if dialect.structured == "objects" and self.wraps:
                listed.output_schema = _wrapped_schema(self.output_schema)
        return dialect.entry(listed)

    @property
    def wraps(self) -> bool:
        """Whether older clients, which know objects only, get the value as `{"result": …}`."""
        return self.output_schema is not None and self.output_schema.get("type") != "object"

    # ------------------------------------------------------------ results

    def result(self, value: Any, dialect: Any) -> t.ToolResult:
        """The result that `value` becomes for this client."""
        if self.output_schema is None or isinstance(value, t.ToolResult | ToolError):
            made = free_result(value)
            if made.structured is UNSET or made.is_error:
                return made
            raw = bytes(made.structured)
        else:
            raw = to_json(value)
            made = t.ToolResult(content=[t.Text(raw.decode())])
        self._validate(raw)
        if dialect.structured == "any":
            made.structured = Raw(raw)
        elif dialect.structured == "none":
            made.structured = UNSET
        else:
            wrap = self.wraps or raw[:1] != b"{"
            made.structured = Raw(b'{"result":%b}' % raw) if wrap else Raw(raw)
        return made

    def _validate(self, raw: bytes) -> None:
        """A result that breaks the tool's own promise never reaches the client."""
        if self._shape is not None:
            self._shape.decode(raw)
        elif self._output is not None:
            problems = self._output.check(decode(raw))
            if problems:
                raise ShapeError(problems)


class Tools:
    """`tools/list` and `tools/call`."""

    def __init__(self, registry: Registry[Tool], errors: ErrorPolicy) -> None:
        self.registry = registry
        self.items = registry.items
        self.errors = errors

    async def list(self, call: Call) -> Raw:
        return self.registry.page(call)

    async def call(self, call: Call) -> t.ToolResult:
        params: t.CallToolParams = call.params
        tool = self.items.get(params.name)
        if tool is None or (tool.sees is not None and not tool.sees(call)):
            raise self.unknown(params.name, call)
        raw = params.arguments
        if tool.header_rules and call.headers is not None and call.dialect.modern:
            _check_headers(tool, call, raw)
        if tool.needs:
            check_needs(call, tool.needs)
        try:
            arguments = tool.bind(None if raw is UNSET else raw)
        except ShapeError as error:
            return t.ToolResult(content=[t.Text(str(error))], is_error=True)
        try:
            return tool.result(await tool.invoke(call, arguments), call.dialect)
        except ToolError as error:
            return finished(error.result())
        except ProtocolError:
            raise
        except (Unencodable, ShapeError) as error:
            wrong = ValueError(f"{tool.place}: {tool.name} returned what it must not: {error}")
            text = self.errors.text(wrong, f"The tool {tool.name}")
            return t.ToolResult(content=[t.Text(text)], is_error=True)
        except Exception as error:
            return t.ToolResult(content=[t.Text(self.errors.text(error, f"The tool {tool.name}"))], is_error=True)

    def unknown(self, name: str, call: Call) -> ProtocolError:
        return ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}{nearest(name, self.registry.seen(call))}")


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """`. Did you mean "add"?`, or nothing."""
    close = difflib.get_close_matches(name, known, n=1) if len(name) <= 256 else []
    return f'. Did you mean "{close[0]}"?' if close else ""


def check_needs(call: Call, needs: Sequence[str]) -> None:
    """Refuse a call whose client did not declare what the tool needs."""
    lacking = [need for need in needs if not call.capabilities.has(need)]
    if not lacking:
        return
    if not call.dialect.modern:
        raise ToolError(f"This tool needs a client that supports {' and '.join(lacking)}; this client does not.")
    raise missing_capability(lacking)


def missing_capability(paths: Sequence[str]) -> ProtocolError:
    """The refusal that names what the client would have to declare, as the object to declare."""
    required: dict[str, Any] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        required.setdefault(name, {})
        if rest:
            required[name][rest] = {}
    words = " and ".join(paths)
    return ProtocolError(
        MISSING_CLIENT_CAPABILITY,
        f"This request needs the client capability {words}",
        {"requiredCapabilities": required},
    )


# ---------------------------------------------------------------- compiling


def is_data(annotation: Any) -> bool:
    """Whether a return annotation promises data (then it has a schema) rather than text, content or nothing."""
    if isinstance(annotation, UnsetType) or annotation in _NOT_DATA or not _is_annotation(annotation):
        return False
    if isinstance(annotation, type) and issubclass(annotation, t.Content | t.ToolResult | ToolError):
        return False
    arguments = get_args(annotation)
    if get_origin(annotation) is not None and getattr(get_origin(annotation), "__name__", "") in _STREAMS:
        return False
    if get_origin(annotation) is tuple and arguments[:1] == (bytes,):
        return False
    inner = [a for a in arguments if a is not type(None)]
    return not any(_speaks_blocks(a) for a in inner)


_NOT_DATA: Final = (None, type(None), str, bytes, Any, object, inspect.Signature.empty)
_STREAMS: Final = ("Iterator", "AsyncIterator", "Generator", "AsyncGenerator", "Iterable", "AsyncIterable")


def _is_annotation(annotation: Any) -> bool:
    return isinstance(annotation, type) or get_origin(annotation) is not None or hasattr(annotation, "__supertype__")


def _speaks_blocks(annotation: Any) -> bool:
    if annotation is Any or annotation is Ellipsis:
        return False
    if isinstance(annotation, type):
        return issubclass(annotation, t.Content | t.ToolResult | ToolError)
    return any(_speaks_blocks(a) for a in get_args(annotation))


def _wrapped_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapped: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    if "$defs" in schema:
        wrapped["$defs"] = schema["$defs"]
    return wrapped


def _given(value: Any) -> Any:
    return UNSET if value is None else value


def _parameters(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(handler).parameters.values())


def _annotation(handler: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            return inspect.get_annotations(inspect.unwrap(handler), eval_str=True).get(parameter.name, annotation)
        except NameError:
            return annotation
    # The second parameter of a (args, ctx) handler is the context even without an annotation.
    return annotation


def _checking(validator: Validator) -> Callable[[bytes | Raw | None], dict[str, Any]]:
    def read(raw: bytes | Raw | None) -> dict[str, Any]:
        value = decode(raw) if raw else {}
        if value is None:
            value = {}
        problems = validator.check(value)
        if problems:
            raise ShapeError(problems)
        return value  # type: ignore[no-any-return]

    return read


def _as_one_dict(
    read: Callable[[bytes | Raw | None], dict[str, Any]],
    arguments: Sequence[inspect.Parameter],
    schema: Mapping[str, Any],
) -> Callable[[bytes | Raw | None], dict[str, Any]]:
    """How the handler of an explicit tool gets its arguments, told by its signature."""
    properties = schema.get("properties", {})
    names = [p.name for p in arguments if p.kind is not inspect.Parameter.VAR_KEYWORD]
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in arguments) or all(name in properties for name in names):
        return read if names or any(arguments) else _dropping(read)
    if len(names) == 1:
        only = names[0]
        return lambda raw: {only: read(raw)}
    raise RegistrationError(
        f"a handler with a given schema takes its arguments by name or as one dict, not as ({', '.join(names)})"
    )


def _dropping(read: Callable[[bytes | Raw | None], dict[str, Any]]) -> Callable[[bytes | Raw | None], dict[str, Any]]:
    def bind(raw: bytes | Raw | None) -> dict[str, Any]:
        read(raw)
        return {}

    return bind


def _header_rules(schema: Mapping[str, Any], where: str, path: tuple[str, ...] = ()) -> list[ParamRule]:
    rules: list[ParamRule] = []
    for name, sub in (schema.get("properties") or {}).items():
        if not isinstance(sub, Mapping):
            continue
        header = sub.get("x-mcp-header")
        if header is not None:
            if not isinstance(header, str) or not _TOKEN.fullmatch(header):
                raise RegistrationError(f"{where}: x-mcp-header of {name!r} must be a header name, not {header!r}")
            if sub.get("type") not in ("string", "integer", "boolean"):
                raise RegistrationError(f"{where}: x-mcp-header of {name!r} needs a string, integer or boolean")
            rules.append(ParamRule(header, (*path, name), sub["type"]))
        rules += _header_rules(sub, where, (*path, name))
    if not path and len({rule.key for rule in rules}) != len(rules):
        raise RegistrationError(f"{where}: two arguments have the same x-mcp-header")
    return rules


def _check_headers(tool: Tool, call: Call, raw: Raw | UnsetType) -> None:
    try:
        arguments = decode(raw) if raw is not UNSET else {}
    except ValueError:
        return  # the arguments are refused where they are bound
    if isinstance(arguments, dict):
        for rule in tool.header_rules:
            rule.check(call.headers, arguments)  # type: ignore[arg-type]
