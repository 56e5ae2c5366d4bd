"""Checks the values that an application has put into a shape, because a Struct does not check its fields itself.

Used for all shapes that come from an application: at registration (icons, annotations, arguments of prompts) and
for results (content, contents of resources). Shapes that we make or decode need no check.
"""

from __future__ import annotations

import math
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, Struct

S = TypeVar("S", bound=Struct)
_WORDS: Final[dict[Any, str]] = {
    str: "a string",
    bytes: "bytes",
    bool: "True or False",
    int: "an integer",
    float: "a number",
    dict: "a dict that JSON can carry",
}


class InvalidShape(TypeError):
    """A field of a shape has a value that clients cannot read."""


class _Rule(Struct, frozen=True):
    name: str
    kind: Any
    words: str
    required: bool
    default: Any


def checked(shape: S, name: str = "") -> S:
    """`shape`, after a check of its fields and of the shapes in it. Dicts and tuples in it become shapes.

    `name` is what the application calls it, where that is not the name of the class.

    >>> from redstart.wire.types import Icon
    >>> checked(Icon("https://example.com/i.png", sizes="48x48"))
    Traceback (most recent call last):
    ...
    redstart.wire.check.InvalidShape: Icon: sizes must be a list of strings, not '48x48'
    """
    for rule in _rules(type(shape)):
        value = getattr(shape, rule.name)
        if value is None or value is UNSET:
            if rule.default is not NODEFAULT:
                setattr(shape, rule.name, rule.default())  # None stands for the default
            elif rule.required:
                raise InvalidShape(f"{name or type(shape).__name__}: {rule.name} must be {rule.words}, not {value!r}")
            continue
        exact = rule.kind is str and type(value) is str
        fitting = value if exact else _fitting(name or type(shape).__name__, rule, value)
        if fitting is not value:
            setattr(shape, rule.name, fitting)
    return shape


def _fitting(name: str, rule: _Rule, value: Any) -> Any:
    try:
        if rule.kind in (str, bytes):
            if not isinstance(value, rule.kind):
                raise TypeError
            return bytes(value) if rule.kind is bytes else _text(value)
        fitting = value if type(value) is Raw else msgspec.convert(value, rule.kind)
        if isinstance(fitting, float) and not math.isfinite(fitting):
            raise TypeError
        if isinstance(fitting, dict):
            return msgspec.to_builtins(fitting, str_keys=True, enc_hook=_text)
    except (TypeError, ValueError, RecursionError):
        shown = f"{value!r:.60}"
        raise InvalidShape(f"{name}: {rule.name} must be {rule.words}, not {shown}") from None
    for inner in fitting if isinstance(fitting, list) else [fitting]:
        if isinstance(inner, Struct):
            checked(inner)
    return fitting


def _text(value: Any) -> str:
    """A text of a subclass of str, as the encoder needs it."""
    if not isinstance(value, str):
        raise TypeError
    return str.__str__(value)


@cache
def _rules(shape: type[Struct]) -> list[_Rule]:
    hints = get_type_hints(shape, include_extras=True)
    rules = []
    for field in msgspec.structs.fields(shape):
        kind = hints[field.name]
        if get_origin(kind) in (Union, UnionType):
            options = tuple(option for option in get_args(kind) if option not in (NoneType, msgspec.UnsetType, Raw))
            kind = Union[options]  # noqa: UP007 - the options are known only now
        if kind is not Any:
            words = _words(kind)
            rules.append(_Rule(field.name, kind, words, field.required, field.default_factory))
    return rules


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(repr(choice) for choice in inner)
    if origin in (Union, UnionType):
        return " or ".join(map(_words, inner))
    if origin is list and inner[0] is Any:
        return "a list"
    if origin is list:
        return f"a list of {_words(inner[0]).removeprefix('a ').removeprefix('an ')}s".replace("'s", "'")
    if hasattr(kind, "__metadata__"):
        limits = kind.__metadata__[0]
        return f"{_words(inner[0])} from {limits.ge} to {limits.le}"
    return _WORDS.get(origin or kind) or f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
