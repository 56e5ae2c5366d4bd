"""The options of tools, prompts, resources and files: each is spelled once, with the rule that its value must obey.

The classes and the decorators take them as `**options: Unpack[ToolOptions]`, so type checkers and editors know them;
`checked` refuses what is wrong, with the caller's file and line, and fills in the defaults.
"""

import asyncio
import inspect
import math
import operator
import os
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, TypedDict, TypeVar, cast

import msgspec

from redstart.features.errors import RegistrationError
from redstart.schema.errors import nearest
from redstart.wire import types as t
from redstart.wire.check import InvalidShape
from redstart.wire.check import checked as checked_shape
from redstart.wire.jsonrpc import encode

if TYPE_CHECKING:
    from redstart.features.raw_tools import Parameter
    from redstart.features.registry import Cache, Visible
    from redstart.features.solutions import Proofs, Solutions
    from redstart.features.tools import Task

    Argument = t.PromptArgument | tuple[Any, ...]

Options = TypeVar("Options")
F = TypeVar("F", bound=Callable[..., Any])
Take = Callable[[str, Any], Any]
"""Gives the value as it is kept; what is wrong is a TypeError or ValueError whose text begins with the label."""

# Our files, those that evaluate an annotation which was written as text, and those that run a coroutine.
NOT_THEIRS: Final = (
    os.path.join(os.path.dirname(os.path.dirname(__file__)), ""),
    os.path.join(os.path.dirname(asyncio.__file__), ""),
    *("<string>", typing.__file__, inspect.__file__),
)
ANNOTATIONS: Final = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

CAPABILITIES: Final = (
    *("elicitation", "elicitation.form", "elicitation.url", "sampling", "sampling.tools", "sampling.context"),
    *("roots", "tasks", "extensions", "experimental"),
)
"""What `ClientCapabilities.has` knows."""
OPEN_CAPABILITIES: Final = ("tasks.", "extensions.", "experimental.")
"""Those in which a client may declare what nobody here knows."""


class OptionError(RegistrationError, ValueError):
    """An option that does not exist, or has a value that it cannot have."""


def calling_frame() -> FrameType:
    """The innermost frame that is not ours."""
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


def wrong(label: str, words: str, value: Any, hint: str = "") -> NoReturn:
    """Refuse a value, and show it. (What may be secret is refused by its type.)"""
    raise Wrong(label, words, f"{value!r:.100}", hint)


class Rule:
    """What the value of an option must be, and what it is when it is not given."""

    __slots__ = ("default", "optional", "take")

    def __init__(self, take: Take, default: Any = None, *, optional: bool | None = None) -> None:
        self.take = take
        self.default = default
        self.optional = default is None if optional is None else optional

    def check(self, label: str, value: Any) -> Any:
        """The value as it is kept."""
        if value is None and self.optional:
            return self.default
        try:
            return self.take(label, value)
        except Wrong as error:
            optional = self.optional and self.default is None and error.label == label
            raise OptionError(f"{caller()}: {error.or_none() if optional else error}") from None
        except (TypeError, ValueError) as error:
            raise OptionError(f"{caller()}: {error}") from None


@cache
def rules_of(kind: Any) -> dict[str, Rule]:
    """The rules of the options that a TypedDict lists."""
    return {name: hint.__metadata__[0] for name, hint in kind.__annotations__.items()}


def checked(
    kind: type[Options],
    what: str,
    given: Mapping[str, Any],
    *,
    before: str = "",
    after: str = "",
    also: Sequence[str] = ("name",),
) -> Options:
    """All options of `what`: those that are given, checked, and the defaults of the others.

    `before` and `after` are what an error says around the name of an option, such as ` of add`; `also` are parameters
    that have a place of their own, and may be meant.
    """
    rules = rules_of(cast(Any, kind))
    made = {name: rule.default for name, rule in rules.items()}
    for name, value in given.items():
        if name not in rules:
            hint = did_you_mean(name, (*rules, *also)) or f"; it has: {', '.join(rules)}"
            raise OptionError(f'{caller()}: {what} has no option "{name}"{hint}')
        made[name] = rules[name].check(f"{before}{name}{after}", value)
    return cast(Options, made)


def showing(kind: Any) -> Callable[[F], F]:
    """Let `help()` and editors that run the code see the options that `**options` stands for."""

    def show(fn: F) -> F:
        signature = inspect.signature(fn)
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=rule.default, annotation=_shown(kind, name))
            for name, rule in rules_of(kind).items()
            if name not in signature.parameters
        ]
        plain = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        fn.__signature__ = signature.replace(parameters=[*plain, *listed])  # type: ignore[attr-defined]
        return fn

    return show


def _shown(kind: Any, name: str) -> Any:
    hint = kind.__annotations__[name].__origin__
    return getattr(hint, "__forward_arg__", hint)


def decorating(given: Any, name: str, serve: Callable[[Any, str], Any]) -> Any:
    """`@tool` and `tool(fn, name="x")` are given the function, `@tool("x")` and `@tool(name="x")` only a name."""
    if given is None or isinstance(given, str):
        return lambda fn: serve(fn, given or name)
    return serve(given, name)


# ---------------------------------------------------------------- kinds of values


def seconds(label: str, value: Any, *, endless: bool = False) -> Any:
    """A time span as an int or a float, whichever kind of real number it is given as."""
    words = "a number of seconds above 0"
    number = _real(label, words, value)
    if not number > 0 or (number > sys.float_info.max and not (endless and number == math.inf)):
        wrong(label, words, value)
    return number


def age(label: str, value: Any) -> Any:
    """A time span that may be nothing."""
    words = "a number of seconds of at least 0"
    number = _real(label, words, value)
    return number if 0 <= number <= sys.float_info.max else wrong(label, words, value)


def _real(label: str, words: str, value: Any) -> Any:
    try:
        number = _number(value)
    except (ValueError, OverflowError):  # a signalling NaN, a Fraction that is too large for a float
        wrong(label, words, value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        wrong(label, words, value)
    return number


def whole(label: str, value: Any, least: int = 1) -> Any:
    """A whole number as an int, also if it is given as one of numpy's."""
    number = _number(value) if hasattr(type(value), "__index__") else value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        wrong(label, f"a whole number of at least {least}", value)
    return number


def _number(value: Any) -> Any:
    """A number of any kind as one that all code can reckon with; anything else as it is."""
    if not isinstance(value, bool):
        with suppress(TypeError):  # an array has both methods, and is not a number all the same
            if hasattr(type(value), "__index__"):
                return int(operator.index(value))
            if hasattr(type(value), "__float__"):  # a text has none
                return float(value)
    return value


def flag(label: str, value: Any) -> bool:
    """True or False: a text such as "no" would count as yes."""
    return value if isinstance(value, bool) else wrong(label, "True or False", value)


def text(label: str, value: Any) -> str:
    """A text that can be sent."""
    if not isinstance(value, str):
        wrong(label, "a text (str)", value)
    if not value.isascii() and value != value.encode(errors="replace").decode():
        raise ValueError(f"{label} has half a character in it (a lone surrogate), which no message can carry")
    return value


def texts(label: str, value: Any) -> tuple[str, ...]:
    """Several texts. One text would be taken as a list of its letters."""
    if isinstance(value, str):
        wrong(label, "a list of texts", value, f'; write ["{value}"]')
    found = tuple(value) if isinstance(value, Iterable) else ()
    if not isinstance(value, Iterable) or not all(isinstance(one, str) for one in found):
        wrong(label, "a list of texts", value)
    return found


def names(label: str, value: Any) -> tuple[str, ...]:
    """Several texts, or one."""
    return texts(label, [value] if isinstance(value, str) else value)


def needs(label: str, value: Any) -> tuple[str, ...]:
    """Names of capabilities. One that no client could declare would refuse every call, and blame the client."""
    found = names(label, value)
    for need in found:
        if need not in CAPABILITIES and not need.startswith(OPEN_CAPABILITIES):
            words = f"{label}: {need!r} is not a capability of a client; these are: {', '.join(CAPABILITIES)}"
            raise TypeError(words + did_you_mean(need, CAPABILITIES))
    return found


def mapping(label: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        wrong(label, "a dict with text keys", value)
    return value


def json_object(label: str, value: Any) -> dict[str, Any]:
    """A dict that can be sent."""
    found = dict(mapping(label, value))
    try:
        encode(found)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{label} must be JSON data: {error}") from None
    return found


def function(label: str, value: Any) -> Any:
    return value if callable(value) else wrong(label, "a function", value)


def path(label: str, value: Any) -> Any:
    return value if isinstance(value, str | os.PathLike) else wrong(label, "a path (str or Path)", value)


def anything(label: str, value: Any) -> Any:
    return value


def one_of(*choices: str) -> Take:
    """One of a few words."""

    def take(label: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            hint = did_you_mean(value, choices) if isinstance(value, str) else ""
            wrong(label, f"one of {', '.join(choices)}", value, hint)
        return value

    return take


def at_least(least: int) -> Take:
    return lambda label, value: whole(label, value, least)


def endless_seconds(label: str, value: Any) -> Any:
    return seconds(label, value, endless=True)


def instances(label: str, value: Any, kinds: Any, words: str, hint: Callable[[Any], str] = lambda one: "") -> list[Any]:
    """A list of things of some classes."""
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    found = list(value) if several else [value]
    bad = [one for one in found if not isinstance(one, kinds)]
    if bad or not several:
        wrong(label, f"a list of {words}", *((bad[0], hint(bad[0])) if bad else (value, "")))
    return found


def icons(label: str, value: Any) -> list[t.Icon]:
    found = instances(
        label, value, t.Icon, "Icon", lambda one: f'; write Icon("{one}")' if isinstance(one, str) else ""
    )
    return [sound(label, icon) for icon in found]


def sound(label: str, shape: Any) -> Any:
    """A wire shape as it is, if its fields have their types: a Struct does not check them itself."""
    try:
        return checked_shape(shape)
    except InvalidShape as error:
        raise TypeError(f"{label}: {error}") from None


def tool_annotations(label: str, value: Any) -> dict[str, Any]:
    found = {name: one for name, one in json_object(label, value).items() if one is not None}
    for name in ANNOTATIONS:
        if name in found:
            (text if name == "title" else flag)(f"{label}: {name}", found[name])
    return found


def resource_annotations(label: str, value: Any) -> t.Annotations:
    """Annotations from a mapping with the spec's names or ours."""
    if isinstance(value, t.Annotations):
        value = {name: one for name, one in msgspec.structs.asdict(value).items() if one not in (msgspec.UNSET, None)}
    named = {"lastModified" if name == "last_modified" else name: one for name, one in mapping(label, value).items()}
    known = ("audience", "priority", "lastModified")
    for name in named:
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            raise TypeError(f'{label}: there is no "{name}"{hint}')
    priority = named.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        wrong(f"{label}: priority", "a number from 0 to 1", priority)
    try:
        return msgspec.convert(named, t.Annotations)
    except msgspec.ValidationError as error:
        raise TypeError(f"{label}: {error}") from None


def cache_rule(label: str, value: Any) -> Any:
    from redstart.features.registry import Cache

    if not isinstance(value, Cache):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        wrong(label, "a Cache", value, f"; write Cache(ttl={value})" if number else "")
    return value


def parameters(label: str, value: Any) -> list[Any]:
    from redstart.features.raw_tools import Parameter

    found = instances(label, value, Parameter, "Parameter")
    return value if isinstance(value, list) else found  # a list may say more by its class


def arguments(label: str, value: Any) -> list[Any]:
    words = "PromptArgument or (name, description, required)"
    found = instances(label, value, t.PromptArgument | tuple, words)
    kinds = (str, str | None, bool)
    for one in found:
        if isinstance(one, tuple) and not (
            0 < len(one) <= len(kinds) and all(isinstance(part, kind) for part, kind in zip(one, kinds, strict=False))
        ):
            wrong(label, f"a list of {words}", one)
    return [one if isinstance(one, tuple) else sound(label, one) for one in found]


def task(label: str, value: Any) -> str:
    if isinstance(value, bool):
        return "optional" if value else "forbidden"
    choices = ("forbidden", "optional", "required")
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        wrong(label, f"one of {', '.join(choices)}, or True or False", value, hint)
    return cast(str, value)


def solutions(label: str, value: Any) -> Any:
    if value not in ("first", "all") and (type(value) is not int or value < 1):
        wrong(label, '"first", "all" or a number from 1', value)
    return value


# ---------------------------------------------------------------- the options

NAME: Final = Rule(text, "", optional=True)
FLAG: Final = Rule(flag, False)
REQUIRED_TEXT: Final = Rule(text, "", optional=False)
HANDLER: Final = Rule(function, optional=False)
HANDLER_OR_NONE: Final = Rule(function)
PATH: Final = Rule(path, optional=False)


class _Options(TypedDict, total=False):
    description: Annotated[str | None, Rule(text)]
    title: Annotated[str | None, Rule(text)]
    icons: Annotated[Sequence[t.Icon] | None, Rule(icons)]
    meta: Annotated[Mapping[str, Any] | None, Rule(json_object)]
    needs: Annotated[str | Sequence[str], Rule(needs, (), optional=True)]
    executor: Annotated[Literal["inline", "thread", "process"] | None, Rule(one_of("inline", "thread", "process"))]
    timeout: Annotated[float | None, Rule(endless_seconds)]
    visible: Annotated["Visible | None", Rule(function)]
    tags: Annotated[Iterable[str], Rule(texts, (), optional=True)]


class ToolOptions(_Options, total=False):
    """What `Tool` and `@tool(...)` take."""

    parameters: Annotated["Sequence[Parameter] | None", Rule(parameters)]
    input_schema: Annotated[Mapping[str, Any] | None, Rule(mapping)]
    output_schema: Annotated[Mapping[str, Any] | None, Rule(mapping)]
    return_type: Annotated[Any, Rule(anything, msgspec.UNSET, optional=False)]
    annotations: Annotated[Mapping[str, Any] | None, Rule(tool_annotations)]
    task: Annotated["Task | bool", Rule(task, "forbidden")]
    concurrency: Annotated[int | None, Rule(at_least(1))]
    max_result_bytes: Annotated[int | None, Rule(at_least(1))]
    outputs: Annotated[Sequence[str] | None, Rule(texts)]
    solutions: Annotated["Solutions | None", Rule(solutions)]
    single_use: Annotated[bool, Rule(flag, False)]
    apply_defaults: Annotated[bool, Rule(flag, False)]


class PredicateOptions(ToolOptions, total=False):
    """What `@predicate(...)` takes."""

    name: Annotated[str, NAME]
    mode: Annotated[str | None, Rule(text)]
    proofs: Annotated["Proofs | None", Rule(one_of("one", "zero_or_one", "one_or_more", "zero_or_more"))]


class PromptOptions(_Options, total=False):
    """What `Prompt` and `@prompt(...)` take."""

    arguments: Annotated["Sequence[Argument] | None", Rule(arguments)]


class ResourceOptions(_Options, total=False):
    """What `Resource` and `@resource(uri, ...)` take."""

    mime_type: Annotated[str | None, Rule(text)]
    size: Annotated[int | None, Rule(at_least(0))]
    annotations: Annotated[t.Annotations | Mapping[str, Any] | None, Rule(resource_annotations)]
    cache: Annotated["Cache | None", Rule(cache_rule)]
    unsafe: Annotated[Iterable[str], Rule(texts, (), optional=True)]


class FileOptions(ResourceOptions, total=False):
    """What `File` takes."""

    max_size: Annotated[int, Rule(at_least(0), 10 * 1024 * 1024)]


class DirectoryOptions(FileOptions, total=False):
    """What `Directory` takes."""

    hidden: Annotated[bool, Rule(flag, False)]
    listing: Annotated[bool, Rule(flag, False)]
