"""Tools with a given schema: how the arguments reach a handler whose signature does not describe them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import cast, get_origin

from msgspec import UNSET, Raw, Struct

from redstart.features.errors import RegistrationError
from redstart.features.options import OwnParameters, Parameter
from redstart.features.registry import Function, Injected
from redstart.schema.callables import target_of
from redstart.schema.json_schema import Validator, compile_schema
from redstart.schema.signature import EMPTY, Signature
from redstart.wire.jsonrpc import decode

Read = Callable[[bytes | Raw | None], dict[str, object]]


class Explicit(Struct):
    """What follows from a given schema and the signature of the handler."""

    schema: Mapping[str, object]
    bind: Read
    injected: dict[str, object]
    returns: object
    signature: Signature | None
    """Of explicit parameters."""


def compile_explicit(
    name: str,
    handler: Function,
    parameters: Sequence[Parameter] | None,
    schema: Mapping[str, object] | None,
    injected: Injected,
    where: str,
    apply_defaults: bool = False,
) -> Explicit:
    """A handler with a given schema: it takes the arguments by name, or all of them as one dict."""
    target = target_of(handler)
    own = inspect.signature(handler).parameters.values()  # with what a partial has fixed: the schema may name it
    kinds = {p.name: target.resolve(p.annotation, p.name, lenient=True) for p in own}
    given = {p.name: kinds[p.name] for p in own if injected(kinds[p.name], p.default)}
    taken = [p for p in own if p.name not in given]
    signature = None
    if schema is None:
        rows = [
            (p.name, p.type, p.description, p.required, EMPTY if p.default is UNSET else p.default)
            for p in parameters or ()
        ]
        signature = Signature.from_parameters(name, rows)
        read: Read = signature.bind
        schema = signature.input_schema
    else:
        if schema.get("type") != "object":
            raise RegistrationError(f'{where}: the input schema of {name} must have "type": "object"')
        where_in = f"{where}: input schema of {name}"
        read = _checking(compile_schema(schema, where=where_in, defaults=apply_defaults))
    properties = cast(Mapping[str, object], schema.get("properties", {}))
    if _takes_context(taken, properties):
        given[taken.pop().name] = inspect.Parameter.empty  # whichever context suits the handler
    returns = target.resolve(target.returns, "return", lenient=True)
    by_name = isinstance(parameters, OwnParameters) or not _takes_one_dict(taken, properties)
    return Explicit(schema, _binding(read, taken, properties, by_name, where), given, returns, signature)


def _checking(validator: Validator) -> Read:
    def read(raw: bytes | Raw | None) -> dict[str, object]:
        value = decode(raw) if raw else None
        return cast(dict[str, object], validator.read({} if value is None else value))

    return read


def _takes_context(taken: Sequence[inspect.Parameter], properties: Mapping[str, object]) -> bool:
    """Whether this is `handler(args, ctx)`, judged by the signature."""
    if len(taken) != 2 or any(p.default is not p.empty or p.kind not in POSITIONAL for p in taken):
        return False
    args, ctx = taken
    apart = ctx.name not in properties and (args.name not in properties or _takes_one_dict([args], properties))
    return apart and ctx.annotation is inspect.Parameter.empty


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
DICTS = (inspect.Parameter.empty, dict, Mapping)


def _takes_one_dict(taken: Sequence[inspect.Parameter], properties: Mapping[str, object]) -> bool:
    """Whether this is `handler(args)`, though the tool's only property is called `args` too."""
    if len(taken) != 1 or list(properties) != [taken[0].name]:
        return False
    annotation = taken[0].annotation
    known = isinstance(annotation, str) and annotation.partition("[")[0] in ("dict", "Mapping")
    return taken[0].kind in POSITIONAL and (known or (get_origin(annotation) or annotation) in DICTS)


def _binding(
    read: Read, taken: Sequence[inspect.Parameter], properties: Mapping[str, object], by_name: bool, where: str
) -> Read:
    """How the handler gets its arguments, judged by its signature: by name, all of them as one dict, or not at all."""
    known = [p.name for p in taken if p.name in properties]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in taken)
    strangers = [p.name for p in taken if p.name not in known and p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not by_name or (not known and len(strangers) == 1):
        only = taken[0].name if not by_name else strangers[0]
        return lambda raw: {only: read(raw)}
    missing = [] if open_ended or not known else [name for name in properties if name not in known]
    if strangers or missing:
        lost = strangers + [name for name in properties if name not in known]
        raise RegistrationError(
            f"{where}: a handler with a given schema takes its arguments by name, or all of them as one dict "
            f"(and a context); what the handler and the schema do not share: {', '.join(lost)}"
        )
    if known or open_ended:
        return read

    def bind(raw: bytes | Raw | None) -> dict[str, object]:
        read(raw)  # the handler takes none of them, but they are checked
        return {}

    return bind
