"""A function -> the arguments it takes: input schema, and one decode from bytes to keyword arguments.

    sig = compile_signature(add)
    sig.input_schema                # {"type": "object", "properties": {...}, "required": ["a"]}
    sig.bind(b'{"a": 1}')           # {"a": 1, "b": 2}

Knows: signatures, annotations, docstrings.  Must not know: tools, contexts, the wire, time.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Union

import msgspec

from redstart.schema.arguments import Argument, Arguments, fresh
from redstart.schema.callables import CallTarget, SignatureError, find_target
from redstart.schema.docstring import Docstring, parse_docstring
from redstart.schema.document import Schema
from redstart.schema.nodes import read_strictly
from redstart.schema.resolve import Scope, UnsupportedType
from redstart.schema.scalars import ABSENT, INVALID
from redstart.schema.types import compile_shape

__all__ = ["EMPTY", "Argument", "Signature", "SignatureError", "compile_signature"]

EMPTY = ABSENT  # no annotation, or no default


class Signature:
    """What a function takes and gives. `bind` is the hot path; all else is read at registration."""

    def __init__(
        self,
        name: str,
        fields: Iterable[Argument],
        *,
        docs: Docstring,
        injected: dict[str, object] | None = None,
        returns: Any = EMPTY,
    ) -> None:
        self.name = name
        self.description = docs.description
        self.returns = returns
        self.fields = tuple(fields)
        self.injected = injected or {}
        arguments = Arguments(self.fields)
        self.input_schema: Schema = arguments.schema()
        self.bind: Callable[[bytes | msgspec.Raw | None], dict[str, Any]] = arguments.bind

    @classmethod
    def from_parameters(
        cls, name: str, params: Iterable[tuple[str, object, str, bool, object]], *, description: str = ""
    ) -> "Signature":
        """From `(name, type, description, required, default)` rows; type: a JSON type name or a Python type."""
        fields = []
        for key, kind, text, required, default in params:
            scope = Scope(f"{name}, parameter {key}", {}, {})
            shape = compile_shape(_json_type(kind, scope), scope)
            default = EMPTY if required else default
            fields.append(Argument(key, kind, text or "", required, default, shape, fresh(default)))
        return cls(name, fields, docs=Docstring(description=description))


JSON_TYPES = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
    "any": Any,
}


def _json_type(kind: object, scope: Scope) -> object:
    if not isinstance(kind, str):
        return kind
    if kind not in JSON_TYPES:
        raise scope.fail(repr(kind), f"is no JSON type; it is one of {', '.join(JSON_TYPES)}")
    return JSON_TYPES[kind]


def compile_signature(
    fn: Callable[..., Any],
    *,
    injected: Callable[[Any, Any], bool] = lambda annotation, default: False,
    where: str | None = None,
    names: Mapping[str, Any] | None = None,
) -> Signature:
    """Compile a callable, or raise SignatureError naming file and line.

    A parameter for which `injected(annotation, default)` is true is no argument; it is listed in `.injected`.
    `names` are further names that string annotations may use, such as the locals of the registering frame.
    """
    target = find_target(fn, where, names)
    docs = parse_docstring(target.doc)
    fields = []
    given: dict[str, object] = {}
    for parameter in target.parameters:
        annotation = _annotation(parameter, target)
        default = EMPTY if parameter.default is parameter.empty else parameter.default
        if injected(annotation, default):
            given[parameter.name] = annotation
            continue
        _refuse_kind(parameter, target)
        fields.append(_field(parameter, annotation, default, docs, target))
    returns = EMPTY if target.returns is inspect.Signature.empty else target.resolve(target.returns, "return")
    return Signature(target.name, fields, docs=docs, injected=given, returns=returns)


REFUSED: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*{0} has no place in JSON. Write {0}: list[...] instead.",
    inspect.Parameter.VAR_KEYWORD: "**{0} has no place in a schema. Write {0}: dict[str, Any] instead.",
    inspect.Parameter.POSITIONAL_ONLY: "arguments are passed by name. Remove the / behind {0}.",
}


def _refuse_kind(parameter: inspect.Parameter, target: CallTarget) -> None:
    why = REFUSED.get(parameter.kind)
    if why is not None:
        raise target.fail(why.format(parameter.name), parameter.name)


def _annotation(parameter: inspect.Parameter, target: CallTarget) -> object:
    if parameter.annotation is not parameter.empty:
        return target.resolve(parameter.annotation, parameter.name)
    kind = type(parameter.default)
    return kind if kind in (str, int, float, bool, list, dict) else Any


def _field(
    parameter: inspect.Parameter, annotation: Any, default: object, docs: Docstring, target: CallTarget
) -> Argument:
    made: Callable[[], object] | None = None
    if type(default).__name__ == "Field" and hasattr(default, "default_factory"):
        raise target.fail("field(...) belongs in a class. Write the default itself.", parameter.name)
    if _is_field_info(default):
        annotation = Annotated[annotation, default]
        default = EMPTY
    for item in getattr(annotation, "__metadata__", ()):
        if _is_field_info(item):
            if getattr(item, "alias", None):
                words = f"an alias is not read here. Call the parameter {item.alias} instead."
                raise target.fail(words, parameter.name)
            if default is EMPTY:
                default, made = _stated_default(item)
    scope = Scope(f'{target.place}: {target.label}, parameter "{parameter.name}"', target.globalns, target.localns)
    try:
        shape = compile_shape(annotation, scope)
        if default is None and read_strictly(shape.node, None) is INVALID:
            shape = compile_shape(Union[annotation, None], scope)  # noqa: UP007 - `x: str = None` means what it says
    except UnsupportedType as error:
        raise SignatureError(str(error)) from error
    return Argument(
        name=parameter.name,
        annotation=annotation,
        description=shape.notes.get("description") or docs.params.get(parameter.name, ""),
        required=default is EMPTY,
        default=default,
        shape=shape,
        make=made or fresh(default),
    )


def _is_field_info(value: object) -> bool:
    """pydantic's `Field(...)`, by duck type."""
    return hasattr(value, "default_factory") and hasattr(value, "is_required") and hasattr(value, "metadata")


def _stated_default(info: Any) -> tuple[object, Callable[[], object] | None]:
    if info.is_required():
        return EMPTY, None
    if info.default_factory is not None:
        return info.default_factory(), info.default_factory
    return info.default, None
