"""How options are checked: a TypedDict lists the options of something, each with the rule that its value must obey.

Functions take them as `**options: Unpack[ToolOptions]`, so that type checkers and editors know them. `checked` refuses
a wrong value, with the caller's file and line, and fills in the defaults.
"""

import asyncio
import inspect
import math
import operator
import os
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import FrameType, MappingProxyType
from typing import Annotated, Any, Final, NoReturn, SupportsFloat, SupportsIndex, TypeAlias, TypeVar, cast

from msgspec import Struct

from redstart.features.errors import RegistrationError
from redstart.schema.errors import nearest
from redstart.wire.check import InvalidShape
from redstart.wire.check import checked as checked_shape
from redstart.wire.jsonrpc import encode

Options = TypeVar("Options")
S = TypeVar("S", bound=Struct)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Reader = Callable[[str, Any], Any]
"""Gives the value as it is kept; what is wrong is a TypeError or ValueError whose text begins with the label."""

# Files that are not the user's: ours, those of Python that evaluate an annotation written as text, and asyncio.
_SCOPE: Final = r"[\x21\x23-\x5b\x5d-\x7e]+"
"""A scope as RFC 6749 has it: visible ASCII without quotes and backslashes."""
NOT_THEIRS: Final = (
    os.path.join(os.path.dirname(os.path.dirname(__file__)), ""),
    os.path.join(os.path.dirname(asyncio.__file__), ""),
    *("<string>", typing.__file__, inspect.__file__),
)


class OptionError(RegistrationError, ValueError):
    """An option that does not exist, or has a value that it cannot have."""


def calling_frame() -> FrameType:
    """The innermost frame of the user's code."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(NOT_THEIRS):
        frame = frame.f_back
    return frame


def caller() -> str:
    """`file.py:12`, where an option was given."""
    frame = calling_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`. Did you mean "add"?`, or nothing."""
    near = nearest(name, known)
    return f'. Did you mean "{near}"?' if near else ""


class Wrong(TypeError, ValueError):
    """A value that an option cannot have."""

    def __init__(self, label: str, words: str, shown: str, hint: str = "") -> None:
        super().__init__(f"{label} must be {words}, not {shown}{hint}")
        self.label, self.words, self.shown, self.hint = label, words, shown, hint

    def or_none(self) -> str:
        return str(Wrong(self.label, f"{self.words}, or None", self.shown, self.hint))


def wrong(label: str, words: str, value: object, hint: str = "") -> NoReturn:
    """Refuse a value, and show it. (What may be secret is refused by its type.)"""
    raise Wrong(label, words, f"{value!r:.100}", hint)


class Rule:
    """What the value of an option must be, and what it is when it is not given."""

    __slots__ = ("default", "optional", "read")

    def __init__(self, read: Reader, default: object = None, *, optional: bool | None = None) -> None:
        self.read = read
        self.default = default
        self.optional = default is None if optional is None else optional

    def check(self, label: str, value: object) -> Any:
        """The value as it is kept."""
        if value is None and self.optional:
            return self.default
        try:
            return self.read(label, value)
        except Wrong as error:
            optional = self.optional and self.default is None and error.label == label
            raise OptionError(f"{caller()}: {error.or_none() if optional else error}") from None
        except (TypeError, ValueError, ImportError) as error:  # a missing extra, for example
            raise OptionError(f"{caller()}: {error}") from None


@cache
def rules_of(kind: object) -> dict[str, Rule]:
    """The rules of the options that a TypedDict lists."""
    return {name: hint.__metadata__[0] for name, hint in kind.__annotations__.items()}


def checked(
    kind: type[Options],
    what: str,
    given: Mapping[str, object],
    *,
    before: str = "",
    after: str = "",
    also: Sequence[str] = ("name",),
    others: Mapping[str, str] = MappingProxyType({}),
) -> Options:
    """All options of `what`: those that are given, checked, and the defaults of the others.

    `before` and `after` are what an error says around the name of an option, such as ` of add`; `also` are parameters
    that have a place of their own, and may be meant; `others` says what to do about options of other frameworks.
    """
    rules = rules_of(cast(Any, kind))
    made = {name: rule.default for name, rule in rules.items()}
    for name, value in given.items():
        if name not in rules:
            hint = others.get(name) or did_you_mean(name, (*rules, *also)) or f"; it has: {', '.join(rules)}"
            raise OptionError(f'{caller()}: {what} has no option "{name}"{hint}')
        made[name] = rules[name].check(f"{before}{name}{after}", value)
    return cast(Options, made)


def showing(kind: object) -> Callable[[F], F]:
    """Give a function a signature that lists its `**options`, for `help()` and editors that run the code."""

    def show(fn: F) -> F:
        signature = inspect.signature(fn)
        listed = [option for option in _shown(kind) if option.name not in signature.parameters]
        plain = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        fn.__signature__ = signature.replace(parameters=[*plain, *listed])  # type: ignore[attr-defined]
        return fn

    return show


@cache
def _shown(kind: object) -> list[inspect.Parameter]:
    """The options as parameters."""
    made = []
    for name, rule in rules_of(kind).items():
        hint = kind.__annotations__[name].__origin__
        hint = getattr(hint, "__forward_arg__", hint)
        made.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=rule.default, annotation=hint))
    return made


def decorating(given: object, name: str, serve: Callable[[Any, str], object]) -> object:
    """`@tool` and `tool(fn, name="x")` get the function at once, `@tool("x")` and `@tool(name="x")` get it later."""
    if given is None or isinstance(given, str):
        return lambda fn: serve(fn, given or name)
    return serve(given, name)


def check_is_callable(fn: object) -> None:
    """Refuse what a decorator was put on if it is not a function."""
    if not callable(fn) or inspect.isclass(fn):
        words = "; to serve the methods of its objects write Server.from_object({})"
        hint = words.format(fn.__name__) if isinstance(fn, type) else ""
        raise RegistrationError(f"{caller()}: expected a function, got {fn!r:.200}{hint}")


# ---------------------------------------------------------------- kinds of values


def seconds(label: str, value: object, *, endless: bool = False) -> float:
    """A time span as an int or a float, whichever kind of real number it is given as."""
    number = _number(value)
    if number is None or not (0 < number <= sys.float_info.max or (endless and number == math.inf)):
        wrong(label, "a number of seconds above 0", value)
    return number


def age(label: str, value: object) -> float:
    """A time span that may be 0."""
    number = _number(value)
    if number is None or not 0 <= number <= sys.float_info.max:
        wrong(label, "a number of seconds of at least 0", value)
    return number


def whole(label: str, value: object, least: int = 1) -> int:
    """A whole number as an int, also if it is given as one of numpy's."""
    number = _number(value) if isinstance(value, SupportsIndex) else None
    if not isinstance(number, int) or number < least:
        wrong(label, f"a whole number of at least {least}", value)
    return number


def _number(value: object) -> int | float | None:
    """A number of any kind as an int or float; None for anything else, True and False included."""
    # An array has both methods, but is not a number. A signalling NaN and a Fraction may be too much for a float.
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return int(operator.index(value))
        if isinstance(value, SupportsFloat) and not isinstance(value, bool):  # a text has no __float__
            return float(value)
    return None


def flag(label: str, value: object) -> bool:
    """True or False: a text such as "no" would count as yes."""
    return value if isinstance(value, bool) else wrong(label, "True or False", value)


def text(label: str, value: object) -> str:
    """A text that can be sent."""
    if not isinstance(value, str):
        wrong(label, "a text (str)", value)
    if not value.isascii() and value != value.encode(errors="replace").decode():
        raise ValueError(f"{label} has half a character in it (a lone surrogate), which no message can carry")
    return value


def texts(label: str, value: object) -> tuple[str, ...]:
    """Several texts. One text would be taken as a list of its letters."""
    if isinstance(value, str):
        wrong(label, "a list of texts", value, f'; write ["{value}"]')
    listed = tuple(value) if isinstance(value, Iterable) else ()
    if not isinstance(value, Iterable) or not all(isinstance(one, str) for one in listed):
        wrong(label, "a list of texts", value)
    return listed


def names(label: str, value: object) -> tuple[str, ...]:
    """Several texts, or one."""
    return texts(label, [value] if isinstance(value, str) else value)


def is_scope(value: object) -> bool:
    """Whether a value is a scope, which a challenge can name."""
    return isinstance(value, str) and re.fullmatch(_SCOPE, value) is not None


def scope_list(label: str, value: object) -> tuple[str, ...]:
    """Scopes from a list, or from one text with spaces between them, each of them once."""
    listed = value.split() if isinstance(value, str) else value
    found = tuple(dict.fromkeys(listed)) if isinstance(listed, Iterable) else ()
    if not isinstance(listed, Iterable) or not all(map(is_scope, found)):
        wrong(label, "a list of scopes: texts without spaces, quotes and backslashes", value)
    return found


def mapping(label: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        wrong(label, "a dict with text keys", value)
    return value


def json_object(label: str, value: object) -> dict[str, object]:
    """A dict that can be sent."""
    copied = dict(mapping(label, value))
    try:
        encode(copied)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{label} must be JSON data: {error}") from None
    return copied


def function(label: str, value: object) -> Callable[..., object]:
    return value if callable(value) else wrong(label, "a function", value)


def path(label: str, value: object) -> str | os.PathLike[str]:
    return value if isinstance(value, str | os.PathLike) else wrong(label, "a path (str or Path)", value)


def anything(label: str, value: object) -> object:
    return value


def one_of(*choices: str) -> Reader:
    """One of a few words."""

    def read(label: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            hint = did_you_mean(value, choices) if isinstance(value, str) else ""
            wrong(label, f"one of {', '.join(choices)}", value, hint)
        return value

    return read


def at_least(least: int) -> Reader:
    return lambda label, value: whole(label, value, least)


def between(least: int, most: int) -> Reader:
    def read(label: str, value: object) -> int:
        number = whole(label, value, least)
        return number if number <= most else wrong(label, f"a whole number of at most {most}", value)

    return read


def endless_seconds(label: str, value: object) -> float:
    return seconds(label, value, endless=True)


def instances(
    label: str,
    value: object,
    kind: type[T] | tuple[type[T], ...],
    words: str,
    hint: Callable[[object], str] | None = None,
) -> list[T]:
    """A list of things of some classes."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        wrong(label, f"a list of {words}", value, hint(value) if hint and not isinstance(value, kind) else "")
    listed = list(value)
    for one in listed:
        if not isinstance(one, kind):
            wrong(label, f"a list of {words}", one, hint(one) if hint else "")
    return listed


def valid_shape(label: str, shape: S) -> S:
    """A wire shape as it is, if its fields have their types: a Struct does not check them itself."""
    try:
        return checked_shape(shape)
    except InvalidShape as error:
        raise TypeError(f"{label}: {error}") from None


# ---------------------------------------------------------------- rules that many share

NAME: Final = Rule(text, "", optional=True)
FLAG: Final = Rule(flag, False)
REQUIRED_TEXT: Final = Rule(text, "", optional=False)
HANDLER: Final = Rule(function, optional=False)
HANDLER_OR_NONE: Final = Rule(function)
PATH: Final = Rule(path, optional=False)

# ---------------------------------------------------------------- options that many have, as a TypedDict lists them

CountOption: TypeAlias = Annotated[int | None, Rule(at_least(1))]
FlagOption: TypeAlias = Annotated[bool, FLAG]
SecondsOption: TypeAlias = Annotated[float | None, Rule(endless_seconds)]
TextOption: TypeAlias = Annotated[str | None, Rule(text)]
TextsOption: TypeAlias = Annotated[Iterable[str], Rule(texts, (), optional=True)]
ScopesOption: TypeAlias = Annotated[str | Iterable[str], Rule(scope_list, (), optional=True)]
