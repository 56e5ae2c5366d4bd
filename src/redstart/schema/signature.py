"""A function -> the arguments it takes: input schema, and one decode from bytes to keyword arguments.

    sig = compile_signature(add)
    sig.input_schema                # {"type": "object", "properties": {...}, "required": ["a"]}
    sig.bind(b'{"a": 1}')           # {"a": 1, "b": 2}

The fast path is a msgspec struct made for the function. If it refuses, the nodes read the arguments again as plain
JSON: they convert what may be converted ("5" for an integer), or name every bad argument.
Knows: signatures, annotations, docstrings.  Must not know: tools, contexts, the wire, time.
"""

import collections
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Union

import msgspec

from redstart.schema.callables import CallTarget, SignatureError, find_target
from redstart.schema.document import Defs, Schema, finish
from redstart.schema.errors import Problem, ShapeError, show_typed, twice
from redstart.schema.nodes import RecordNode, Slot, parsed_string, plain_json, read_strictly
from redstart.schema.scalars import ABSENT, INVALID, JSON_TYPES, Walk
from redstart.schema.types import CompiledType, Scope, UnsupportedType, compile_shape, native_decoder

__all__ = ["EMPTY", "Argument", "Signature", "SignatureError", "compile_signature"]

EMPTY = ABSENT  # no annotation, or no default
asdict = msgspec.structs.asdict

COPIED = (list, dict, set, bytearray)
PLAIN = (str, int, float, bool, list, tuple, dict, set, frozenset)
TOO_DEEP = Problem("", "The arguments are nested too deeply", kind="text")
RECORD_MARKS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "__pydantic_fields__")


class Argument(msgspec.Struct, frozen=True):
    """One argument. `make`, where there is one, makes a fresh default for each call."""

    name: str
    annotation: object
    description: str
    required: bool
    default: Any  # or ABSENT
    shape: CompiledType
    make: Callable[[], object] | None = None

    @property
    def may_be_absent(self) -> bool:
        """Whether it has no default."""
        return not self.required and self.default is ABSENT and self.make is None

    def slot(self) -> Slot:
        notes = {"description": self.description} if self.description else {}
        return Slot(self.name, self.name, self.shape.node, self.required, self.default, {**notes, **self.shape.notes})


def fresh(default: object) -> Callable[[], object] | None:
    """A function that copies the default, if calls would otherwise share one mutable object."""
    if isinstance(default, COPIED) or any(hasattr(type(default), mark) for mark in RECORD_MARKS):
        from copy import deepcopy

        return lambda: deepcopy(default)
    return None


class Arguments:
    """The compiled arguments of one function; `bind` is the hot path."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self._arguments = arguments
        self._record = RecordNode("Arguments", None, dict, [argument.slot() for argument in arguments])
        self._record.closed = True
        self._late: list[Argument] = []  # what msgspec cannot decode
        self._names: dict[str, str] = {}  # names of the struct's fields, where they cannot be those of the arguments
        self._decode = self._make_decoder()
        self.bind = self._make_bind()

    def schema(self) -> Schema:
        defs = Defs(arguments=True)
        return finish(self._record.body(defs), defs)

    def _make_bind(self) -> Callable[[bytes | msgspec.Raw | None], dict[str, Any]]:
        # A closure and not a method, because attribute lookups cost time on this path.
        names = [argument.name for argument in self._arguments]
        needles = [msgspec.json.encode(name) for name in names]
        # A name may be written with escapes, and then counting its plain form finds no duplicates.
        escape = b"\\u00" if all(name.isascii() and name.isidentifier() for name in names) else b"\\"
        required = sum(argument.required for argument in self._arguments)
        finish = bool(self._late or self._names or any(item.may_be_absent for item in self._arguments))
        decode, finished, mend, refuse_twice = self._decode, self._finished, self._mend, self._refuse_twice

        def bind(raw: bytes | msgspec.Raw | None) -> dict[str, Any]:
            """Keyword arguments for the function, defaults filled in; ShapeError names every bad argument."""
            if type(raw) is not bytes:
                raw = b"{}" if raw is None else bytes(raw)
            try:
                out = asdict(decode(raw))
            except (ValueError, RecursionError):
                return mend(raw)
            # All required arguments are there, so with this number of colons none of them can be there twice.
            if raw.count(b":") > required:
                for needle in needles:
                    if raw.count(needle) > 1:
                        refuse_twice(raw)
                        break
                else:
                    if escape in raw:
                        refuse_twice(raw)
            return finished(out, raw) if finish else out

        return bind

    def _refuse_twice(self, raw: bytes) -> None:
        """The slow and exact check for duplicate names."""
        import json  # loaded here because it is seldom needed

        try:
            pairs = json.loads(raw, object_pairs_hook=tuple, parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            return  # the decoder reports it
        if isinstance(pairs, tuple):
            walk = Walk(False)
            for key, times in collections.Counter(key for key, _ in pairs).items():
                if times > 1:
                    walk.refuse(twice, key)
            if walk.count:
                raise walk.error()

    def _finished(self, out: dict[str, Any], raw: bytes) -> dict[str, Any]:
        """Renames, conversions that msgspec cannot do, and optional arguments without a default."""
        if self._names:
            out = {self._names[name]: value for name, value in out.items()}
        walk = Walk(False, enough=1)  # `_mend` explains the problem
        for argument in self._late:
            if out[argument.name] is not msgspec.UNSET:
                out[argument.name] = argument.shape.node.read(out[argument.name], argument.name, walk)
        if walk.count:
            return self._mend(raw)
        return self._with_defaults({key: value for key, value in out.items() if value is not msgspec.UNSET})

    def _mend(self, raw: bytes) -> dict[str, Any]:
        """The slow path: plain JSON, then lax reading that collects all problems."""
        try:
            value = msgspec.json.decode(raw) if raw.strip() else {}
        except RecursionError:
            raise ShapeError([TOO_DEEP]) from None
        except ValueError as error:
            raise ShapeError([Problem("", f"The arguments are not valid JSON: {error}", kind="text")]) from None
        self._refuse_twice(raw)
        walk = Walk(True)
        value = parsed_string({} if value is None else value, dict, walk)
        if type(value) is not dict:
            words = f"The arguments must be an object, got {show_typed(value)}"
            raise ShapeError([Problem("", words, kind="text")])
        try:
            out = self._record.read(value, "", walk)
        except RecursionError:  # a string may hold nested arrays, whose depth has not been checked yet
            raise ShapeError([TOO_DEEP]) from None
        if not isinstance(out, dict):
            raise walk.error()
        return self._with_defaults(out)

    def _with_defaults(self, out: dict[str, Any]) -> dict[str, Any]:
        for argument in self._arguments:
            if argument.name not in out and not argument.required and not argument.may_be_absent:
                out[argument.name] = argument.make() if argument.make is not None else argument.default
        return out

    def _make_decoder(self) -> Callable[[bytes], Any]:
        natives = {argument.name: argument.shape.node.native for argument in self._arguments}
        decoder = native_decoder(self._struct(natives), self._record)
        if decoder is None:  # msgspec refuses at least one of the types: find it
            for argument in self._arguments:
                node = argument.shape.node
                natives[argument.name] = node.native if native_decoder(node.native, node) else ABSENT
            decoder = native_decoder(self._struct(natives), self._record)
        assert decoder is not None
        return decoder

    def _struct(self, natives: dict[str, Any]) -> type:
        self._late = [argument for argument in self._arguments if natives[argument.name] is ABSENT]
        safe = all(name.isidentifier() and not name.startswith("__") for name in natives)
        names = {name if safe else f"p{number}": name for number, name in enumerate(natives)}
        self._names = {} if safe else names
        pairs = zip(names, self._arguments, strict=True)
        fields = [_struct_field(name, argument, natives[argument.name]) for name, argument in pairs]
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, rename=names)


def _struct_field(name: str, argument: Argument, native: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    late = native is ABSENT
    kind = Any if late else native
    if argument.required:
        return (name, kind)
    if late or argument.may_be_absent:
        return (name, kind if late else kind | msgspec.UnsetType, msgspec.UNSET)
    if argument.make is not None:
        return (name, kind, msgspec.field(default_factory=argument.make))
    return (name, kind, msgspec.field(default=argument.default))


class Signature:
    """The arguments and the result of a function. `bind` is the hot path; the rest is used at registration."""

    def __init__(
        self,
        name: str,
        fields: Iterable[Argument],
        *,
        description: str = "",
        injected: dict[str, object] | None = None,
        returns: Any = EMPTY,
    ) -> None:
        self.name = name
        self.description = description
        self.returns = returns
        self.fields = tuple(fields)
        self.injected = injected or {}
        arguments = Arguments(self.fields)
        self.input_schema: Schema = arguments.schema()
        self.bind: Callable[[bytes | msgspec.Raw | None], dict[str, Any]] = arguments.bind

    def misfits(self) -> dict[str, ShapeError]:
        """By name, why a default does not fit its own argument: the schema leaves such a default out.

        Objects are not judged, but for those of JSON: a sentinel is meant, and a class knows what its objects are.
        """
        found = {}
        for field in self.fields:
            walk = Walk(False)
            if type(field.default) in PLAIN and (value := plain_json(field.default)) not in (ABSENT, None):
                field.shape.node.read(value, "", walk)
            if walk.count:
                found[field.name] = walk.error("value")
        return found

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
        return cls(name, fields, description=description)


def _json_type(kind: object, scope: Scope) -> object:
    if not isinstance(kind, str):
        return kind
    if kind != "any" and kind not in JSON_TYPES:
        raise scope.fail(repr(kind), f"is not a JSON type; these are: {', '.join(JSON_TYPES)}, any")
    return JSON_TYPES.get(kind, Any)


def compile_signature(
    fn: Callable[..., Any],
    *,
    injected: Callable[[Any, Any], bool] = lambda annotation, default: False,
    where: str | None = None,
    names: Mapping[str, Any] | None = None,
    lenient: bool = False,
) -> Signature:
    """Compile a callable, or raise SignatureError naming file and line.

    A parameter for which `injected(annotation, default)` is true is not an argument; it is listed in `.injected`.
    `names` are further names that string annotations may use, such as the locals of the registering frame.
    With `lenient` an argument of a type that JSON does not know is a string.
    """
    target = find_target(fn, where, names)
    description, described = _described(target.doc)
    fields = []
    given: dict[str, object] = {}
    for parameter in target.parameters:
        annotation = _annotation(parameter, target)
        default = EMPTY if parameter.default is parameter.empty else parameter.default
        if injected(annotation, default):
            given[parameter.name] = annotation
            continue
        _refuse_kind(parameter, target)
        about = described.get(parameter.name, "")
        try:
            fields.append(_field(parameter, annotation, default, about, target))
        except UnsupportedType as error:
            if not lenient:
                raise SignatureError(str(error)) from error
            fields.append(_field(parameter, str, default, about, target))
    returns = EMPTY if target.returns is inspect.Signature.empty else target.resolve(target.returns, "return")
    return Signature(target.name, fields, description=description, injected=given, returns=returns)


def _described(doc: str | None) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each parameter."""
    if not doc:
        return "", {}
    from redstart.schema.docstring import parse_docstring  # loaded here because a function may have no docstring

    parsed = parse_docstring(doc)
    return parsed.description, parsed.params


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
    parameter: inspect.Parameter, annotation: Any, default: object, description: str, target: CallTarget
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
    shape = compile_shape(annotation, scope)
    if default is None and read_strictly(shape.node, None) is INVALID:
        shape = compile_shape(Union[annotation, None], scope)  # noqa: UP007 - `x: str = None` means what it says
    return Argument(
        name=parameter.name,
        annotation=annotation,
        description=shape.notes.get("description") or description,
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
