"""Annotation -> intermediate form. The one place that looks at Python types.

Knows: typing, classes, Annotated.  Must not know: functions, JSON bytes.
"""

import collections
import collections.abc as abc
import enum
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ForwardRef, TypeVar, Union

import msgspec

from redstart.schema import records
from redstart.schema.constraints import FAMILIES, Constraints, Notes, read_notes
from redstart.schema.containers import ArrayNode, MapNode, TupleNode
from redstart.schema.nodes import NotedNode, RecordNode, RefNode, Slot, UnionNode
from redstart.schema.pydantic import PydanticNode, is_foreign, needs_foreign
from redstart.schema.scalars import ABSENT, JSON_NAMES, KINDS, NULL, AnyNode, ChoiceNode, Node, ScalarNode, path_kind


class UnsupportedType(TypeError):
    """An annotation that has no JSON form; the message says where it is and what to write."""


class Scope:
    """Where names are looked up, and what has been compiled already."""

    def __init__(self, where: str, globalns: Mapping[str, Any], localns: Mapping[str, Any]) -> None:
        self.where = where
        self.globalns = dict(globalns)
        self.localns = dict(localns)
        self.typevars: dict[Any, Node] = {}
        self.done: dict[Any, Node] = {}
        self.active: dict[Any, RefNode | None] = {}

    def fail(self, annotation: Any, why: str) -> UnsupportedType:
        return UnsupportedType(f"{self.where}: {show_type(annotation)} {why}")

    def evaluate(self, text: str) -> Any:
        """What an annotation that is a text means to the code that it stands in; elsewhere it means nothing."""
        if not self.globalns and not self.localns:
            raise self.fail(repr(text), "is a text, where a type is needed")
        try:
            return eval(text, self.globalns, self.localns)  # what typing.get_type_hints does
        except NameError as error:
            raise self.fail(text, f"cannot be resolved: {error}") from error


def show_type(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def compile_node(annotation: Any, scope: Scope) -> Node:
    """The node for an annotation; a type met inside itself becomes a `RefNode` (records: the record itself)."""
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
        again = scope.active[annotation] or RefNode(_alias_name(annotation))
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


def _alias_name(annotation: Any) -> str:
    return getattr(annotation, "__name__", "Type")


def _compile(annotation: Any, scope: Scope) -> Node:
    if annotation is Any or annotation is object:
        return AnyNode()
    if annotation is None:
        return ScalarNode(NULL)
    form = FORMS.get(type(annotation).__name__)
    if form is not None:
        return form(annotation, scope)
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _generic(annotation, origin, scope)
    if isinstance(annotation, type):
        return _class(annotation, scope)
    bare = BARE.get(annotation)
    if bare is not None:
        return bare()
    raise scope.fail(annotation, "is not a type that JSON can carry")


def _text(annotation: str, scope: Scope) -> Node:
    return compile_node(scope.evaluate(annotation), scope)


def _forward(annotation: ForwardRef, scope: Scope) -> Node:
    return compile_node(scope.evaluate(annotation.__forward_arg__), scope)


def _newtype(annotation: Any, scope: Scope) -> Node:
    return compile_node(annotation.__supertype__, scope)


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


FORMS: dict[str, Callable[[Any, Scope], Node]] = {
    "str": _text,
    "ForwardRef": _forward,
    "NewType": _newtype,
    "TypeAliasType": _alias,
    "TypeVar": _typevar,
}


def _generic(annotation: Any, origin: Any, scope: Scope) -> Node:
    handler = ORIGINS.get(origin)
    args = typing.get_args(annotation)
    if handler is not None:
        return handler(args, scope)
    if origin is typing.Annotated:
        return _annotated(annotation, scope)
    if type(origin).__name__ == "TypeAliasType":
        with_args = _bound(origin.__type_params__, args, scope)
        return _with_typevars(with_args, scope, lambda: compile_node(origin.__value__, scope))
    if isinstance(origin, type):
        if is_foreign(origin):
            return PydanticNode(annotation, scope.fail)
        bound = _bound(getattr(origin, "__parameters__", ()), args, scope)
        return _with_typevars(bound, scope, lambda: _class(origin, scope, annotation))
    raise scope.fail(annotation, "is not a type that JSON can carry")


def _bound(parameters: Any, args: Any, scope: Scope) -> dict[Any, Node]:
    return {parameter: compile_node(arg, scope) for parameter, arg in zip(parameters, args, strict=False)}


def _with_typevars(bound: dict[Any, Node], scope: Scope, work: Callable[[], Node]) -> Node:
    before, scope.typevars = scope.typevars, {**scope.typevars, **bound}
    try:
        return work()
    finally:
        scope.typevars = before


# Annotated --------------------------------------------------------------------------------------------------


def _annotated(annotation: Any, scope: Scope) -> Node:
    base, *metadata = typing.get_args(annotation)
    if needs_foreign(metadata):
        return PydanticNode(annotation, scope.fail)
    return limit(compile_node(base, scope), read_notes(metadata), annotation, scope)


def limit(node: Node, notes: Notes, annotation: Any, scope: Scope) -> Node:
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


def _array(build: Any, origin: Any, plain: bool = True) -> Callable[[Any, Scope], Node]:
    def make(args: Any, scope: Scope) -> Node:
        return ArrayNode(_item(args[0], scope) if args else AnyNode(), build, origin, plain)

    return make


def _tuple(args: Any, scope: Scope) -> Node:
    if len(args) == 2 and args[1] is ...:
        return ArrayNode(_item(args[0], scope), tuple, tuple, True)
    return TupleNode([_item(arg, scope) for arg in args if arg != ()])


def _item(annotation: Any, scope: Scope) -> Node:
    node, notes = compile_field(annotation, scope)
    return NotedNode(node, notes) if notes else node


def _map(build: Any, plain: bool = True) -> Callable[[Any, Scope], Node]:
    def make(args: Any, scope: Scope) -> Node:
        key: Node = compile_node(args[0], scope) if args else ScalarNode(KINDS[str])
        value = _item(args[1], scope) if args else AnyNode()
        return MapNode(ScalarNode(KINDS[str]) if isinstance(key, AnyNode) else key, value, build, plain)

    return make


def _defaultdict(value: dict[Any, Any]) -> Any:
    return collections.defaultdict(None, value)


def _union(args: Any, scope: Scope) -> Node:
    branches: list[Node] = []
    for arg in args:
        if arg is msgspec.UnsetType:  # absence is not a value in JSON
            continue
        node = compile_node(arg, scope)
        branches += node.children if isinstance(node, UnionNode) else (node,)
    return UnionNode(branches)


def _literal(args: Any, scope: Scope) -> Node:
    pairs = [(arg.value if isinstance(arg, enum.Enum) else arg, arg) for arg in args]
    for key, _ in pairs:
        if type(key) not in JSON_NAMES:
            raise scope.fail(key, "cannot be a Literal in JSON")
    plain = all(type(arg) in (str, int, type(None)) for arg in args)
    return ChoiceNode(pairs, cls=typing.Literal[tuple(args)], plain=plain)


def _inner(args: Any, scope: Scope) -> Node:
    return compile_node(args[0], scope)


ORIGINS: dict[Any, Callable[[Any, Scope], Node]] = {
    Union: _union,
    types.UnionType: _union,
    typing.Literal: _literal,
    list: _array(list, list),
    abc.Sequence: _array(list, list),
    abc.MutableSequence: _array(list, list),
    abc.Collection: _array(list, list),
    abc.Iterable: _array(list, list, plain=False),
    set: _array(set, set),
    abc.Set: _array(set, set),
    abc.MutableSet: _array(set, set),
    frozenset: _array(frozenset, frozenset),
    collections.deque: _array(collections.deque, ABSENT, plain=False),
    tuple: _tuple,
    dict: _map(dict),
    abc.Mapping: _map(dict),
    abc.MutableMapping: _map(dict),
    collections.OrderedDict: _map(collections.OrderedDict, plain=False),
    collections.defaultdict: _map(_defaultdict, plain=False),
    typing.Required: _inner,
    typing.NotRequired: _inner,
    typing.Final: _inner,
    typing.ClassVar: _inner,
}
BARE: dict[Any, Callable[[], Node]] = {typing.LiteralString: lambda: ScalarNode(KINDS[str])}


# Classes ----------------------------------------------------------------------------------------------------


def _class(cls: type, scope: Scope, annotation: Any = None) -> Node:
    if cls is tuple:
        return ArrayNode(AnyNode(), tuple, tuple, True)
    if cls in ORIGINS:
        return ORIGINS[cls]((), scope)
    if issubclass(cls, enum.Enum):
        return _enum(cls, scope)
    if is_foreign(cls):
        return PydanticNode(cls, scope.fail)
    reader = records.reader_for(cls)
    if reader is not None:
        return _record(cls, annotation or cls, reader, scope)
    if cls.__module__.partition(".")[0] == "pathlib":
        return ScalarNode(path_kind(cls))
    for base in (str, int, float, bytes):
        if issubclass(cls, base):
            return ScalarNode(_subclass(cls, base))
    raise scope.fail(cls, "is not a type that JSON can carry. Use a dataclass, TypedDict or msgspec.Struct instead")


def _subclass(cls: Any, base: type) -> Any:
    kind = KINDS[base]
    lax = kind.lax
    return msgspec.structs.replace(
        kind,
        native=ABSENT,
        strict=lambda value: cls(kind.strict(value)),
        lax=(lambda value: cls(lax(value))) if lax is not None else None,
    )


def _enum(cls: type[enum.Enum], scope: Scope) -> Node:
    members = list(cls)
    if not members:
        raise scope.fail(cls, "has no members")
    by_value = all(type(member.value) in JSON_NAMES for member in members)
    pairs = [(member.value if by_value else member.name, member) for member in members]
    plain = by_value and len({type(member.value) for member in members}) == 1
    plain = plain and type(members[0].value) in (str, int) and "_missing_" not in vars(cls)
    return ChoiceNode(pairs, name=cls.__name__, cls=cls, plain=plain)


def _record(cls: type, annotation: Any, reader: "records.Reader", scope: Scope) -> Node:
    node = RecordNode(cls.__name__, annotation, cls)
    if scope.typevars:
        node.key = node  # the same annotation means another type elsewhere
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


def _hints(cls: type, scope: Scope) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, localns=scope.localns, include_extras=True)
    except (NameError, TypeError) as error:
        raise scope.fail(cls, f"has an annotation that cannot be resolved: {error}") from error


def compile_field(annotation: Any, scope: Scope) -> tuple[Node, dict[str, Any]]:
    """The node, and what the outermost `Annotated` adds to its schema."""
    stripped = records.bare(annotation)
    return compile_node(stripped, scope), _notes(stripped)


def _notes(annotation: Any) -> dict[str, Any]:
    """The schema notes of an `Annotated`, also of the only branch of an Optional."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return {**_notes(annotation.__origin__), **read_notes(annotation.__metadata__).schema}
    if origin in (Union, types.UnionType):
        real = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _notes(real[0]) if len(real) == 1 else {}
    return {}
