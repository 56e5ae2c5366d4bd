"""Annotation -> nodes, schema and decoder: the one place that looks at Python types.

    compiled = compile_type(list[int])
    compiled.decode(b"[1, 2]")        # [1, 2]
    compiled.schema()                 # {"type": "array", "items": {"type": "integer"}}

Knows: typing, classes, Annotated.  Must not know: functions, docstrings, the wire.
"""

import collections
import collections.abc as abc
import enum
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ForwardRef, TypeVar, Union

import msgspec

from redstart.schema.constraints import FAMILIES, Constraints, Notes, read_notes
from redstart.schema.document import Defs, Schema, finish, noted
from redstart.schema.errors import Problem, ShapeError
from redstart.schema.nodes import ArrayNode, MapNode, NotedNode, RecordNode, RefNode, Slot, TupleNode, UnionNode
from redstart.schema.scalars import (
    ABSENT,
    JSON_NAMES,
    KINDS,
    AnyNode,
    ChoiceNode,
    Node,
    ScalarNode,
    Walk,
    by_value,
    class_of,
    contained,
    derived,
    path_kind,
    spoiled,
)


class UnsupportedType(TypeError):
    """An annotation that has no JSON form; the message says where it is and what to write."""


class Scope:
    """Where names are looked up, and what has been compiled already."""

    def __init__(self, where: str, globalns: Mapping[str, Any], localns: Mapping[str, Any]) -> None:
        self.where = where
        self.globalns = dict(globalns)
        self.localns = dict(localns)
        self.typevars: dict[object, Node] = {}
        self.done: dict[object, Node] = {}
        self.active: dict[object, RefNode | None] = {}

    def fail(self, annotation: object, why: str) -> UnsupportedType:
        return UnsupportedType(f"{self.where}: {show_type(annotation)} {why}")

    def evaluate(self, text: str) -> object:
        """The annotation for a string annotation, by the names of the code that contains it."""
        if not self.globalns and not self.localns:
            raise self.fail(repr(text), "is a text, where a type is needed")
        try:
            return eval(text, self.globalns, self.localns)  # what typing.get_type_hints does
        except NameError as error:
            raise self.fail(text, f"cannot be resolved: {error}") from error


def show_type(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def compile_node(annotation: object, scope: Scope) -> Node:
    """The node for an annotation; a type inside of itself becomes a `RefNode` (records: the record itself)."""
    try:
        kind = KINDS.get(annotation)
        known = scope.done.get(annotation)
    except TypeError:  # unhashable, such as Annotated[int, {}]
        return _compile(annotation, scope)
    if kind is not None:
        return ScalarNode(kind)
    if known is not None and not scope.typevars:
        return known
    if annotation in scope.active:
        again = scope.active[annotation] or RefNode(getattr(annotation, "__name__", "Type"))
        scope.active[annotation] = again
        return again
    scope.active[annotation] = None
    try:
        node = _compile(annotation, scope)
    finally:
        link = scope.active.pop(annotation)
    if link is not None:
        link.target = node
    return node


def _compile(annotation: Any, scope: Scope) -> Node:
    if annotation is Any or annotation is object:
        return AnyNode()
    if annotation is None or annotation is typing.LiteralString:
        return ScalarNode(KINDS[type(None) if annotation is None else str])
    if isinstance(annotation, str | ForwardRef):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        return compile_node(scope.evaluate(text), scope)
    if isinstance(annotation, typing.NewType):
        return compile_node(annotation.__supertype__, scope)
    if isinstance(annotation, TypeVar):
        return _typevar(annotation, scope)
    if type(annotation).__name__ == "TypeAliasType":
        return _alias(annotation, scope)
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _generic(annotation, origin, scope)
    if isinstance(annotation, type):
        return _class(annotation, scope)
    raise scope.fail(annotation, "is not a type that JSON can carry")


def _alias(annotation: Any, scope: Scope) -> Node:
    try:
        value = annotation.__value__
    except NameError as error:
        raise scope.fail(annotation, f"cannot be resolved: {error}") from error
    return compile_node(value, scope)


def _typevar(annotation: TypeVar, scope: Scope) -> Node:
    if annotation in scope.typevars:
        return scope.typevars[annotation]
    if annotation.__constraints__:
        return UnionNode([compile_node(item, scope) for item in annotation.__constraints__])
    return compile_node(Any if annotation.__bound__ is None else annotation.__bound__, scope)


def _generic(annotation: Any, origin: Any, scope: Scope) -> Node:
    args = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(annotation, scope)
    if origin in UNIONS:
        return _union(args, scope)
    if origin is typing.Literal:
        return _literal(args, scope)
    if origin in QUALIFIERS:
        return compile_node(args[0], scope)
    container = _container(origin, args, scope)
    if container is not None:
        return container
    is_alias = type(origin).__name__ == "TypeAliasType"
    if not is_alias and not isinstance(origin, type):
        raise scope.fail(annotation, "is not a type that JSON can carry")
    if not is_alias and is_pydantic_type(origin):
        return _pydantic_node(annotation, scope)
    parameters = origin.__type_params__ if is_alias else getattr(origin, "__parameters__", ())
    before = scope.typevars
    bound = {parameter: compile_node(arg, scope) for parameter, arg in zip(parameters, args, strict=False)}
    scope.typevars = {**before, **bound}
    try:
        return compile_node(origin.__value__, scope) if is_alias else _class(origin, scope, annotation)
    finally:
        scope.typevars = before


# Annotated --------------------------------------------------------------------------------------------------


def _annotated(annotation: object, scope: Scope) -> Node:
    base, *metadata = typing.get_args(annotation)
    if needs_pydantic(metadata):
        return _pydantic_node(annotation, scope)
    return limit(compile_node(base, scope), read_notes(metadata), annotation, scope)


def limit(node: Node, notes: Notes, annotation: object, scope: Scope) -> Node:
    """The node with the notes' limits; in a union they go to every branch that they fit."""
    if not notes.bounds and not notes.predicates:
        return node
    if notes.bounds.keys() == {"one_of"} and not _fits_any(node, notes):
        return node  # a Literal or an Enum, which has its own list
    if isinstance(node, UnionNode):
        branches = [
            limit(branch, notes, annotation, scope) if _fits(branch, notes) else branch for branch in node.children
        ]
        if not _fits_any(node, notes):
            raise scope.fail(annotation, "has limits that fit none of its branches")
        return UnionNode(branches)
    if not _fits(node, notes):
        raise scope.fail(annotation, f"has limits ({', '.join(notes.bounds)}) that do not fit {node.words}")
    limits = Constraints(node.family, notes.bounds, notes.predicates, notes.plain)
    try:
        return node.limited(limits)
    except ValueError as error:
        raise scope.fail(annotation, f"has the pattern {notes.bounds['pattern']!r}, which {error}") from None


def _fits_any(node: Node, notes: Notes) -> bool:
    return any(_fits(branch, notes) for branch in (node.children if isinstance(node, UnionNode) else (node,)))


def _fits(node: Node, notes: Notes) -> bool:
    return bool(node.family) and notes.bounds.keys() <= FAMILIES[node.family].keys()


# Containers -------------------------------------------------------------------------------------------------


def _defaultdict(value: dict[Any, Any]) -> object:
    return collections.defaultdict(None, value)


UNIONS = (Union, types.UnionType)
QUALIFIERS = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)
# Origin -> what makes the container from a list, the type for msgspec, and whether msgspec reads it as we do.
ARRAYS: dict[object, tuple[Callable[..., object], object, bool]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection), (list, list, True)),
    abc.Iterable: (list, list, False),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), (set, set, True)),
    frozenset: (frozenset, frozenset, True),
    collections.deque: (collections.deque, ABSENT, False),
}
MAPS: dict[object, tuple[Callable[..., object], bool]] = {
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), (dict, True)),
    collections.OrderedDict: (collections.OrderedDict, False),
    collections.defaultdict: (_defaultdict, False),
}


def _container(origin: object, args: tuple[Any, ...], scope: Scope) -> Node | None:
    """The node of an array, a fixed tuple or a map; None for anything else."""
    if origin in ARRAYS:
        return ArrayNode(_item(args[0], scope) if args else AnyNode(), *ARRAYS[origin])
    if origin in MAPS:
        key: Node = compile_node(args[0], scope) if args else AnyNode()
        value = _item(args[1], scope) if args else AnyNode()
        return MapNode(ScalarNode(KINDS[str]) if isinstance(key, AnyNode) else key, value, *MAPS[origin])
    if origin is not tuple:
        return None
    if len(args) == 2 and args[1] is ...:
        return ArrayNode(_item(args[0], scope), tuple, tuple)
    return TupleNode([_item(arg, scope) for arg in args if arg != ()])


def _item(annotation: object, scope: Scope) -> Node:
    node, notes = compile_field(annotation, scope)
    return NotedNode(node, notes) if notes else node


def _union(args: tuple[object, ...], scope: Scope) -> Node:
    branches: list[Node] = []
    for arg in args:
        if arg is msgspec.UnsetType:  # UNSET means absent, and has no JSON form
            continue
        node = compile_node(arg, scope)
        branches += node.children if isinstance(node, UnionNode) else (node,)
    return UnionNode(branches)


def _literal(args: tuple[object, ...], scope: Scope) -> Node:
    pairs = [(arg.value if isinstance(arg, enum.Enum) else arg, arg) for arg in args]
    for key, _ in pairs:
        if type(key) not in JSON_NAMES:
            raise scope.fail(key, "cannot be a Literal in JSON")
    plain = all(type(arg) in (str, int, type(None)) for arg in args)
    return ChoiceNode(pairs, cls=typing.Literal[args], plain=plain)


# Fields of classes ------------------------------------------------------------------------------------------


class RawField(msgspec.Struct):
    """One field of a class. `key` is its name in Python, `wire` its name in JSON."""

    key: str
    wire: str
    annotation: object
    required: bool
    default: object = ABSENT


Hints = dict[str, object]
Reader = Callable[[Any, Hints, RecordNode], "list[RawField]"]

REQUIRED_BY = {"Required": True, "NotRequired": False, "ReadOnly": None}


def qualifiers(annotation: object) -> Iterator[tuple[str, object]]:
    """`Required[NotRequired[...]]` and the like, outermost first, of typing or typing_extensions."""
    while (name := getattr(typing.get_origin(annotation), "_name", None)) in REQUIRED_BY:
        annotation = typing.get_args(annotation)[0]
        yield name, annotation


def bare(annotation: object) -> object:
    """The annotation without Required, NotRequired and ReadOnly."""
    for _, inner in qualifiers(annotation):
        annotation = inner
    return annotation


def _dataclass(cls: Any, hints: Hints, node: RecordNode) -> list[RawField]:
    import dataclasses  # already loaded by the code that defines the dataclass

    out = []
    # msgspec sets the attributes itself, so a class with an __init__ of its own must not reach it.
    node.plain = cls.__dataclass_params__.init and not _has_init_vars(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            node.plain = False
            continue
        default = field.default if field.default is not dataclasses.MISSING else ABSENT
        if default is not ABSENT and getattr(cls, field.name, None) is default:
            node.plain = False  # msgspec would leave it to the class, and out of the JSON if the object is returned
        if field.default_factory is not dataclasses.MISSING:
            default = _made(field.default_factory)
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        out.append(RawField(field.name, field.name, hints.get(field.name, Any), required, default))
    return out


def _has_init_vars(cls: Any) -> bool:
    kinds = {field._field_type.name for field in cls.__dataclass_fields__.values()}
    return "_FIELD_INITVAR" in kinds


def _made(factory: object) -> object:
    return [] if factory is list else {} if factory is dict else ABSENT


def _typed_dict(cls: Any, hints: Hints, node: RecordNode) -> list[RawField]:
    node.plain = True
    node.build = dict
    out = []
    for name, annotation in hints.items():
        required = name in cls.__required_keys__
        for qualifier, _ in qualifiers(annotation):  # a string annotation hid this from __required_keys__
            if REQUIRED_BY[qualifier] is not None:
                required = bool(REQUIRED_BY[qualifier])
        out.append(RawField(name, name, annotation, required))
    return out


def _named_tuple(cls: Any, hints: Hints, node: RecordNode) -> list[RawField]:
    defaults = cls._field_defaults  # node.plain stays False: msgspec would read an array
    return [
        RawField(name, name, hints.get(name, Any), name not in defaults, defaults.get(name, ABSENT))
        for name in cls._fields
    ]


def _struct(cls: Any, hints: Hints, node: RecordNode) -> list[RawField]:
    config = cls.__struct_config__
    if config.array_like:
        raise TypeError(f"{cls.__qualname__} is array_like; a tool's argument needs named fields")
    node.plain = True
    node.closed = config.forbid_unknown_fields
    if config.tag is not None:
        node.tag = (config.tag_field, config.tag)
    out = []
    for field in msgspec.structs.fields(cls):
        default = field.default if field.default is not msgspec.NODEFAULT else ABSENT
        if field.default_factory is not msgspec.NODEFAULT:
            default = _made(field.default_factory)
        annotation = hints.get(field.name, field.type)
        out.append(RawField(field.name, field.encode_name, annotation, field.required, default))
    return out


def _attrs(cls: Any, hints: Hints, node: RecordNode) -> list[RawField]:
    node.plain = True
    out = []
    for field in cls.__attrs_attrs__:
        if field.converter or field.validator or field.alias != field.name or not field.init:
            node.plain = False  # the class converts the values itself
        if not field.init:
            continue
        required = type(field.default).__name__ == "_Nothing"
        factory = getattr(field.default, "factory", None)
        default = ABSENT if required else _made(factory) if factory else field.default
        annotation = hints.get(field.name, Any if field.type is None else field.type)
        out.append(RawField(field.alias, field.alias, annotation, required, default))
    return out


READERS: tuple[tuple[Callable[[Any], bool], Reader], ...] = (
    (lambda cls: isinstance(cls, msgspec.StructMeta), _struct),
    (lambda cls: hasattr(cls, "__dataclass_fields__"), _dataclass),
    (lambda cls: hasattr(cls, "__attrs_attrs__"), _attrs),
    (lambda cls: hasattr(cls, "__required_keys__") and hasattr(cls, "__total__"), _typed_dict),
    (lambda cls: issubclass(cls, tuple) and hasattr(cls, "_field_defaults"), _named_tuple),
)


def reader_for(cls: type) -> Reader | None:
    return next((reader for fits, reader in READERS if fits(cls)), None)


# Classes ----------------------------------------------------------------------------------------------------


def _class(cls: type, scope: Scope, annotation: object = None) -> Node:
    container = ArrayNode(AnyNode(), tuple, tuple) if cls is tuple else _container(cls, (), scope)
    if container is not None:
        return container
    if issubclass(cls, enum.Enum):
        return _enum(cls, scope)
    if is_pydantic_type(cls):
        return _pydantic_node(cls, scope)
    reader = reader_for(cls)
    if reader is not None:
        return _record(cls, annotation or cls, reader, scope)
    if cls.__module__.partition(".")[0] == "pathlib":
        return ScalarNode(path_kind(cls))
    for base in (str, int, float, bytes):
        if issubclass(cls, base):
            return ScalarNode(derived(KINDS[base], cls))
    raise scope.fail(cls, "is not a type that JSON can carry. Use a dataclass, TypedDict or msgspec.Struct instead")


def _enum(cls: type[enum.Enum], scope: Scope) -> Node:
    members = list(cls)
    if not members:
        raise scope.fail(cls, "has no members")
    valued = by_value(cls)
    pairs = [(member.value if valued else member.name, member) for member in members]
    plain = valued and len({type(member.value) for member in members}) == 1
    plain = plain and type(members[0].value) in (str, int) and "_missing_" not in vars(cls)
    return ChoiceNode(pairs, name=cls.__name__, cls=cls, plain=plain)


def _record(cls: type, annotation: object, reader: Reader, scope: Scope) -> Node:
    node = RecordNode(cls.__name__, annotation, cls)
    if scope.typevars:
        node.key = node  # the same string annotation may mean another type elsewhere
    else:
        scope.done[annotation] = node  # before its fields: they may contain it
    inner = _class_scope(cls, scope)
    try:
        read = reader(cls, _hints(cls, inner), node)
    except NameError as error:  # msgspec reads the annotations itself, and sees module-level names only
        raise scope.fail(
            cls, f"has an annotation that cannot be resolved: {error}; define it at module level"
        ) from error
    slots = []
    for field in read:
        child, notes = compile_field(field.annotation, inner)
        slots.append(Slot(field.key, field.wire, child, field.required, field.default, notes))
    node.slots = tuple(slots)
    return node


def _class_scope(cls: type, scope: Scope) -> Scope:
    module = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    inner = Scope(f"{scope.where}, in {cls.__qualname__}", module, {**scope.localns, cls.__name__: cls})
    inner.typevars, inner.done, inner.active = scope.typevars, scope.done, scope.active
    return inner


def _hints(cls: type, scope: Scope) -> dict[str, object]:
    try:
        return typing.get_type_hints(cls, localns=scope.localns, include_extras=True)
    except (NameError, TypeError) as error:
        raise scope.fail(cls, f"has an annotation that cannot be resolved: {error}") from error


def compile_field(annotation: object, scope: Scope) -> tuple[Node, Schema]:
    """The node, and what the outermost `Annotated` adds to its schema."""
    stripped = bare(annotation)
    return compile_node(stripped, scope), _notes(stripped)


def _notes(annotation: Any) -> Schema:
    """The schema notes of an `Annotated`, also of the only branch of an Optional."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return {**_notes(annotation.__origin__), **read_notes(annotation.__metadata__).schema}
    if origin in UNIONS:
        real = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _notes(real[0]) if len(real) == 1 else {}
    return {}


# Types of pydantic ------------------------------------------------------------------------------------------


# Metadata that the nodes understand. Other metadata of pydantic changes values, so pydantic must read them.
READ_BY_US = {
    "FieldInfo",
    "PydanticGeneralMetadata",
    "_PydanticGeneralMetadata",
    "PydanticMetadata",
    "Strict",
    "WithJsonSchema",
}
TRANSFORMS = ("strip_whitespace", "to_lower", "to_upper")


def is_pydantic_type(cls: type) -> bool:
    return "pydantic" in sys.modules and (
        hasattr(cls, "__get_pydantic_core_schema__")
        or hasattr(cls, "__pydantic_validator__")
        or cls.__module__.partition(".")[0] == "pydantic"
    )


def needs_pydantic(metadata: Iterable[object]) -> bool:
    return "pydantic" in sys.modules and any(_is_pydantic(item) for item in metadata)


def _is_pydantic(item: object) -> bool:
    if any(getattr(item, name, None) for name in (*TRANSFORMS, "discriminator")):
        return True
    kind = type(item)
    if kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core"):
        return kind.__name__ not in READ_BY_US and kind.__name__ != "StringConstraints"
    return hasattr(item, "__get_pydantic_core_schema__") and not isinstance(item, type) and not hasattr(item, "one_of")


def _pydantic_node(annotation: object, scope: Scope) -> Node:
    from redstart.schema.pydantic import PydanticNode  # only where the user's code imported pydantic

    return PydanticNode(annotation, scope.fail)


# The compiled type ------------------------------------------------------------------------------------------


class CompiledType:
    """One type: its schema, and the way from JSON to a Python value."""

    def __init__(self, node: Node, notes: Schema) -> None:
        self.node = node
        self.notes = notes
        self._decoder: Callable[[bytes], Any] | None = None

    def schema(self, *, titled: bool = False) -> Schema:
        """The schema as a document of its own; in that of a form (`titled`) the choices of an Enum have titles."""
        defs = Defs(titled=titled)
        return finish(noted(self.node.emit(defs), self.notes), defs)

    def decode(self, raw: bytes) -> Any:
        """The value of strict JSON bytes."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = native_decoder(self.node.native, self.node) or self._slowly
        try:
            return decoder(raw)
        except (ValueError, RecursionError):
            return self._slowly(raw)  # the nodes decide, and explain the problem

    def convert(self, value: object, *, lax: bool = True) -> Any:
        """The value of JSON builtins; all problems at once in a ShapeError."""
        walk = Walk(False)
        out = self.node.read(value, "", walk)
        if walk.count and lax:
            walk = Walk(True)
            out = self.node.read(value, "", walk)
        if walk.count:
            raise walk.error("value")
        return out

    def _slowly(self, raw: bytes) -> Any:
        try:
            return self.convert(msgspec.json.decode(raw), lax=False)
        except ShapeError:
            raise
        except (ValueError, RecursionError) as error:
            raise ShapeError([Problem("", f"is not valid JSON: {error}")], noun="value") from None


def native_decoder(native: Any, node: Node) -> Callable[[bytes], Any] | None:
    """msgspec's decoder of a type, which this node reads too; None if msgspec cannot decode it.

    Of a type that it refuses, msgspec may keep what it has found out about classes that contain each other, with gaps.
    A decoder that is made from that later ends the process at the first message, so it is not asked for them again.
    """
    if native is ABSENT:
        return None
    try:
        return msgspec.json.Decoder(native).decode
    except Exception:  # the nodes read every type that msgspec does not
        records = [inner for inner in contained(node) if isinstance(inner, RecordNode)]
        spoiled.update(class_of(record) for record in records if record in contained(*record.children))
        return None


def compile_type(
    annotation: object,
    *,
    where: str = "type",
    globalns: Mapping[str, Any] | None = None,
    localns: Mapping[str, Any] | None = None,
) -> CompiledType:
    """The shape of an annotation, or UnsupportedType naming `where` and the type."""
    return compile_shape(annotation, Scope(where, globalns or {}, localns or {}))


def compile_shape(annotation: object, scope: Scope) -> CompiledType:
    try:
        return CompiledType(*compile_field(annotation, scope))
    except UnsupportedType:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise scope.fail(annotation, f"cannot be used: {error}") from error
