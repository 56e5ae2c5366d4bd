"""The fields of the classes that are objects on the wire: one reader per family, in one table.

Knows: dataclasses, TypedDict, NamedTuple, attrs, msgspec.Struct.  Must not know: JSON, schemas.
"""

import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from redstart.schema.nodes import RecordNode
from redstart.schema.scalars import ABSENT


class RawField(msgspec.Struct):
    """One field of a class. `key` is its name in Python, `wire` its name in JSON."""

    key: str
    wire: str
    annotation: object
    required: bool
    default: object = ABSENT


Hints = dict[str, object]
Reader = Callable[[Any, Hints, RecordNode], "list[RawField]"]

QUALIFIERS = {"Required": True, "NotRequired": False, "ReadOnly": None}


def qualifiers(annotation: object) -> Iterator[tuple[str, object]]:
    """`Required[NotRequired[...]]` and the like, outermost first, of typing or typing_extensions."""
    while (name := getattr(typing.get_origin(annotation), "_name", None)) in QUALIFIERS:
        annotation = typing.get_args(annotation)[0]
        yield name, annotation


def bare(annotation: object) -> object:
    """The annotation without Required, NotRequired and ReadOnly."""
    for _, inner in qualifiers(annotation):
        annotation = inner
    return annotation


def _dataclass(cls: Any, hints: Hints, node: RecordNode) -> list[RawField]:
    import dataclasses  # loaded long ago, or there would be no dataclass

    out = []
    # msgspec sets the attributes itself, so a class with an __init__ of its own must not reach it.
    node.plain = cls.__dataclass_params__.init and not _has_init_vars(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            node.plain = False
            continue
        default = field.default if field.default is not dataclasses.MISSING else ABSENT
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
            if QUALIFIERS[qualifier] is not None:
                required = bool(QUALIFIERS[qualifier])
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
            node.plain = False  # let the class itself do its work
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
