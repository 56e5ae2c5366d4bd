"""Tools with a schema of their own: how raw arguments reach a handler that says nothing about them itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, get_origin

from msgspec import UNSET, Raw, Struct

from redstart.features.errors import RegistrationError
from redstart.features.options import OwnParameters, Parameter
from redstart.features.registry import Injected
from redstart.schema.json_schema import Validator, compile_schema
from redstart.schema.signature import EMPTY, Signature
from redstart.wire.jsonrpc import decode

Read = Callable[[bytes | Raw | None], dict[str, Any]]


class Explicit(Struct):
    """What a given schema, and the handler's own signature, amount to."""

    schema: Mapping[str, Any]
    bind: Read
    injected: dict[str, Any]
    returns: Any


def compile_explicit(
    name: str,
    handler: Callable[..., Any],
    parameters: Sequence[Parameter] | None,
    schema: Mapping[str, Any] | None,
    injected: Injected,
    where: str,
    apply_defaults: bool = False,
) -> Explicit:
    """A handler with a given schema: it takes the arguments by name, or all of them as one dict."""
    taken = [p for p in _parameters(handler) if not injected(_annotation(handler, p), p.default)]
    given = {p.name: _annotation(handler, p) for p in _parameters(handler) if p not in taken}
    if schema is None:
        rows = [(p.name, p.type, p.description, p.required, _default(p)) for p in parameters or ()]
        signature = Signature.from_parameters(name, rows)
        read: Read = signature.bind
        schema = signature.input_schema
    else:
        if schema.get("type") != "object":
            raise RegistrationError(f'{where}: the input schema of {name} must have "type": "object"')
        where_in = f"{where}: input schema of {name}"
        read = _checking(compile_schema(schema, where=where_in, defaults=apply_defaults))
    if _takes_context(taken, schema.get("properties", {})):
        given[taken.pop().name] = inspect.Parameter.empty  # whichever context suits the handler
    returns = _resolved(handler, "return", inspect.signature(handler).return_annotation)
    if not isinstance(parameters, OwnParameters) and _takes_one_dict(taken, schema.get("properties", {})):
        only = taken[0].name
        return Explicit(schema, lambda raw: {only: read(raw)}, given, returns)
    return Explicit(schema, _as_one_dict(read, taken, schema, where), given, returns)


def _default(parameter: Parameter) -> Any:
    return EMPTY if parameter.default is UNSET else parameter.default


def _parameters(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(handler).parameters.values())


def _annotation(handler: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    return _resolved(handler, parameter.name, parameter.annotation)


def _resolved(handler: Callable[..., Any], name: str, annotation: Any) -> Any:
    """The annotation itself, where it was written as text and its names are known."""
    if isinstance(annotation, str):
        try:
            return inspect.get_annotations(inspect.unwrap(handler), eval_str=True).get(name, annotation)
        except (NameError, TypeError):
            return inspect.Parameter.empty
    return annotation


def _checking(validator: Validator) -> Read:
    def read(raw: bytes | Raw | None) -> dict[str, Any]:
        value = decode(raw) if raw else None
        return cast(dict[str, Any], validator.read({} if value is None else value))

    return read


def _takes_context(taken: Sequence[inspect.Parameter], properties: Mapping[str, Any]) -> bool:
    """Whether this is `handler(args, ctx)`: told by the signature, not by trying."""
    if len(taken) != 2 or any(p.default is not p.empty or p.kind not in POSITIONAL for p in taken):
        return False
    args, ctx = taken
    apart = ctx.name not in properties and (args.name not in properties or _takes_one_dict([args], properties))
    return apart and ctx.annotation is inspect.Parameter.empty


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
DICTS = (inspect.Parameter.empty, dict, Mapping)


def _takes_one_dict(taken: Sequence[inspect.Parameter], properties: Mapping[str, Any]) -> bool:
    """Whether this is `handler(args)`, though the tool's only property is called `args` too."""
    if len(taken) != 1 or list(properties) != [taken[0].name]:
        return False
    annotation = taken[0].annotation
    known = isinstance(annotation, str) and annotation.partition("[")[0] in ("dict", "Mapping")
    return taken[0].kind in POSITIONAL and (known or (get_origin(annotation) or annotation) in DICTS)


def _as_one_dict(read: Read, arguments: Sequence[inspect.Parameter], schema: Mapping[str, Any], where: str) -> Read:
    """How the handler of an explicit tool gets its arguments, told by its signature."""
    properties = schema.get("properties", {})
    open_ended = any(p.kind is p.VAR_KEYWORD for p in arguments)
    known = [p.name for p in arguments if p.name in properties]
    strangers = [
        p.name for p in arguments if p.name not in known and p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    if open_ended and not strangers:
        return read
    if not strangers and not known:
        return _dropping(read)
    if not known and len(strangers) == 1:
        only = strangers[0]
        return lambda raw: {only: read(raw)}
    missing = [name for name in properties if name not in known]
    if strangers or missing:
        raise RegistrationError(
            f"{where}: a handler with a given schema takes its arguments by name, or all of them as one dict "
            f"(and a context); what the handler and the schema do not share: {', '.join(strangers + missing)}"
        )
    return read


def _dropping(read: Read) -> Read:
    def bind(raw: bytes | Raw | None) -> dict[str, Any]:
        read(raw)
        return {}

    return bind
