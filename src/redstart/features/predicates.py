"""What generators yield besides content: progress, and one solution after another; and the predicate layer.

`@predicate(mode="fact(+integer, -integer)", outputs=["F"])` keeps the vocabulary of logic programming (modes,
named outputs, failure, proofs) on top of the same Tool.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, Final, TypeVar, Unpack

from msgspec import Struct

from redstart.features.errors import RegistrationError, place
from redstart.features.options import OwnParameters, Parameter, PredicateOptions, Proofs, Solutions
from redstart.features.output import Collected, Cut
from redstart.features.registry import Function, Injected
from redstart.features.rules import checked, showing
from redstart.schema.callables import target_of
from redstart.schema.docstring import parse_docstring

F = TypeVar("F", bound=Callable[..., object])

CAP: Final = 100
"""How many solutions "all" gives at most."""


class Progress(Struct, frozen=True):
    """Yield it from a generator tool to tell the client how far the work is.

    >>> def crunch(rows: list[str]):
    ...     for number, row in enumerate(rows):
    ...         yield Progress(number, len(rows), f"row {number}")
    ...     yield "done"
    """

    progress: float
    total: float | None = None
    message: str | None = None


class Ask:
    """A question as a value, for generators: `answer = yield Ask("Overwrite?", bool)`.

    >>> Ask("Your name?", str, key="name").message
    'Your name?'
    """

    __slots__ = ("key", "message", "schema")

    def __init__(self, message: str, schema: object = str, key: str | None = None) -> None:
        self.message = message
        self.schema = schema
        self.key = key


class Collector:
    """Collects what a generator yields, until there is enough."""

    __slots__ = ("_cut", "_items", "_truncated", "returned")

    def __init__(self, cut: Cut | None) -> None:
        self.returned: object = None
        self._cut = cut
        self._items: list[object] = []
        self._truncated = False

    def take(self, item: object) -> bool:
        """Keep `item`; True when no more is wanted."""
        cut = self._cut
        if cut is None:
            self._items.append(item)
            return False
        if cut.logical and (item is None or item is False):
            return False
        if len(self._items) == cut.limit:  # one more than wanted: now it is known that there are more
            self._truncated = True
            return True
        self._items.append(item)
        return not cut.many

    def collected(self) -> Collected:
        if self._cut is not None and self.returned is not None:
            self.take(self.returned)
            self.returned = None
        return Collected(self._items, self.returned, self._cut, self._truncated)


def cut_for(solutions: Solutions) -> Cut:
    """What `solutions=` means."""
    return Cut(1, many=False) if solutions == "first" else Cut(CAP if solutions == "all" else int(solutions), many=True)


# ---------------------------------------------------------------- predicates

# For each number of proofs: may there be many solutions, may there be none, and is it a bug if there is none?
PROOFS: Final[dict[str, tuple[bool, bool, bool]]] = {
    "one": (False, False, True),
    "zero_or_one": (False, False, False),
    "one_or_more": (True, False, True),
    "zero_or_more": (True, True, False),
}
INPUTS: Final = ("+", "++", "@", "?")
OUTPUTS: Final = ("-", "--", "?")
TYPES: Final[dict[str, type]] = {
    **dict.fromkeys(("integer", "nonnegative_integer", "positive_integer"), int),
    **dict.fromkeys(("float", "number"), float),
    **dict.fromkeys(("atom", "chars", "codes"), str),
    "boolean": bool,
    "list": list,
    "compound": dict,
}
"""What a value of these types is in Python. Of any other type an input is a string, and an output may be anything."""
_MODE: Final = re.compile(r"\s*([a-z]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_ARGUMENT: Final = re.compile(r"(\+\+|--|[-+?@])\s*([a-z]\w*)?\s*(?:\(.*\))?", re.DOTALL)


class Mode(Struct, frozen=True):
    """A mode declaration: the name of a predicate, and (direction, type) of each argument."""

    name: str
    arguments: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> list[tuple[str, str]]:
        return [argument for argument in self.arguments if argument[0] in INPUTS]

    @property
    def outputs(self) -> list[tuple[str, str]]:
        return [argument for argument in self.arguments if argument[0] in OUTPUTS]


def read_mode(text: str, where: str) -> Mode:
    """`fact(+integer, -integer)` in parts."""
    match = _MODE.fullmatch(text)
    if match is None:
        raise RegistrationError(f"{where}: {text!r} is not a mode; write it as fact(+integer, -integer)")
    arguments = []
    for part in _split(match[2] or ""):
        argument = _ARGUMENT.fullmatch(part.strip())
        if argument is None:
            raise RegistrationError(
                f"{where}: {part.strip()!r} in the mode is not an argument; write +type, -type or ?type"
            )
        arguments.append((argument[1], argument[2] or "term"))
    return Mode(match[1], tuple(arguments))


def _split(text: str) -> list[str]:
    """The parts between the commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() else []


@showing(PredicateOptions)
def predicate(**options: Unpack[PredicateOptions]) -> Callable[[F], F]:
    """Mark a function as a predicate: None, False and no solution are failure. `server.register(fn)` serves it.

    >>> @predicate(mode="fact(+integer, -integer)", outputs=["F"])
    ... def fact(n: int) -> int | None:
    ...     return math.factorial(n) if n >= 0 else None
    """
    checked(PredicateOptions, "a predicate", options)

    def mark(fn: F) -> F:
        fn.__redstart_predicate__ = options  # type: ignore[attr-defined]
        return fn

    return mark


def predicate_options(
    fn: Function,
    injected: Injected,
    *,
    mode: str | None = None,
    outputs: Sequence[str] | None = None,
    solutions: Solutions | None = None,
    proofs: Proofs | None = None,
    **options: object,
) -> dict[str, Any]:
    """The options of the Tool that a predicate is."""
    where = place(fn)
    many, empty, surely = PROOFS[proofs or "zero_or_one"]
    cut = cut_for(("all" if many else "first") if solutions is None else solutions)
    cut = Cut(cut.limit, cut.many, logical=True, empty=empty, surely=surely)
    made = {**options, "outputs": outputs, "cut": cut}
    if mode is not None:
        takes = [p for p in target_of(fn).resolved() if not injected(p.annotation, p.default)]
        _apply_mode(fn, read_mode(mode, where), made, takes)
    return made


def _apply_mode(fn: Function, mode: Mode, made: dict[str, Any], takes: list[inspect.Parameter]) -> None:
    where = place(fn)
    if len(mode.inputs) != len(takes):
        names = ", ".join(p.name for p in takes)
        raise RegistrationError(f"{where}: the mode has {len(mode.inputs)} inputs, the function takes ({names})")
    outputs = made["outputs"]
    if not mode.outputs:
        made["outputs"] = outputs = ()
    if outputs is not None and len(outputs) != len(mode.outputs):
        raise RegistrationError(f"{where}: the mode has {len(mode.outputs)} outputs, outputs= names {len(outputs)}")
    made.setdefault("name", mode.name)
    rows = list(zip(takes, mode.inputs, strict=True))
    if any(p.annotation is p.empty or (way == "?" and p.default is p.empty) for p, (way, _) in rows):
        docs = parse_docstring(inspect.getdoc(fn)).params
        made["parameters"] = OwnParameters(_parameter(p, way, kind, docs.get(p.name, "")) for p, (way, kind) in rows)
    kinds = [TYPES.get(kind, Any) for _, kind in mode.outputs]
    if target_of(fn).returns is inspect.Signature.empty and any(k is not Any for k in kinds):
        made.setdefault("return_type", kinds[0] if len(kinds) == 1 else GenericAlias(tuple, tuple(kinds)))


def _parameter(parameter: inspect.Parameter, way: str, kind: str, description: str) -> Parameter:
    """An input. `?` may be left out: then the handler gets its own default, or None."""
    known = TYPES.get(kind, str) if parameter.annotation is parameter.empty else parameter.annotation
    if parameter.default is parameter.empty and way != "?":
        return Parameter(parameter.name, known, description, required=True)
    default = None if parameter.default is parameter.empty else parameter.default
    return Parameter(parameter.name, known, description, default=default)
