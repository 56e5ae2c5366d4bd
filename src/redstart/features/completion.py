"""Completion: which values an argument of a prompt, or a variable of a resource template, may take.

A source is a list (filtered by what was typed), or a function of what was typed and, if it has a second parameter,
of the arguments that are already filled in. Enum and Literal arguments complete themselves.
Spec: /specification/2026-07-28/server/utilities/completion.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol, TypeVar, get_args, get_type_hints

from msgspec import UNSET, Struct

from redstart.features.errors import ErrorPolicy, RegistrationError, Unencodable, place
from redstart.features.options import Declared
from redstart.features.registry import Arguments, Catalog, Compiler, Invoke, not_equipped
from redstart.features.rules import Rule, did_you_mean, wrong
from redstart.protocol.call import Call
from redstart.schema.callables import target_of
from redstart.schema.signature import Argument
from redstart.wire import types as t
from redstart.wire.jsonrpc import INVALID_PARAMS, ProtocolError

M = TypeVar("M")

LIMIT: Final = 100
"""How many values a result may have at most, by the spec."""


class Complete(Struct, frozen=True, eq=False, metaclass=t.Explained):
    """Says, in an annotation, where the values of an argument come from.

    >>> from typing import Annotated
    >>> def review(language: Annotated[str, Complete(["python", "prolog"])]) -> str:
    ...     return f"Review this {language} code."
    """

    source: object

    def __post_init__(self) -> None:
        Rule(_source, optional=False).check("source of Complete", self.source)


class Completer:
    """One source, compiled: `invoke` runs it, unless its values are already known."""

    def __init__(self, source: object, argument: str, where: str) -> None:
        self.source: Any = source
        self.argument = argument
        self.where = where
        self.invoke: Invoke = not_equipped
        self.known: tuple[str, ...] | None = None
        self._names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return getattr(self.source, "__name__", type(self.source).__name__)

    def compile(self, compiler: Compiler) -> None:
        """Decide what kind of source it is: the class of an Enum, a function, or a list of strings."""
        source = self.source
        if isinstance(source, type) and issubclass(source, enum.Enum):
            self.known = tuple(str(member.value) for member in source)
        elif callable(source):
            self._compile_function(compiler)
        else:
            self.known = tuple(source)
            if not all(isinstance(value, str) for value in self.known):
                raise RegistrationError(f"{self.where}: the values that complete {self.argument!r} must be strings")

    def _compile_function(self, compiler: Compiler) -> None:
        where = f"{place(self.source)}: {self.name} completes {self.argument!r}"
        if inspect.isasyncgenfunction(self.source):
            raise RegistrationError(f"{where}: return a list instead of yielding")
        names = []
        injected: Arguments = {}
        for parameter in target_of(self.source).resolved(lenient=True):
            if compiler.injected(parameter.annotation, parameter.default):
                injected[parameter.name] = parameter.annotation
            elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                names.append(parameter.name)
            else:
                raise RegistrationError(f"{where}: parameters are passed by name; {parameter} cannot be")
        if len(names) not in (1, 2):
            raise RegistrationError(
                f"{where}: it takes the value typed so far and, if it wants, the other arguments; "
                f"not ({', '.join(names)})"
            )
        self._names = tuple(names)
        self.invoke = compiler.compose(self.source, injected, convert=completion)

    async def values(self, call: Call, typed: str, filled: Mapping[str, str]) -> object:
        """What the source says; for a list, what begins with `typed`."""
        if self.known is not None:
            return starting_with(self.known, typed)
        return await self.invoke(call, dict(zip(self._names, (typed, dict(filled)), strict=False)))

    def check(self, item: Completable) -> None:
        """Refuse a prompt or template that does not have the argument."""
        if self.argument not in item.argument_names():
            known = ", ".join(item.argument_names()) or "none"
            raise RegistrationError(
                f"{self.where}: {item.key} ({item.declared.place}) has no argument {self.argument!r}; it has {known}"
            )


class Completable(Protocol):
    """A prompt or a resource template."""

    completers: dict[str, Completer]

    @property
    def key(self) -> str: ...
    @property
    def declared(self) -> Declared: ...
    def argument_names(self) -> tuple[str, ...]: ...
    def allows(self, argument: str, value: str) -> bool: ...


class Completions:
    """`completion/complete`, for all prompts and templates."""

    def __init__(
        self,
        given: Mapping[tuple[str, str], Completer],
        prompts: Catalog[Any],
        templates: Catalog[Any],
        errors: ErrorPolicy,
    ) -> None:
        self._given = given
        """Completers that were registered by themselves, by the key of a prompt or template and the argument."""
        self._prompts = prompts
        self._templates = templates
        self._errors = errors

    def __bool__(self) -> bool:
        """Whether there is any source."""
        prompts, templates = self._prompts.items, self._templates.items
        if any(item.completers for item in (*prompts.values(), *templates.values())):
            return True
        return any(ref in prompts or ref in templates for ref, _ in self._given)

    async def complete(self, call: Call) -> t.CompleteResult:
        params: t.CompleteParams = call.params
        item = self._item(call, params.ref)
        argument = params.argument.name
        if argument not in item.argument_names():
            known = dict.fromkeys(item.argument_names())
            hint = did_you_mean(argument, known)
            raise ProtocolError(INVALID_PARAMS, f"{item.key} has no argument {argument[:100]!r}{hint}")
        completer = self._given.get((item.key, argument)) or item.completers.get(argument)
        context = params.context
        filled = context.arguments if context is not UNSET and context.arguments is not UNSET else {}
        given = {**filled, argument: params.argument.value}
        if completer is None or not all(item.allows(name, value) for name, value in given.items()):
            return t.CompleteResult(completion=t.Completion([], 0, False))
        work = completer.values(call, params.argument.value, filled)
        what = f"The completion source {completer.name} of {item.key}, argument {argument},"
        made = await self._errors.outcome(work, completion, what, item.declared.place)
        return t.CompleteResult(completion=made)

    def _item(self, call: Call, ref: t.CompletionReference) -> Completable:
        if ref.type == "ref/prompt" and ref.name is not UNSET:
            prompt = self._prompts.find(ref.name, call)
            if prompt is None:
                raise self._prompts.unknown(ref.name, call)
            return prompt  # type: ignore[no-any-return]
        if ref.type == "ref/resource" and ref.uri is not UNSET:
            template = self._templates.find(ref.uri, call) or self._matching(call, ref.uri)
            if template is None:
                raise self._templates.unknown(ref.uri, call)
            return template
        raise ProtocolError(INVALID_PARAMS, 'ref is {"type": "ref/prompt", "name"} or {"type": "ref/resource", "uri"}')

    def _matching(self, call: Call, uri: str) -> Completable | None:
        """The first template that `uri` fits."""
        return next((template for template in self._templates.usable(call) if template.fits(uri)), None)


def _source(label: str, value: object) -> object:
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Iterator)
    if not listed and not callable(value):  # the class of an Enum is both iterable and callable
        hint = f'; write ["{value}"]' if isinstance(value, str) else ""
        wrong(label, "a list of texts, an Enum or a function", value, hint)
    return value


# ---------------------------------------------------------------- values


def starting_with(values: Iterable[str], typed: str) -> list[str]:
    """The values that begin with `typed`; if none does, those that do when case is ignored."""
    values = list(values)
    folded = typed.casefold()
    return [v for v in values if v.startswith(typed)] or [v for v in values if v.casefold().startswith(folded)]


def completion(returned: object) -> t.Completion:
    """What a source returned, cut to what a result may carry."""
    if isinstance(returned, t.Completion):
        more = len(returned.values) > LIMIT or returned.has_more
        return t.Completion([_text(v) for v in returned.values[:LIMIT]], returned.total, more)
    if returned is None or isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise Unencodable(f"a {type(returned).__name__} instead of a list of strings")
    endless = isinstance(returned, Iterator)  # or it may be
    values = list(islice(returned, LIMIT + 1)) if endless else list(returned)
    more = len(values) > LIMIT
    return t.Completion([_text(v) for v in values[:LIMIT]], None if endless and more else len(values), more)


def _text(value: object) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise Unencodable(f"a list with a {type(value).__name__} instead of strings")


# ---------------------------------------------------------------- arguments that complete themselves


def completers(fields: Iterable[Argument], where: str, compiler: Compiler) -> dict[str, Completer]:
    """The sources that the annotations of arguments name."""
    made: dict[str, Completer] = {}
    for field in fields:
        mark = find_mark(field.annotation, Complete)
        if mark is None:
            _refuse_inside(field.annotation, where, set())
        source = choices(field.shape.schema()) if mark is None else mark.source
        if source is not None:
            made[field.name] = completer = Completer(source, field.name, where)
            completer.compile(compiler)
    return made


def find_mark(annotation: object, kind: type[M]) -> M | type[M] | None:
    """The marker of class `kind` in an annotation, an instance or the class itself; None if there is none."""
    for item in getattr(annotation, "__metadata__", ()):
        if item is kind or isinstance(item, kind):
            return item
    inner = (find_mark(part, kind) for part in get_args(annotation))
    return next((mark for mark in inner if mark is not None), None)


def _refuse_inside(annotation: object, where: str, seen: set[int]) -> None:
    """Refuse a Complete on a field of a model: the protocol completes arguments only, so no client would ask for it."""
    for inner in get_args(annotation):
        _refuse_inside(inner, where, seen)
    if not isinstance(annotation, type) or id(annotation) in seen:
        return
    seen.add(id(annotation))
    try:
        fields = get_type_hints(annotation, include_extras=True)
    except (NameError, TypeError, AttributeError):  # what cannot be resolved has been refused, or is not a field
        return
    for name, kind in fields.items():
        if find_mark(kind, Complete) is not None:
            raise RegistrationError(
                f'{where}: there is a Complete on the field "{name}" of {annotation.__qualname__}, '
                "but only arguments are completed: put it on the argument"
            )
        _refuse_inside(kind, where, seen)


def choices(schema: Mapping[str, Any]) -> list[str] | None:
    """The values of an Enum or a Literal as strings, read from its schema."""
    values = [value for sub in (schema, *schema.get("anyOf", ())) for value in sub.get("enum", ())]
    texts = [value if isinstance(value, str) else str(value) for value in values if value is not None]
    return texts or None
